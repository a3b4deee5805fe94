"""The prediction of a single attention: a prompt's queries, or few queries against what is cached."""

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sightline.cost.attention.constants import PHASE_PARTS, AttentionPhase, prefill_constants
from sightline.cost.attention.decode import decode_attention_cost, decode_constants
from sightline.cost.attention.fused import attention_cost
from sightline.cost.device_model import KernelChoice, device_model
from sightline.cost.families import covers, evidence_of, family_of, half_width
from sightline.cost.l2 import l2_s
from sightline.cost.operator_cost import OperatorCost
from sightline.prediction.evidence import MEASURED_DTYPES, within
from sightline.prediction.operators.answer import OperatorAnswer, chosen, on_processor, on_roofline
from sightline.program import CachedAttention
from sightline.program.shapes import ELEMENT_BYTES
from sightline.scenario import AttentionOperation, Device

if TYPE_CHECKING:
    from sightline.cost.processor.model import ProcessorModel

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
        return _on_processor(x, cast("ProcessorModel", model))
    if x.latent:
        return _phase(x, device, "mla-decode")
    few = np.logical_and(np.less_equal(x.query_tokens, FEW_QUERIES), np.less(x.query_tokens, x.context_tokens))
    few = np.logical_or(few, np.equal(x.query_tokens, 1))
    if not few.any():
        return _phase(x, device, "prefill")
    if few.all():
        return _phase(x, device, "decode")
    return chosen(few, _phase(x, device, "decode", few), _phase(x, device, "prefill", ~few))


def _on_processor(x: AttentionOperation, model: "ProcessorModel") -> OperatorAnswer:
    from sightline.cost.processor.formulas import fused_attention_cost

    cost = fused_attention_cost(_operator(x, decode=False), model.processor())
    return on_processor(cost, "attention", x.dtype, model)


def _phase(x: AttentionOperation, device: Device, phase: AttentionPhase, asked: Any = True) -> OperatorAnswer:
    """The answer with one phase's kernel; its evidence is that of the sizes that are ``asked``."""
    measured = _is_measured(x, device, phase) and bool(np.all(_covers(x, device, phase) | ~np.asarray(asked)))
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


def _covers(x: AttentionOperation, device: Device, phase: AttentionPhase) -> NDArray[np.bool_]:
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
