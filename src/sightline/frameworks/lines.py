"""Release lines: which line of a framework a name, a release number, a date or an old spelling stands for."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final, NamedTuple

from sightline.catalog.index import minor_release, release_line
from sightline.errors import InputError, nearest
from sightline.quantities import show

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
        raise InputError(f"plan.framework_version is {show(stated)}; {framework}: {_allowed(lines, aliases, stated)}")
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


def _allowed(lines: Mapping[str, Any], aliases: Mapping[str, Any], stated: str) -> str:
    if not lines:
        return "it has one release line; allowed: a date such as 2024-06"
    return f"allowed: {', '.join(lines)}, a release or a date such as 2024-06{nearest(stated, [*lines, *aliases])}"
