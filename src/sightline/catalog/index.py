"""The index of the catalog: which entries there are, and one entry as the mapping its file holds."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sightline.catalog.yaml12 import parse
from sightline.errors import InputError, nearest

KINDS = (
    "models",
    "devices",
    "interconnects",
    "networks",
    "hosts",
    "clusters",
    "frameworks",
    "calibrations",
    "published",
)
"""Kinds of entries; each is a folder with one file per entry."""

_DATA = Path(__file__).parent / "data"


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all entries of a kind, sorted; a calibration's are ``device-family/part``."""
    if kind not in KINDS:
        raise InputError(f"unknown kind '{kind}' of catalog entries{nearest(kind, KINDS)}; kinds: {', '.join(KINDS)}")
    folder = _DATA / kind
    return tuple(sorted(p.relative_to(folder).with_suffix("").as_posix() for p in _files(folder)))


@cache
def entry(kind: str, name: str) -> Mapping[str, Any]:
    """Return an entry as its file states it, with the entry it is the ``same_as`` underneath."""
    known = names(kind)
    if name not in known:
        raise InputError(
            f"unknown {kind.removesuffix('s')} '{name}'{nearest(name, known)}; `sightline catalog {kind}` lists all"
        )
    stated: dict[str, Any] = parse((_DATA / kind / f"{name}.yaml").read_text(encoding="utf-8"))
    base = stated.pop("same_as", None)
    return stated if base is None else {**entry(kind, base), **stated}


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("**/*.yaml"))
