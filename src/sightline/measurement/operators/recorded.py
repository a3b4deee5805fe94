"""Operators as training calls them: with the backward graph recorded, or its backward pass, written as Hugging Face does.

Several follow one another in a call, each on the result of the one before, so that the start of the graph counts once.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.errors import InputError
from sightline.measurement.machine.devices import Machine, import_torch
from sightline.measurement.operators.case import Case, sets_of
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
    """Operators one after the other."""

    leaves: tuple["Tensor", ...]
    """What gradients are for; the first is handed from operator to operator."""
    apply: "Callable[..., Tensor]"
    repeats: int
    moved_bytes: float
    """Bytes of all tensors of an operator, by which sets of operands outgrow the cache."""


def recorded_case(x: Operation, machine: Machine, implementation: str) -> Case:
    """Return the forward pass while the graph is recorded, or the backward pass of a graph that is kept.

    Raises `InputError` for operators that have no backward pass here.
    """
    torch = import_torch()
    build = _repeated_of(x, machine)
    first = build()
    count = sets_of(machine, first.repeats * first.moved_bytes)
    sets = [first, *(build() for _ in range(count - 1))]
    backward = implementation == BACKWARD
    outputs = [_run(repeated) for repeated in sets] if backward else []
    gradients = [torch.ones_like(output) for output in outputs]

    def forward_call(number: int) -> object:
        return _run(sets[number % len(sets)])

    def backward_call(number: int) -> None:
        place = number % len(sets)
        torch.autograd.backward(outputs[place], gradients[place], retain_graph=True)
        for leaf in sets[place].leaves:
            leaf.grad = None

    return Case(
        call=backward_call if backward else forward_call,
        implementation=implementation,
        sets=len(sets),
        operators=first.repeats,
        remarks={"cached": len(sets) == 1},
    )


def _run(repeated: Repeated) -> "Tensor":
    out, *others = repeated.leaves
    for _ in range(repeated.repeats):
        out = repeated.apply(out, *others)
    return out


def _repeated_of(x: Operation, machine: Machine) -> Callable[[], Repeated]:
    torch = import_torch()
    dtype = machine.dtype(str(getattr(x, "dtype", "fp32")))
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
    moved = dtype.itemsize * (m * k + n * k + m * n)
    return Repeated((inputs, layer.weight), lambda a, _: layer(a), REPEATS if n == k else 1, moved)


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
    return Repeated(leaves, attend, REPEATS, dtype.itemsize * batch * s * d * 2.0 * (heads + kv_heads))


def _rows(elements: int) -> tuple[int, int]:
    width = min(WIDTH, elements)
    return max(1, elements // width), width


def _norm(torch: Any, elements: int, dtype: Any) -> Repeated:
    rows, width = _rows(elements)
    weight = torch.ones(width, dtype=dtype).requires_grad_()

    def norm(a: "Tensor", weight: "Tensor") -> "Tensor":
        wide = a.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        out: Tensor = weight * wide.to(a.dtype)
        return out

    return Repeated((_leaf(torch, 1, rows, width, dtype=dtype), weight), norm, REPEATS, 5.0 * elements * dtype.itemsize)


def _gated(torch: Any, elements: int, dtype: Any) -> Repeated:
    rows, width = _rows(elements)
    leaves = tuple(_leaf(torch, 1, rows, width, dtype=dtype) for _ in range(2))
    silu = torch.nn.functional.silu
    return Repeated(leaves, lambda gate, up: silu(gate) * up, REPEATS, 4.0 * elements * dtype.itemsize)


def _residual(torch: Any, elements: int, dtype: Any) -> Repeated:
    rows, width = _rows(elements)
    leaves = tuple(_leaf(torch, 1, rows, width, dtype=dtype) for _ in range(2))
    return Repeated(leaves, lambda a, b: a + b, REPEATS, 3.0 * elements * dtype.itemsize)


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

    return Repeated((leaf,), rope, REPEATS, 5.0 * elements * dtype.itemsize)


def _embedding(torch: Any, elements: int, dtype: Any) -> Repeated:
    """A table of so many elements is looked up: its gradient is as large."""
    rows, width = _rows(elements)
    table = _leaf(torch, rows, width, dtype=dtype)
    tokens = torch.randint(rows, (1, TOKENS))
    lookup = torch.nn.functional.embedding
    return Repeated((table,), lambda weight: lookup(tokens, weight), 1, elements * dtype.itemsize)


def _loss(torch: Any, elements: int, dtype: Any) -> Repeated:
    """The mean over all tokens but the last of each row's next one, in fp32."""
    width = min(VOCABULARY, max(16, elements // 16))
    rows = max(2, elements // width)
    tokens, f = torch.randint(width, (1, rows)), torch.nn.functional

    def loss(logits: "Tensor") -> "Tensor":
        targets = f.pad(tokens, (0, 1), value=-100)[..., 1:].contiguous().view(-1)
        out: Tensor = f.cross_entropy(logits.float().view(-1, width), targets, ignore_index=-100)
        return out

    return Repeated((_leaf(torch, 1, rows, width, dtype=dtype),), loss, 1, 3.0 * elements * dtype.itemsize)


_KERNELS: Mapping[str, Callable[[Any, int, Any], Repeated]] = {
    "norm": _norm,
    "gated_activation": _gated,
    "residual": _residual,
    "rope": _rope,
    "embedding": _embedding,
    "cross_entropy": _loss,
}
