"""Logic nodes, memories, links and launches of the catalog as lists: in order of time, with what follows from them."""

from collections.abc import Callable, Mapping
from typing import Any

from sightline.quantities import BYTES_PER_SECOND, format_quantity
from sightline.report import units

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "nodes": {
        "year": "year",
        "logic": "vendor.logic_density",
        "SRAM": "vendor.sram_density",
        "energy relative to 7 nm": "vendor.energy",
        "speed relative to 7 nm": "vendor.speed",
        "wafer": "wafer_price",
    },
    "dies": {
        "node": "node",
        "area": "die_area",
        "units": "units",
        "enabled": "enabled_units",
        "clock": "frequency",
        "memory": "memory",
        "stacks": "stacks",
    },
    "memories": {
        "year": "year",
        "per pin": "pin_rate",
        "pins": "pins",
        "per stack or chip": "bandwidth",
        "capacity": "capacity",
        "energy": "energy",
        "die edge": "edge",
        "die area": "area",
    },
    "links": {
        "year": "year",
        "per link": "bandwidth",
        "lanes": "lanes",
        "per device": "device_bandwidth",
        "energy": "energy",
        "die edge": "edge",
        "die area": "area",
        "latency": "latency",
    },
    "launches": {
        "date": "date",
        "price": "price",
        "fp32 TFLOP/s": "fp32",
        "fp16 matrix TFLOP/s": "fp16",
        "memory": "memory",
        "bandwidth": "memory_bandwidth",
        "tdp": "tdp",
        "node": "node",
        "GFLOP/s per USD": "gflops_per_usd",
    },
}
"""Figures worth a column by kind, as those of other kinds."""

_ORDERS: Mapping[str, tuple[str, ...]] = {
    "memories": ("family", "year"),
    "links": ("scope", "year"),
    "launches": ("date",),
}
"""What lists are sorted by; by name where that is the same."""


def in_time(kind: str, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a kind in the order of a list, those of technology with the figures that follow."""
    if kind == "nodes":
        from sightline.technology.parts import node_names

        return {name: entries[name] for name in node_names() if name in entries}
    follow = _FOLLOWING.get(kind)
    keys = _ORDERS.get(kind, ())
    ordered = sorted(entries.items(), key=lambda one: ([str(one[1].get(key, "")) for key in keys], one[0]))
    return {name: fields if follow is None else {**fields, **follow(name)} for name, fields in ordered}


def meaning(kind: str, name: str) -> list[tuple[str, str]]:
    """Return what follows from the figures of one entry, as pairs of a figure and its text."""
    follow = _FOLLOWING.get(kind)
    return [(_WORDS[key], text) for key, text in follow(name).items()] if follow else []


def _memory(name: str) -> dict[str, str]:
    from sightline.technology.parts import memory

    return {"bandwidth": format_quantity(float(memory(name).bandwidth), BYTES_PER_SECOND)}


def _link(name: str) -> dict[str, str]:
    from sightline.technology.parts import link

    found = link(name)
    if found.usual_count is None:
        return {}
    return {"device_bandwidth": format_quantity(float(found.usual_count * found.bandwidth), BYTES_PER_SECOND)}


def _launch(name: str) -> dict[str, str]:
    from sightline.technology.launches import launch

    found = launch(name)
    return {} if found.price_usd is None else {"gflops_per_usd": units.digits(found.fp32 / found.price_usd / 1e9)}


_FOLLOWING: Mapping[str, Callable[[str], dict[str, str]]] = {"memories": _memory, "links": _link, "launches": _launch}
"""By kind, the figures that follow from an entry's own, as texts."""
_WORDS = {
    "bandwidth": "bandwidth of one stack or chip",
    "device_bandwidth": "of all links of a device, per direction",
    "gflops_per_usd": "GFLOP/s in fp32 per USD",
}
