"""Frameworks and engines of the catalog: an entry and its release line, put together into groups of behavior.

An entry states a mapping per group. A version states only what differs from the entry, or from the version that it
``inherits`` from; groups, offers and defaults are merged key by key.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from sightline import catalog
from sightline.catalog.index import release_line
from sightline.errors import InputError, nearest
from sightline.frameworks.framework import Framework
from sightline.quantities import BYTES, parse_quantity, show

if TYPE_CHECKING:
    from sightline.frameworks.engine import Engine

_NO_BEHAVIOR = ("versions", "inherits", "source", "date", "evidence")
"""Keys of an entry that say where its values come from."""


@cache
def read_framework(name: str, version: str = "") -> Framework:
    """Return a training framework; raise `InputError` for a name or version that the catalog lacks."""
    known = catalog.names("frameworks")
    if name not in known:
        raise InputError(f"plan.framework is {show(name)}; allowed: {', '.join(known)}{nearest(name, known)}")
    entry = catalog.entry("frameworks", name)
    versions = _versions(entry)
    if version and version not in versions:
        listed = (
            f"allowed: {', '.join(versions)}{nearest(version, list(versions))}" if versions else "it has one version"
        )
        raise InputError(f"plan.framework_version is {show(version)}; {name}: {listed}")
    framework: Framework = _build(Framework, {**_merged(entry, versions, version), "name": name, "version": version})
    return framework


@cache
def read_engine(name: str, version: str = "") -> "Engine":
    """Return an inference engine; raise `InputError` for a name that the catalog lacks.

    A version that the catalog does not list is that of the nearest release line it lists ("0.6.3" of "0.6"), else the
    entry's own behavior.
    """
    from sightline.frameworks.engine import Engine

    known = catalog.names("engines")
    if name not in known:
        trains = " (it trains)" if name in catalog.names("frameworks") else ""
        near = "" if trains else nearest(name, known)
        raise InputError(f"plan.framework is {show(name)}{trains}; generates: {', '.join(known)}{near}")
    entry = catalog.entry("engines", name)
    versions = _versions(entry)
    line = release_line(version, versions)
    engine: Engine = _build(Engine, {**_merged(entry, versions, line), "name": name, "version": version})
    return engine


def offering(field: str, value: object) -> list[str]:
    """Return the frameworks of the catalog that offer ``value`` of a plan's field."""
    return [name for name in catalog.names("frameworks") if read_framework(name).allows(field, value)]


def _versions(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(version): stated or {} for version, stated in (entry.get("versions") or {}).items()}


def _merged(entry: Mapping[str, Any], versions: Mapping[str, Mapping[str, Any]], version: str) -> dict[str, Any]:
    """The entry's values with those of a version, and of the versions it inherits from, on top."""
    if version not in versions:
        return dict(entry)
    own = versions[version]
    base = _merged(entry, versions, str(own.get("inherits", "")))
    return {**base, **{key: _on_top(base.get(key), value) for key, value in own.items()}}


def _on_top(base: Any, value: Any) -> Any:
    return {**base, **value} if isinstance(base, Mapping) and isinstance(value, Mapping) else value


def _build(of: type[Any], values: Mapping[str, Any]) -> Any:
    """A description out of its mapping; fields that are descriptions themselves are built from theirs."""
    kinds = get_type_hints(of)
    unknown = [key for key in values if key not in kinds and key not in _NO_BEHAVIOR]
    if unknown:
        raise InputError(f"{of.__name__} has no {unknown[0]}{nearest(unknown[0], list(kinds))}")
    given = {f.name: values[f.name] for f in fields(of) if f.name in values}
    return of(**{name: _value(name, kinds[name], value) for name, value in given.items()})


def _value(name: str, kind: Any, value: Any) -> Any:
    """An entry's value as a field holds it: mappings as descriptions, lists as sets or tuples, "2 GB" as bytes."""
    if is_dataclass(kind) and isinstance(kind, type):
        return _build(kind, value)
    if isinstance(value, list):
        return frozenset(value) if name == "fused" else tuple(value)
    if name in ("offers", "offload_needs"):
        return {
            key: _value(key, kind, inner) if isinstance(inner, list) else _lists(inner) for key, inner in value.items()
        }
    # A figure may differ by compute dtype; then it stays a mapping.
    return parse_quantity(value, BYTES, zero=True) if isinstance(value, str) and "_bytes" in name else value


def _lists(needs: Mapping[str, list[Any]]) -> dict[str, tuple[Any, ...]]:
    return {field: tuple(values) for field, values in needs.items()}
