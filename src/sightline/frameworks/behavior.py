"""Frameworks and engines of the catalog: an entry and its release line, put together into groups of behavior.

An entry states a mapping per group. A version states only what differs from the entry, or from the version that it
``inherits`` from; groups, offers and defaults are merged key by key.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.frameworks.framework import Framework
from sightline.frameworks.lines import engine_line, later_than_known, line_of, of_another_number
from sightline.quantities import BYTES, parse_quantity, show

if TYPE_CHECKING:
    from sightline.frameworks.engine import Engine

_NO_BEHAVIOR = ("versions", "inherits", "releases", "aliases", "containers", "source", "date", "evidence")
"""Keys of an entry that say which versions there are, and where its values come from."""


@cache
def read_framework(name: str, version: str = "") -> Framework:
    """Return a training framework; raise `InputError` for a name or version that the catalog lacks.

    A version is a release line, a release, a date or an old spelling (`sightline.frameworks.lines`); without one it is
    the newest line.
    """
    known = catalog.names("frameworks")
    if name not in known:
        generates = " (use it with workload.task generate)" if name in catalog.names("engines") else ""
        near = "" if generates else nearest(name, known)
        raise InputError(f"plan.framework is {show(name)}{generates}; allowed: {', '.join(known)}{near}")
    entry = catalog.entry("frameworks", name)
    key = f"catalog.frameworks.{name}"
    versions = _versions(key, entry)
    line = line_of(name, entry, version)
    merged = _merged(entry, versions, line.name)
    merged["defaults"] = {**(merged.get("defaults") or {}), **line.defaults}
    lineage = str(merged.pop("lineage", name))
    code = str(merged.pop("model_code", lineage))
    told = {"name": name, "version": line.name, "lineage": lineage, "model_code": code}
    framework: Framework = _described(Framework, key, merged, **told, plain=None)
    return framework


def date_remark(name: str, version: str, kind: str = "frameworks") -> str:
    """Return the remark on a date later than the catalog knows, or on a release whose line has another number.

    Empty for other versions; engines say themselves whose constants a release takes.
    """
    entry = catalog.entry(kind, name)
    release = of_another_number(entry, name, version) if kind == "frameworks" else ""
    return later_than_known(name, entry, version) or release


@cache
def read_engine(name: str, version: str = "") -> "Engine":
    """Return an inference engine; raise `InputError` for a name that the catalog lacks.

    A version is a release, a build or a date: it has the nearest release line at or before it
    (`sightline.frameworks.lines`). Without one it is the entry's own behavior, which is the newest.
    """
    from sightline.frameworks.engine import Engine

    known = catalog.names("engines")
    if name not in known:
        trains = " (use it with a training task)" if name in catalog.names("frameworks") else ""
        near = "" if trains else nearest(name, known)
        raise InputError(f"plan.framework is {show(name)}{trains}; allowed for generation: {', '.join(known)}{near}")
    entry = catalog.entry("engines", name)
    key = f"catalog.engines.{name}"
    versions = _versions(key, entry)
    line, release = engine_line(name, entry, version)
    engine: Engine = _described(Engine, key, _merged(entry, versions, line), name=name, version=release)
    return engine


def offering(field: str, value: object) -> list[str]:
    """Return the frameworks of the catalog that state that they offer ``value`` of a plan's field.

    Where none states it, as of most degrees, these are the frameworks that do not restrict the field.
    """
    offers = {name: read_framework(name).offers for name in catalog.names("frameworks")}
    stating = [name for name, own in offers.items() if value in own.get(field, ())]
    return stating or [name for name, own in offers.items() if field not in own]


def _versions(key: str, entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What each version states; raise `InputError` where that is no mapping or inherits from what is not there."""
    listed = entry.get("versions") or {}
    if not isinstance(listed, Mapping) or not all(isinstance(stated or {}, Mapping) for stated in listed.values()):
        raise InputError(f"{key}.versions is {show(listed)}; allowed: a mapping from version to mapping")
    versions = {str(version): stated or {} for version, stated in listed.items()}
    bases = {version: str(stated["inherits"]) for version, stated in versions.items() if "inherits" in stated}
    wrong = {version: base for version, base in bases.items() if base not in versions}
    if wrong:
        allowed = ", ".join(versions)
        raise InputError([f"{key}.versions.{v}.inherits is '{base}'; allowed: {allowed}" for v, base in wrong.items()])
    return versions


def _merged(entry: Mapping[str, Any], versions: Mapping[str, Mapping[str, Any]], version: str) -> dict[str, Any]:
    """The entry's values with those of a version, and of the versions it inherits from, on top."""
    if version not in versions:
        return dict(entry)
    own = versions[version]
    base = _merged(entry, versions, str(own.get("inherits", "")))
    return {**base, **{key: _on_top(base.get(key), value) for key, value in own.items()}}


def _on_top(base: Any, value: Any) -> Any:
    return {**base, **value} if isinstance(base, Mapping) and isinstance(value, Mapping) else value


def _described(of: type[Any], key: str, merged: Mapping[str, Any], **known: str | None) -> Any:
    """The description of a release line; raise `InputError` with every mistake in it.

    ``key`` is the entry's in messages. ``known`` are the fields that no entry states: its name, and the version that is
    asked for.
    """
    problems: list[str] = []
    values = _fields(
        of, {name: value for name, value in merged.items() if name not in _NO_BEHAVIOR}, key, problems, known
    )
    if problems:
        raise InputError(problems)
    return of(**values)


def _fields(
    of: type[Any], stated: object, key: str, problems: list[str], known: Mapping[str, str | None] = MappingProxyType({})
) -> dict[str, Any]:
    """The values of a description's fields out of its mapping, those ``known`` on top; mistakes are noted."""
    kinds = {name: kind for name, kind in get_type_hints(of).items() if name not in known}
    if not isinstance(stated, Mapping):
        problems.append(f"{key} is {show(stated)}; allowed: a mapping with {', '.join(kinds)}")
        return {}
    words = [*kinds, *(_NO_BEHAVIOR if known else ())]
    problems += [f"{key}.{name} is not a known key{nearest(name, words)}" for name in stated if name not in kinds]
    needed = [f.name for f in fields(of) if f.default is MISSING and f.default_factory is MISSING]
    absent = [name for name in needed if name in kinds and name not in stated]
    problems += [f"{key}.{name} is missing; needed: {_allowed(kinds[name])}" for name in absent]
    values = {
        name: _value(kind, stated[name], f"{key}.{name}", problems) for name, kind in kinds.items() if name in stated
    }
    return {**values, **known}


def _value(kind: Any, stated: Any, key: str, problems: list[str]) -> Any:
    """An entry's value as a field of this kind holds it; mistakes are noted.

    Mappings are descriptions or stay mappings, lists are sets or tuples, and "2 GB" is bytes.
    """
    if isinstance(stated, str) and "_bytes" in key.rpartition(".")[2]:
        return _bytes(stated, key, problems)
    form = next((form for form in _forms(kind) if _fits(form, stated)), None)
    origin, inner = get_origin(form), get_args(form)
    if isinstance(form, type) and is_dataclass(form):
        before = len(problems)
        values = _fields(form, stated, key, problems)
        return form(**values) if len(problems) == before else None
    if origin is Mapping:
        return {name: _value(inner[1], value, f"{key}.{name}", problems) for name, value in stated.items()}
    if origin in (tuple, frozenset):
        return origin(_value(inner[0], item, key, problems) for item in stated)
    if form is None:
        words = [word for form in _forms(kind) if get_origin(form) is Literal for word in get_args(form)]
        problems.append(f"{key} is {show(stated)}; allowed: {_allowed(kind)}{nearest(stated, words)}")
    return stated


def _bytes(stated: str, key: str, problems: list[str]) -> float:
    try:
        return parse_quantity(stated, BYTES, zero=True)
    except InputError as error:
        problems.append(f"{key} {error}")
        return 0.0


def _forms(kind: Any) -> tuple[Any, ...]:
    """The kinds of which a value has to be one."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits(form: Any, value: object) -> bool:
    """Whether a value has the outer form of a kind; true and false are no numbers."""
    origin = get_origin(form)
    if origin is Literal:
        return value in get_args(form)
    if origin in (tuple, frozenset):
        return isinstance(value, list)
    if form in (int, float):
        return isinstance(value, int | form) and not isinstance(value, bool)
    return is_dataclass(form) or isinstance(value, origin or form)


def _allowed(kind: Any) -> str:
    """What belongs to a field, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(_allowed(form) for form in inner if form in _WORDS or get_origin(form) is tuple)
    if origin is Literal:
        return ", ".join(map(str, inner))
    if origin in (tuple, frozenset):
        return f"a list of {_allowed(inner[0])}"
    if is_dataclass(kind):
        return f"a mapping with {', '.join(f.name for f in fields(kind))}"
    return _WORDS.get(kind, "a mapping")


_WORDS: Mapping[Any, str] = {
    bool: "true, false",
    float: "a number",
    int: "a whole number",
    str: "text",
    object: "a value",
    NoneType: "null",
}
"""Kinds of single values in words."""
