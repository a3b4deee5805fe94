"""PyTorch's operators of a step, each at the address of the region it ran in.

The profiler's trace and the regions meet in the trace itself: at every border of regions an empty range is recorded, so
an operator belongs to the region whose border is the last one before its start, in forward and backward alike; no stack
is walked. Products of linear layers get the names of a prediction's operators, from where they stand; all others keep
PyTorch's.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sightline.measurement.machine.devices import import_torch
from sightline.measurement.modules.instrument import Instrument, row_at
from sightline.measurement.modules.timeline import Address, Passage
from sightline.profile import Row

BORDER = "border of regions "
HOST = "host"
"""Stands for everything that is no kernel: dispatch, views, autograd's engine, Python."""
WITHOUT_KERNEL = frozenset(
    (
        *("alias", "as_strided", "chunk", "contiguous", "detach", "empty", "empty_like", "empty_strided"),
        *("expand", "expand_as", "lift_fresh", "linear", "matmul", "narrow", "new_empty", "new_empty_strided"),
        *("permute", "reshape", "_reshape_alias", "resize_", "resolve_conj", "resolve_neg", "result_type"),
        *("select", "set_", "slice", "split", "split_with_sizes", "squeeze", "t", "to", "transpose"),
        *("unsafe_split", "unbind", "unsqueeze", "view", "view_as", "_unsafe_view"),
    )
)
"""Operators that name, shape or allocate and move nothing, or leave all work to others."""
LINEAR = frozenset(("mm", "addmm"))
"""Products of linear layers, which are named as a prediction names them."""
GRADIENTS = {
    "MmBackward0": ("weight gradient", "input gradient"),
    "AddmmBackward0": ("input gradient", "weight gradient"),
}
"""What a linear layer's node of the graph multiplies, in autograd's order, where it makes both."""
UP, DOWN = "up", "down"
PRODUCTS = ("mm", "linear", "dot_product", "flash_attention", "matmul", "logits", UP, DOWN, *GRADIENTS["MmBackward0"])
"""What the names of products and attention kernels hold; arithmetic is their part, bandwidth that of the others."""
ACCUMULATION = "torch::autograd::AccumulateGrad"


class BorderReader:
    """Leaves an empty range in the profiler's trace at each border."""

    excludes_instrument = False

    def __init__(self) -> None:
        self._borders = 0

    def read(self) -> int:
        """The number of the range that begins and ends now."""
        self._borders += 1
        with import_torch().profiler.record_function(f"{BORDER}{self._borders}"):
            return self._borders

    def differences(self, readings: Sequence[int]) -> Sequence[int]:
        """The number of the border that each region begins with."""
        return readings[:-1]


def trace_operators(on_model: Instrument, step: Callable[[], object]) -> list[Row]:
    """Return rows by operator of one call of ``step``, which announces its phases to ``on_model``.

    On a processor ``time_s`` is an operator's own time, and what is left of a region is its ``host`` row, so that the
    rows of a module sum to its time under the profiler. On a GPU it is the time of its kernels. FLOPs and bytes are
    counted by module and left out here.
    """
    torch = import_torch()
    on_device = torch.cuda.is_available()
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU, kinds.CUDA] if on_device else [kinds.CPU]
    with torch.profiler.profile(activities=activities) as profiler, on_model.read_by(BorderReader()) as passages:
        step()
    events = profiler.events()
    return _rows(_operators(events, passages, on_device=on_device), None if on_device else _lengths(events, passages))


def _operators(
    events: Sequence[Any], passages: Mapping[Address, Passage], *, on_device: bool
) -> dict[tuple[Address, str], list[float]]:
    """Seconds of each execution by address and operator."""
    begins = sorted((e.time_range.start, _number(e)) for e in events if e.name.startswith(BORDER))
    starts, owner = [start for start, _ in begins], _owners(passages)
    found: dict[tuple[Address, str], list[float]] = defaultdict(list)
    last: dict[int, tuple[Address, float]] = {}
    for event in sorted(events, key=lambda e: e.time_range.start):
        position = bisect_right(starts, event.time_range.start) - 1
        if position < 0 or not _is_kernel(event):
            continue
        border = begins[position][1]
        address = owner.get(border)
        seconds = (event.self_device_time_total if on_device else event.self_cpu_time_total) * 1e-6
        if address is None or seconds <= 0:
            continue
        name = _name(event, address)
        found[address, name].append(seconds)
        if name == UP and address.phase == "forward":
            last[border] = address, seconds
    for address, seconds in last.values():
        # Products of an MLP come in order: the last of each pass through it projects down.
        found[address, UP].remove(seconds)
        found[address, DOWN].append(seconds)
    return {where: times for where, times in found.items() if times}


def _name(event: Any, address: Address) -> str:
    """An operator's name: a prediction's for what linear layers do, else PyTorch's own."""
    name = str(event.name).removeprefix("aten::")
    if name == ACCUMULATION:
        return "gradient accumulation"
    if name not in LINEAR:
        return name
    if address.phase == "backward":
        parent = event.cpu_parent
        products = [] if parent is None else [c for c in parent.cpu_children if c.name.removeprefix("aten::") in LINEAR]
        names = GRADIENTS.get(parent.name, ()) if len(products) == 2 else ()
        return names[products.index(event)] if names else name
    module, operator = address.region.module, address.region.operator
    return UP if module in ("mlp", "shared experts") else "matmul" if operator == "all" else operator


def _is_kernel(event: Any) -> bool:
    """Whether an event is an operator with work of its own; what it leaves to others counts there."""
    name = event.name
    return "::" in name and not name.startswith("autograd::") and name.removeprefix("aten::") not in WITHOUT_KERNEL


def _number(event: Any) -> int:
    return int(event.name.removeprefix(BORDER))


def _owners(passages: Mapping[Address, Passage]) -> dict[int, Address]:
    return {border: address for address, passage in passages.items() for border in passage.parts}


def _lengths(events: Sequence[Any], passages: Mapping[Address, Passage]) -> dict[Address, float]:
    """Seconds in the trace that were spent at each address."""
    starts = {_number(e): e.time_range.start for e in events if e.name.startswith(BORDER)}
    return {
        address: sum(starts[border + 1] - starts[border] for border in passage.parts) * 1e-6
        for address, passage in passages.items()
    }


def _rows(
    operators: Mapping[tuple[Address, str], Sequence[float]], lengths: Mapping[Address, float] | None
) -> list[Row]:
    rows = [_row(a, name, len(seconds), sum(seconds)) for (a, name), seconds in operators.items()]
    for address, length in (lengths or {}).items():
        kernels = sum(sum(s) for (a, _), s in operators.items() if a == address)
        rows.append(_row(address, HOST, 1, max(0.0, length - kernels)))
    return rows


def _row(address: Address, operator: str, count: int, time_s: float) -> Row:
    product = any(word in operator for word in PRODUCTS)
    bound = "host" if operator == HOST else "compute" if product else "memory"
    return row_at(address, operator, count=count, time_s=time_s, bound=bound)


def split_by_operator(modules: Sequence[Row], operators: Sequence[Row]) -> list[Row]:
    """Return operators' rows, among which the module's seconds are split; modules that the trace lacks stay whole."""
    seconds, traced = (_by_module(rows) for rows in (modules, operators))
    scaled = [
        row.lasting(row.time_s * seconds[where] / traced[where])
        for row in operators
        if traced[where := _module_of(row)] and where in seconds
    ]
    there = {_module_of(row) for row in scaled}
    return [*scaled, *(row for row in modules if _module_of(row) not in there)]


def _module_of(row: Row) -> tuple[str, str, str]:
    return row.phase, row.block, row.module


def _by_module(rows: Sequence[Row]) -> dict[tuple[str, str, str], float]:
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    for row in rows:
        found[_module_of(row)] += float(row.time_s)
    return found
