"""Build single operators by PyTorch: matmuls, attention, and bandwidth-bound kernels on rows as wide as a model's."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sightline.errors import InputError, nearest, refuse
from sightline.measurement.machine import Machine, import_torch
from sightline.quantities import BYTES, format_quantity
from sightline.scenario import AttentionOperation, ElementwiseOperation, HostCopyOperation, MatmulOperation
from sightline.scenario.operation import ElementwiseName, Operation

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyOperator:
    """An operator ready to be called again and again."""

    call: Callable[[int], object]
    implementation: str
    sets: int
    """Sets of operands that are used in rotation."""
    operators: int = 1
    """Executions of the operator in a call."""
    remarks: Mapping[str, Any] = field(default_factory=dict)
    """What the scenario leaves open and was chosen, for the record."""


def chosen(operator: str, asked: str | None, known: tuple[str, ...]) -> str:
    """Return the implementation asked for, or the first one; raises `InputError` naming those there are."""
    if asked is None:
        return known[0]
    if asked not in known:
        raise InputError(
            f"--implementation is '{asked}'; allowed for {operator}: {', '.join(known)}{nearest(asked, known)}"
        )
    return asked


Tensors: TypeAlias = "tuple[Tensor, ...]"


def rotating(
    sets: Sequence[tuple[Any, ...]], apply: Callable[..., object], implementation: str, **remarks: Any
) -> ReadyOperator:
    """Return ``apply`` to the next of the sets in each call."""
    count = len(sets)
    return ReadyOperator(
        call=lambda number: apply(*sets[number % count]), implementation=implementation, sets=count, remarks=remarks
    )


TIMES_CACHE = 2.5
MOST_SETS = 2048
MOST_OF_MEMORY = 0.6
SEED = 2311


def rotated(machine: Machine, bytes_per_set: float, build: Callable[[], Tensors]) -> Sequence[Tensors]:
    """Return sets of operands; the first is built from random numbers, the others are copies of it elsewhere.

    Raises `InputError` where one set does not fit into memory.
    """
    torch = import_torch()
    sets = sets_of(machine, bytes_per_set)
    torch.manual_seed(SEED)
    first = build()
    return [first, *(tuple(t.clone() for t in first) for _ in range(sets - 1))]


def cache_flush(machine: Machine) -> Callable[[], object]:
    """Return what drives everything out of the caches: operands, results, and the code that works on them.

    A step of training comes back to an operator when all the others have passed through the caches.
    """
    torch = import_torch()
    other = torch.ones(int(TIMES_CACHE * machine.cache_bytes) // 4, device=machine.kind)
    sweep: Callable[[], object] = other.sum
    return sweep


def sets_of(machine: Machine, bytes_per_set: float) -> int:
    """Return how many sets of operands fill the cache several times, one where they are to stay in it.

    Raises `InputError` where one set does not fit into memory.
    """
    room = MOST_OF_MEMORY * machine.memory_bytes
    if bytes_per_set > room:
        needs, has = (format_quantity(float(x), BYTES) for x in (bytes_per_set, machine.memory_bytes))
        raise InputError(f"the operands need {needs}; this machine has {has} of memory, of which 60 % may be used")
    if not machine.cache_bytes:
        return 1
    wanted = math.ceil(TIMES_CACHE * machine.cache_bytes / max(bytes_per_set, 1.0)) + 1
    return max(1, min(wanted, MOST_SETS, int(room // max(bytes_per_set, 1.0))))


COPIES = ("memory", "host", "host-to-device", "device-to-host", "device-to-device")
"""memory: the memory of whatever the scenario's device is."""
_PLACES = {
    "host": ("cpu", "cpu"),
    "host-to-device": ("cpu", "cuda:0"),
    "device-to-host": ("cuda:0", "cpu"),
    "device-to-device": ("cuda:0", "cuda:1"),
}


def host_copy_case(x: HostCopyOperation, machine: Machine, implementation: str | None) -> ReadyOperator:
    """Return a copy between host and device; raises `InputError` where there is no device."""
    return copy_case(x, machine, chosen("copy", implementation, (x.direction,)), pinned=x.host_memory == "pinned")


def copy_case(
    x: ElementwiseOperation | HostCopyOperation, machine: Machine, implementation: str, *, pinned: bool = True
) -> ReadyOperator:
    """Return a copy, of pinned memory where the host is one end; raises `InputError` where there is no device."""
    torch = import_torch()
    elements, dtype = int(x.elements), machine.dtype(x.dtype)
    source, target = _PLACES.get(implementation, (machine.kind, machine.kind))
    needed = 2 if "cuda:1" in target else int("cuda" in source + target)
    there = torch.cuda.device_count()
    if there < needed:
        raise InputError(f"a copy {implementation} needs {needed} GPUs; this machine has {there}")

    def place(where: str) -> "Tensor":
        tensor: Tensor = torch.randn(elements, device=where).to(dtype)
        return tensor.pin_memory() if pinned and needed and where == "cpu" else tensor

    def build() -> Tensors:
        return place(source), place(target)

    sets = rotated(machine, 2 * elements * dtype.itemsize, build) if not needed else [build()]
    return rotating(sets, lambda given, out: out.copy_(given, non_blocking=True), implementation)


OPTIMIZERS = ("fused", "foreach", "loop", "clipped")
"""``clipped``: gradients are clipped to a norm before the fused step, as trainers do."""
BYTES_PER_PARAMETER = 16
"""Parameter, gradient and two moments in fp32."""
TENSORS = 16
MOST_OPTIMIZERS = 64
LARGEST_GRADIENT = 1e9
"""Norm to which gradients are clipped: so large that repeated steps leave them as they are."""
_OPTIONS: dict[str, dict[str, Any]] = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "loop": {"foreach": False, "fused": False},
    "clipped": {"fused": True},
}


def adam_case(x: ElementwiseOperation, machine: Machine, implementation: str) -> ReadyOperator:
    """Return a step; optimizers are used in rotation until their states fill more than the cache.

    Raises `InputError` where the states do not fit into memory.
    """
    torch = import_torch()
    elements = int(x.elements)
    torch.manual_seed(SEED)
    count = min(MOST_OPTIMIZERS, sets_of(machine, elements * BYTES_PER_PARAMETER))
    optimizers = [(_optimizer(torch, elements, machine.kind, implementation),) for _ in range(count)]

    def step(optimizer: Any) -> object:
        if implementation == "clipped":
            torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], LARGEST_GRADIENT)
        return optimizer.step()

    return rotating(optimizers, step, implementation, tensors=min(TENSORS, elements))


def _optimizer(torch: Any, elements: int, device: str, implementation: str) -> Any:
    """AdamW with a gradient of random numbers in every parameter."""
    parameters = [
        torch.nn.Parameter(p) for p in torch.randn(elements, device=device).tensor_split(min(TENSORS, elements))
    ]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return torch.optim.AdamW(parameters, lr=1e-4, **_OPTIONS[implementation])


LARGEST_WIDTH = 4096
"""Elements of a row where the scenario gives their number alone."""
LEAST_WIDTH = 16
HEAD = 128
DROPOUT = 0.1
VOCABULARY = 32000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """A kernel's tensors of the full size, without its output, and what is called with them."""

    inputs: int
    call: Callable[..., object]
    writes: bool = False
    """Whether it writes into an output that is there; others allocate theirs."""
    implementation: str = "fused"


def elementwise_case(x: ElementwiseOperation, machine: Machine, implementation: str | None) -> ReadyOperator:
    """Return a forward pass of the kernel, of Adam a step; raises `InputError` for an unknown implementation."""
    if x.operator == "adam":
        return adam_case(x, machine, chosen("adam", implementation, OPTIMIZERS))
    if x.operator == "copy":
        return copy_case(x, machine, chosen("copy", implementation, COPIES))
    torch = import_torch()
    elements, dtype = int(x.elements), machine.dtype(x.dtype)
    width = row_width(elements, VOCABULARY if x.operator == "cross_entropy" else LARGEST_WIDTH)
    kernel = _kernels(elements // width, width, dtype, machine.kind)[x.operator]
    name = chosen(x.operator, implementation, (kernel.implementation,))

    def build() -> Tensors:
        shape = (elements // width, width)
        given = [torch.randn(shape, device=machine.kind).to(dtype) for _ in range(kernel.inputs)]
        return (*given, *([torch.empty_like(given[0])] if kernel.writes else []))

    sets = rotated(machine, (kernel.inputs + 1) * elements * dtype.itemsize, build)
    return rotating(sets, kernel.call, name, width=width)


def row_width(elements: int, widest: int) -> int:
    """Return the widest row of at most ``widest`` elements that divides ``elements``.

    Where that is too short, it is all of them.
    """
    width = next(w for w in range(min(widest, elements), 0, -1) if elements % w == 0)
    return width if width >= LEAST_WIDTH else elements


def _kernels(rows: int, width: int, dtype: Any, device: str) -> Mapping[ElementwiseName, _Kernel]:
    torch = import_torch()
    f = torch.nn.functional
    weight = torch.ones(width, dtype=dtype, device=device)
    order = torch.randperm(rows, device=device)
    targets = torch.randint(width, (rows,), device=device)
    return {
        "norm": _Kernel(inputs=1, call=lambda a: f.rms_norm(a, (width,), weight, 1e-6)),
        "activation": _Kernel(inputs=1, call=f.silu),
        "gated_activation": _Kernel(
            inputs=2, writes=True, call=lambda a, b, out: torch.mul(f.silu(a), b, out=out), implementation="eager"
        ),
        "embedding": _Kernel(inputs=1, call=lambda table: f.embedding(order, table)),
        "rope": _Kernel(inputs=1, call=_rope(rows, width, dtype, device), implementation="eager"),
        "softmax": _Kernel(inputs=1, call=lambda a: f.softmax(a, dim=-1)),
        "cross_entropy": _Kernel(inputs=1, call=lambda a: f.cross_entropy(a, targets)),
        "dropout": _Kernel(inputs=1, call=lambda a: f.dropout(a, DROPOUT)),
        "residual": _Kernel(inputs=2, writes=True, call=lambda a, b, out: torch.add(a, b, out=out)),
    }


def _rope(rows: int, width: int, dtype: Any, device: str) -> "Callable[[Tensor], Tensor]":
    """Halves of each head, rotated by the position's angles, as Hugging Face models write it."""
    torch = import_torch()
    head = HEAD if width % HEAD == 0 else width
    angles = torch.outer(torch.arange(rows, device=device), torch.rand(head, device=device))[:, None, :]
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def rope(a: "Tensor") -> "Tensor":
        heads = a.view(rows, -1, head)
        rotated_halves = torch.cat((-heads[..., head // 2 :], heads[..., : head // 2]), dim=-1)
        result: Tensor = heads * cos + rotated_halves * sin
        return result

    return rope


MATMULS = ("library", "input-gradient", "weight-gradient")
"""How the operands lie: rows by the transposed weight; a linear layer's gradient by its weight; the transposed gradient
by rows. The last two are what a backward pass multiplies: ``m x k`` and ``k x n`` are sizes of that product."""


def matmul_case(x: MatmulOperation, machine: Machine, implementation: str | None) -> ReadyOperator:
    """Return the product, written into memory that is there already; raises `InputError` for formats of fewer bits."""
    torch = import_torch()
    name = chosen("matmul", implementation, MATMULS)
    if x.kernel not in ("16-bit", "32-bit"):
        raise InputError(f"workload.format is '{x.kernel}'; allowed when measuring: 16 or 32 bits")
    if x.weight_copies is not None:
        raise InputError("workload.weight_copies is for predictions; when measuring, operands take turns")
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


def attention_case(x: AttentionOperation, machine: Machine, implementation: str | None) -> ReadyOperator:
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
        raise InputError(f"--implementation {name}: not available for these sizes: {why}") from error
    return case


def _refuse(x: AttentionOperation) -> None:
    """Refuse what this version does not measure."""
    wrong = []
    if x.window is not None:
        wrong.append("workload.window: measuring attention with a window is not supported")
    if x.latent:
        wrong.append("workload.latent: measuring latent attention is not supported")
    if x.kv_dtype not in (None, x.dtype):
        wrong.append(f"workload.kv_dtype is '{x.kv_dtype}'; allowed when measuring: {x.dtype}")
    refuse(wrong)


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


RECORDED, BACKWARD = "recorded", "backward"
IMPLEMENTATIONS = (RECORDED, BACKWARD)
REPEATS = 4
"""Operators of a call."""
WIDTH = 512
"""Elements of a row of activations."""
RECORDED_HEADS, RECORDED_HEAD = 4, 64
RECORDED_VOCABULARY = 8192
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


def recorded_case(x: Operation, machine: Machine, implementation: str) -> ReadyOperator:
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
    raise InputError(f"--implementation is recorded or backward, which {name} does not support; allowed: {known}")


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
        raise InputError("workload.query_tokens is less than context_tokens; a backward pass needs the whole sequence")
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


def _recorded_rope(torch: Any, elements: int, dtype: Any) -> Repeated:
    """Heads of queries, or of keys, in front of their tokens."""
    tokens = max(1, elements // WIDTH)
    head = max(2, min(RECORDED_HEAD, elements // (tokens * RECORDED_HEADS)))
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
    width = min(RECORDED_VOCABULARY, max(16, elements // 16))
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
    "rope": _recorded_rope,
    "embedding": _embedding,
    "cross_entropy": _loss,
}
