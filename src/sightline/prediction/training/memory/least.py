"""The least memory that a micro-batch takes, whatever the stages, ZeRO, offloading and schedule: a search's bound."""

from functools import reduce

from sightline.prediction.training.memory.activations import bytes_in_loss, bytes_of_head
from sightline.prediction.training.priced import micro_batch_alone
from sightline.prediction.training.stages import program_sizes
from sightline.program import write_out
from sightline.quantities import Number, larger, smaller
from sightline.scenario import Scenario


def least_bytes(scenario: Scenario) -> Number:
    """Return bytes that some device of every plan holds at once, less than its ledger says.

    The stage with the head holds logits and loss of one micro-batch. A stage with a layer holds, while that layer's
    backward pass runs, what its forward pass saved and what recomputation brings back: at least those of the smallest
    kind of layer, as one that is offloaded has come back by then.
    """
    alone = micro_batch_alone(scenario)
    program = write_out(alone)
    sizes = program_sizes(program, alone.plan)
    columns = (sizes.saved_bytes, sizes.working_bytes, sizes.transient_bytes)
    layer = reduce(smaller, (sum(kind) for kind in zip(*columns, strict=True)))
    # A device with a stage of each direction has the head of one of them, half of what it keeps in the mean.
    share = 0.5 if scenario.plan.both_ways else 1.0
    head = share * bytes_of_head(alone.plan, program) + bytes_in_loss(alone.plan, program)
    return larger(head, layer)
