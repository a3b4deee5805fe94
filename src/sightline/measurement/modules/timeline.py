"""A step as a line that is cut wherever it goes from one region to the next: what lies between two cuts is a region's.

Nothing is nested, so nothing is counted twice and the parts sum to the whole, less what the instrument itself took: on
a processor that is a tenth of the time of a tiny model's layer, and would otherwise be counted in its modules.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from sightline.measurement.modules.readers import HostReader, Reader


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
