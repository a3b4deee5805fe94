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
    dims: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input Dims")


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
_TRIES = 64
"""Edges between events that are tried from the end of a chunk; a few of them may lie inside an event."""


def events_of(text: bytes) -> list[Event] | None:
    """Return the events of a text of objects with commas between; None where it is no such text."""
    whole = b"[" + text + b"]"
    try:
        return _typed.decode(whole)
    except msgspec.ValidationError:
        return list(_lenient(whole))
    except (msgspec.DecodeError, RecursionError):
        return None


def _lenient(whole: bytes) -> Iterator[Event]:
    """Events one by one, without those whose values have other types than Kineto writes."""
    try:
        found = _plain.decode(whole)
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
    edges = [match.end() for match in _EDGE.finditer(text, max(0, len(text) - 2**20))] or [
        match.end() for match in _EDGE.finditer(text)
    ]
    for edge in reversed(edges[-_TRIES:]):
        found = events_of(text[:edge].rstrip().rstrip(b","))
        if found is not None:
            return found, text[edge:]
    return None
