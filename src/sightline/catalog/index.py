"""The index of the catalog: which entries there are, and one entry as the mapping its file holds.

People write entries in YAML; what only programs write, and is long, is JSON, which is read many times as fast.

The entries shipped with Sightline come first. ``SIGHTLINE_CATALOG`` names further folders of the same structure
(``devices/NAME.yaml``, ``calibrations/FAMILY/PART.yaml``, ...), several separated as in ``PATH``; an entry there may
not have a name that is taken, so that a figure's origin never depends on who looks.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sightline.catalog.yaml12 import parse
from sightline.errors import InputError, nearest

FORMS = ("yaml", "json")
"""How the names of entries' files end."""
KINDS = (
    "models",
    "devices",
    "prices",
    "interconnects",
    "networks",
    "hosts",
    "clusters",
    "nodes",
    "dies",
    "memories",
    "links",
    "launches",
    "frameworks",
    "engines",
    "calibrations",
    "training",
    "generation",
    "inference",
    "published",
    "findings",
)
"""Kinds of entries; each is a folder with one file per entry."""

_SINGULAR = {"memories": "memory", "launches": "launch"}

VARIABLE = "SIGHTLINE_CATALOG"
"""Environment variable with the folders of further entries."""

_DATA = Path(__file__).parent / "data"


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all entries of a kind, sorted; a calibration's are ``device-family/part``."""
    return tuple(_paths(kind))


@cache
def entry(kind: str, name: str) -> Mapping[str, Any]:
    """Return an entry as its file states it, with the entry it is the ``same_as`` underneath.

    A device that states no price has that of the prices, an entry of the device's name.
    """
    known = _paths(kind)
    if name not in known:
        raise InputError(
            f"unknown {singular(kind)} '{name}'{nearest(name, tuple(known))}; list all with `sightline catalog {kind}`"
        )
    stated = _stated(known[name])
    stated.pop("names", None)
    base = stated.pop("same_as", None)
    whole = stated if base is None else _over(entry(kind, base), stated)
    priced = kind == "devices" and "price" not in stated and name in _paths("prices")
    return whole | _price_of(name, whole) if priced else whole


def _over(base: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """What is stated over another entry; the sources of figures that it replaces are not taken over."""
    whole = {**base, **stated}
    for about in ("sources", "evidences"):
        kept = {key: of for key, of in base.get(about, {}).items() if key.partition(".")[0] not in stated}
        if about in whole:
            whole[about] = {**kept, **stated.get(about, {})}
    return whole


def _price_of(name: str, device: Mapping[str, Any]) -> dict[str, Any]:
    """The price of a device, with its source and evidence under the keys by which an entry states single figures'."""
    price = entry("prices", name)
    source = f"{price['source']}, {price['date']} (`sightline catalog prices {name}`)"
    return {
        "price": price["price"],
        "sources": {**device.get("sources", {}), "price": source},
        "evidences": {**device.get("evidences", {}), "price": price["evidence"]},
    }


def name_of(kind: str, written: str) -> str:
    """Return the name of the entry that somebody wrote: case and spaces do not count. As written where there is none.

    "Llama-3-8B" and "RTX 4090" are llama-3-8b and rtx-4090. Shorter names stand for the entry that they can only mean,
    or that nearly everybody has: "h100" and "4090" are h100-sxm-80gb and rtx-4090.
    """
    known = names(kind)
    if written in known:
        return written
    folded = "-".join(written.lower().split())
    if folded in known:
        return folded

    return usual_name(kind, written, known) or written


def said_of(kind: str, written: str) -> str:
    """Return the remark on a name that stands for one of several entries, or an empty string."""
    name = name_of(kind, written)
    if name == written or name not in names(kind):
        return ""

    others = alternatives(kind, written, name, names(kind))
    return f"{written} is read as {name}; also in the catalog: {', '.join(others)}" if others else ""


def kind_of(written: str, others: tuple[str, ...] = ()) -> str:
    """Return the kind that a word asks for, which may be in the singular.

    Raises:
        InputError: There is none; ``others`` are named among the kinds.
    """
    found = next((kind for kind in KINDS if written.lower() in (kind, singular(kind))), None)
    if found is not None:
        return found
    known = (*KINDS, *others)
    if written.lower() in ("technology", "technologies"):
        raise InputError("technologies are in several kinds: nodes, dies, memories, links, launches")
    holding = [kind for kind in KINDS if name_of(kind, written) in names(kind)]
    if holding:
        raise InputError(
            f"'{written}' is not a kind; use `sightline catalog {holding[0]} {name_of(holding[0], written)}`"
        )
    raise InputError(f"unknown kind '{written}'{nearest(written, known)}; allowed: {', '.join(known)}")


def singular(kind: str) -> str:
    """Return what one entry of a kind is called: ``memory`` of ``memories``."""
    return _SINGULAR.get(kind, kind.removesuffix("s"))


def shipped(kind: str, name: str) -> bool:
    """Whether an entry comes with Sightline."""
    return any((_DATA / kind / f"{name}.{form}").is_file() for form in FORMS)


@cache
def _paths(kind: str) -> dict[str, Path]:
    """The file of every entry of a kind by its name, sorted by name."""
    if kind not in KINDS:
        raise InputError(f"unknown kind '{kind}' of catalog entries{nearest(kind, KINDS)}; allowed: {', '.join(KINDS)}")
    paths: dict[str, Path] = {}
    for folder in (_DATA, *_further_folders()):
        for name, path in _entries(folder / kind):
            if name in paths:
                raise InputError(f"{VARIABLE}: '{path}' has the name of an existing entry, '{name}'; rename it")
            paths[name] = path
    return dict(sorted(paths.items()))


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    """The names and files of a folder's entries; `os.walk` takes a fifth of the time that `Path.glob` does."""
    for within, _, files in os.walk(folder):
        shelf = Path(within)
        prefix = "" if shelf == folder else f"{shelf.relative_to(folder).as_posix()}/"
        for file in files:
            name, _, form = file.rpartition(".")
            if form in FORMS:
                yield prefix + name, shelf / file


def _further_folders() -> list[Path]:
    folders = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{VARIABLE} names '{folder}', which is not a folder")
    return folders


def _stated(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        stated = json.loads(text) if path.suffix == ".json" else parse(text)
    except InputError as error:
        raise InputError([f"'{path}': {problem}" for problem in error.problems]) from error
    except json.JSONDecodeError as error:
        raise InputError(f"'{path}' is not valid JSON: {error}") from error
    if not isinstance(stated, dict):
        raise InputError(f"'{path}' is not a catalog entry: expected a mapping")
    return stated


def release_line(version: str, known: Iterable[str]) -> str:
    """Return the longest of the ``known`` versions that ``version`` is or begins with, part by part; empty for none."""
    parts = version.split(".")
    lines = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    listed = set(known)
    return next((line for line in lines if line in listed), "")


def minor_release(version: str) -> str:
    """Return the release line that a version belongs to: its first two parts ("1.2" of "1.2.0rc5")."""
    return ".".join(version.split(".")[:2])


_SEPARATORS = re.compile(r"[\s_./-]+")
_MAKERS = frozenset(("nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "intel", "google", "aws"))
"""Words that people put before the names of devices."""
_BRANDS = frozenset(("rtx", "rx", "tpu", "apple", "arc"))
"""First words of names of devices that people leave out."""
_USUAL_FORM = "sxm"
"""What nearly all servers have of a device that comes in several forms."""
_FORMS = frozenset((_USUAL_FORM, "pcie", "nvl"))
"""Words for the form of a device."""
_SAME_SHAPES = frozenset(["instruct", "chat", "hf", "it", "base"])
"""Words of repositories that change nothing about the shapes of a model."""
_DATE = re.compile(r"\d{4}")


def usual_name(kind: str, written: str, known: Sequence[str]) -> str:
    """Return the one entry among those ``known`` that a name stands for, or an empty string."""
    finder = _FINDERS.get(kind)
    found = finder(written.lower(), tuple(known)) if finder else ""
    return found or (_also_called().get("".join(_words(written.lower())), "") if kind == "devices" else "")


@cache
def called(device: str) -> tuple[str, ...]:
    """Return what drivers and libraries call a device, which its entry states as ``names``."""
    return tuple(_stated(_paths("devices")[device]).get("names", ()))


@cache
def _also_called() -> Mapping[str, str]:
    """Devices by what drivers and libraries call them."""
    return {"".join(_words(other.lower())): name for name in names("devices") for other in called(name)}


def alternatives(kind: str, written: str, name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return what else a name could have meant than the entry that it was read as."""
    words = _words(written.lower())
    if kind != "devices" or "".join(words) in _spellings(name):
        return ()
    return tuple(other for other in _holding(words, known) if other != name)


@cache
def _device(written: str, known: tuple[str, ...]) -> str:
    words = _words(written)
    joined = "".join(words)
    same = [name for name in known if joined in _spellings(name)]
    holding = _holding(words, known)
    usual = [name for name in holding if not _FORMS & {*words} and _USUAL_FORM in _words(name)]
    for found in (same, holding, usual):
        if len(found) == 1:
            return found[0]
    letters = [name for name in known if name.startswith(joined) and name[len(joined) :].isalpha()]
    return letters[0] if len(letters) == 1 and any(map(str.isdigit, joined)) else ""


def _words(written: str) -> list[str]:
    """The words of a device's name without its maker; the generation of a form does not count: SXM4 is SXM."""
    words = _SEPARATORS.split(re.sub(r"(\d) +gb\b", r"\1gb", written.strip()))
    return [re.sub(r"^sxm\d$", _USUAL_FORM, word) for word in words if word and word not in _MAKERS]


def _spellings(name: str) -> set[str]:
    """A device's name without separators, with and without its brand."""
    first, *rest = name.split("-")
    return {"".join((first, *rest)), *(["".join(rest)] if first in _BRANDS and rest else [])}


def _holding(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Devices whose names have all the words and begin with the first, what is added to them being form and memory."""
    found = []
    for name in known:
        own = [word for word in _words(name) if word not in _BRANDS]
        asked = [word for word in words if word not in _BRANDS]
        added = [word for word in own if word not in asked]
        if asked and own[0] == asked[0] and {*asked} <= {*own} and all(map(_is_variant, added)):
            found.append(name)
    return found


def _is_variant(word: str) -> bool:
    """Whether a word says form or memory, not another product."""
    return word in _FORMS or bool(re.fullmatch(r"\d+gb", word))


@cache
def _model(written: str, known: tuple[str, ...]) -> str:
    words = [word for word in re.split(r"[\s_/-]+", written.strip()) if word not in _SAME_SHAPES]
    if words[:1] == ["meta"]:
        words = words[1:]
    undated = [word for word in words if not _DATE.fullmatch(word)]
    for tried in (words, undated):
        same = [name for name in known if tried and _pieces("-".join(tried)) == _pieces(name)]
        if same:
            return same[0]
    return ""


def newest(written: str) -> str:
    """Return the model of the highest version whose name is as it is written but for the version; empty for none."""
    asked, found = _pieces(written), list[tuple[list[int], str]]()
    for name in names("models"):
        pieces = _pieces(name)
        versions = [p for at, p in enumerate(pieces) if p[0].isdigit() and pieces[:at] + pieces[at + 1 :] == asked]
        found += [([int(digits) for digits in version.split(".")], name) for version in versions]
    return max(found, default=([], ""))[1]


def _pieces(name: str) -> list[str]:
    """Letters and numbers in turn: llama3-8b is llama-3-8b, but qwen-27b is not qwen2-7b."""
    return re.findall(r"[a-z]+|\d+(?:\.\d+)*", name)


_FINDERS: Mapping[str, Callable[[str, tuple[str, ...]], str]] = {"devices": _device, "models": _model}
"""By kind of entries, what finds the one that is meant."""
