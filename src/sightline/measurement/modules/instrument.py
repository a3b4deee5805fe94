"""Time a real model by phase, module and operator while it trains or generates, at the addresses of a prediction."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.measurement.machine import import_torch
from sightline.measurement.modules.timeline import (
    STARTS,
    Address,
    Marks,
    Passage,
    Reader,
    Timeline,
    counted_work,
    reader_of,
)
from sightline.measurement.modules.wrapping import WAITING, EndOfGradients, roles_of, wrap, wrap_waits
from sightline.measurement.timing import Clock
from sightline.profile import TRAINING, Row
from sightline.scenario import Device, Model

MOST_S = 1e-5
"""Of a border; twice what it took within a token of tiny models (Cascade Lake, 2026-11). More than that is no overhead
but a machine that was slower meanwhile."""
LEAST_KEPT = 0.5
"""Share of a region's time that stays in any case."""


def without_overhead(rows: Sequence[Row], plain_s: float) -> list[Row]:
    """Return ``rows`` of a step on a processor without the time that recording added to it.

    The instrument's own work is in no region, but it also slows others down: a call more around each module, and caches
    that hold its code. Both come with every border of regions. The seconds beyond ``plain_s``, those of steps that are
    not recorded, are taken off in equal parts by border (A. Malony and S. Shende, "Overhead Compensation in Performance
    Profiling", Euro-Par 2004).
    """
    excess_s = sum(float(row.time_s) for row in rows) - plain_s
    borders = sum(float(row.count) for row in rows)
    each_s = min(max(excess_s, 0.0) / max(borders, 1.0), MOST_S)
    return [row.lasting(_less(float(row.time_s), each_s * float(row.count))) for row in rows]


def _less(time_s: float, overhead_s: float) -> float:
    return max(time_s - overhead_s, LEAST_KEPT * time_s)


INTENSITY = 10.0
"""FLOPs per byte above which work without a known device is called bound by arithmetic."""


def rows_of(
    steps: Sequence[Mapping[Address, Passage]],
    work: Mapping[Address, Passage],
    device: Device | None = None,
    dtype: str | None = None,
) -> list[Row]:
    """Return a row per address: the mean over ``steps``, and the FLOPs and bytes of one of them, ``work``.

    Without steps the times are 0.

    ``device`` and ``dtype`` say whose roofline ``bound`` goes by.
    """
    # dict.fromkeys keeps the order in which a step came by.
    addresses = list(dict.fromkeys(a for step in steps or [work] for a in step))
    intensity = INTENSITY
    if device is not None and dtype is not None and dtype in device.peak_flops:
        intensity = float(device.peak_flops[dtype] / device.memory_bandwidth)
    return [_row(a, steps, work.get(a), intensity) for a in sorted(addresses, key=_phase)]


def _row(address: Address, steps: Sequence[Mapping[Address, Passage]], work: Passage | None, intensity: float) -> Row:
    passages = [step[address] for step in steps if address in step]
    came_by = [p.count for p in passages] if steps else [work.count] if work else []
    phase, operator = address.phase, address.region.operator
    flops, moved = (0.0, 0.0) if work is None else (float(x) for x in np.sum(work.parts, axis=0))
    time_s = sum(float(np.sum(p.parts)) for p in passages) / max(1, len(steps))
    return row_at(
        address,
        f"{operator} gradient" if phase == "backward" and operator != "all" else operator,
        count=sum(came_by) / max(1, len(steps)),
        time_s=time_s,
        bound=_bound(phase, flops, moved, intensity),
        work=(flops, moved),
    )


def row_at(
    address: Address, operator: str, *, count: float, time_s: float, bound: str, work: tuple[float, float] = (0.0, 0.0)
) -> Row:
    """Return the row of an operator at an address; ``work`` is its FLOPs and bytes."""
    phase, (block, module, _) = address
    flops, moved = work
    return Row(
        phase=phase,
        block=block,
        module=module,
        operator=operator,
        count=float(count),
        flops=flops,
        bytes=moved,
        network_bytes=0.0,
        time_s=time_s,
        exposed_s=time_s,
        bound=bound,
    )


def _bound(phase: str, flops: float, moved: float, intensity: float) -> str:
    if phase in ("communication_exposed", "host"):
        return "network" if phase == "communication_exposed" else "host"
    return "compute" if flops > 0 and flops >= intensity * moved else "memory"


def _phase(address: Address) -> int:
    order = ("prefill", "decode", *TRAINING.phases)
    return order.index(address.phase)


class Instrument:
    """Records steps of one model. Steps that are not recorded run as if it was not there.

    ::

        on_model = instrument(model, scenario.model, machine.clock)
        for _ in range(steps):
            with on_model.recording():
                with on_model.phase("forward"):
                    loss = model(tokens, labels=tokens).loss
                with on_model.phase("backward"):
                    loss.backward()
                with on_model.phase("optimizer"):
                    optimizer.step()
        on_model.rows()
    """

    def __init__(self, model: Any, clock: Clock) -> None:
        self._timeline = Timeline()
        self._reader = reader_of(clock)
        self._end_of_gradients = EndOfGradients(self._timeline)
        marks = Marks(self._timeline, self._end_of_gradients.reached)
        compiled = _is_compiled(model)
        roles = roles_of(model)
        self.by_module = bool(roles.layers) and not compiled
        """Whether modules are timed. Of a compiled model, or one whose layers are not recognized, only phases are."""
        self._undo = ExitStack()
        if self.by_module:
            self._undo.enter_context(wrap(roles, marks, self._timeline))
        self._undo.enter_context(wrap_waits(model, lambda: self._timeline.visit(WAITING)))
        self._countable = not compiled
        self.steps: list[Mapping[Address, Passage]] = []
        """Seconds of each recorded step by address."""
        self.own_s: list[float] = []
        """Seconds of each that the instrument took itself, which are at no address."""
        self._work: Mapping[Address, Passage] | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record one step, whose phases are announced by ``phase``.

        The first step counts FLOPs and bytes, which takes time; its seconds stand for nothing, unless ``counting`` was
        used before.
        """
        if self._work is None and self._countable:
            with self.counting():
                yield
            return
        with self.read_by(self._reader) as passages:
            yield
        self.steps.append(passages)
        self.own_s.append(float(sum(self._timeline.instrument_s)))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the FLOPs and bytes of one step by address, such as one of the warm-up.

        All recorded steps do the same.
        """
        with counted_work() as reader, self.read_by(reader) as passages:
            yield
        self._work = passages

    @contextmanager
    def read_by(self, reader: Reader) -> Iterator[Mapping[Address, Passage]]:
        """Read ``reader`` wherever one step comes to another address; what passed is there when the step is over."""
        passages: dict[Address, Passage] = {}
        self._timeline.begin(reader)
        try:
            yield passages
        except BaseException:
            self._timeline.live = False
            raise
        passages.update(self._timeline.end())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Announce a part of the step: forward, backward, optimizer, communication_exposed, prefill or decode.

        Raises `InputError` for another name.
        """
        if name not in STARTS:
            raise InputError(f"phase is '{name}'; a step has: {', '.join(STARTS)}")
        if not self._timeline.live:
            yield
            return
        self._timeline.start(name)
        if name == "backward":
            self._end_of_gradients.begin()
        yield
        self._timeline.stop()

    def rows(self, device: Device | None = None, dtype: str | None = None) -> list[Row]:
        """Return the mean step by address; ``bound`` goes by the roofline of ``device`` in ``dtype`` where given.

        Times sum to the step's, less what the instrument took itself: what was in none of its phases is the host's.
        """
        return rows_of(self.steps, self._work or {}, device, dtype)

    def remove(self) -> None:
        """Leave the model as it was."""
        self._undo.close()


def instrument(model: Any, scenario_model: Model | None, clock: Clock) -> Instrument:
    """Return an instrument on ``model``, a Hugging Face decoder, wrapped for data parallelism or adapted as it may be.

    ``clock`` is that of the machine it runs on. It is best called when the model is complete: quantized, adapted,
    sharded, with its recomputation enabled. Only one instrument at a time on models of one class.
    Raises `InputError` where ``scenario_model`` has fewer layers than ``model``.
    """
    found = len(roles_of(model).layers)
    if scenario_model is not None and found > scenario_model.layers:
        raise InputError(f"model has {scenario_model.layers} layers, but the model to measure has {found}")
    return Instrument(model, clock)


def _is_compiled(model: Any) -> bool:
    modules = list(model.modules())
    return any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) is not None for m in modules)


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
    rows = [_operator_row(a, name, len(seconds), sum(seconds)) for (a, name), seconds in operators.items()]
    for address, length in (lengths or {}).items():
        kernels = sum(sum(s) for (a, _), s in operators.items() if a == address)
        rows.append(_operator_row(address, HOST, 1, max(0.0, length - kernels)))
    return rows


def _operator_row(address: Address, operator: str, count: int, time_s: float) -> Row:
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
