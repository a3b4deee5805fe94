"""What a device is made of: a node, dies, memory, links, a power cap, and their split. All numbers may be arrays.

budget = Budget(node=node("3nm"), die_area_m2=814e-6, power_w=700.0, memory=memory("hbm4"), stacks=6.0)
synthesized(budget)      the `scenario.Device` that it makes (`sightline.technology.synthesis`)
buildable(budget)        where it can be built, and why not elsewhere (`sightline.technology.limits`)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf

from sightline.content import fix_mappings
from sightline.quantities import Number, larger
from sightline.technology.parts import BITS_PER_BYTE, Link, Memory, Node

ENABLED = 0.9
"""Share of the units on a die that products enable: between V100's 80 of 84 and A100's 108 of 128."""
UNMEASURED = "unmeasured"
"""Family of what nobody measured. It has no constants, not even the generic ones, so that those of relatives count."""
FORMATS: Mapping[str, float] = {
    "tf32": 0.5,
    "fp16": 1.0,
    "bf16": 1.0,
    "int8": 2.0,
    "fp8": 2.0,
    "nvfp4": 4.0,
}
"""Rates of matrix units by dtype over that in fp16: each halving of the bits doubles the rate."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Shares of a whole (area, edge or power) that sum to 1."""

    compute: Number = 0.0
    """Arithmetic and control of the compute units."""
    registers: Number = 0.0
    """Registers, L1 and shared memory of the compute units."""
    l2: Number = 0.0
    memory: Number = 0.0
    """Interfaces and controllers of the device memory."""
    network: Number = 0.0
    """Links to other devices, and those between the dies of one device."""

    @property
    def total(self) -> Number:
        """The sum of all shares."""
        return self.compute + self.registers + self.l2 + self.memory + self.network


PARTS = tuple(f.name for f in fields(Split))
"""The parts that area, edge and power are split between."""
INTERFACES = ("memory", "network")
"""The parts that are interfaces."""
AREA_OF_A100 = Split(compute=435 / 826, registers=71 / 826, l2=180 / 826, memory=91 / 826, network=49 / 826)
"""Shares of A100's die, whose 826 mm2 DeepFlow (UCLA) splits into 435 of cores, 71 of registers and L1, 180 of L2, and
140 of interfaces and memory controllers; of these 140, 91 are taken here for six HBM interfaces with controllers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Budget:
    """What one device may be made of."""

    node: Node
    die_area_m2: Number
    """Area of one die."""
    dies: Number = 1.0
    """Equal dies of one package that work as one device."""
    power_w: Number = inf
    """Cap of the whole device; its clock and voltage fall until it fits."""
    memory: Memory
    stacks: Number
    """Stacks, or chips of a memory without stacks, of the whole device."""
    pin_rate: Number | None = None
    """Bits per second over one data pin; None for the law's share of the memory's fastest."""
    memory_bytes: Number | None = None
    """Of the whole device; None for the capacity of its stacks."""
    link: Link | None = None
    """Links to other devices; None for a device without."""
    link_bandwidth: Number = 0.0
    """Bytes per second and direction over all links to other devices."""
    die_link: Link | None = None
    """Links between dies; None costs neither area, edge nor energy."""
    area: Split | None = None
    """Shares of the area of all dies; None for A100's, with room for what memory and links need."""
    edge: Split | None = None
    """Shares of the edge of all dies (only of memory and network); None lets interfaces share the edge freely."""
    power: Split | None = None
    """Shares of the power cap; None lets memory and links draw what they need, and the units the rest."""
    enabled: Number = ENABLED
    """Share of the compute units that work; the others are spare."""
    frequency_hz: Number | None = None
    """Clock; None for that of the devices that the law is fixed on."""
    voltage: Number | None = None
    """Supply voltage; None for the node's nominal one."""
    formats: Mapping[str, float] = field(default_factory=lambda: dict(FORMATS))
    """Rate of matrix units by dtype, over that in fp16."""
    name: str = ""
    """Name of the device; empty for one made of the node's and the memory's."""
    calibration: str = UNMEASURED
    """Family whose constants its kernels take."""
    relatives: tuple[str, ...] = ()
    """Families whose constants stand in, as extrapolated evidence, for those that ``calibration`` lacks."""
    architecture: str = "unknown"
    usd_per_hour: Number | None = None

    def __post_init__(self) -> None:
        fix_mappings(self)

    @property
    def total_area_m2(self) -> Number:
        """Area of all dies."""
        return self.die_area_m2 * self.dies

    @property
    def total_edge_m(self) -> Number:
        """Length of the edges of all dies, taken as squares: ``dies * 4 * sqrt(die area)``."""
        return self.dies * 4 * larger(self.die_area_m2, 0.0) ** 0.5


def die_traffic(budget: Budget, memory_bandwidth: Number) -> Number:
    """Return bytes per second that one die receives, and sends, where each may use the memory of all others fully."""
    return memory_bandwidth * (1 - 1 / budget.dies)


def interface_watts(budget: Budget, memory_bandwidth: Number) -> dict[str, Number]:
    """Return what interfaces draw at their full rate: of the memory, of links, and of links between dies.

    Energy per bit times bits per second. A device draws half of the energy of a bit that it sends and half of one that
    it receives; between dies, all that other dies' memory delivers crosses.
    """
    between = die_traffic(budget, memory_bandwidth) * budget.dies
    return {
        "memory": BITS_PER_BYTE * memory_bandwidth * budget.memory.energy_j_per_bit,
        "network": BITS_PER_BYTE * budget.link_bandwidth * _figure(budget.link, "energy_j_per_bit"),
        "dies": BITS_PER_BYTE * between * _figure(budget.die_link, "energy_j_per_bit"),
    }


def memory_area(budget: Budget) -> Number:
    """Return the area of the memory's interfaces and controllers, in square metres.

    Those of the catalog are taken for 7 nm: they shrink as the node lets interfaces shrink.
    """
    return budget.stacks * budget.memory.area_m2 * budget.node.interface_area


def network_area(budget: Budget, memory_bandwidth: Number) -> Number:
    """Return the area of all links, those between dies on both sides, in square metres."""
    return _of_links(budget, memory_bandwidth, "area_m2") * budget.node.interface_area


def memory_edge(budget: Budget) -> Number:
    """Return the edge of the memory's interfaces, in metres."""
    return budget.stacks * budget.memory.edge_m


def network_edge(budget: Budget, memory_bandwidth: Number) -> Number:
    """Return the edge of all links, those between dies on both sides, in metres."""
    return _of_links(budget, memory_bandwidth, "edge_m")


def _of_links(budget: Budget, memory_bandwidth: Number, figure: str) -> Number:
    """A figure over all links; of a link that is not needed whole the part that is, as lanes can be left out."""
    total: Number = 0.0
    if budget.link is not None:
        total = budget.link_bandwidth / budget.link.bandwidth * _figure(budget.link, figure)
    if budget.die_link is not None:
        sent = die_traffic(budget, memory_bandwidth) * budget.dies
        total = total + sent / budget.die_link.bandwidth * _figure(budget.die_link, figure)
    return total


def _figure(link: Link | None, name: str) -> Number:
    value: Number = getattr(link, name) if link is not None else 0.0
    return value
