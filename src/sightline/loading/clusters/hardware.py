"""The parts of a cluster - device, links, network, host - by catalog name, by mapping, or a mapping over a name."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args

from sightline import catalog
from sightline.content import record
from sightline.errors import InputError, nearest
from sightline.loading.checks import Checked, Complaints, check, dotted, each, needs_of, require
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    SECONDS,
    USD_PER_HOUR,
    WATTS,
    show,
)
from sightline.scenario import Device, Host, Interconnect, Network
from sightline.scenario.cluster import LinkTopology
from sightline.validators import Keys, Needed, anything, choice, flag, quantity, text, whole

Values = dict[str, Any]
"""A part's figures by the catalog's keys, in SI units."""

_KEYS = {
    "memory_bytes": "memory",
    "l2_bytes": "l2",
    "tdp_w": "tdp",
    "idle_w": "idle_power",
    "usd_per_hour": "price",
    "latency_s": "latency",
    "launch_time_s": "launch_time",
}
"""The catalog's key for a field of a description, where it is another word."""

SYNTHESIZED = "synthesized from"
"""How the source of a device begins that is made of technology."""
SOURCED: Keys = {
    **each(text, "name same_as source date evidence"),
    **each(anything, "sources evidences"),
    "note": text,
}
"""Keys of a catalog entry, or of an inline mapping in its place: a name, and where its figures come from."""


@record
class Part:
    """A kind of part: its key in ``cluster``, its folder in the catalog, and its keys."""

    key: str
    folder: str
    description: type
    keys: Keys

    def build(self, values: Values) -> Any:
        """Return the part's description."""
        named = {
            f.name: values[_KEYS.get(f.name, f.name)]
            for f in fields(self.description)
            if _KEYS.get(f.name, f.name) in values
        }
        if self is DEVICE:
            named = {"calibration": "generic", **named, "relatives": tuple(named.get("relatives", ()))}
        if "beyond" in named:
            named["beyond"] = self.build(_of_catalog(self.folder, named["beyond"]))
        return self.description(**named)


def stated_fields(part: Part, mapping: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a part's description that a mapping states figures of."""
    return frozenset(f.name for f in fields(part.description) if mapping.get(_KEYS.get(f.name, f.name)) is not None)


def part_to_mapping(part: Device | Interconnect | Network | Host) -> dict[str, Any]:
    """Return the figures of a part under the keys that a catalog entry states them with."""
    return {_KEYS.get(f.name, f.name): getattr(part, f.name) for f in fields(part)}


def device_to_mapping(device: Device) -> dict[str, Any]:
    """Return a device under the keys that a catalog entry states it with."""
    return part_to_mapping(device) | {"peak_flops": dict(device.peak_flops), "relatives": list(device.relatives)}


def _shares(value: object) -> dict[int, float]:
    """Bandwidth left to each rank over that of a pair, by number of ranks."""
    try:
        return {int(ranks): float(share) for ranks, share in value.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"is {show(value)}; allowed: a mapping from number of ranks to share of bandwidth") from None


def _family(value: object) -> Any:
    """A family that constants were fitted for."""
    return choice(*calibrations())(value)


def _families(value: object) -> list[Any]:
    """Several families, or one."""
    return [_family(name) for name in (value if isinstance(value, list) else [value])]


_BANDWIDTH, _LATENCY = quantity(BYTES_PER_SECOND), quantity(SECONDS, zero=True)
DEVICE = Part(
    key="device",
    folder="devices",
    description=Device,
    keys={
        **SOURCED,
        "peak_flops": Needed(anything, "dense peak FLOP/s by dtype, such as {bf16: 312 TFLOP/s}"),
        "memory": Needed(quantity(BYTES), "device memory, such as 80 GB"),
        "memory_bandwidth": Needed(_BANDWIDTH, "memory bandwidth, such as 2 TB/s"),
        "l2": Needed(quantity(BYTES), "size of the last-level cache, such as 40 MiB"),
        "l2_bandwidth": Needed(_BANDWIDTH, "bandwidth of the last-level cache, such as 5 TB/s"),
        "compute_units": Needed(whole(1, 10**6), "number of streaming multiprocessors or compute units"),
        "vector_flops": Needed(quantity(FLOPS), "fp32 vector FLOP/s, such as 19.5 TFLOP/s"),
        "tdp": Needed(quantity(WATTS), "power limit, such as 400 W"),
        "idle_power": Needed(quantity(WATTS, zero=True), "idle power, such as 60 W"),
        "calibration": _family,
        "relatives": _families,
        "architecture": text,
        "price": quantity(USD_PER_HOUR, zero=True),
        "server": anything,
        "technology": anything,
    },
)
INTERCONNECT = Part(
    key="intra_node",
    folder="interconnects",
    description=Interconnect,
    keys={
        **SOURCED,
        "bandwidth": Needed(_BANDWIDTH, "bandwidth per device and direction, such as 300 GB/s"),
        "latency": Needed(_LATENCY, "latency of a small message, such as 2 us"),
        "topology": Needed(choice(*get_args(LinkTopology)), ", ".join(get_args(LinkTopology))),
        "dimensions": whole(1, 6),
        "closes_at": whole(1, 10**4),
        **each(flag, "peer_to_peer in_network_reduction"),
        "beyond": text,
        "shares": _shares,
    },
)
NETWORK = Part(
    key="network",
    folder="networks",
    description=Network,
    keys={
        **SOURCED,
        "bandwidth_per_node": Needed(_BANDWIDTH, "bandwidth per node and direction, such as 50 GB/s"),
        "latency": Needed(_LATENCY, "latency of a small message, such as 5 us"),
        "topology": choice("fat-tree", "dragonfly", "rail-optimized", "torus"),
        "oversubscription": quantity(COUNT),
        "nodes_per_switch": whole(1, 10**5),
        "routing": choice("adaptive", "ecmp"),
    },
)
HOST = Part(
    key="host",
    folder="hosts",
    description=Host,
    keys={
        **SOURCED,
        "launch_time": quantity(SECONDS),
        "speed": quantity(COUNT),
        **each(_BANDWIDTH, "memory_bandwidth device_bandwidth"),
        "memory": quantity(BYTES),
        "cores": whole(1, 10**5),
    },
)


def read_part(part: Part, stated: object, below: object, complaints: Complaints) -> Values | None:
    """Return the figures of what the scenario states over what lies ``below`` it (the usual server's), or None.

    Either may be a catalog name, a mapping or None; a stated mapping changes single figures of what lies below.
    """
    key = f"cluster.{part.key}"
    if stated is None:
        if below is None:
            complaints.add(f"{key} is missing; needed: {_allowed(part)}")
            return None
        stated, below = below, None
    if isinstance(stated, str):
        known = catalog.names(part.folder)
        stated = catalog.name_of(part.folder, stated)
        if stated in known:
            return _of_catalog(part.folder, stated)
        complaints.add(f"{key} is {show(stated)}; allowed: {_allowed(part)}{nearest(stated, known)}")
        return None
    return _mapped(part, stated, below, key, complaints)


def _allowed(part: Part) -> str:
    return f"a catalog name (`sightline catalog {part.folder}`) or a mapping"


@cache
def _of_catalog(folder: str, name: str) -> Values:
    part = next(p for p in (DEVICE, INTERCONNECT, NETWORK, HOST) if p.folder == folder)
    complaints = Complaints()
    values = _checked(part, catalog.entry(folder, name), f"catalog.{folder}.{name}", complaints)
    if "technology" in values:
        complaints.add(
            f"catalog.{folder}.{name}.technology is not allowed in catalog entries; set it in cluster.device"
        )
    require(Checked(values=values), needs_of(part.keys), f"catalog.{folder}.{name}", complaints)
    complaints.raise_any()
    return {**values, "name": name}


def _mapped(part: Part, stated: object, below: object, key: str, complaints: Complaints) -> Values | None:
    read = stated_over(part, stated, below, key, complaints)
    return None if read is None else merged(part, *read, key, complaints)


def stated_over(
    part: Part, stated: object, below: object, key: str, complaints: Complaints
) -> tuple[Values, Values] | None:
    """Return the figures that a mapping states, and those of what lies below it; None with mistakes noted."""
    before = len(complaints.problems)
    values = _checked(part, stated, key, complaints)
    base_name = values.pop("same_as", below)
    if "server" in values:
        complaints.add(
            f"{dotted(key, 'server')} is not a known key; set per_node, intra_node, network and host in cluster"
        )
    base = read_part(part, base_name, None, complaints) if base_name is not None else {}
    return None if base is None or len(complaints.problems) > before else (values, base)


def merged(part: Part, values: Values, base: Values, key: str, complaints: Complaints) -> Values | None:
    """Return stated figures over those below them; None where one that is needed is missing, which is noted."""
    before = len(complaints.problems)
    whole = base | values
    if "peak_flops" in base and "peak_flops" in values:
        whole["peak_flops"] = base["peak_flops"] | values["peak_flops"]
    if values:
        whole["source"] = values.get("source", "stated in the scenario")
    require(Checked(values=whole), needs_of(part.keys), key, complaints)
    return {"name": part.key, **whole} if len(complaints.problems) == before else None


def _checked(part: Part, mapping: object, key: str, complaints: Complaints) -> Values:
    values = check(part.keys, mapping, key, complaints, partial=True).values
    if "peak_flops" in values:
        values["peak_flops"] = _peaks(values["peak_flops"], dotted(key, "peak_flops"), complaints)
    return values


@cache
def calibrations() -> tuple[str, ...]:
    """Return the names a device's ``calibration`` may have: the folders of the catalog's calibrations."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name in catalog.names("calibrations")))


def _peaks(peaks: object, key: str, complaints: Complaints) -> dict[str, float]:
    if not isinstance(peaks, Mapping) or not peaks or not all(isinstance(k, str) for k in peaks):
        complaints.add(
            f"{key} is {show(peaks)}; allowed: a mapping from dtype to FLOP/s, such as {{bf16: 312 TFLOP/s}}"
        )
        return {}
    return check(dict.fromkeys(peaks, quantity(FLOPS)), peaks, key, complaints).values
