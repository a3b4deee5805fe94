"""Predictions of single operators: the costs that steps and generations are made of, on their own."""

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sightline.content import description
from sightline.cost.attention import attention_cost, decode_attention_cost, decode_constants
from sightline.cost.attention_constants import PHASE_PARTS, AttentionPhase, prefill_constants
from sightline.cost.clock import at_its_clock
from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.libraries import (
    NCCL,
    CollectiveConstants,
    cluster_collectives,
    collective_evidence,
    is_unknown_server,
    whole_group,
)
from sightline.cost.device_model import KernelChoice, device_model
from sightline.cost.elementwise import elementwise_cost, load_elementwise, measured_generation
from sightline.cost.families import (
    PROCESSOR,
    SERVER_UNKNOWN,
    Evidence,
    covers,
    evidence_of,
    family_half_width,
    family_of,
    first_stated,
    half_width,
    unmeasured_half_width,
)
from sightline.cost.grouped_matmul import GroupedLayout, grouped_matmul_cost, load_grouped
from sightline.cost.l2 import l2_s
from sightline.cost.matmul import MatmulConstants, matmul_constants, matmul_cost, matmul_evidence
from sightline.cost.prices import OperatorCost
from sightline.prediction.common_figures import MEASURED_DTYPES, bound_of, within
from sightline.profile import LEVELS, Profile
from sightline.program import CachedAttention, Elementwise, GroupedMatmul, Matmul
from sightline.program.attention_core import RANDOM_ARITHMETIC, SOFTMAX_ARITHMETIC
from sightline.program.formats import conversion, format_of
from sightline.program.routing import expected_active
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, as_python, larger, smaller
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
from sightline.scenario.precision import MATMUL_FORMATS, MODEL_DTYPE, MatmulFormat

if TYPE_CHECKING:
    from sightline.cost.processor import ProcessorModel

FROM_MEMORY = 1.0
"""Operands that are measured alone take turns, so that none is found in a processor's cache."""


class OperatorAnswer(NamedTuple):
    """Seconds, work, what bounds it and what that rests on."""

    time_s: Number
    flops: Number
    bytes: Number
    bound: Any
    bound_level: Any
    """The level of the machine that binds (``LEVELS``)."""
    evidence: Evidence
    half_width: Number
    """Of the 80 % interval, as a natural logarithm."""
    warnings: tuple[str, ...] = ()


def on_roofline(
    cost: OperatorCost,
    flops_per_s: Number,
    device: Device,
    evidence: Evidence,
    half_width: Number,
    crossing_s: Number = 0.0,
) -> OperatorAnswer:
    """FLOPs and bytes are the roofline's legs times the datasheet's rates, so that they are what was priced.

    ``crossing_s`` is the leg of the bytes across L2, which a processor has none of.
    Both are whole: a division by a rate and its undoing may leave a last digit.
    """
    bound = np.where(np.greater(cost.compute_s, cost.memory_s), "compute", "memory")
    return OperatorAnswer(
        cost.time_s,
        np.rint(cost.compute_s * flops_per_s),
        np.rint(cost.memory_s * device.memory_bandwidth),
        as_python(bound),
        bound_of(cost, crossing_s).level,
        evidence,
        half_width,
    )


def chosen(mask: Any, one: OperatorAnswer, other: OperatorAnswer) -> OperatorAnswer:
    """Of two answers to arrays of sizes the one where ``mask`` holds, elsewhere the other.

    The evidence is the weaker of both.
    """
    ranks: tuple[Evidence, ...] = ("calibrated", "extrapolated", "datasheet")
    names = ("time_s", "flops", "bytes", "bound", "bound_level", "half_width")
    figures = {name: np.where(mask, getattr(one, name), getattr(other, name)) for name in names}
    evidence = max(one.evidence, other.evidence, key=ranks.index)
    return OperatorAnswer(**figures, evidence=evidence, warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))))


def on_processor(cost: OperatorCost, kind: str, dtype: str, model: "ProcessorModel") -> OperatorAnswer:
    """The answer of a processor's formulas, with the errors of families that their fit did not see."""
    path = ("residuals", f"{dtype} {kind}, forward")
    evidence = model.evidence(kind)
    width = half_width(model.device, PROCESSOR, path, ("family left out", "fit"), evidence)
    return on_roofline(cost, model.device.peak_flops[dtype], model.device, evidence, width)


FEW_QUERIES = 8
"""Queries per sequence up to which engines take the kernel of decoding, as for a step that checks guessed tokens."""
CACHE_BYTES = {**ELEMENT_BYTES, "fp8": 1.0, "int8": 1.0}
"""Bytes of a cached element by type."""
RANGES = ("head shapes left out", "head shapes left out, formula", "in range", "formula")
"""Residuals of a phase, the best evidence first."""


def attention_answer(x: AttentionOperation, device: Device) -> OperatorAnswer:
    """Answer with the kernels of serving engines; where sizes are arrays, each with its own phase."""
    model = device_model(device, KernelChoice(dtype=x.dtype))
    plain = x.window is None and not x.latent and x.value_dim is None and x.kv_dtype in (None, x.dtype)
    if plain and not model.asynchronous:
        return _attention_on_processor(x, cast("ProcessorModel", model))
    if x.latent:
        return _phase(x, device, "mla-decode")
    few = np.logical_and(np.less_equal(x.query_tokens, FEW_QUERIES), np.less(x.query_tokens, x.context_tokens))
    few = np.logical_or(few, np.equal(x.query_tokens, 1))
    if not few.any():
        return _phase(x, device, "prefill")
    if few.all():
        return _phase(x, device, "decode")
    return chosen(few, _phase(x, device, "decode", few), _phase(x, device, "prefill", ~few))


def _attention_on_processor(x: AttentionOperation, model: "ProcessorModel") -> OperatorAnswer:
    from sightline.cost.processor import fused_attention_cost

    cost = fused_attention_cost(_operator(x, decode=False), model.processor())
    return on_processor(cost, "attention", x.dtype, model)


def _phase(x: AttentionOperation, device: Device, phase: AttentionPhase, where: Any = True) -> OperatorAnswer:
    """The answer with one phase's kernel; its evidence is that of the sizes ``where`` it runs."""
    measured = _is_measured(x, device, phase) and bool(np.all(_covers_attention(x, device, phase) | ~np.asarray(where)))
    evidence = within(evidence_of(device, PHASE_PARTS[phase]), measured=measured)
    width = half_width(device, PHASE_PARTS[phase], ("residuals",), RANGES, evidence)
    operator = _operator(x, decode=phase != "prefill")
    cost, crossing_s = _cost(operator, device, phase), l2_s(operator, device_model(device))
    answer = on_roofline(cost, device.peak_flops[x.dtype], device, evidence, width, crossing_s)
    if phase == "prefill" or not x.causal:
        return answer
    # The kernel computes all scores of few queries; those that the mask hides are no work of the operator.
    seen = 1 - (np.asarray(x.query_tokens, dtype=float) - 1) / (2 * np.asarray(x.context_tokens, dtype=float))
    return answer._replace(flops=answer.flops * seen)


def _cost(operator: CachedAttention, device: Device, phase: AttentionPhase) -> OperatorCost:
    if phase == "prefill":
        return attention_cost(operator, device, prefill_constants(device))
    return decode_attention_cost(operator, device, decode_constants(device, phase), in_l2=True)


def _operator(x: AttentionOperation, *, decode: bool) -> CachedAttention:
    return CachedAttention(
        module="attention core",
        part="flash attention",
        **_sizes(x),
        causal=x.causal,
        window=x.window,
        shared_kv=x.latent,
        decode=decode,
        dtype=x.dtype,
        element_bytes=ELEMENT_BYTES[x.dtype],
        cache_bytes=CACHE_BYTES[x.kv_dtype or x.dtype],
    )


def _sizes(x: AttentionOperation) -> dict[str, Any]:
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    return {name: getattr(x, name) for name in names} | {
        "value_dim": x.head_dim if x.value_dim is None else x.value_dim
    }


def _covers_attention(x: AttentionOperation, device: Device, phase: AttentionPhase) -> NDArray[np.bool_]:
    """Where sizes lie in the ranges that the constants of the phase were fitted to."""
    part = PHASE_PARTS[phase]
    return covers(family_of(device, part), part, part, _sizes(x) | {"kv_bytes": CACHE_BYTES[x.kv_dtype or x.dtype]})


def _is_measured(x: AttentionOperation, device: Device, phase: AttentionPhase) -> bool:
    """Tables are causal, of 16-bit elements and, where the device computes in fp8, of caches in it; windows are few."""
    cache = x.kv_dtype or x.dtype
    elements = x.dtype in MEASURED_DTYPES and (cache == x.dtype or (cache == "fp8" and "fp8" in device.peak_flops))
    if phase == "mla-decode" and bool(np.any(np.greater(x.query_tokens, FEW_QUERIES))):
        return False
    narrow = phase != "mla-decode" and x.value_dim is not None and bool(np.any(np.not_equal(x.value_dim, x.head_dim)))
    return elements and not narrow and (x.causal or phase != "prefill")


START_S = 1e-5
"""Fixed time of a copy that a driver starts (estimate; small copies take 5 to 15 us)."""
STAGED_BANDWIDTH = 8e9
"""Bytes per second at which a thread of the reference speed copies pageable memory to pinned (estimate)."""
HALF_WIDTH = 0.3
"""Of the 80 % interval, as a natural logarithm: nobody's copies are fitted."""


def host_copy_answer(x: HostCopyOperation, cluster: Cluster) -> OperatorAnswer:
    """Return the seconds of a copy between host and device: ``start + bytes / bandwidth``.

    From and to pinned memory the bandwidth is the host's ``device_bandwidth``, never more than either memory has.
    Pageable memory is staged in pinned pieces by one thread of the driver while the piece before travels, so the slower
    of both counts. Left out: copies of several devices at a time, and of memory behind another socket.
    """
    host, moved = cluster.host, ELEMENT_BYTES[x.dtype] * x.elements
    bandwidth = smaller(host.device_bandwidth, smaller(host.memory_bandwidth, cluster.device.memory_bandwidth))
    time_s = moved / bandwidth
    if x.host_memory == "pageable":
        time_s = larger(time_s, moved / (STAGED_BANDWIDTH * host.speed))
    time_s = np.asarray(time_s + START_S)
    return OperatorAnswer(
        time_s if time_s.ndim else float(time_s), 0.0 * moved, moved, "network", "network", "datasheet", HALF_WIDTH
    )


FEW_ROWS = 64
"""Rows up to which a matmul's errors are stated separately."""


def matmul_answer(x: MatmulOperation, device: Device) -> OperatorAnswer:
    """Answer with the constants of the format, and their residual surface where it was measured."""
    model = device_model(device, KernelChoice(dtype=x.dtype))
    if x.kernel in ("16-bit", "32-bit") and not model.asynchronous:
        return _product_on_processor(x, cast("ProcessorModel", model))
    kernel, stored, warnings = _kernel_of(x, device)
    sixteen_bit = x.kernel != "16-bit" or x.dtype in MEASURED_DTYPES
    constants = matmul_constants(device, kernel)
    corrected = constants if sixteen_bit and not warnings else constants.without_surface()
    product = Matmul(module="mlp", part="matmul", m=x.m, n=x.n, k=x.k, batch=x.batch, **_types(x, stored))
    cost = matmul_cost(product, device, corrected, weight_copies=inf if x.weight_copies is None else x.weight_copies)
    measured = x.kernel != "32-bit" and not warnings and _covers_product(constants, x, device, kernel)
    evidence = within(matmul_evidence(device, kernel), measured=measured)
    width = _matmul_half_width(x.m, device, kernel, evidence, surface=constants.surface is not None)
    peak, crossing_s = device.peak_flops[stored.compute_dtype], l2_s(product, model)
    return on_roofline(cost, peak, device, evidence, width, crossing_s)._replace(warnings=warnings)


def _product_on_processor(x: MatmulOperation, model: "ProcessorModel") -> OperatorAnswer:
    from sightline.cost.processor import product_cost

    missing = 0.0 if x.weight_copies is not None and np.all(np.equal(x.weight_copies, 1)) else FROM_MEMORY
    cost = product_cost(x.m, x.n, x.k, x.batch, on=model.processor(), missing=missing)
    return on_processor(cost, "product", x.dtype, model)


def _covers_product(constants: MatmulConstants, x: MatmulOperation, device: Device, kernel: str) -> bool:
    """Whether all sizes lie in the range that was measured, as far as an entry or its surface says."""
    stated = bool(np.all(covers(family_of(device, "matmul"), "matmul", kernel, {"m": x.m, "n": x.n, "k": x.k})))
    if constants.surface is None:
        return stated
    sizes = zip(constants.surface.axes, (x.m, x.n, x.k), strict=True)
    return stated and all(bool(np.all((axis.first <= np.asarray(size)) & (size <= axis.last))) for axis, size in sizes)


def _matmul_half_width(m: Number, device: Device, kernel: str, evidence: Evidence, *, surface: bool) -> Number:
    """By rows: with a surface, few and many are told apart; without one, the formula's own errors by range."""
    place = ("kernels", kernel, "surface_residuals" if surface else "residuals")
    names = ("families left out, m up to 64", "m below 16") if surface else ("m below 16",)
    many = ("families left out", "families left out, all", "all")
    few = half_width(device, "matmul", place, (*names, *many), evidence)
    return np.where(np.less_equal(m, FEW_ROWS), few, half_width(device, "matmul", place, many, evidence))


def grouped_answer(x: GroupedMatmulOperation, device: Device) -> OperatorAnswer:
    """Answer with the constants of the format and the layout; where none is stated, of the faster, as in `prices`."""
    if x.layout is not None:
        return _grouped(x, device, x.layout)
    masked, contiguous = _grouped(x, device, "masked"), _grouped(x, device, "contiguous")
    faster = np.less(masked.time_s, contiguous.time_s)
    if faster.ndim == 0:
        return masked if faster else contiguous
    return chosen(faster, masked, contiguous)


def _grouped(x: GroupedMatmulOperation, device: Device, layout: GroupedLayout) -> OperatorAnswer:
    kernel, stored, warnings = _kernel_of(x, device)
    constants, stated_evidence = load_grouped(family_of(device, "grouped"), kernel, layout)
    products = GroupedMatmul(
        module="experts",
        part="matmul",
        rows=x.rows,
        experts=x.experts,
        active=expected_active(x.experts, x.per_token, x.rows / x.per_token),
        n=x.n,
        k=x.k,
        kernel=kernel,
        **_types(x, stored),
    )
    cost = grouped_matmul_cost(products, device, constants)
    evidence = within(evidence_of(device, "grouped"), measured=stated_evidence == "calibrated" and not warnings)
    place = ("kernels", kernel, layout, "residuals")
    width = half_width(device, "grouped", place, ("shape left out", "fit"), evidence)
    peak, crossing_s = device.peak_flops[stored.compute_dtype], l2_s(products, device_model(device))
    return on_roofline(cost, peak, device, evidence, width, crossing_s)._replace(warnings=warnings)


def _kernel_of(
    x: MatmulOperation | GroupedMatmulOperation, device: Device
) -> tuple[str, MatmulFormat, tuple[str, ...]]:
    """The kernel, what it moves, and a remark where the device has no products in the format."""
    # The 16-bit type around products in a format.
    half = x.dtype if x.dtype in MEASURED_DTYPES else "bf16" if "bf16" in device.peak_flops else "fp16"
    native = MATMUL_FORMATS[x.kernel].compute_dtype
    if native != MODEL_DTYPE and native not in device.peak_flops:
        stored = format_of(x.kernel, half, device)
        return MATMUL_FORMATS[x.kernel].weight_only, stored, conversion(x.kernel, stored, device)
    stored = format_of(x.kernel, x.dtype if x.kernel in ("16-bit", "32-bit") else half)
    return "16-bit" if x.kernel == "32-bit" else x.kernel, stored, ()


def _types(x: MatmulOperation | GroupedMatmulOperation, stored: MatmulFormat) -> dict[str, Any]:
    """The type of the products, and bytes of an element of each operand and of the result."""
    return {
        "dtype": stored.compute_dtype,
        "element_bytes": stored.activation_bytes,
        "weight_bytes": stored.weight_bytes,
        "output_bytes": 4.0 if x.kernel == "32-bit" else 2.0,
    }


@description
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
            copy = ElementwiseOperation(operator="copy", elements=operation.elements, dtype=operation.dtype)
            in_host_memory = device_model(cluster.device).in_host_memory
            return _elementwise(copy, cluster.device) if in_host_memory else host_copy_answer(operation, cluster)


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
    if is_unknown_server(cluster, kind):
        return unmeasured_half_width("collectives", SERVER_UNKNOWN)
    ranges = ("every other size", "fit") if cluster.devices in MEASURED_RANKS else ("ranks", "left out")
    named = kind if library.custom is None else library.custom.name
    # Sizes are left out for the newest release of an engine alone; of the others the fit's own errors are stated.
    path = first_stated(family, "collectives", ("residuals", "held_out", named), ("residuals", "fitted", named))
    return family_half_width(device, family, "collectives", path, ranges, evidence)
