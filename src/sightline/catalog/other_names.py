"""What people call entries that have longer names: ``h100`` is ``h100-sxm-80gb``, ``4090`` is ``rtx-4090``.

A name stands for an entry where only one can be meant, or one is what nearly everybody has. Anything else is left to
the complaint, which lists the choices.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

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
    return finder(written.lower(), tuple(known)) if finder else ""


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


def _pieces(name: str) -> list[str]:
    """Letters and numbers in turn: llama3-8b is llama-3-8b, but qwen-27b is not qwen2-7b."""
    return re.findall(r"[a-z]+|\d+(?:\.\d+)*", name)


_FINDERS: Mapping[str, Callable[[str, tuple[str, ...]], str]] = {"devices": _device, "models": _model}
"""By kind of entries, what finds the one that is meant."""
