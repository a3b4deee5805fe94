"""The least time that a step takes, whatever ZeRO, offloading, schedule and network: a search's bound."""

from sightline.prediction.training.micro_batch import pipeline_slots
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.stages import alone_on_a_stage
from sightline.quantities import Number
from sightline.scenario import Scenario


def least_step_s(scenario: Scenario, micro_batch_s: Number) -> Number:
    """Return seconds that every step takes: ``m T / p``.

    ``T`` is one micro-batch through the whole model (`micro_batch_alone_s`). The slowest of ``p`` stages takes at least
    the mean, ``m`` times a step; what else a step has adds to it.
    """
    return scenario.micro_batches * micro_batch_s / scenario.plan.pipeline_parallel


def micro_batch_alone_s(priced: Priced) -> Number:
    """Return seconds of a micro-batch through all layers, embedding and head.

    With its exposed collectives and the device's waiting for the host.
    """
    return pipeline_slots(alone_on_a_stage(priced.scenario), priced.times, priced.launches).slot.total_s
