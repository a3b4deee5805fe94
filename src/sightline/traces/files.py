"""Profiler traces (Kineto JSON) from files to columns: found, unpacked within a limit, decoded chunk by chunk."""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

import numpy as np

from sightline.errors import InputError, missing_file
from sightline.progress import SILENT, Progress
from sightline.quantities import show
from sightline.traces.decoding import Columns, Event, split
from sightline.traces.events import ON_DEVICE, Trace

ENDINGS = (".pt.trace.json", ".pt.trace.json.gz", ".json", ".json.gz")
MOST = 64
"""Traces of one job that are read; the ranks beyond them are left out."""


def trace_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files that words name, those of a folder sorted by name.

    Raises:
        InputError: A file or folder is missing, or a folder holds no traces.
    """
    files: list[Path] = []
    for word in paths:
        path = Path(word)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.name.endswith(ENDINGS) and file.is_file())
            profiler = [file for file in inside if file.name.endswith(ENDINGS[:2])]
            if not inside:
                raise InputError(f"the folder '{path}' holds no trace: no file ends in {', '.join(ENDINGS)}")
            files += profiler or inside
        elif path.is_file():
            files.append(path)
        else:
            raise missing_file(path)
    if not files:
        raise InputError("no trace is named")
    return files


_PROBE = 2**20


def looks_like_trace(path: str | Path) -> bool:
    """Return whether a file or folder, by its name and first bytes, is a trace rather than a scenario or a result."""
    place = Path(path)
    if place.is_dir():
        return any(one.name.endswith(ENDINGS[:2]) for one in place.iterdir())
    if place.name.endswith((*ENDINGS[:2], ".json.gz")):
        return True
    if place.suffix.lower() != ".json" or not place.is_file():
        return False
    with place.open("rb") as file:
        return begins_as_trace(file.read(_PROBE))


def begins_as_trace(head: bytes) -> bool:
    """Return whether a file is a trace by its first bytes."""
    return b'"traceEvents"' in head or (head.lstrip().startswith(b"[") and b'"ph"' in head)


LARGEST: Final = 2 * 10**9
"""Bytes of one unpacked trace."""
_CHUNK: Final = 16 * 2**20
_DAMAGED: Final = 4 * _CHUNK
"""Bytes without an edge between events, in which something must be wrong."""
_HEAD: Final = 64 * 2**20
"""Bytes in which the list of events must begin."""
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_END = re.compile(rb"\}\s*,?\s*\]")
_TRIES: Final = 32
_NUMBERS = {
    name: re.compile(rb'"%s"\s*:\s*"?(-?\d+)' % name.encode()) for name in ("baseTimeNanoseconds", "rank", "world_size")
}
_MEMORY = re.compile(rb'"totalGlobalMem"\s*:\s*(\d+)')
_PREDICTED = re.compile(rb'"source"\s*:\s*"sightline, predicted"')
_DEVICE = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{[^}]*?"name"\s*:\s*"([^"]*)"')


def read_trace(path: str | Path, progress: Progress = SILENT) -> Trace:
    """Return one rank's trace of a file, packed or not; of a cut file what came before the cut, with a warning.

    Raises:
        InputError: There is no such file, it is too large, or no trace that PyTorch's profiler wrote.
    """
    place = Path(path)
    try:
        with place.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(place) if packed else place.open("rb") as file:
            return _read(_Source(file=file, path=str(path)), progress)
    except FileNotFoundError:
        raise missing_file(path) from None
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}") from None


@dataclass(slots=True)
class _Source:
    """Bytes of a file, counted, up to its end or to where a cut or a damage ends it."""

    file: IO[bytes] | gzip.GzipFile
    path: str
    read: int = 0
    is_cut: bool = False
    warnings: list[str] = field(default_factory=list)

    def more(self, size: int = _CHUNK) -> bytes:
        try:
            text = self.file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            text = self._what_is_left()
        self.read += len(text)
        if self.read > LARGEST:
            raise InputError(
                f"'{self.path}' holds more than {LARGEST / 1e9:.0f} GB of events; profile fewer steps: "
                "torch.profiler.schedule(wait=1, warmup=1, active=3)"
            )
        return text

    def _what_is_left(self) -> bytes:
        """What a packed file gives before the place at which it is cut, in small pieces."""
        if self.is_cut:
            return b""
        self.is_cut, chunks = True, []
        self.file.seek(self.read)
        while True:
            try:
                chunks.append(self.file.read1(2**16) if isinstance(self.file, gzip.GzipFile) else b"")
            except (EOFError, zlib.error, OSError):
                break
            if not chunks[-1]:
                break
        return b"".join(chunks)


def _read(source: _Source, progress: Progress) -> Trace:
    progress.begin(None, "reading the trace")
    head, text = _beginning(source)
    columns, tail = Columns(), b""
    for events, tail in _chunks(source, text):  # noqa: B007 - the last one is read below
        progress.check()
        columns.add(events)
        progress.advance(len(events))
    return _trace(source, columns, head + tail)


def _beginning(source: _Source) -> tuple[bytes, bytes]:
    """What stands before the list of events, and the text from its first event on."""
    text = source.more()
    if text.lstrip()[:1] not in (b"{", b"["):
        raise InputError(
            f"'{source.path}' is no trace: it is not JSON; torch.profiler writes one by export_chrome_trace"
        )
    if text.lstrip()[:1] == b"[":
        return b"", _list(source, text.lstrip()[1:].lstrip())
    while (begin := _EVENTS.search(text)) is None:
        more = source.more()
        if not more or len(text) > _HEAD:
            raise InputError(f"'{source.path}' is no trace: it has no list 'traceEvents'")
        text += more
    return text[: begin.start()], _list(source, text[begin.end() :].lstrip())


def _list(source: _Source, text: bytes) -> bytes:
    if text[:1] not in (b"{", b"]", b""):
        raise InputError(f"'{source.path}' is no trace: its list holds something other than events")
    return text


def _chunks(source: _Source, text: bytes) -> Iterator[tuple[list[Event], bytes]]:
    """The events in the order of the file, and behind the last of them what follows the list."""
    while more := source.more():
        text += more
        if len(text) > _DAMAGED:
            source.is_cut = True
            break
        if (parts := split(text, is_last=False)) is not None:
            events, text = parts
            yield events, b""
    yield _last(source, text)


def _last(source: _Source, text: bytes) -> tuple[list[Event], bytes]:
    """The events before the end of the list; a list that does not end is cut."""
    for end in _ends(text):
        if (parts := split(text[:end].rstrip().rstrip(b","), is_last=True)) is not None and not parts[1]:
            return parts[0], text[end:]
    whole = text.rstrip().rstrip(b",")
    events, rest = split(whole, is_last=True) or ([], whole)
    cut = f"'{source.path}' ends in the middle"
    source.warnings.append(f"{cut}; it is read up to the last whole event" if rest or source.is_cut else cut)
    return events, b""


def _ends(text: bytes) -> Iterator[int]:
    """Places at which the list may end: brackets behind an event, from the end, a few of them.

    Behind the list stand names and numbers, seldom more, so the first of these places is nearly always the one.
    """
    if text.lstrip()[:1] == b"]":
        return iter([len(text) - len(text.lstrip())])
    tail = max(0, len(text) - 4 * 2**20)
    return iter([match.end() - 1 for match in _END.finditer(text, tail)][:-_TRIES:-1])


def _trace(source: _Source, columns: Columns, facts: bytes) -> Trace:
    numbers = {name: int(m[1]) for name, form in _NUMBERS.items() if (m := form.search(facts))}
    device, memory = _DEVICE.search(facts), _MEMORY.search(facts)
    if not columns.seen:
        if source.warnings:
            raise InputError(f"'{source.path}' is no trace: it ends before its first event")
        raise InputError(f"'{source.path}' is no trace: its list 'traceEvents' holds no events")
    if not columns.known:
        raise InputError(
            f"'{source.path}' holds {columns.seen} events, but none of PyTorch's profiler: no operator, no kernel"
        )
    events, origin = columns.sorted()
    if not events.end.any():
        raise InputError(f"'{source.path}' holds {len(events)} events, but none of them takes any time")
    return Trace(
        path=source.path,
        names=columns.names,
        events=events,
        origin_ns=origin + numbers.get("baseTimeNanoseconds", 0),
        rank=numbers.get("rank"),
        world_size=numbers.get("world_size"),
        device_name=device[1].decode("utf-8", "replace") if device else "",
        device_memory_bytes=int(memory[1]) if memory else None,
        operands=columns.operands,
        groups=columns.groups,
        warnings=[*source.warnings, *_foreign(columns)],
        is_predicted=_PREDICTED.search(facts) is not None,
        is_cut=bool(source.warnings),
    )


def _foreign(columns: Columns) -> list[str]:
    """A sentence on events of categories that nothing is known of."""
    first = [show(name) for name in list(columns.foreign)[:5]]
    return [f"events of category {', '.join(first)} are unknown and left out"] if first else []


_LEAST = 0.05
"""Share of the busiest device's work from which on a device is one of the job's."""


def by_device(trace: Trace) -> Iterator[Trace]:
    """Yield a trace for each device that works in it, with all that the host does, and the device's number as rank.

    A device that hardly works, such as one on which only a context was made, is left out.
    """
    events = trace.events
    on_device = np.isin(events.kind, ON_DEVICE)
    numbers, place = np.unique(events.device[on_device], return_inverse=True)
    busy = (
        np.bincount(place.reshape(-1), weights=(events.end - events.start)[on_device]) if len(numbers) else np.zeros(0)
    )
    working = numbers[busy >= _LEAST * busy.max()].tolist() if len(numbers) else []
    if len(working) < 2:
        yield trace
        return
    listed = ", ".join(map(str, working))
    remark = f"'{trace.path}' holds devices {listed}; each counts as a rank"
    for first, device in enumerate(working):
        own = events.where(~on_device | (events.device == device))
        yield replace(trace, events=own, rank=int(device), warnings=[*trace.warnings, remark] if not first else [])
