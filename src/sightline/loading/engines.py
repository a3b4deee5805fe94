"""An inference engine of the catalog, in one of its versions, into an `Engine`."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from sightline import catalog
from sightline.catalog.versions import release_line
from sightline.errors import InputError, nearest
from sightline.quantities import BYTES, parse_quantity, show
from sightline.scenario import Engine


@cache
def read_engine(name: str, version: str = "") -> Engine:
    """Return an engine; raise `InputError` for a name that the catalog lacks.

    A version that the catalog does not list is that of the nearest release line it lists ("0.6.3" of "0.6"), else the
    engine's own habits.
    """
    known = catalog.names("engines")
    if name not in known:
        trains = " (it trains)" if name in catalog.names("frameworks") else ""
        near = "" if trains else nearest(name, known)
        raise InputError(f"plan.framework is {show(name)}{trains}; generates: {', '.join(known)}{near}")
    entry = catalog.entry("engines", name)
    versions: Mapping[str, Mapping[str, Any]] = {str(k): v or {} for k, v in (entry.get("versions") or {}).items()}
    line = versions.get(release_line(version, versions), {})
    defaults = {**(entry.get("defaults") or {}), **line.get("defaults", {})}
    values = {**entry, **line, "defaults": defaults, "name": name, "version": version}
    return Engine(**{f.name: _value(f.name, values[f.name]) for f in fields(Engine) if f.name in values})


def _value(name: str, value: Any) -> Any:
    """An entry's value as the field of that name holds it: lists as sets or tuples, "2 GB" as bytes."""
    match name:
        case "fused":
            return frozenset(value)
        case "grouped_heads":
            return tuple(value)
        case "offers":
            return {field: tuple(values) for field, values in value.items()}
    return parse_quantity(value, BYTES, zero=True) if isinstance(value, str) and name.endswith("_bytes") else value
