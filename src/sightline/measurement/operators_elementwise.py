"""Bandwidth-bound kernels by PyTorch, on rows as wide as a model's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.measurement.buffers import Tensors, rotated
from sightline.measurement.operator_case import Case, chosen
from sightline.measurement.operators_copies import COPIES, copy_case
from sightline.measurement.operators_optimizers import OPTIMIZERS, adam_case
from sightline.measurement.torch_machine import Machine, import_torch
from sightline.scenario import ElementwiseOperation
from sightline.scenario.operation import ElementwiseName

if TYPE_CHECKING:
    from torch import Tensor

WIDEST = 4096
"""Elements of a row where the scenario gives their number alone."""
NARROWEST = 16
HEAD = 128
DROPOUT = 0.1
VOCABULARY = 32000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """A kernel's tensors of the full size beside its output, and what is called with them."""

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
    width = row_width(elements, VOCABULARY if x.operator == "cross_entropy" else WIDEST)
    kernel = _kernels(elements // width, width, dtype, machine.kind)[x.operator]
    name = chosen(x.operator, implementation, (kernel.implementation,))

    def build() -> Tensors:
        shape = (elements // width, width)
        given = [torch.randn(shape, device=machine.kind).to(dtype) for _ in range(kernel.inputs)]
        return (*given, *([torch.empty_like(given[0])] if kernel.writes else []))

    sets = rotated(machine, (kernel.inputs + 1) * elements * dtype.itemsize, build)

    def call(turn: int) -> object:
        return kernel.call(*sets[turn % len(sets)])

    return Case(call=call, implementation=name, sets=len(sets), remarks={"width": width})


def row_width(elements: int, widest: int) -> int:
    """Return the widest row of at most ``widest`` elements that divides ``elements``; all of them where it is narrow."""
    width = next(w for w in range(min(widest, elements), 0, -1) if elements % w == 0)
    return width if width >= NARROWEST else elements


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
    """Halves of each head turned by the position's angles, as Hugging Face models write it."""
    torch = import_torch()
    head = HEAD if width % HEAD == 0 else width
    angles = torch.outer(torch.arange(rows, device=device), torch.rand(head, device=device))[:, None, :]
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def rope(a: "Tensor") -> "Tensor":
        heads = a.view(rows, -1, head)
        turned = torch.cat((-heads[..., head // 2 :], heads[..., : head // 2]), dim=-1)
        result: Tensor = heads * cos + turned * sin
        return result

    return rope
