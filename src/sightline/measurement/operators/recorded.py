"""Operators as training calls them, written as Hugging Face does: with the graph recorded, or the backward pass.

Several follow one another in a call, each on the result of the one before, so that the start of the graph counts once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.errors import InputError
from sightline.measurement.machine import Machine, import_torch
from sightline.measurement.operators.kernels import Case, Tensors, rotating, sets_of
from sightline.scenario import AttentionOperation, ElementwiseOperation, MatmulOperation
from sightline.scenario.operation import Operation

if TYPE_CHECKING:
    from torch import Tensor

RECORDED, BACKWARD = "recorded", "backward"
IMPLEMENTATIONS = (RECORDED, BACKWARD)
REPEATS = 4
"""Operators of a call."""
WIDTH = 512
"""Elements of a row of activations."""
HEADS, HEAD = 4, 64
VOCABULARY = 8192
TOKENS = 256
"""Looked up in a table of embeddings whose gradient is measured."""


class Repeated(NamedTuple):
    """Operators one after the other, each on the result of the one before."""

    leaves: Tensors
    """What gradients are for; the first is handed from operator to operator."""
    apply: "Callable[..., Tensor]"
    moved: float
    """Elements of all tensors of an operator, by which sets of operands outgrow the cache."""
    repeats: int = REPEATS

    def run(self) -> "Tensor":
        """Return the last one's result."""
        out, *others = self.leaves
        for _ in range(self.repeats):
            out = self.apply(out, *others)
        return out


def recorded_case(x: Operation, machine: Machine, implementation: str) -> Case:
    """Return the forward pass while the graph is recorded, or the backward pass of a graph that is kept.

    Raises `InputError` for operators that have no backward pass here.
    """
    torch = import_torch()
    dtype = machine.dtype(str(getattr(x, "dtype", "fp32")))
    build = _repeated_of(x, dtype)
    first = build()
    count = sets_of(machine, first.repeats * first.moved * dtype.itemsize)
    every = [first, *(build() for _ in range(count - 1))]
    graphs = [(repeated, repeated.run()) for repeated in every] if implementation == BACKWARD else []
    kept = [(repeated.leaves, out, torch.ones_like(out)) for repeated, out in graphs]

    def backward(leaves: Tensors, out: "Tensor", gradient: "Tensor") -> None:
        torch.autograd.backward(out, gradient, retain_graph=True)
        for leaf in leaves:
            leaf.grad = None

    case = (
        rotating(kept, backward, implementation)
        if kept
        else rotating([(r,) for r in every], Repeated.run, implementation)
    )
    return replace(case, operators=first.repeats, remarks={"cached": count == 1})


def _repeated_of(x: Operation, dtype: Any) -> Callable[[], Repeated]:
    torch = import_torch()
    if isinstance(x, MatmulOperation):
        return lambda: _linear(torch, int(x.m), int(x.n), int(x.k), dtype)
    if isinstance(x, AttentionOperation):
        return lambda: _attention(torch, x, dtype)
    if isinstance(x, ElementwiseOperation) and x.operator in _KERNELS:
        elements, repeated = int(x.elements), _KERNELS[x.operator]
        return lambda: repeated(torch, elements, dtype)
    name = getattr(x, "operator", "it")
    known = ", ".join(("matmul", "attention", *_KERNELS))
    raise InputError(f"--implementation is recorded or backward, which {name} does not have; measured: {known}")


def _leaf(torch: Any, *shape: int, dtype: Any) -> "Tensor":
    leaf: Tensor = torch.randn(*shape).to(dtype).requires_grad_()
    return leaf


def _linear(torch: Any, m: int, n: int, k: int, dtype: Any) -> Repeated:
    layer = torch.nn.Linear(k, n, bias=False, dtype=dtype)
    inputs = _leaf(torch, 1, m, k, dtype=dtype)
    moved = m * k + n * k + m * n
    return Repeated((inputs, layer.weight), lambda a, _: layer(a), moved, REPEATS if n == k else 1)


def _attention(torch: Any, x: AttentionOperation, dtype: Any) -> Repeated:
    """From projections to the context, as layers hold them: heads are split off, transposed to the front and back."""
    batch, s, d = int(x.batch), int(x.query_tokens), int(x.head_dim)
    heads, kv_heads = int(x.heads), int(x.kv_heads)
    if s != int(x.context_tokens):
        raise InputError("workload.query_tokens are fewer than context_tokens; a backward pass has all of a sequence")
    fused, causal = torch.nn.functional.scaled_dot_product_attention, x.causal

    def attend(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        q, k, v = (t.view(batch, s, -1, d).transpose(1, 2) for t in (q, k, v))
        out = fused(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
        context: Tensor = out.transpose(1, 2).contiguous().reshape(batch, s, -1)
        return context

    leaves = tuple(_leaf(torch, batch, s, width * d, dtype=dtype) for width in (heads, kv_heads, kv_heads))
    return Repeated(leaves, attend, batch * s * d * 2.0 * (heads + kv_heads))


def _rows(elements: int) -> tuple[int, int]:
    width = min(WIDTH, elements)
    return max(1, elements // width), width


def _activations(torch: Any, elements: int, dtype: Any) -> "Tensor":
    rows, width = _rows(elements)
    return _leaf(torch, 1, rows, width, dtype=dtype)


def _norm(torch: Any, elements: int, dtype: Any) -> Repeated:
    weight = torch.ones(_rows(elements)[1], dtype=dtype).requires_grad_()

    def norm(a: "Tensor", weight: "Tensor") -> "Tensor":
        wide = a.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        out: Tensor = weight * wide.to(a.dtype)
        return out

    return Repeated((_activations(torch, elements, dtype), weight), norm, 5.0 * elements)


def _gated(torch: Any, elements: int, dtype: Any) -> Repeated:
    leaves = tuple(_activations(torch, elements, dtype) for _ in range(2))
    return Repeated(leaves, lambda gate, up: torch.nn.functional.silu(gate) * up, 4.0 * elements)


def _residual(torch: Any, elements: int, dtype: Any) -> Repeated:
    leaves = tuple(_activations(torch, elements, dtype) for _ in range(2))
    return Repeated(leaves, lambda a, b: a + b, 3.0 * elements)


def _rope(torch: Any, elements: int, dtype: Any) -> Repeated:
    """Heads of queries, or of keys, in front of their tokens."""
    tokens = max(1, elements // WIDTH)
    head = max(2, min(HEAD, elements // (tokens * HEADS)))
    heads = elements // (tokens * head)
    angles = torch.rand(1, 1, tokens, head)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    leaf = _leaf(torch, 1, tokens, heads, head, dtype=dtype)

    def rope(a: "Tensor") -> "Tensor":
        a = a.transpose(1, 2)
        rotated_halves = torch.cat((-a[..., head // 2 :], a[..., : head // 2]), dim=-1)
        out: Tensor = (a * cos) + (rotated_halves * sin)
        return out.transpose(1, 2)

    return Repeated((leaf,), rope, 5.0 * elements)


def _embedding(torch: Any, elements: int, dtype: Any) -> Repeated:
    """A table of so many elements is looked up: its gradient is as large."""
    rows, width = _rows(elements)
    table = _leaf(torch, rows, width, dtype=dtype)
    tokens = torch.randint(rows, (1, TOKENS))
    lookup = torch.nn.functional.embedding
    return Repeated((table,), lambda weight: lookup(tokens, weight), elements, 1)


def _loss(torch: Any, elements: int, dtype: Any) -> Repeated:
    """The mean over all tokens but the last of each row's next one, in fp32."""
    width = min(VOCABULARY, max(16, elements // 16))
    rows = max(2, elements // width)
    tokens, f = torch.randint(width, (1, rows)), torch.nn.functional

    def loss(logits: "Tensor") -> "Tensor":
        targets = f.pad(tokens, (0, 1), value=-100)[..., 1:].contiguous().view(-1)
        out: Tensor = f.cross_entropy(logits.float().view(-1, width), targets, ignore_index=-100)
        return out

    return Repeated((_leaf(torch, 1, rows, width, dtype=dtype),), loss, 3.0 * elements, 1)


_KERNELS: Mapping[str, Callable[[Any, int, Any], Repeated]] = {
    "norm": _norm,
    "gated_activation": _gated,
    "residual": _residual,
    "rope": _rope,
    "embedding": _embedding,
    "cross_entropy": _loss,
}
