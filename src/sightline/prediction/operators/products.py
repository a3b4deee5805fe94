"""The prediction of single matmuls in every number format, dense and of a mixture's experts."""

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sightline.cost.device_model import KernelChoice, device_model
from sightline.cost.families import Evidence, covers, evidence_of, family_of, half_width
from sightline.cost.l2 import l2_s
from sightline.cost.matmul.constants import MatmulConstants, matmul_constants, matmul_evidence
from sightline.cost.matmul.dense import matmul_cost
from sightline.cost.matmul.grouped import GroupedLayout, grouped_matmul_cost, load_grouped
from sightline.prediction.evidence import MEASURED_DTYPES, within
from sightline.prediction.operators.answer import FROM_MEMORY, OperatorAnswer, chosen, on_processor, on_roofline
from sightline.program import GroupedMatmul, Matmul
from sightline.program.formats import conversion, format_of
from sightline.program.routing import expected_active
from sightline.quantities import Number
from sightline.scenario import Device, GroupedMatmulOperation, MatmulOperation
from sightline.scenario.precision import MATMUL_FORMATS, MODEL_DTYPE, MatmulFormat

if TYPE_CHECKING:
    from sightline.cost.processor.model import ProcessorModel

FEW_ROWS = 64
"""Rows up to which a matmul's errors are stated separately."""
MASKED_ROWS = 64
"""Rows of an expert up to which its tokens are taken to lie in slots, as in decoding: half a block of the other
layout."""


def matmul_answer(x: MatmulOperation, device: Device) -> OperatorAnswer:
    """Answer with the constants of the format, and their residual surface where it was measured."""
    model = device_model(device, KernelChoice(dtype=x.dtype))
    if x.kernel in ("16-bit", "32-bit") and not model.asynchronous:
        return _on_processor(x, cast("ProcessorModel", model))
    kernel, stored, warnings = _kernel_of(x, device)
    sixteen_bit = x.kernel != "16-bit" or x.dtype in MEASURED_DTYPES
    constants = matmul_constants(device, kernel)
    corrected = constants if sixteen_bit and not warnings else constants.without_surface()
    product = Matmul(module="mlp", part="matmul", m=x.m, n=x.n, k=x.k, batch=x.batch, **_types(x, stored))
    cost = matmul_cost(product, device, corrected)
    measured = x.kernel != "32-bit" and not warnings and _covers(constants, x, device, kernel)
    evidence = within(matmul_evidence(device, kernel), measured=measured)
    width = _matmul_half_width(x.m, device, kernel, evidence, surface=constants.surface is not None)
    peak, crossing_s = device.peak_flops[stored.compute_dtype], l2_s(product, model)
    return on_roofline(cost, peak, device, evidence, width, crossing_s)._replace(warnings=warnings)


def _on_processor(x: MatmulOperation, model: "ProcessorModel") -> OperatorAnswer:
    from sightline.cost.processor.formulas import product_cost

    cost = product_cost(x.m, x.n, x.k, x.batch, on=model.processor(), missing=FROM_MEMORY)
    return on_processor(cost, "product", x.dtype, model)


def _covers(constants: MatmulConstants, x: MatmulOperation, device: Device, kernel: str) -> bool:
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
    """Answer with the constants of the format and the layout; where sizes are arrays, each with its own layout."""
    if x.layout is not None:
        return _grouped(x, device, x.layout)
    masked = np.less_equal(x.rows / np.maximum(np.asarray(x.experts, dtype=float), 1.0), MASKED_ROWS)
    if masked.ndim == 0:
        return _grouped(x, device, "masked" if masked else "contiguous")
    return chosen(masked, _grouped(x, device, "masked"), _grouped(x, device, "contiguous"))


def _grouped(x: GroupedMatmulOperation, device: Device, layout: GroupedLayout) -> OperatorAnswer:
    kernel, stored, warnings = _kernel_of(x, device)
    constants, said = load_grouped(family_of(device, "grouped"), kernel, layout)
    products = GroupedMatmul(
        module="experts",
        part="matmul",
        rows=x.rows,
        experts=x.experts,
        active=expected_active(x.experts, x.per_token, x.rows / x.per_token),
        n=x.n,
        k=x.k,
        kernel=kernel,
        in_slots=1.0 * (layout == "masked"),
        **_types(x, stored),
    )
    cost = grouped_matmul_cost(products, device, constants)
    evidence = within(evidence_of(device, "grouped"), measured=said == "calibrated" and not warnings)
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
