"""What a process holds besides the tensors of a model and its optimizer, on accelerators and where a processor trains."""

from typing import NamedTuple

from sightline.cost.device_model import DeviceModel
from sightline.frameworks import Framework
from sightline.prediction.training.sizes import DenseAndExperts
from sightline.quantities import Number, smaller
from sightline.scenario import Scenario


class ProcessMemory(NamedTuple):
    """Bytes that a process takes before its model."""

    context: float
    """A driver's context; on a processor interpreter and libraries, as measured."""
    collectives: float
    """What collectives set aside; what gloo sends lies in the tensors themselves."""
    bucket_elements: float
    """Gradients in the bucket that ZeRO reduces from, on a processor. An accelerator's memory is taken whether it is
    used or not; there the bucket is part of the collectives' share."""


def process_memory(framework: Framework, model: DeviceModel) -> ProcessMemory:
    """Return what a process takes before its model."""
    process_bytes = model.process_bytes
    if process_bytes is None:
        return ProcessMemory(framework.memory.context_bytes, framework.memory.communication_buffer_bytes, 0.0)
    with_libraries = process_bytes + framework.zero_engine.library_bytes
    return ProcessMemory(with_libraries, 0.0, framework.zero_engine.bucket_elements)


def bucket_bytes(process: ProcessMemory, scenario: Scenario, gradients: DenseAndExperts) -> Number:
    """Return bytes of the bucket that ZeRO reduces gradients from: pages of it that are used."""
    plan = scenario.plan
    if not process.bucket_elements:
        return 0.0
    whole = process.bucket_elements * plan.framework.states_in(plan.dtype).gradients
    return smaller(gradients.total, whole) * (plan.zero_stage > 0)
