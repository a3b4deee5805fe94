"""Matmuls and attention by PyTorch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.measurement.machine.devices import Machine, import_torch
from sightline.measurement.operators.case import Case, Tensors, chosen, rotated, rotating
from sightline.scenario import AttentionOperation, MatmulOperation

if TYPE_CHECKING:
    from torch import Tensor

MATMULS = ("library", "input-gradient", "weight-gradient")
"""How the operands lie: rows by the transposed weight; a linear layer's gradient by its weight; the transposed gradient
by rows. The last two are what a backward pass multiplies: ``m x k`` and ``k x n`` are sizes of that product."""


def matmul_case(x: MatmulOperation, machine: Machine, implementation: str | None) -> Case:
    """Return the product, written into memory that is there already; raises `InputError` for formats of fewer bits."""
    torch = import_torch()
    name = chosen("matmul", implementation, MATMULS)
    if x.kernel not in ("16-bit", "32-bit"):
        raise InputError(f"workload.format is '{x.kernel}'; this version measures matmuls of 16 and 32 bits")
    dtype = machine.dtype(x.dtype)
    m, n, k, batch = (int(size) for size in (x.m, x.n, x.k, x.batch))

    def operand(rows: int, columns: int, *, transposed: bool) -> Any:
        shape = (columns, rows) if transposed else (rows, columns)
        lies = torch.randn(batch, *shape, device=machine.kind).to(dtype)
        return lies.transpose(1, 2) if transposed else lies

    def build() -> Tensors:
        left = operand(m, k, transposed=name == "weight-gradient")
        right = operand(k, n, transposed=name == "library")
        return left, right, torch.empty(batch, m, n, device=machine.kind, dtype=dtype)

    sets = rotated(machine, batch * (m * k + n * k + m * n) * dtype.itemsize, build)
    multiply = torch.bmm
    if batch == 1:
        # Copies of a transposed view stay transposed, so that every set lies alike.
        sets, multiply = [tuple(t[0] for t in s) for s in sets], torch.mm
    return rotating(sets, lambda rows, weight, out: multiply(rows, weight, out=out), name)


Attend = Callable[..., "Tensor"]

BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
ATTENTIONS = ("auto", *BACKENDS, "eager")


def attention_case(x: AttentionOperation, machine: Machine, implementation: str | None) -> Case:
    """Return the forward pass; ``auto`` is what PyTorch chooses itself.

    Raises `InputError` for windows, latents and caches of another type, and where a backend refuses the sizes.
    """
    torch = import_torch()
    name = chosen("attention", implementation, ATTENTIONS)
    _refuse(x)
    dtype = machine.dtype(x.dtype)
    batch, heads, kv_heads = int(x.batch), int(x.heads), int(x.kv_heads)
    q_len, k_len, dim, v_dim = (
        int(s) for s in (x.query_tokens, x.context_tokens, x.head_dim, x.value_dim or x.head_dim)
    )

    def build() -> Tensors:
        shapes = ((heads, q_len, dim), (kv_heads, k_len, dim), (kv_heads, k_len, v_dim))
        return tuple(torch.randn(batch, *shape, device=machine.kind).to(dtype) for shape in shapes)

    moved = batch * (heads * q_len * (dim + v_dim) + kv_heads * k_len * (dim + v_dim)) * dtype.itemsize
    sets = rotated(machine, moved, build)
    mask = _mask(q_len, k_len, causal=x.causal, device=machine.kind)
    attend = _eager(mask, heads // kv_heads) if name == "eager" else _fused(mask, q_len == k_len and x.causal, name)

    case = rotating(sets, attend, name)
    try:
        case.call(0)
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f"--implementation {name}: PyTorch has no such attention for these sizes here: {why}"
        ) from error
    return case


def _refuse(x: AttentionOperation) -> None:
    """Refuse what this version does not measure."""
    wrong = []
    if x.window is not None:
        wrong.append("workload.window: this version measures attention without a window")
    if x.latent:
        wrong.append("workload.latent: this version measures attention with keys and values per head")
    if x.kv_dtype not in (None, x.dtype):
        wrong.append(f"workload.kv_dtype is '{x.kv_dtype}'; measured: the dtype itself, {x.dtype}")
    if wrong:
        raise InputError(wrong)


def _mask(q_len: int, k_len: int, *, causal: bool, device: str) -> Any:
    """Which keys queries see, the last query the last key; None where one query sees all."""
    torch = import_torch()
    if not causal or q_len == 1:
        return None
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)


def _fused(mask: Any, is_causal: bool, name: str) -> Attend:
    """One call of the library; a mask is handed over only where the queries are the last of a longer context."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as fused

    backends = [getattr(SDPBackend, BACKENDS[name])] if name in BACKENDS else None

    def attend(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        grouped = q.shape[1] != k.shape[1]
        return fused(q, k, v, attn_mask=None if is_causal else mask, is_causal=is_causal, enable_gqa=grouped)

    if backends is None:
        return attend

    def attend_with(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        with sdpa_kernel(backends):
            return attend(q, k, v)

    return attend_with


def _eager(mask: Any, group: int) -> Attend:
    """Scores, softmax in fp32 and values, as models without a fused kernel compute them."""
    torch = import_torch()

    def attend(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        seen: Tensor = torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
        return seen @ v

    return attend
