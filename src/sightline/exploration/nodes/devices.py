"""Devices of every logic node and memory at one die area and power, split in several ways, as one array-valued device.

The axes are, in this order, the share of L2 in the area of the logic, the stacks of memory, the node, and the memory.
Links cost area and power, too; they differ from network to network, which is a loop outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sightline.scenario import Device
from sightline.technology.budget import Budget
from sightline.technology.law import fastest_clock, split_of, with_l2_share
from sightline.technology.limits import buildable
from sightline.technology.parts import Scaling, link, memories_along, nodes_along
from sightline.technology.synthesis import synthesized

AXES = ("l2_share", "stacks", "node", "memory")
DIE_AREA_M2 = 826e-6
POWER_W = 400.0
"""Area of the die and power cap of A100."""
KERNELS = ("h100-sxm",)
"""Families whose constants kernels of these devices take in the calibrated view."""
SITES = 6
"""Stacks next to the die at most: the sites of A100's package, of which its product uses five. No package since has
more next to a die of this size: H100 has six, B200 eight for two dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Links inside of nodes of eight devices, and the network between nodes with a port for each device."""

    link: str
    """A name among links and among interconnects of the catalog."""
    network: str

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.link} + {self.network}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What devices are made from."""

    nodes: Sequence[str]
    memories: Sequence[str]
    l2_shares: Sequence[float]
    """Shares of L2 in the area that is left for logic, without interfaces."""
    stacks: Sequence[int]
    """Numbers that are tried besides the most that can be built, where so many can be."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Devices:
    """Devices along `AXES`."""

    device: Device
    buildable: Any
    """Where area, edge and power suffice: everywhere, unless not even one stack does."""
    stacks: Any
    most_stacks: Any
    """The most stacks that area, edge, power and package allow, by node and memory."""


def devices(choices: Choices, scaling: Scaling, fabric: Fabric) -> Devices:
    """Return the devices of all choices under a scaling model, with the links of a fabric.

    The clock is the highest that the node allows, or what the power cap leaves.
    """
    links = link(fabric.link)
    node_places = np.arange(len(choices.nodes))[:, None]
    budget = Budget(
        node=nodes_along(choices.nodes, scaling).at(node_places),
        die_area_m2=DIE_AREA_M2,
        power_w=POWER_W,
        memory=memories_along(choices.memories),
        stacks=1.0,
        link=links,
        link_bandwidth=links.bandwidth * (links.usual_count or 1.0),
        relatives=KERNELS,
    )
    shares = np.array(choices.l2_shares)[:, None, None, None]
    most = _most_stacks(budget, shares[:1])
    stacks = np.stack([*(np.minimum(count, most) for count in choices.stacks), most])
    clocked = _clocked(replace(budget, stacks=stacks), shares)
    return Devices(device=synthesized(clocked), buildable=buildable(clocked).mask, stacks=stacks, most_stacks=most)


def _most_stacks(budget: Budget, share: Any) -> Any:
    """The most stacks that can be built, by node and memory, up to `SITES`; 1 where none can."""
    tried = np.arange(1.0, SITES + 1)[:, None, None]
    possible = buildable(_clocked(replace(budget, stacks=tried), share)).mask[0]
    return np.where(possible, tried, 1.0).max(axis=0)


def _clocked(budget: Budget, shares: Any) -> Budget:
    """The budget with shares of L2, at the highest clock that the node allows."""
    split = replace(budget, area=with_l2_share(split_of(budget), shares))
    return replace(split, frequency_hz=fastest_clock(split))
