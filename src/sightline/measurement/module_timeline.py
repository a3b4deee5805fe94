"""A step as a line that is cut wherever it goes from one region to the next: what lies between two cuts is a region's.

Nothing is nested, so nothing is counted twice and the parts sum to the whole.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sightline.measurement.module_clocks import HostReader, Reader
from sightline.measurement.module_regions import BETWEEN, STARTS, Address, Region

OUTSIDE = Address("host", BETWEEN)


class Timeline:
    """Cuts of the step that is being recorded, in order; while none is recorded it takes no notice."""

    def __init__(self) -> None:
        self.live = False
        self.address = OUTSIDE
        self._reader: Reader = HostReader()
        self._cuts: list[tuple[Address, bool, Any]] = []

    def begin(self, reader: Reader) -> None:
        """Begin a step, outside of any phase."""
        self._reader, self._cuts, self.live = reader, [], True
        self.cut(OUTSIDE)

    def cut(self, address: Address, *, resumed: bool = False) -> None:
        """From now on the step is at ``address``, again where it is ``resumed`` after something else."""
        self._cuts.append((address, resumed, self._reader.read()))
        self.address = address

    def rename(self, region: Region) -> None:
        """What began with the last cut is in ``region``: nothing has been done since."""
        self.address = Address(self.phase_of_forward, region)
        self._cuts[-1] = (self.address, *self._cuts[-1][1:])

    def pass_to(self, region: Region) -> None:
        """A forward pass, be it the first or one that is done again, comes to ``region``."""
        self.cut(Address(self.phase_of_forward, region))

    @property
    def phase_of_forward(self) -> str:
        """The phase that forward work belongs to at this moment."""
        phase = self.address.phase
        return "recompute" if phase == "backward" else phase

    def start(self, phase: str, operator: str | None = None) -> None:
        """A phase begins, in the region that it always begins in; ``operator`` is a finer name for that."""
        region = STARTS[phase]
        self.cut(Address(phase, region if operator is None else region._replace(operator=operator)))

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
