"""Cut a step wherever it goes from one region of the model to the next, and read a clock or a counter at each cut.

What lies between two cuts belongs to one region. Marks in the autograd graph cut the backward pass at the same places.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import ref

from sightline.measurement.machine import DeviceClock, import_torch
from sightline.measurement.timing import Clock, host_time

if TYPE_CHECKING:
    from torch import Tensor


def _formulas() -> Mapping[Any, Callable[..., int]]:
    """FLOPs of kernels that PyTorch's counter leaves out, from the shapes of their arguments."""
    torch = import_torch()
    aten, quantized, grouped = torch.ops.aten, torch.ops.bitsandbytes, torch.ops.transformers
    formulas: Mapping[str, tuple[Any, Callable[..., int]]] = {
        "_scaled_dot_product_flash_attention_for_cpu": (aten, _attention),
        "_scaled_dot_product_flash_attention_for_cpu_backward": (aten, _attention_gradient),
        "_grouped_mm": (aten, _grouped_product),
        "grouped_mm_fallback": (grouped, _grouped_product),
        "grouped_mm_fallback_backward": (grouped, _grouped_gradients),
        "int8_linear_matmul": (quantized, _product),
        "int8_scaled_mm": (quantized, _product),
        **dict.fromkeys(("int8_mixed_scaled_mm", "gemm_4bit", "gemv_4bit"), (quantized, _product_with_packed)),
    }
    # Those of other libraries are there when these were imported.
    return {getattr(of, name): formula for name, (of, formula) in formulas.items() if hasattr(of, name)}


def _attention(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:
    """Two products of all queries with all keys (not masked): 2 b a s_q s_k (d + d_v)."""
    batch, heads, queries, dim = query
    return 2 * batch * heads * queries * key[2] * (dim + value[3])


def _attention_gradient(
    _gradient: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any
) -> int:
    """Five products for the forward pass's two: three of width d, two of width d_v (arXiv 2205.14135)."""
    batch, heads, queries, dim = query
    return 2 * batch * heads * queries * key[2] * (3 * dim + 2 * value[3])


def _grouped_product(left: Sequence[int], right: Sequence[int], *_: Any, **__: Any) -> int:
    """2 m n k, of which groups share the dimension that only one operand has: rows, columns or the sum."""
    every_group = left[0] if len(left) == len(right) == 3 else 1
    return 2 * every_group * left[-2] * left[-1] * right[-1]


def _grouped_gradients(left: Sequence[int], right: Sequence[int], *_: Any, **__: Any) -> int:
    """Those of both operands of a grouped product."""
    return 2 * _grouped_product(left, right)


def _product(left: Sequence[int], right: Sequence[int], *_: Any, **__: Any) -> int:
    """2 m n k of (m x k) by (n x k) transposed."""
    return 2 * prod(left) * right[0]


def _product_with_packed(left: Sequence[int], _: Any, shape: Sequence[int], *__: Any, **___: Any) -> int:
    """2 m n k, where ``shape`` is that of the second operand, or states it where the operand is packed."""
    return 2 * prod(left) * shape[0]


def _byte_counter() -> Any:
    """Return a mode that adds up what kernels read and write: each of their tensors once, views nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    tensor = import_torch().Tensor

    class ByteCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
        total = 0.0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            if not _only_names(func):
                written = args if not func._schema.returns else out  # noqa: SLF001
                leaves = (*tree_leaves((args, kwargs)), *tree_leaves(written))
                self.total += sum(_extent(x) for x in leaves if isinstance(x, tensor))
            return out

    return ByteCounter()  # type: ignore[no-untyped-call]


def _only_names(func: Any) -> bool:
    """Whether an operator returns views or uninitialized memory and so moves nothing."""
    returns = func._schema.returns  # noqa: SLF001 - the schema has no other name
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return views or "empty" in func.name() or func.name().startswith("aten::_unsafe_view")


def _extent(x: Any) -> float:
    """Bytes of a tensor, what is repeated by a stride of zero once."""
    return float(x.element_size() * prod(n for n, stride in zip(x.shape, x.stride(), strict=True) if stride))


class Reader(Protocol):
    """Something that grows while a step runs."""

    excludes_instrument: bool
    """Whether what the instrument itself takes between two regions is read apart, so that it is in neither."""

    def read(self) -> Any:
        """A reading at this moment."""
        ...

    def differences(self, readings: Sequence[Any]) -> Sequence[Any]:
        """How much it has grown between each reading and the next."""
        ...


class HostReader:
    """Wall time, for devices whose calls return when the work is done."""

    excludes_instrument = True
    read = staticmethod(host_time)

    def differences(self, readings: Sequence[float]) -> Sequence[float]:
        """Seconds."""
        return [after - before for before, after in pairwise(readings)]


class EventReader:
    """Device time by events in the current stream, which are recorded again once they have been read."""

    excludes_instrument = False

    def __init__(self) -> None:
        self._free: list[Any] = []

    def read(self) -> Any:
        """An event recorded now."""
        event = self._free.pop() if self._free else import_torch().cuda.Event(enable_timing=True)
        event.record()
        return event

    def differences(self, readings: Sequence[Any]) -> Sequence[float]:
        """Seconds; waits for the last event, which may be the first one of the next step."""
        readings[-1].synchronize()
        seconds = [b.elapsed_time(a) * 1e-3 for b, a in pairwise(readings)]
        self._free += readings[:-1]
        return seconds


class WorkReader:
    """FLOPs by PyTorch's own counter, told of the kernels it does not know, and bytes that kernels read and write.

    Only totals are read: what that counter attributes to modules is wrong in backward.
    """

    excludes_instrument = False

    def __init__(self, flops: Any, moved: Any) -> None:
        self._flops, self._moved = flops, moved

    def read(self) -> tuple[float, float]:
        """FLOPs and bytes so far."""
        return float(self._flops.get_total_flops()), self._moved.total

    def differences(self, readings: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
        """FLOPs and bytes."""
        return [(a[0] - b[0], a[1] - b[1]) for b, a in pairwise(readings)]


def reader_of(clock: Clock) -> Reader:
    """Return what reads the time of the device that ``clock`` is for."""
    return EventReader() if isinstance(clock, DeviceClock) else HostReader()


@contextmanager
def counted_work() -> Iterator[WorkReader]:
    """Count what PyTorch executes meanwhile."""
    from torch.utils.flop_counter import FlopCounterMode

    with _byte_counter() as moved, FlopCounterMode(display=False, custom_mapping=dict(_formulas())) as flops:
        yield WorkReader(flops, moved)


class Region(NamedTuple):
    """A part of a model or of a step, whatever the phase."""

    block: str
    module: str
    operator: str = "all"
    """Where one module is taken apart: logits and cross-entropy of the head."""


EMBEDDING = Region("embedding", "embedding")
ATTENTION_NORM = Region("layer", "attention norm")
QKV = Region("layer", "qkv")
ROPE = Region("layer", "rope")
CORE = Region("layer", "attention core")
OUTPUT = Region("layer", "output projection")
RESIDUAL = Region("layer", "residual")
MLP_NORM = Region("layer", "mlp norm")
MLP = Region("layer", "mlp")
EXPERTS = Region("layer", "experts")
ROUTER = Region("layer", "router")
SHARED_EXPERTS = Region("layer", "shared experts")
FINAL_NORM = Region("head", "final norm")
LOGITS = Region("head", "head", "logits")
LOSS = Region("head", "head", "cross-entropy")
UPDATE = Region("step", "optimizer", "update")
GRADIENTS = Region("step", "data parallel", "gradients and parameters")
BETWEEN = Region("step", "host", "between phases")

STARTS = {
    "forward": EMBEDDING,
    "backward": LOSS,
    "optimizer": UPDATE,
    "communication_exposed": GRADIENTS,
    "prefill": EMBEDDING,
    "decode": EMBEDDING,
}
"""Phases that can be announced, and where each of them begins."""


class Address(NamedTuple):
    """A region in a phase."""

    phase: str
    region: Region


OUTSIDE = Address("host", BETWEEN)
INSTRUMENT = Address("host", BETWEEN._replace(operator="instrument"))
"""Where a step is while the instrument works; no row has it."""
_address = cache(Address)


class Timeline:
    """Cuts of the step that is being recorded, in order; while none is recorded it takes no notice."""

    def __init__(self) -> None:
        self.live = False
        self.address = OUTSIDE
        self._reader: Reader = HostReader()
        self._cuts: list[tuple[Address, bool, Any]] = []
        self.instrument_s: list[Any] = []
        """What the instrument itself took of the last step."""

    def begin(self, reader: Reader) -> None:
        """Begin a step, outside of any phase."""
        self._reader, self._cuts, self.live = reader, [], True
        self.instrument_s = []
        self.cut(OUTSIDE)

    def cut(self, address: Address, *, resumed: bool = False) -> None:
        """From now on the step is at ``address``, again where it is ``resumed`` after something else."""
        self._cuts.append((address, resumed, self._reader.read()))
        self.address = address

    @contextmanager
    def visit(self, address: Address) -> Iterator[None]:
        """The step is at ``address`` meanwhile, and then again where it was."""
        if not self.live:
            yield
            return
        before = self.address
        self.cut(address)
        try:
            yield
        finally:
            self.cut(before, resumed=True)

    def rename(self, region: Region) -> None:
        """What began with the last cut is in ``region``: nothing has been done since."""
        self.address = _address(self.phase_of_forward, region)
        last = -2 if self._cuts[-1][0] is INSTRUMENT else -1
        self._cuts[last] = (self.address, *self._cuts[last][1:])

    def pause(self) -> None:
        """What follows is the instrument's own work, until ``resume``."""
        if self._reader.excludes_instrument:
            self._cuts.append((INSTRUMENT, True, self._reader.read()))

    def resume(self) -> None:
        """The step goes on, from here or from the cut that was made meanwhile."""
        if self._reader.excludes_instrument:
            last, resumed, _ = self._cuts[-1]
            if last is INSTRUMENT:
                self._cuts.append((self.address, True, self._reader.read()))
            else:
                self._cuts[-1] = (last, resumed, self._reader.read())

    def pass_to(self, region: Region) -> None:
        """A forward pass, be it the first or one that is done again, comes to ``region``."""
        self.address = _address(self.phase_of_forward, region)
        self._cuts.append((self.address, False, self._reader.read()))

    @property
    def phase_of_forward(self) -> str:
        """The phase that forward work belongs to at this moment."""
        phase = self.address.phase
        return "recompute" if phase == "backward" else phase

    def start(self, phase: str) -> None:
        """A phase begins, in the region that it always begins in."""
        self.cut(Address(phase, STARTS[phase]))

    def stop(self) -> None:
        """A phase ends."""
        self.cut(OUTSIDE)

    def end(self) -> "Mapping[Address, Passage]":
        """End the step and return what passed at each address."""
        self.cut(OUTSIDE)
        self.live = False
        parts = self._reader.differences([reading for *_, reading in self._cuts])
        found: dict[Address, Passage] = defaultdict(Passage)
        for (address, resumed, _), part in zip(self._cuts, parts, strict=False):
            if address is INSTRUMENT:
                self.instrument_s.append(part)
                continue
            found[address].count += not resumed
            found[address].parts.append(part)
        self._cuts = []
        return dict(found)


class Passage:
    """What passed at an address in a step."""

    __slots__ = ("count", "parts")

    def __init__(self) -> None:
        self.count = 0
        """How often the step came by."""
        self.parts: list[Any] = []
        """Differences of readings while it was there."""


class Marks:
    """Cuts the timeline at the borders of regions, in forward and, by marks left in the graph, in backward."""

    def __init__(self, timeline: Timeline, reached: Callable[[], None]) -> None:
        self._timeline = timeline
        self._reached = reached
        """Told of each mark that a backward pass comes to."""
        self._torch = import_torch()
        self.recording: Callable[[], bool] = self._torch.is_grad_enabled
        """Whether a graph is recorded, in which marks can be left."""
        self._left: Callable[[], Tensor | None] = _nothing
        """The value with which the pass left the last region, as long as somebody holds it."""
        self._alias: Callable[[], Tensor | None] = _nothing

    def enter(self, region: Region, values: Sequence[Any]) -> "tuple[int, Tensor] | None":
        """The pass comes to ``region`` with ``values``; the position of the value that is now marked, and its alias.

        The alias is a view of the value. A gradient that reaches it comes from this region alone.
        """
        before = self._timeline.address.region
        if before == region:
            return None
        left = self._left()
        if left is not None and any(x is left for x in values):
            # The border behind the last region is the border of this one.
            self._timeline.rename(region)
            return None
        found = self._with_gradient(values)
        if found is None:
            self._timeline.pass_to(region)
            return None
        index, tensor = found
        alias = tensor.view_as(tensor)
        self._mark(alias.grad_fn, before)
        self._timeline.pass_to(region)
        self._alias = ref(alias)
        return index, alias

    def leave(self, region: Region, result: Any) -> Any:
        """The pass goes on to ``region`` with ``result``, which the last region made; returns it, or its alias."""
        before = self._timeline.address.region
        if before == region:
            return result
        values = result if type(result) in (tuple, list) else [result]
        found = self._with_gradient(values)
        made = next((x for x in values if isinstance(x, self._torch.Tensor)), None)
        if found is not None and len(values) > 1:
            # The first result need not be the last that was made: a node of its own is younger than all of them.
            index, made = found[0], found[1].view_as(found[1])
            result = type(result)((*values[:index], made, *values[index + 1 :]))
            self._mark(made.grad_fn, before)
        elif found is not None and found[1].grad_fn is not None and found[1] is not self._alias():
            # A module that returns what it was given has no work of its own, in backward neither.
            self._mark(found[1].grad_fn, before)
        self._left = _nothing if made is None else ref(made)
        self._timeline.pass_to(region)
        return result

    def come_to(self, region: Region, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """`enter` where no graph is recorded."""
        if self._timeline.address.region == region:
            return
        left = self._left()
        if left is not None and ((args and args[0] is left) or _holds(kwargs, left)):
            self._timeline.rename(region)
        else:
            self._timeline.pass_to(region)

    def go_from(self, region: Region, result: Any) -> None:
        """`leave` where no graph is recorded."""
        if self._timeline.address.region != region:
            made = result[0] if type(result) in (tuple, list) else result
            self._left = ref(made) if isinstance(made, self._torch.Tensor) else _nothing
            self._timeline.pass_to(region)

    def _with_gradient(self, values: Sequence[Any]) -> "tuple[int, Tensor] | None":
        if not self._torch.is_grad_enabled():
            return None
        for index, value in enumerate(values):
            if isinstance(value, self._torch.Tensor) and value.requires_grad:
                return index, value
        return None

    def _mark(self, node: Any, before: Region) -> None:
        """When backward reaches ``node``, it comes to the region that forward was in ``before``."""
        timeline, address = self._timeline, Address("backward", before)

        def reached(_: Any) -> None:
            if timeline.live:
                timeline.pause()
                timeline.cut(address)
                self._reached()
                timeline.resume()

        node.register_prehook(reached)


def _nothing() -> None:
    return None


def _holds(kwargs: Mapping[str, Any], value: Any) -> bool:
    for one in kwargs.values():  # noqa: SIM110 - a generator takes longer to begin than this to end
        if one is value:
            return True
    return False


def values_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return a call's arguments in order."""
    return [*args, *kwargs.values()]


def with_alias(
    args: tuple[Any, ...], kwargs: dict[str, Any], marked: "tuple[int, Tensor] | None"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments with the alias in place of the marked value."""
    if marked is None:
        return args, kwargs
    index, alias = marked
    if index < len(args):
        return (*args[:index], alias, *args[index + 1 :]), kwargs
    name = list(kwargs)[index - len(args)]
    return args, {**kwargs, name: alias}
