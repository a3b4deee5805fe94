"""The parts of a cluster - device, links, network, host - by catalog name, by mapping, or a mapping over a name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.loading.complaints import Complaints, check
from sightline.loading.dotted_keys import dotted
from sightline.loading.schema import DeviceKeys, HostKeys, InterconnectKeys, NetworkKeys
from sightline.quantities import FLOPS, parse_quantity, show
from sightline.scenario import Device, Host, Interconnect, Network

Values = dict[str, Any]
"""A part's figures by the catalog's keys, in SI units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A kind of part: its key in ``cluster``, its folder in the catalog, its structure and what it cannot lack."""

    key: str
    folder: str
    schema: type[BaseModel]
    build: Callable[[Values], Any]
    needs: Mapping[str, str] = field(default_factory=dict)


def _device(v: Values) -> Device:
    return Device(
        name=v["name"],
        peak_flops=v["peak_flops"],
        memory_bytes=v["memory"],
        memory_bandwidth=v["memory_bandwidth"],
        l2_bytes=v["l2"],
        l2_bandwidth=v["l2_bandwidth"],
        compute_units=v["compute_units"],
        tdp_w=v["tdp"],
        idle_w=v["idle_power"],
        calibration=v.get("calibration", "generic"),
        relatives=tuple(v.get("relatives", ())),
        vector_flops=v["vector_flops"],
        usd_per_hour=v.get("price"),
    )


SWITCHES = ("peer_to_peer", "in_network_reduction", "shares", "dimensions", "closes_at")
"""Figures of links that not all of them have."""


def _interconnect(v: Values) -> Interconnect:
    switches = {k: v[k] for k in SWITCHES if k in v}
    return Interconnect(
        name=v["name"],
        bandwidth=v["bandwidth"],
        latency_s=v["latency"],
        topology=v["topology"],
        beyond=_interconnect(_of_catalog("interconnects", v["beyond"])) if v.get("beyond") else None,
        **switches,
    )


def _network(v: Values) -> Network:
    shape = {k: v[k] for k in ("topology", "oversubscription", "nodes_per_switch") if k in v}
    return Network(name=v["name"], bandwidth_per_node=v["bandwidth_per_node"], latency_s=v["latency"], **shape)


def _host(v: Values) -> Host:
    same = ("memory_bandwidth", "cores", "speed", "device_bandwidth")
    stated = {"memory_bytes": v["memory"]} if "memory" in v else {}
    stated |= {key: v[key] for key in same if key in v}
    return Host(name=v["name"], launch_time_s=v.get("launch_time"), **stated)


DEVICE = Part(
    key="device",
    folder="devices",
    schema=DeviceKeys,
    build=_device,
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
    schema=InterconnectKeys,
    build=_interconnect,
    needs={
        "bandwidth": "bytes per second that one device sends, such as 300 GB/s",
        "latency": "the time of a small message, such as 2 us",
        "topology": "switch, full-mesh, pcie, ring, torus or pairs",
    },
)
NETWORK = Part(
    key="network",
    folder="networks",
    schema=NetworkKeys,
    build=_network,
    needs={
        "bandwidth_per_node": "bytes per second that one node sends, such as 50 GB/s",
        "latency": "the time of a small message, such as 5 us",
    },
)
HOST = Part(key="host", folder="hosts", schema=HostKeys, build=_host)


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
    values = check(part.schema, mapping, key, complaints).values
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
