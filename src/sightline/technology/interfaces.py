"""What interfaces of memory and links take of a budget: area, edge and power. The memory's bandwidth is given."""

from sightline.quantities import Number
from sightline.technology.budget import Budget
from sightline.technology.links import Link
from sightline.technology.memories import BITS_PER_BYTE


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
