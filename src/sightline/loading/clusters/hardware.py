"""The parts of a cluster - device, links, network, host - by catalog name, by mapping, or a mapping over a name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.loading.input.complaints import Complaints, check
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.input.kinds import Keys, anything, choice, each, flag, quantity, text, whole
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    SECONDS,
    USD_PER_HOUR,
    WATTS,
    parse_quantity,
    show,
)
from sightline.scenario import Device, Host, Interconnect, Network

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

SOURCED: Keys = {
    **each(text, "name same_as source date evidence"),
    **each(anything, "sources evidences"),
    "note": text,
}
"""Keys of a catalog entry, or of an inline mapping in its place: a name, and where its figures come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A kind of part: its key in ``cluster``, its folder in the catalog, its keys and what it cannot lack."""

    key: str
    folder: str
    description: type
    keys: Keys
    needs: Mapping[str, str] = field(default_factory=dict)

    def build(self, values: Values) -> Any:
        """Return the part's description."""
        named = {
            f.name: values[_KEYS.get(f.name, f.name)]
            for f in fields(self.description)
            if _KEYS.get(f.name, f.name) in values
        }
        if self is DEVICE:
            named = {"calibration": "generic", **named, "relatives": tuple(values.get("relatives", ()))}
        if "beyond" in named:
            named["beyond"] = self.build(_of_catalog(self.folder, named["beyond"]))
        return self.description(**named)


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
        raise InputError(f"is {show(value)}; allowed: a mapping of numbers of ranks to shares of bandwidth") from None


_BANDWIDTH, _LATENCY = quantity(BYTES_PER_SECOND), quantity(SECONDS, zero=True)
DEVICE = Part(
    key="device",
    folder="devices",
    description=Device,
    keys={
        **SOURCED,
        "peak_flops": anything,
        "memory": quantity(BYTES),
        "memory_bandwidth": _BANDWIDTH,
        "l2": quantity(BYTES),
        "l2_bandwidth": _BANDWIDTH,
        "compute_units": whole(1, 10**6),
        "vector_flops": quantity(FLOPS),
        "tdp": quantity(WATTS),
        "idle_power": quantity(WATTS, zero=True),
        "calibration": text,
        "relatives": anything,
        "price": quantity(USD_PER_HOUR, zero=True),
        "server": anything,
    },
    needs={
        "peak_flops": "dense peak FLOP/s by dtype, such as {bf16: 312 TFLOP/s}",
        "memory": "the device memory, such as 80 GB",
        "memory_bandwidth": "the memory bandwidth, such as 2 TB/s",
        "l2": "the size of the last-level cache, such as 40 MiB",
        "l2_bandwidth": "the bandwidth of the last-level cache, such as 5 TB/s",
        "compute_units": "the number of streaming multiprocessors or their like",
        "tdp": "the power limit, such as 400 W",
        "idle_power": "the power without work, such as 60 W",
        "vector_flops": "FLOP/s of element-wise arithmetic in fp32, such as 19.5 TFLOP/s",
    },
)
INTERCONNECT = Part(
    key="intra_node",
    folder="interconnects",
    description=Interconnect,
    keys={
        **SOURCED,
        "bandwidth": _BANDWIDTH,
        "latency": _LATENCY,
        "topology": choice("switch", "full-mesh", "pcie", "ring", "torus", "pairs"),
        "dimensions": whole(1, 6),
        "closes_at": whole(1, 10**4),
        "peer_to_peer": flag,
        "in_network_reduction": flag,
        "beyond": text,
        "shares": _shares,
    },
    needs={
        "bandwidth": "bytes per second that one device sends, such as 300 GB/s",
        "latency": "the time of a small message, such as 2 us",
        "topology": "switch, full-mesh, pcie, ring, torus or pairs",
    },
)
NETWORK = Part(
    key="network",
    folder="networks",
    description=Network,
    keys={
        **SOURCED,
        "bandwidth_per_node": _BANDWIDTH,
        "latency": _LATENCY,
        "topology": choice("fat-tree", "dragonfly", "rail-optimized", "torus"),
        "oversubscription": quantity(COUNT),
        "nodes_per_switch": whole(1, 10**5),
    },
    needs={
        "bandwidth_per_node": "bytes per second that one node sends, such as 50 GB/s",
        "latency": "the time of a small message, such as 5 us",
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
        "memory_bandwidth": _BANDWIDTH,
        "memory": quantity(BYTES),
        "cores": whole(1, 10**5),
        "device_bandwidth": _BANDWIDTH,
    },
)


def read_part(part: Part, stated: object, below: object, complaints: Complaints) -> Values | None:
    """Return the figures of what the scenario states over what lies ``below`` it (the usual server's), or None.

    Either may be a catalog name, a mapping or None; a stated mapping changes single figures of what lies below.
    """
    key = f"cluster.{part.key}"
    if stated is None:
        if below is None:
            complaints.add(
                f"{key} is missing; needed: a name of the catalog (`sightline catalog {part.folder}`) or a mapping"
            )
            return None
        stated, below = below, None
    if isinstance(stated, str):
        return _named(part, stated, key, complaints)
    return _mapped(part, stated, below, key, complaints)


def _named(part: Part, name: str, key: str, complaints: Complaints) -> Values | None:
    known = catalog.names(part.folder)
    if name not in known:
        listing = f"; allowed: a name of the catalog (`sightline catalog {part.folder}`) or a mapping"
        complaints.add(f"{key} is {show(name)}{listing}{nearest(name, known)}")
        return None
    return _of_catalog(part.folder, name)


@cache
def _of_catalog(folder: str, name: str) -> Values:
    part = next(p for p in (DEVICE, INTERCONNECT, NETWORK, HOST) if p.folder == folder)
    complaints = Complaints()
    values = _checked(part, catalog.entry(folder, name), f"catalog.{folder}.{name}", complaints)
    _require_all(part, values, f"catalog.{folder}.{name}", complaints)
    complaints.raise_any()
    return {**values, "name": name}


def _mapped(part: Part, stated: object, below: object, key: str, complaints: Complaints) -> Values | None:
    before = len(complaints.problems)
    values = _checked(part, stated, key, complaints)
    base_name = values.pop("same_as", below)
    if "server" in values:
        complaints.add(
            f"{dotted(key, 'server')} is not a known key here; state per_node, intra_node, network, host in cluster"
        )
    base = read_part(part, base_name, None, complaints) if base_name is not None else {}
    if base is None or len(complaints.problems) > before:
        return None
    merged = base | values
    if "peak_flops" in base and "peak_flops" in values:
        merged["peak_flops"] = base["peak_flops"] | values["peak_flops"]
    if values:
        merged["source"] = values.get("source", "stated in the scenario")
    _require_all(part, merged, key, complaints)
    return {"name": part.key, **merged} if len(complaints.problems) == before else None


def _require_all(part: Part, values: Values, key: str, complaints: Complaints) -> None:
    """Note what a part lacks."""
    complaints.add(
        *(f"{dotted(key, k)} is missing; needed: {what}" for k, what in part.needs.items() if k not in values)
    )


def _checked(part: Part, mapping: object, key: str, complaints: Complaints) -> Values:
    values = check(part.keys, mapping, key, complaints).values
    known = calibrations()
    for name, family in [("calibration", values.get("calibration")), *(("relatives", r) for r in _relatives(values))]:
        if family is not None and family not in known:
            near = nearest(family, known)
            complaints.add(f"{dotted(key, name)} is {show(family)}; allowed: {', '.join(known)}{near}")
    if "peak_flops" in values:
        values["peak_flops"] = _peaks(values["peak_flops"], dotted(key, "peak_flops"), complaints)
    return values


def _relatives(values: Values) -> list[object]:
    """The relatives a device names, one or several."""
    stated = values.get("relatives", [])
    listed = stated if isinstance(stated, list) else [stated]
    if "relatives" in values:
        values["relatives"] = listed
    return listed


@cache
def calibrations() -> tuple[str, ...]:
    """Return the names a device's ``calibration`` may have: the folders of the catalog's calibrations."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name in catalog.names("calibrations")))


def _peaks(peaks: object, key: str, complaints: Complaints) -> dict[str, float]:
    if not isinstance(peaks, Mapping) or not peaks or not all(isinstance(k, str) for k in peaks):
        complaints.add(f"{key} is {show(peaks)}; allowed: a mapping of dtypes to FLOP/s, such as {{bf16: 312 TFLOP/s}}")
        return {}
    read = {}
    for dtype, value in peaks.items():
        try:
            read[dtype] = parse_quantity(value, FLOPS)
        except InputError as error:
            complaints.add(f"{dotted(key, dtype)} {error}")
    return read
