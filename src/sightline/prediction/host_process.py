"""What a process holds beside the tensors of a model and its optimizer, on accelerators and where a processor trains."""

import numpy as np

from sightline.cost.processor.constants import load_processor, processor_family
from sightline.prediction.shared import Shared
from sightline.quantities import Number
from sightline.scenario import Scenario


def beside_tensors(scenario: Scenario) -> tuple[float, float]:
    """Return bytes that a process takes before its model, and those that its collectives set aside.

    On a processor interpreter and libraries, as measured; what gloo sends lies in the tensors themselves.
    """
    family, framework = processor_family(scenario.cluster.device), scenario.plan.framework
    if family is not None:
        return load_processor(family, scenario.plan.dtype).framework_bytes + framework.zero_engine.library_bytes, 0.0
    return framework.memory.context_bytes, framework.memory.communication_buffer_bytes


def bucket_bytes(scenario: Scenario, gradients: Shared) -> Number:
    """Return bytes of the bucket that ZeRO reduces gradients from, on a processor: pages of it that are used.

    An accelerator's memory is taken whether it is used or not; there the bucket is part of the collectives' share.
    """
    plan = scenario.plan
    framework = plan.framework
    if processor_family(scenario.cluster.device) is None or not framework.zero_engine.bucket_elements:
        return 0.0
    whole = framework.zero_engine.bucket_elements * framework.states_in(plan.dtype).gradients
    filled: Number = np.minimum(gradients.total, whole) * (np.asarray(plan.zero_stage) > 0)
    return filled
