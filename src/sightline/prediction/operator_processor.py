"""The prediction of single matmuls and attentions on a processor."""

from typing import cast

from sightline.cost.device_model import Kernels, device_model
from sightline.cost.families import PROCESSOR
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.processor.constants import ProcessorConstants
from sightline.cost.processor.formulas import fused_attention_cost, product_cost
from sightline.cost.processor.model import ProcessorModel
from sightline.cost.residuals import half_width
from sightline.prediction.operator_answer import OperatorAnswer, on_roofline
from sightline.scenario import AttentionOperation, Device, MatmulOperation

FROM_MEMORY = 1.0
"""Operands that are measured alone take turns, so that none is found in the cache."""


def is_for_processor(x: MatmulOperation | AttentionOperation, device: Device) -> bool:
    """Whether ``device`` is a processor whose formulas know the operator: plain types, no windows, no latents."""
    if device_model(device).asynchronous:
        return False
    if isinstance(x, MatmulOperation):
        return x.kernel in ("16-bit", "32-bit")
    plain = x.window is None and not x.latent and x.value_dim is None
    return plain and x.kv_dtype in (None, x.dtype)


def processor_answer(x: MatmulOperation | AttentionOperation, device: Device) -> OperatorAnswer:
    """Answer with the processor's constants, and with the errors of families that their fit did not see."""
    model = cast(ProcessorModel, device_model(device, Kernels(dtype=x.dtype)))
    machine = model.machine()
    if isinstance(x, MatmulOperation):
        cost = product_cost(
            x.m,
            x.n,
            x.k,
            x.batch,
            order="forward",
            dtype=x.dtype,
            device=device,
            constants=machine,
            missing=FROM_MEMORY,
        )
        kind = f"{x.dtype} product, forward"
    else:
        cost = _attention(x, device, machine)
        kind = f"{x.dtype} attention, forward"
    evidence = model.evidence("matmul")
    width = half_width(device, PROCESSOR, ("residuals", kind), ("family left out", "fit"), evidence)
    return on_roofline(cost, device.peak_flops[x.dtype], device, evidence, width)


def _attention(x: AttentionOperation, device: Device, machine: ProcessorConstants) -> OperatorCost:
    return fused_attention_cost(
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
        constants=machine,
    )
