"""The least time that a step takes, whatever ZeRO, offloading, schedule and network: a search's bound."""

from sightline.prediction.training.micro_batch import pipeline_slots
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.stages import alone_on_a_stage
from sightline.quantities import Number


def least_step_s(priced: Priced) -> Number:
    """Return seconds that every step of the priced micro-batches takes: ``m T / p``.

    ``T`` is one micro-batch through all layers, embedding and head, its exposed collectives and waiting for the host
    included. The slowest of ``p`` stages takes at least the mean, ``m`` times a step; what else a step has adds to it.
    """
    scenario = priced.scenario
    whole = pipeline_slots(alone_on_a_stage(scenario), priced.times, priced.launches)
    return scenario.micro_batches * whole.slot.total_s / scenario.plan.pipeline_parallel
