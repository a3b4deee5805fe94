"""What fully sharded data parallelism takes on a processor beside its collectives: calls around units, copies, views.

Hooks gather a unit's parameters into views of one buffer, free it, copy its gradients together; an accelerator works
on meanwhile, a processor does nothing else. The optimizer's calls on sharded parameters take longer, too.
"""

import numpy as np

from sightline.cost.processor.constants import ProcessorConstants
from sightline.prediction.movement import Movement
from sightline.quantities import Number
from sightline.scenario import Device, Plan


def sharding_code_s(moves: Movement, layers: Number, plan: Plan, device: Device, machine: ProcessorConstants) -> Number:
    """Return the seconds of a step: ``calls per unit + copied bytes / memory bandwidth``, for gathers and reductions.

    Every layer is a unit, and what is no layer's is one more.
    """
    found = machine.sharding
    if found is None or not plan.framework.sharding.keeps_root_gathered:
        return 0.0
    units = layers + 1.0
    gathers = moves.forward_gathers * units + moves.backward_gathers * layers
    reduced_bytes = moves.reductions * moves.gradients.total
    calls_s = found.gather_call_s * gathers + found.reduce_call_s * moves.reductions * units
    copies = found.gather_passes * moves.gathered.total + found.reduce_passes * reduced_bytes
    time_s: Number = (np.asarray(plan.zero_stage) > 0) * (calls_s + copies / device.memory_bandwidth)
    return time_s


def sharded_update_s(tensors: Number, plan: Plan, machine: ProcessorConstants) -> Number:
    """Return the seconds that the optimizer's step takes longer for so many sharded tensors."""
    found = machine.sharding
    if found is None or not plan.framework.sharding.keeps_root_gathered:
        return 0.0
    time_s: Number = (np.asarray(plan.shards) > 1) * (found.update_call_s + found.update_tensor_s * tensors)
    return time_s
