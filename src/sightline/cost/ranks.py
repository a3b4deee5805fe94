"""Where operators run: the model of every rank's device, the links between ranks, and who takes part in a collective."""

from collections.abc import Callable
from dataclasses import dataclass

from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.groups import Group, Links
from sightline.cost.device_model import DeviceModel
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Execution:
    """What a pass is, for devices whose caches hold what one operator leaves for the next."""

    touched_bytes: Number = 0.0
    """Bytes that pass through the caches between two executions of an operator."""
    recorded: bool = False
    """A graph is recorded for a backward pass."""
    backward: frozenset[int] = frozenset()
    """Identities of the operators of a backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranks:
    """Equal devices and the groups that they form."""

    device_model: DeviceModel
    cluster: Links
    library: CollectiveConstants
    """What collectives reach on these links."""
    group: Callable[[str], Group]
    """The ranks that take part in a collective, by ``Collective.ranks``."""
    execution: Callable[[], Execution] = Execution
