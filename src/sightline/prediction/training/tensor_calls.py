"""Loops of an engine over trained tensors: what the host calls for each of them behind the passes of a step.

DeepSpeed's ``BF16_Optimizer`` casts, adds, copies and measures the gradient of every parameter by itself, where ZeRO's
stages have hooks in the backward pass and measure those of a rank's shard alone. The device has nothing else to do
meanwhile, so the calls are the host's time, whatever a tensor's size. Left out: ZeRO-3, whose loops run over groups of
parameters, and a processor, whose measured steps have them.
"""

from sightline.cost.device_model import DeviceModel
from sightline.prediction.training.memory.states import bf16_optimizer
from sightline.quantities import Number
from sightline.scenario import Plan


def tensor_calls_s(plan: Plan, model: DeviceModel, tensors: Number, micro_batches: Number, launch_s: Number) -> Number:
    """Return the seconds of a step in loops over the ``tensors`` that the device is in charge of or sums gradients of.

    ``launch_s (tensors (m a + b) + tensors / shards c)`` with the calls per micro-batch, per step and of the shard.
    """
    stages = plan.framework.zero_engine.tensor_calls
    if not stages or not model.asynchronous:
        return 0.0
    calls: Number = 0.0
    for stage, each in stages.items():
        here = bf16_optimizer(plan) if stage == 0 else plan.zero_stage == stage
        calls = calls + here * (micro_batches * each.micro_batch + each.step + each.shard / plan.shards)
    return launch_s * tensors * calls
