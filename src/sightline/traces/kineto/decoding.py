"""Events out of chunks of JSON: typed decoding that skips what nobody asks for.

Measured on 216,000 events (54 MB): msgspec with types 0.12 s, without 0.62 s, orjson 0.55 s, json 0.65 s.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_Word = int | str | float | None


class Arguments(msgspec.Struct, gc=False):
    """What an event says about itself, as far as it is used. Old traces write some keys in another case."""

    correlation: _Word = None
    stream: Any = None
    device: _Word = None
    external: _Word = msgspec.field(default=None, name="External id")
    external_old: _Word = msgspec.field(default=None, name="external id")
    sequence: _Word = msgspec.field(default=None, name="Sequence number")
    forward_thread: _Word = msgspec.field(default=None, name="Fwd thread id")
    bytes: _Word = None
    elements: _Word = msgspec.field(default=None, name="In msg nelems")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    dims: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input Dims")
    values: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Concrete Inputs")
    types: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input type")


class Event(msgspec.Struct, gc=False):
    """One event of the Chrome trace format."""

    ph: str = ""
    name: str | int | float | None = ""
    cat: str | None = ""
    pid: _Word = 0
    tid: _Word = 0
    ts: _Word = None
    dur: _Word = None
    args: Arguments | None = None


_typed = msgspec.json.Decoder(list[Event])
_plain = msgspec.json.Decoder(list[Any])
_EDGE = re.compile(rb"\}\s*,\s*(?=\{)")
_TAIL, _TRIES = 2**20, 16
"""Bytes at the end of a chunk in which edges between events are looked for, and edges that are tried: a few may lie
inside an event."""


def events_of(text: bytes) -> list[Event] | None:
    """Return the events of a text of objects with commas between; None where it is no such text."""
    whole = b"[" + text + b"]"
    try:
        return _typed.decode(whole)
    except msgspec.ValidationError:
        return list(_lenient(whole))
    except UnicodeDecodeError:
        # A name cut in the middle of a letter, or written in another encoding.
        return events_of(text.decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return None


def _lenient(whole: bytes) -> Iterator[Event]:
    """Events one by one, without those whose values have other types than Kineto writes."""
    try:
        found = _plain.decode(whole.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return
    for one in found:
        try:
            yield msgspec.convert(one, Event, strict=False)
        except (msgspec.ValidationError, RecursionError):
            try:
                yield msgspec.convert({**one, "args": None}, Event, strict=False)
            except (msgspec.ValidationError, TypeError):
                continue


def split(text: bytes, *, is_last: bool) -> tuple[list[Event], bytes] | None:
    """Return the events of a text up to its last whole one, and the rest of it; None where there is none.

    Args:
        text: From the beginning of an event on.
        is_last: Whether the text ends in a whole event, as far as its end is not cut.
    """
    if is_last and (found := events_of(text)) is not None:
        return found, b""
    edges = [match.end() for match in _EDGE.finditer(text, max(0, len(text) - _TAIL))]
    for edge in reversed(edges[-_TRIES:]):
        if (found := _before(text, edge)) is not None:
            return found, text[edge:]
    return _up_to_damage(text) if is_last else None


def _before(text: bytes, edge: int) -> list[Event] | None:
    return events_of(text[:edge].rstrip().rstrip(b","))


def _up_to_damage(text: bytes) -> tuple[list[Event], bytes] | None:
    """The events before the first place that is no JSON, found by halving: what ends before it can be decoded."""
    edges = [match.end() for match in _EDGE.finditer(text)]
    good, bad = 0, len(edges)
    while good < bad:
        middle = (good + bad) // 2
        good, bad = (middle + 1, bad) if _before(text, edges[middle]) is not None else (good, middle)
    if not good:
        return None
    return _before(text, edges[good - 1]) or [], text[edges[good - 1] :]
