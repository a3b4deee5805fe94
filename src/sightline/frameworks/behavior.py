"""Frameworks and engines of the catalog: an entry and its release line, put together into groups of behavior.

An entry states a mapping per group. A version states only what differs from the entry, or from the version that it
``inherits`` from; groups, offers and defaults are merged key by key.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from sightline import catalog
from sightline.catalog.index import minor_release, release_line
from sightline.errors import InputError, nearest, refuse
from sightline.frameworks.framework import Framework
from sightline.quantities import BYTES, parse_quantity, show

if TYPE_CHECKING:
    from sightline.frameworks.engine import Engine

_DATE: Final = re.compile(r"((?:19|20)\d\d)(?:-(0[1-9]|1[0-2])(?:-(\d\d))?)?")
_CONTAINER: Final = re.compile(r"(2\d)\.(0[1-9]|1[0-2])(?:\.\d+)*")
"""Releases that are numbered by year and month, as NVIDIA's containers are: 25.04."""
_RELEASE: Final = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.-]?(?:rc|a|b|post|dev)\d*)*(?:\+\S*)?")
_BUILD: Final = re.compile(r"b\d+|\S*(?:nightly|dev)\S*")
"""What engines call builds between their releases: numbered ones, as llama.cpp has them, and images for developers."""
LAST_MONTH: Final = "12"
FLASH_ATTENTION: Final = "2022-05"
"""Month of the paper on FlashAttention (arXiv 2205.14135): before it, attention was several kernels."""


class Line(NamedTuple):
    """What a stated version stands for."""

    name: str
    """The release line; empty for a framework that has only one."""
    defaults: Mapping[str, Any] = {}
    """Values of plan fields that go with an old spelling or a date, instead of the line's own defaults."""


def line_of(framework: str, entry: Mapping[str, Any], stated: str) -> Line:
    """Return the release line of a framework that ``stated`` names; empty: the newest.

    Taken are a line's name, an alias of the entry, a date ("2022-03", "2022": the line of that time), the number of a
    container ("25.04", where the entry says that the framework comes in ``containers``) and of a release ("0.12.1": the
    line whose first release is the nearest at or before it). Raises `InputError` for any other.
    """
    lines: Mapping[str, Mapping[str, Any]] = {str(k): v or {} for k, v in (entry.get("versions") or {}).items()}
    aliases: Mapping[str, Mapping[str, Any]] = {str(k): v or {} for k, v in (entry.get("aliases") or {}).items()}
    if not stated:
        return Line(newest(lines))
    if stated in lines:
        return Line(stated)
    if stated in aliases:
        return Line(str(aliases[stated].get("version", newest(lines))), aliases[stated].get("defaults", {}))
    month = _month(entry, stated)
    if month:
        return _of_month(framework, entry, lines, stated, month)
    release = _RELEASE.fullmatch(stated)
    if release and not lines and "since" in entry:
        return Line("")
    name = _of_release(lines, _numbers(release[1])) if release else None
    if name is None:
        raise InputError(
            f"plan.framework_version is {show(stated)}; {framework}: {_allowed_lines(lines, aliases, stated)}"
        )
    return Line(name)


def engine_line(engine: str, entry: Mapping[str, Any], stated: str) -> tuple[str, str]:
    """Return the release line of an engine's behavior that ``stated`` names, and the release; empty: the entry's own.

    Taken is what `line_of` takes, a date as the first release of its line. A release older than all lines is of the
    first; builds between releases, and releases where the entry has no lines, have the entry's own behavior.
    """
    lines = _with_releases(entry.get("versions") or {})
    release = _RELEASE.fullmatch(stated)
    if not stated or _BUILD.fullmatch(stated) or stated in (entry.get("aliases") or {}):
        return "", stated
    if _month(entry, stated) or not release:
        line = line_of(engine, {**entry, "versions": lines}, stated).name
        known = [str(text) for text in lines.get(line, {}).get("releases", ())]
        return line, line if line in known else next(iter(known), "")
    asked = _numbers(release[1])
    return release_line(release[1], lines) or _nearest(_by_release(lines), asked), stated.removeprefix("v")


def measured_line(version: str, stated: Mapping[str, Any]) -> str:
    """Return the line of a set of constants whose measurements are of a release, or of the nearest by its number.

    Empty is the set itself, which builds between releases have. Of two as near, it is the later one.
    """
    versions: Mapping[str, Mapping[str, Any]] = {str(line): of for line, of in (stated.get("versions") or {}).items()}
    own = release_line(version, versions)
    release = _RELEASE.fullmatch(version)
    if own or release is None or minor_release(release[1]) in stated.get("releases", ()):
        return own
    measured, asked = _by_release({**versions, "": stated}), _numbers(release[1])
    by_number = sorted(measured, reverse=True)
    return measured[min(by_number, key=lambda numbers: _releases_between(numbers, asked))] if measured else ""


MAJOR = 100
"""Minor releases that a major one counts as, more than any engine had of one."""


def _releases_between(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """By how many minor releases two releases differ."""
    (major, minor), (of, below) = (*one, 0)[:2], (*other, 0)[:2]
    return abs(MAJOR * (major - of) + minor - below)


def _with_releases(lines: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Lines of an entry, each with the releases that it begins with: where it states none, that of its name."""
    return {str(name): {"releases": (str(name),), **(stated or {})} for name, stated in lines.items()}


def _nearest(releases: Mapping[tuple[int, ...], str], asked: tuple[int, ...]) -> str:
    """The line of the last release at or before the one that is asked for, else of the first; empty for none."""
    before = [numbers for numbers in releases if numbers <= asked]
    return releases[max(before) if before else min(releases)] if releases else ""


def newest(lines: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the line that began last, of those that state when; empty where there is none."""
    dated = [name for name, stated in lines.items() if "since" in stated]
    return max(dated, key=lambda name: str(lines[name]["since"]), default="")


def later_than_known(framework: str, entry: Mapping[str, Any], stated: str) -> str:
    """Return the remark on a date after that of the entry, which is answered with the newest line; empty for others."""
    known, month = str(entry.get("date", "")), _month(entry, stated)
    if not known or month[:7] <= known[:7] or stated == known[:4]:
        return ""
    answered = line_of(framework, entry, stated).name
    newest_line = f"its newest release line {answered}" if answered else "its one release line"
    return (
        f"plan.framework_version {stated} is newer than {known}, the newest {framework} in the catalog; using "
        f"{newest_line}"
    )


def of_another_number(entry: Mapping[str, Any], framework: str, stated: str) -> str:
    """Return the remark on a release whose number does not begin with its line's; empty for others.

    Without it 0.14.2, answered as the line that began with 0.1, looks like a misreading.
    """
    lines: Mapping[str, Mapping[str, Any]] = {str(k): v or {} for k, v in (entry.get("versions") or {}).items()}
    if not lines or not _RELEASE.fullmatch(stated) or _month(entry, stated) or stated in (entry.get("aliases") or {}):
        return ""
    name = line_of(framework, entry, stated).name
    if release_line(stated.removeprefix("v"), lines) == name:
        return ""
    since = f", which started in {lines[name]['since']}" if "since" in lines[name] else ""
    last = ", the newest in the catalog" if name == newest(lines) else ""
    return f"plan.framework_version {stated} is read as {framework} release line {name}{since}{last}"


def _month(entry: Mapping[str, Any], stated: str) -> str:
    """The month that a date or a container's number names; of a year its last; empty where it names none."""
    named, container = _DATE.fullmatch(stated), _CONTAINER.fullmatch(stated)
    if named:
        return f"{named[1]}-{named[2] or LAST_MONTH}" if not named[3] or _is_day(stated) else ""
    return f"20{container[1]}-{container[2]}" if container and "containers" in entry else ""


def _is_day(stated: str) -> bool:
    try:
        date.fromisoformat(stated)
    except ValueError:
        return False
    return True


def _of_month(
    framework: str, entry: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]], stated: str, month: str
) -> Line:
    """The last line that had begun in a month; with eager attention where there was no other."""
    begun = {name: str(line["since"]) for name, line in lines.items() if "since" in line}
    first = min(begun.values(), default=str(entry.get("since", "")))
    if month < first:
        raise InputError(f"plan.framework_version is {show(stated)}; {framework}: allowed: a date from {first}")
    known = {name: since for name, since in begun.items() if since <= month}
    early = {"attention": "eager"} if month < FLASH_ATTENTION else {}
    return Line(max(known, key=lambda name: known[name], default=""), early)


def _of_release(lines: Mapping[str, Mapping[str, Any]], asked: tuple[int, ...]) -> str | None:
    """The line with the last first release at or before the one that is asked for, of the same major number if any."""
    releases = _by_release(lines)
    same = {numbers for numbers in releases if numbers[0] == asked[0]}
    last = max(releases, default=())
    # Megatron-LM's numbers started again with Megatron-Core: beyond its last, an older line's is nobody's.
    candidates = same or (set(releases) if releases.get(last) == newest(lines) else set())
    before = [numbers for numbers in candidates if numbers <= asked]
    return releases[max(before)] if before else None


def _by_release(lines: Mapping[str, Mapping[str, Any]]) -> dict[tuple[int, ...], str]:
    """The lines by the numbers of the releases that they state; builds have none."""
    return {
        _numbers(found[1]): name
        for name, stated in lines.items()
        for found in (_RELEASE.fullmatch(str(text)) for text in stated.get("releases", ()))
        if found
    }


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _allowed_lines(lines: Mapping[str, Any], aliases: Mapping[str, Any], stated: str) -> str:
    if not lines:
        return "it has one release line; allowed: a date such as 2024-06"
    return f"allowed: {', '.join(lines)}, a release or a date such as 2024-06{nearest(stated, [*lines, *aliases])}"


_NO_BEHAVIOR = ("versions", "inherits", "releases", "aliases", "containers", "source", "date", "evidence")
"""Keys of an entry that say which versions there are, and where its values come from."""


@cache
def read_framework(name: str, version: str = "") -> Framework:
    """Return a training framework; raise `InputError` for a name or version that the catalog lacks.

    A version is a release line, a release, a date or an old spelling; without one it is the newest line.
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
    (`sightline.frameworks.behavior`). Without one it is the entry's own behavior, which is the newest.
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
    refuse(problems)
    return of(**values)


@cache
def _kinds_of(of: Any) -> dict[str, Any]:
    """The types of a description's fields."""
    return get_type_hints(of)


def _fields(
    of: Any, stated: object, key: str, problems: list[str], known: Mapping[str, str | None] = MappingProxyType({})
) -> dict[str, Any]:
    """The values of a description's fields out of its mapping, those ``known`` on top; mistakes are noted."""
    kinds = {name: kind for name, kind in _kinds_of(of).items() if name not in known}
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
