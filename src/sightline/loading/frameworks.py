"""A framework of the catalog, in one of its versions, into a `Framework`."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.quantities import BYTES, parse_quantity, show
from sightline.scenario import Framework
from sightline.scenario.allocation import Allocation
from sightline.scenario.framework import StateBytes


@cache
def read_framework(name: str, version: str = "") -> Framework:
    """Return a framework; raise `InputError` for a name or version that the catalog lacks."""
    known = catalog.names("frameworks")
    if name not in known:
        raise InputError(f"plan.framework is {show(name)}; allowed: {', '.join(known)}{nearest(name, known)}")
    entry = catalog.entry("frameworks", name)
    versions: Mapping[str, Mapping[str, Any]] = {str(k): v or {} for k, v in (entry.get("versions") or {}).items()}
    if version and version not in versions:
        listed = (
            f"allowed: {', '.join(versions)}{nearest(version, list(versions))}" if versions else "it has one version"
        )
        raise InputError(f"plan.framework_version is {show(version)}; {name}: {listed}")
    own = versions.get(version, {})
    merged = {key: {**(entry.get(key) or {}), **own[key]} for key in ("offers", "defaults") if key in own}
    values = {**entry, **own, **merged, "name": name, "version": version}
    return Framework(**{f.name: _value(f.name, values[f.name]) for f in fields(Framework) if f.name in values})


def offering(field: str, value: object) -> list[str]:
    """Return the frameworks of the catalog that offer ``value`` of a plan's field."""
    return [name for name in catalog.names("frameworks") if read_framework(name).allows(field, value)]


def _value(name: str, value: Any) -> Any:
    """An entry's value as the field of that name holds it: lists as sets or tuples, "2 GB" as bytes."""
    match name:
        case "states" | "adapter_states" | "also_trained_states":
            return StateBytes(**value)
        case "allocation":
            return Allocation(**{k: _value(k, v) if isinstance(v, str) else v for k, v in value.items()})
        case "fused" | "selective" | "unwindowed_backward":
            return frozenset(value) if name == "fused" else tuple(value)
        case "offers":
            return {field: tuple(values) for field, values in value.items()}
        case "offload_needs":
            return {part: {f: tuple(v) for f, v in needs.items()} for part, needs in value.items()}
    # A figure may differ by compute dtype; then it stays a mapping.
    return parse_quantity(value, BYTES, zero=True) if isinstance(value, str) and "_bytes" in name else value
