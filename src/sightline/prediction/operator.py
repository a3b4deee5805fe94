"""The prediction of a single operator: the costs that training steps are made of, on their own.

Device time of a warm benchmark: no host launch, no slowdown of a long training run.
"""

from typing import Any, NamedTuple

import numpy as np

from sightline.cost.attention import attention_cost, load_attention
from sightline.cost.collectives import cluster_collectives, collective_time, whole_group
from sightline.cost.elementwise import elementwise_cost
from sightline.cost.elementwise_constants import load_elementwise
from sightline.cost.families import UNMEASURED, evidence_of, family_of
from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.cost.operator_cost import OperatorCost
from sightline.operator_profile import Evidence, OperatorProfile
from sightline.prediction.elementwise_kernels import KERNELS
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import (
    AttentionOperation,
    Cluster,
    CollectiveOperation,
    Device,
    ElementwiseOperation,
    MatmulOperation,
    OperatorScenario,
)

MEASURED_DTYPES = ("fp16", "bf16")
"""Compute dtypes of the tables behind the calibrations of matmul and attention."""
NEWEST_KERNEL, SAFE_KERNEL = "flash-3", "flash-2"
"""Attention kernels: the newest a measured family has constants for, and one that runs on any device."""
MEASURED_ELEMENTWISE = ("norm", "activation", "gated_activation", "embedding", "rope", "softmax", "residual")
"""Kernels that some tables have; others take the constants of those like them."""
MEASURED_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
"""Collectives of the tables behind the calibrations, all within a node; a broadcast takes the constants of a gather."""


class _Answer(NamedTuple):
    """Seconds, work and what bounds it."""

    time_s: Number
    flops: Number
    bytes: Number
    bound: Any
    evidence: Evidence
    warnings: tuple[str, ...] = ()


def predict_operator(scenario: OperatorScenario) -> OperatorProfile:
    """Predict one execution of the scenario's operator; sizes may be arrays that broadcast."""
    answer = _answer(scenario)
    return OperatorProfile(
        scenario=scenario,
        source="predicted",
        time_s=_plain(answer.time_s),
        flops=_plain(answer.flops),
        bytes=_plain(answer.bytes),
        bound=answer.bound,
        evidence=answer.evidence,
        warnings=answer.warnings,
    )


def _answer(scenario: OperatorScenario) -> _Answer:
    cluster, operation = scenario.cluster, scenario.workload
    match operation:
        case MatmulOperation():
            return _matmul(operation, cluster.device)
        case AttentionOperation():
            return _attention(operation, cluster.device)
        case CollectiveOperation():
            return _collective(operation, cluster)
        case ElementwiseOperation():
            return _elementwise(operation, cluster.device)


def _matmul(x: MatmulOperation, device: Device) -> _Answer:
    element_bytes = ELEMENT_BYTES[x.dtype]
    constants = load_matmul(family_of(device, "matmul"))
    cost = matmul_cost(
        x.m,
        x.n,
        x.k,
        x.batch,
        dtype=x.dtype,
        element_bytes=element_bytes,
        output_bytes=element_bytes,
        device=device,
        constants=constants if x.dtype in MEASURED_DTYPES else constants.without_surface(),
    )
    return _on_roofline(
        cost, device.peak_flops[x.dtype], device, _evidence(device, "matmul", measured=x.dtype in MEASURED_DTYPES)
    )


def _attention(x: AttentionOperation, device: Device) -> _Answer:
    kernel = SAFE_KERNEL if family_of(device, "attention") == UNMEASURED else NEWEST_KERNEL
    cost = attention_cost(
        x.batch,
        x.heads,
        x.kv_heads,
        x.head_dim,
        x.query_tokens,
        x.context_tokens,
        causal=x.causal,
        backward=False,
        dtype=x.dtype,
        device=device,
        constants=load_attention(family_of(device, "attention"), kernel),
    )
    # The charts behind the constants are of self-attention, not of few queries (decoding, chunks of a prompt).
    alone = np.all(np.equal(x.query_tokens, x.context_tokens))
    evidence = _evidence(device, "attention", measured=bool(alone) and x.dtype in MEASURED_DTYPES)
    few = bool(np.any(np.less(x.query_tokens, x.context_tokens)))
    warnings = ("kernels that split the context of few queries (decoding) are not predicted yet; such are faster",)
    answer = _on_roofline(cost, device.peak_flops[x.dtype], device, evidence)
    return answer._replace(warnings=warnings if few else ())


def _elementwise(x: ElementwiseOperation, device: Device) -> _Answer:
    kernel = KERNELS[x.operator]
    constants = load_elementwise(family_of(device, "elementwise"))[kernel.kind]
    cost = elementwise_cost(
        kernel.bytes_per_element(ELEMENT_BYTES[x.dtype]) * x.elements,
        kernel.arithmetic * x.elements,
        kernel.kernels,
        device=device,
        constants=constants,
    )
    measured = x.operator in MEASURED_ELEMENTWISE and x.dtype in MEASURED_DTYPES and constants.evidence == "calibrated"
    return _on_roofline(cost, device.vector_flops, device, _evidence(device, "elementwise", measured=measured))


def _collective(x: CollectiveOperation, cluster: Cluster) -> _Answer:
    library = cluster_collectives(cluster)
    group = whole_group(cluster.devices, cluster)
    time_s = collective_time(x.operator, x.bytes, group=group, cluster=cluster, constants=library)
    measured = cluster.nodes == 1 and x.operator in MEASURED_COLLECTIVES
    evidence: Evidence = "calibrated" if measured else "extrapolated"
    if library.name.startswith(UNMEASURED):
        evidence = "datasheet"
    return _Answer(time_s, 0.0 * x.bytes, x.bytes, "network", evidence)


def _on_roofline(cost: OperatorCost, flops_per_s: Number, device: Device, evidence: Evidence) -> _Answer:
    """FLOPs and bytes are the roofline's legs times the datasheet's rates, so that they are what was priced."""
    bound = np.where(np.greater(cost.compute_s, cost.memory_s), "compute", "memory")
    return _Answer(
        cost.time_s,
        cost.compute_s * flops_per_s,
        cost.memory_s * device.memory_bandwidth,
        bound.item() if bound.ndim == 0 else bound,
        evidence,
    )


def _evidence(device: Device, part: str, *, measured: bool) -> Evidence:
    evidence = evidence_of(device, part)
    return evidence if measured or evidence == "datasheet" else "extrapolated"


def _plain(number: Number) -> Number:
    """A scalar as Python's own float."""
    return float(number) if np.ndim(number) == 0 else number
