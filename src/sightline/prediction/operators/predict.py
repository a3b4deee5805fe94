"""The prediction of a single operator: the costs that training steps and generation are made of, on their own.

Device time of a warm benchmark: no host launch, no slowdown of a long training run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sightline.cost.clock import at_its_clock
from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.families import NCCL, PCIE, cluster_collectives, collective_evidence
from sightline.cost.collectives.groups import whole_group
from sightline.cost.device_model import device_model
from sightline.cost.elementwise import elementwise_cost, load_elementwise, measured_generation
from sightline.cost.families import (
    Evidence,
    covers,
    evidence_of,
    family_half_width,
    family_of,
    first_stated,
    half_width,
)
from sightline.cost.l2 import l2_s
from sightline.cost.unmeasured import SERVER_UNKNOWN, unmeasured_half_width
from sightline.prediction.evidence import MEASURED_DTYPES, within
from sightline.prediction.operators.answer import OperatorAnswer, on_roofline
from sightline.prediction.operators.attention import attention_answer
from sightline.prediction.operators.host_copy import host_copy_answer
from sightline.prediction.operators.products import grouped_answer, matmul_answer
from sightline.profile import LEVELS, Profile
from sightline.program import Elementwise
from sightline.program.attention_core import RANDOM_ARITHMETIC, SOFTMAX_ARITHMETIC
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import (
    AttentionOperation,
    Cluster,
    CollectiveOperation,
    Device,
    ElementwiseOperation,
    GroupedMatmulOperation,
    HostCopyOperation,
    MatmulOperation,
    OperatorScenario,
)
from sightline.scenario.operation import ElementwiseName


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Tensors read or written once, in the operator's dtype; other bytes; vector instructions where they count."""

    kind: str
    """Class of kernels in a device's element-wise calibration."""
    tensors: float
    other_bytes: float = 0.0
    arithmetic: float = 0.0
    kernels: float = 1.0

    def bytes_per_element(self, element_bytes: float) -> float:
        """Bytes moved per element."""
        return self.tensors * element_bytes + self.other_bytes


KERNELS: Mapping[ElementwiseName, Kernel] = {
    "copy": Kernel(kind="copy", tensors=2.0),
    "norm": Kernel(kind="norm", tensors=2.0),
    "activation": Kernel(kind="activation", tensors=2.0),
    "gated_activation": Kernel(kind="activation", tensors=3.0),
    "embedding": Kernel(kind="embedding", tensors=2.0),
    "rope": Kernel(kind="rope", tensors=2.0),
    "softmax": Kernel(kind="softmax", tensors=2.0, arithmetic=SOFTMAX_ARITHMETIC),
    # Logits are read for the maximum and sum, and again for the loss.
    "cross_entropy": Kernel(kind="softmax", tensors=2.0, kernels=2.0),
    # fp32 weight and two moments in and out; a 16-bit gradient in and weight out, or an fp32 gradient in.
    "adam": Kernel(kind="copy", tensors=0.0, other_bytes=28.0),
    # A byte of mask per element.
    "dropout": Kernel(kind="copy", tensors=2.0, other_bytes=1.0, arithmetic=RANDOM_ARITHMETIC),
    "residual": Kernel(kind="residual", tensors=3.0),
}
"""By operator; forward passes: an activation with one input, a gated one with two, an embedding of distinct tokens."""

MEASURED_ELEMENTWISE = ("norm", "activation", "gated_activation", "embedding", "rope", "softmax", "residual")
"""Kernels that some tables have; others take the constants of those like them."""
MEASURED_RANKS = (2, 4, 8)
"""Devices of the collectives in the tables."""


def predict_operator(scenario: OperatorScenario) -> Profile:
    """Predict one execution of the scenario's operator; sizes may be arrays that broadcast.

    Raises:
        InputError: the collective library has no such version.
    """
    answer = _answer(at_its_clock(scenario))
    factor = np.exp(answer.half_width)
    return Profile(
        scenario=scenario,
        source="predicted",
        time_s=answer.time_s,
        flops=answer.flops,
        bytes=answer.bytes,
        bound=answer.bound,
        levels=lambda _: {level: answer.time_s * np.equal(answer.bound_level, level) for level in LEVELS},
        interval={"time_s": (answer.time_s / factor, answer.time_s * factor)},
        evidence=answer.evidence,
        warnings=answer.warnings,
    )


def _answer(scenario: OperatorScenario) -> OperatorAnswer:
    cluster, operation = scenario.cluster, scenario.workload
    match operation:
        case MatmulOperation():
            return matmul_answer(operation, cluster.device)
        case GroupedMatmulOperation():
            return grouped_answer(operation, cluster.device)
        case AttentionOperation():
            return attention_answer(operation, cluster.device)
        case CollectiveOperation():
            return _collective(operation, cluster)
        case ElementwiseOperation():
            return _elementwise(operation, cluster.device)
        case HostCopyOperation():
            return _host_copy(operation, cluster)


def _host_copy(x: HostCopyOperation, cluster: Cluster) -> OperatorAnswer:
    """A copy between host and device; where the device's memory is the host's, one within it."""
    if device_model(cluster.device).in_host_memory:
        return _elementwise(ElementwiseOperation(operator="copy", elements=x.elements, dtype=x.dtype), cluster.device)
    return host_copy_answer(x, cluster)


def _elementwise(x: ElementwiseOperation, device: Device) -> OperatorAnswer:
    kernel, family = KERNELS[x.operator], family_of(device, "elementwise")
    constants = load_elementwise(family)[kernel.kind]
    kernels = Elementwise(
        module="residual",
        part="copy",
        traffic_bytes=kernel.bytes_per_element(ELEMENT_BYTES[x.dtype]) * x.elements,
        arithmetic=kernel.arithmetic * x.elements,
        kernels=kernel.kernels,
    )
    cost = elementwise_cost(kernels, device, constants)
    measured = x.operator in MEASURED_ELEMENTWISE and x.dtype in MEASURED_DTYPES and constants.evidence == "calibrated"
    evidence = within(evidence_of(device, "elementwise"), measured=measured)
    place = ("kernels", measured_generation(family), kernel.kind, "residuals")
    width = half_width(device, "elementwise", place, ("width left out", "fit"), evidence)
    crossing_s = l2_s(kernels, device_model(device))
    return on_roofline(cost, device.vector_flops, device, evidence, width, crossing_s)


def _collective(x: CollectiveOperation, cluster: Cluster) -> OperatorAnswer:
    if x.library == NCCL:
        library = cluster_collectives(cluster, x.version or "")
    else:
        library = cluster_collectives(cluster, all_reduce=f"{x.library} {x.version or ''}".strip())
    group = whole_group(cluster.devices, cluster)
    time_s = collective_time(x.operator, x.bytes, group=group, cluster=cluster, constants=library)
    measured = cluster.nodes == 1 and _covers_collective(x, cluster, library)
    evidence = within(collective_evidence(cluster, x.operator), measured=measured)
    width = _collective_half_width(x.operator, cluster, library, evidence)
    return OperatorAnswer(time_s, 0.0 * x.bytes, x.bytes, "network", "network", evidence, width)


def _covers_collective(x: CollectiveOperation, cluster: Cluster, library: CollectiveConstants) -> bool:
    """Whether ranks and buffer lie in the ranges of the library's measurements; a message has two ends in any group."""
    kind = x.operator if x.library == NCCL else x.library
    sizes: dict[str, Number] = {"bytes": x.bytes}
    if x.operator != "send_recv":
        sizes["ranks"] = cluster.devices
    return bool(np.all(covers(library.name.partition("/")[0], "collectives", kind, sizes)))


def _collective_half_width(kind: str, cluster: Cluster, library: CollectiveConstants, evidence: Evidence) -> float:
    """Errors between measured sizes for numbers of ranks that were measured, of left-out numbers for others."""
    family, device = library.name.partition("/")[0], cluster.device
    if cluster.nodes > 1:
        return family_half_width(device, family, "collectives", ("residuals", "network"), (), evidence)
    if evidence != "calibrated" and cluster.intra_node.topology == PCIE and cluster.intra_node.shares is None:
        return unmeasured_half_width("collectives", SERVER_UNKNOWN)
    ranges = ("every other size", "fit") if cluster.devices in MEASURED_RANKS else ("ranks", "left out")
    named = kind if library.custom is None else library.custom.name
    # Sizes are left out for the newest release of an engine alone; of the others the fit's own errors are stated.
    path = first_stated(family, "collectives", ("residuals", "held_out", named), ("residuals", "fitted", named))
    return family_half_width(device, family, "collectives", path, ranges, evidence)
