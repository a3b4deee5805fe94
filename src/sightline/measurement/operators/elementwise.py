"""Bandwidth-bound kernels by PyTorch on rows as wide as a model's, copies, and a step of AdamW."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.measurement.machine.devices import Machine, import_torch
from sightline.measurement.operators.case import SEED, Case, Tensors, chosen, rotated, rotating, sets_of
from sightline.scenario import ElementwiseOperation, HostCopyOperation
from sightline.scenario.operation import ElementwiseName

if TYPE_CHECKING:
    from torch import Tensor

COPIES = ("memory", "host", "host-to-device", "device-to-host", "device-to-device")
"""memory: the memory of whatever the scenario's device is."""
_PLACES = {
    "host": ("cpu", "cpu"),
    "host-to-device": ("cpu", "cuda:0"),
    "device-to-host": ("cuda:0", "cpu"),
    "device-to-device": ("cuda:0", "cuda:1"),
}


def host_copy_case(x: HostCopyOperation, machine: Machine, implementation: str | None) -> Case:
    """Return a copy between host and device; raises `InputError` where there is no device."""
    return copy_case(x, machine, chosen("copy", implementation, (x.direction,)), pinned=x.host_memory == "pinned")


def copy_case(
    x: ElementwiseOperation | HostCopyOperation, machine: Machine, implementation: str, *, pinned: bool = True
) -> Case:
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


def adam_case(x: ElementwiseOperation, machine: Machine, implementation: str) -> Case:
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


def elementwise_case(x: ElementwiseOperation, machine: Machine, implementation: str | None) -> Case:
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
