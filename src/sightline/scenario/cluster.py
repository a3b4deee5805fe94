"""What it runs on: devices, the links inside a node, the network between nodes, and their hosts.

SI units throughout: bytes, seconds, bytes per second and direction, FLOP/s without sparsity, watts. The numbers of a
device may be arrays, which broadcast through every formula.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sightline.content import fix_mappings
from sightline.quantities import Number

LinkTopology = Literal["switch", "full-mesh", "pcie", "ring", "torus", "pairs"]
CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast", "reduce"]
COLLECTIVES: tuple[CollectiveKind, ...] = get_args(CollectiveKind)
"""What devices exchange with each other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Device:
    """One accelerator as its datasheet gives it."""

    name: str
    peak_flops: Mapping[str, Number]
    """Dense peak FLOP/s of matmuls by compute dtype (fp32, tf32, fp16, bf16, fp8, ...)."""
    memory_bytes: Number
    memory_bandwidth: Number
    """Bytes per second to and from device memory."""
    l2_bytes: Number
    l2_bandwidth: Number
    compute_units: Number
    """Streaming multiprocessors, or what the vendor calls the unit a matmul tile runs on."""
    tdp_w: Number
    idle_w: Number
    calibration: str = "generic"
    """Calibration family whose constants describe this device; ``generic`` holds those of no device in particular."""
    relatives: tuple[str, ...] = ()
    """Families whose constants stand in for parts that its own lacks, nearest first."""
    architecture: str = "unknown"
    """What kernels are compiled for, such as sm_90 or gfx942."""
    vector_flops: Number
    """FLOP/s of element-wise arithmetic in fp32."""
    usd_per_hour: Number | None = None
    """Rental price of one device with its share of the node; None when the catalog knows none."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interconnect:
    """The links between the devices of one node."""

    name: str
    bandwidth: Number
    """Bytes per second that one device can send (and at the same time receive)."""
    latency_s: Number
    topology: LinkTopology
    peer_to_peer: bool = True
    """False where traffic bounces through host memory (RTX 4090 with the stock driver)."""
    in_network_reduction: bool = False
    """The switch adds and multicasts (NVLink SHARP)."""
    dimensions: int = 2
    """Of a torus; a node's devices are spread over them as evenly as whole numbers allow."""
    closes_at: int = 4
    """A dimension of a torus closes to a ring where its length is a multiple of this."""
    beyond: "Interconnect | None" = None
    """What larger groups cross where bridges join pairs of devices only."""
    shares: Mapping[int, float] | None = None
    """Where links meet in the host: the bandwidth left to each rank over that of a pair, by the ranks of the node that
    take part, of a server where that is known; None takes those that the devices' family was measured with."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The network between nodes."""

    name: str
    bandwidth_per_node: Number
    """Bytes per second that one node can send (and at the same time receive) over all its ports."""
    latency_s: Number
    topology: str = "fat-tree"
    oversubscription: Number = 1.0
    """Bandwidth of the ports below a switch over that of its links to the rest."""
    nodes_per_switch: int = 16
    """Nodes that reach each other without crossing those links; of a dragonfly those of a group."""
    routing: str = "adaptive"
    """How traffic is spread over those links: adaptive (evenly), or ecmp (by a hash of the connection)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Host:
    """The processor that feeds the devices of a node."""

    name: str
    launch_time_s: Number | None = None
    """Host time per operator launched; None takes the calibration's value for the framework."""
    speed: Number = 1.0
    """How fast one thread runs an interpreter or a driver, over an EPYC 7742."""
    memory_bandwidth: Number = 200e9
    memory_bytes: Number = 1e12
    cores: int = 64
    device_bandwidth: Number = 25e9
    """Bytes per second and direction between the host's memory and one device, all devices at once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """``devices`` accelerators in nodes of ``per_node``: all equal, or ``groups`` of equal ones.

    Of a cluster of unlike devices ``device``, ``per_node``, ``intra_node`` and ``host`` are those of the first group,
    and ``network`` is what joins the groups.
    """

    name: str
    devices: int
    per_node: int
    device: Device
    intra_node: Interconnect
    network: Network
    host: Host
    power_cap_w: Number | None = None
    """Limit per device; None means the device's own ``tdp_w``."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the figures come from, by part name."""
    groups: "tuple[Cluster, ...]" = ()
    """Clusters of equal devices that make up one of unlike devices, in order; none where all are equal."""
    counted: str = ""
    """The device that the scenario states next to the count (``8x h100-sxm-80gb``), whose figures it may change; empty
    where it states a count alone."""
    full_node: int = 0
    """Devices of a node of the same kind that is full; 0 where ``per_node`` is all that is known."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    @property
    def nodes(self) -> int:
        """Number of nodes, the last one of equal devices possibly not full."""
        return sum(-(-part.devices // part.per_node) for part in self.parts)

    @property
    def parts(self) -> "tuple[Cluster, ...]":
        """The groups of equal devices: the cluster itself where all are."""
        return self.groups or (self,)

    @property
    def usd_per_hour(self) -> Number | None:
        """Rent of one device, the mean of unlike ones; None where one has no price."""
        if not self.groups:
            return self.device.usd_per_hour
        rents = [group.devices * group.device.usd_per_hour for group in self.groups
                 if group.device.usd_per_hour is not None]  # fmt: skip
        return sum(rents) / self.devices if len(rents) == len(self.groups) else None

    @property
    def in_words(self) -> str:
        """Counts and names of the devices, such as ``8 x a100-sxm-80gb + 8 x h100-sxm-80gb``."""
        return " + ".join(f"{part.devices:,} x {part.device.name}" for part in self.parts)

    @property
    def stated(self) -> tuple[str, ...]:
        """Each kind of devices as a scenario states it, such as ``8x a100-sxm-80gb``."""
        return tuple(f"{part.devices}x {part.device.name}" for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What scenarios of every task have: where something runs, and what somebody measured there."""

    name: str = ""
    cluster: Cluster
    measured: Mapping[str, object] = field(default_factory=dict)
    """Measured values under the result keys, with ``source``."""
    warnings: tuple[str, ...] = ()
    """Remarks of loading that do not stop the prediction (a sequence beyond the trained context)."""

    def __post_init__(self) -> None:
        fix_mappings(self)
