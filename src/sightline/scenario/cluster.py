"""What it runs on: devices, the links inside a node, the network between nodes, and their hosts.

SI units throughout: bytes, seconds, bytes per second and direction, FLOP/s without sparsity, watts. The numbers of a
device may be arrays, which broadcast through every formula.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, get_args

from sightline import catalog
from sightline.content import fix_mappings
from sightline.errors import InputError
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    SECONDS,
    USD_PER_HOUR,
    WATTS,
    Number,
    show,
    smaller,
)
from sightline.validators import Key, anything, choice, name_or_mapping, quantity, text, whole

LinkTopology = Literal["switch", "full-mesh", "pcie", "ring", "torus", "pairs"]
CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast", "reduce"]
COLLECTIVES: tuple[CollectiveKind, ...] = get_args(CollectiveKind)
"""What devices exchange with each other."""


@cache
def calibrations() -> tuple[str, ...]:
    """Return the names a device's ``calibration`` may have: the folders of the catalog's calibrations."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name in catalog.names("calibrations")))


def _family(value: object) -> Any:
    """A family that constants were fitted for."""
    return choice(*calibrations())(value)


def _families(value: object) -> tuple[Any, ...]:
    """Several families, or one."""
    return tuple(_family(name) for name in (value if isinstance(value, list) else [value]))


def _shares(value: object) -> dict[int, float]:
    """Bandwidth left to each rank over that of a pair, by number of ranks."""
    try:
        return {int(ranks): float(share) for ranks, share in value.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"is {show(value)}; allowed: a mapping from number of ranks to share of bandwidth") from None


_BANDWIDTH, _LATENCY = quantity(BYTES_PER_SECOND), quantity(SECONDS, zero=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Device:
    """One accelerator as its datasheet gives it."""

    name: Annotated[str, text]
    peak_flops: Annotated[
        Mapping[str, Number], Key(anything, needs="dense peak FLOP/s by dtype, such as {bf16: 312 TFLOP/s}")
    ]
    """Dense peak FLOP/s of matmuls by compute dtype (fp32, tf32, fp16, bf16, fp8, ...)."""
    memory_bytes: Annotated[Number, Key(quantity(BYTES), "memory", needs="device memory, such as 80 GB")]
    memory_bandwidth: Annotated[Number, Key(_BANDWIDTH, needs="memory bandwidth, such as 2 TB/s")]
    """Bytes per second to and from device memory."""
    l2_bytes: Annotated[Number, Key(quantity(BYTES), "l2", needs="size of the last-level cache, such as 40 MiB")]
    l2_bandwidth: Annotated[Number, Key(_BANDWIDTH, needs="bandwidth of the last-level cache, such as 5 TB/s")]
    compute_units: Annotated[Number, Key(whole(1, 10**6), needs="number of streaming multiprocessors or compute units")]
    """Streaming multiprocessors, or what the vendor calls the unit a matmul tile runs on."""
    tdp_w: Annotated[Number, Key(quantity(WATTS), "tdp", needs="power limit, such as 400 W")]
    idle_w: Annotated[Number, Key(quantity(WATTS, zero=True), "idle_power", needs="idle power, such as 60 W")]
    calibration: Annotated[str, _family] = "generic"
    """Calibration family whose constants describe this device; ``generic`` holds those of no device in particular."""
    relatives: Annotated[tuple[str, ...], _families] = ()
    """Families whose constants stand in for parts that its own lacks, nearest first."""
    architecture: Annotated[str, text] = "unknown"
    """What kernels are compiled for, such as sm_90 or gfx942."""
    vector_flops: Annotated[Number, Key(quantity(FLOPS), needs="fp32 vector FLOP/s, such as 19.5 TFLOP/s")]
    """FLOP/s of element-wise arithmetic in fp32."""
    usd_per_hour: Annotated[Number | None, Key(quantity(USD_PER_HOUR, zero=True), "price")] = None
    """Rental price of one device with its share of the node; None when the catalog knows none."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interconnect:
    """The links between the devices of one node."""

    name: Annotated[str, text]
    bandwidth: Annotated[Number, Key(_BANDWIDTH, needs="bandwidth per device and direction, such as 300 GB/s")]
    """Bytes per second that one device can send (and at the same time receive)."""
    latency_s: Annotated[Number, Key(_LATENCY, "latency", needs="latency of a small message, such as 2 us")]
    topology: Annotated[LinkTopology, Key(choice(*get_args(LinkTopology)), needs=", ".join(get_args(LinkTopology)))]
    peer_to_peer: bool = True
    """False where traffic bounces through host memory (RTX 4090 with the stock driver)."""
    in_network_reduction: bool = False
    """The switch adds and multicasts (NVLink SHARP)."""
    dimensions: Annotated[int, whole(1, 6)] = 2
    """Of a torus; a node's devices are spread over them as evenly as whole numbers allow."""
    closes_at: Annotated[int, whole(1, 10**4)] = 4
    """A dimension of a torus closes to a ring where its length is a multiple of this."""
    beyond: Annotated["Interconnect | None", text] = None
    """What larger groups cross where bridges join pairs of devices only."""
    shares: Annotated[Mapping[int, float] | None, _shares] = None
    """Where links meet in the host: the bandwidth left to each rank over that of a pair, by the ranks of the node that
    take part, of a server where that is known; None takes those that the devices' family was measured with."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """The network between nodes."""

    name: Annotated[str, text]
    bandwidth_per_node: Annotated[Number, Key(_BANDWIDTH, needs="bandwidth per node and direction, such as 50 GB/s")]
    """Bytes per second that one node can send (and at the same time receive) over all its ports."""
    latency_s: Annotated[Number, Key(_LATENCY, "latency", needs="latency of a small message, such as 5 us")]
    topology: Annotated[str, choice("fat-tree", "dragonfly", "rail-optimized", "torus")] = "fat-tree"
    oversubscription: Annotated[Number, quantity(COUNT)] = 1.0
    """Bandwidth of the ports below a switch over that of its links to the rest."""
    nodes_per_switch: Annotated[int, whole(1, 10**5)] = 16
    """Nodes that reach each other without crossing those links; of a dragonfly those of a group."""
    routing: Annotated[str, choice("adaptive", "ecmp")] = "adaptive"
    """How traffic is spread over those links: adaptive (evenly), or ecmp (by a hash of the connection)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Host:
    """The processor that feeds the devices of a node."""

    name: Annotated[str, text]
    launch_time_s: Annotated[Number | None, Key(quantity(SECONDS), "launch_time")] = None
    """Host time per operator launched; None takes the calibration's value for the framework."""
    speed: Annotated[Number, quantity(COUNT)] = 1.0
    """How fast one thread runs an interpreter or a driver, over an EPYC 7742."""
    memory_bandwidth: Annotated[Number, _BANDWIDTH] = 200e9
    memory_bytes: Annotated[Number, Key(quantity(BYTES), "memory")] = 1e12
    cores: Annotated[int, whole(1, 10**5)] = 64
    device_bandwidth: Annotated[Number, _BANDWIDTH] = 25e9
    """Bytes per second and direction between the host's memory and one device, all devices at once."""
    devices: Annotated[int, whole(0, 10**5)] = 0
    """Devices that share this host where a node has several (a slice of TPUs); 0: those of the node."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """``devices`` accelerators in nodes of ``per_node``: all equal, or ``groups`` of equal ones.

    Of a cluster of unlike devices ``device``, ``per_node``, ``intra_node`` and ``host`` are those of the first group,
    and ``network`` is what joins the groups.
    """

    name: Annotated[str, text]
    devices: Annotated[int, anything]
    per_node: Annotated[int, whole(1, 10**5)]
    device: Annotated[Device, name_or_mapping]
    intra_node: Annotated[Interconnect, name_or_mapping]
    network: Annotated[Network, name_or_mapping]
    host: Annotated[Host, name_or_mapping]
    power_cap_w: Annotated[Number | None, Key(quantity(WATTS), "power_cap")] = None
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
    def devices_per_host(self) -> Number:
        """Number of devices that share a host's memory and processor."""
        return smaller(self.host.devices or self.per_node, smaller(self.per_node, self.devices))

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
    unread: tuple[str, ...] = ()
    """Options or keys of the launch that it was read from that may change time or memory and were not understood."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    @property
    def is_assumed(self) -> bool:
        """Whether something of the model's configuration or of the launch was not understood."""
        return bool(self.unread or getattr(getattr(self, "model", None), "assumed", ()))
