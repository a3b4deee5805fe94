"""The events of a Chrome trace, and the file that they become.

Format: "Trace Event Format" (Google, 2016), JSON object form: complete events (``ph: X``) with microseconds, counters
(``C``), flows (``s`` and ``f``), asynchronous events (``b`` and ``e``), and metadata that names processes and rows.
Categories are those of PyTorch's profiler, so that ``sightline explain`` reads the file too. A slice ends where its
last one ends, so slices of a row nest.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]

COMPUTE, LAYERS_SEND, STEP_SENDS, STAGES_SEND, HOST = range(5)
"""Rows of a process, in their order."""
ROWS = {
    COMPUTE: "compute",
    LAYERS_SEND: "communication of layers",
    STEP_SENDS: "communication of the step",
    STAGES_SEND: "communication between stages",
    HOST: "host",
}
KERNEL, RANGE, STEP, CALL, IDLE = "kernel", "gpu_user_annotation", "user_annotation", "cpu_op", "idle"
"""Categories: what the device runs, what encloses it, the whole step, what the host does, and waiting."""
_MICROSECONDS = 1e6


def microseconds(seconds: float) -> float:
    """Return microseconds, to the nanosecond."""
    return round(float(seconds) * _MICROSECONDS, 3)


def slice_of(name: str, cat: str, pid: int, tid: int, start_s: float, end_s: float, **args: Any) -> Event:
    """Return a complete event; ends are rounded rather than lengths, so that neighbours never overlap."""
    start, end = microseconds(start_s), microseconds(end_s)
    place = {"pid": pid, "tid": tid, "ts": start, "dur": round(end - start, 3)}
    where = {"device": pid, "stream": tid} if cat == KERNEL else {}
    return {"name": name, "cat": cat, "ph": "X", **place, "args": {**args, **where}}


def counter(name: str, pid: int, at_s: float, **values: float) -> Event:
    """Return what a counter's parts are from a moment on."""
    return {"name": name, "ph": "C", "pid": pid, "tid": COMPUTE, "ts": microseconds(at_s), "args": values}


def asynchronous(
    name: str, cat: str, number: int, pid: int, start_s: float, end_s: float, **args: Any
) -> tuple[Event, Event]:
    """Return the begin and end of what runs beside the slices; those of one ``number`` nest in the order given."""
    shared = {"name": name, "cat": cat, "id": number, "pid": pid, "tid": COMPUTE}
    begin = {**shared, "ph": "b", "ts": microseconds(start_s), "args": args}
    return begin, {**shared, "ph": "e", "ts": microseconds(end_s)}


def flow(number: int, sender: Event, receiver: Event) -> tuple[Event, Event]:
    """Return an arrow from the end of a slice to the start of another one."""
    shared = {"name": "send", "cat": "flow", "id": number}
    # Inside of the sender: an arrow at its end would leave the slice that follows.
    left = round(sender["ts"] + 0.999 * sender["dur"], 3)
    start = {**shared, "ph": "s", "pid": sender["pid"], "tid": sender["tid"], "ts": left}
    return start, {**shared, "ph": "f", "bp": "e", "pid": receiver["pid"], "tid": receiver["tid"], "ts": receiver["ts"]}


def names(pid: int, name: str, rows: Mapping[int, str]) -> Iterator[Event]:
    """Yield the metadata of a process: its name, its place among the others, and the names of its rows."""
    shared = {"ph": "M", "pid": pid}
    yield {**shared, "tid": 0, "name": "process_name", "args": {"name": name}}
    yield {**shared, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}}
    for row, called in rows.items():
        yield {**shared, "tid": row, "name": "thread_name", "args": {"name": called}}
        yield {**shared, "tid": row, "name": "thread_sort_index", "args": {"sort_index": row}}


def trace_text(
    processes: Mapping[int, str], events: Iterable[Event], about: Mapping[str, Any], rows: Mapping[int, str] = ROWS
) -> str:
    """Return the JSON text of a trace, one event a line, with ``about`` as the file's metadata.

    ``rows`` names the rows of each process; those without an event are left out.
    """
    # Of slices that begin together the longest encloses the others.
    found = sorted(events, key=lambda one: (one["ts"], one["pid"], one["tid"], -one.get("dur", 0.0)))
    used = {(one["pid"], one["tid"]) for one in found}
    meta = [event for pid, name in processes.items() for event in names(pid, name, _rows(rows, pid, used))]
    lines = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in [*meta, *found])
    head = json.dumps({"displayTimeUnit": "ms", "otherData": {**about}}, allow_nan=False)
    return f'{head[:-1]}, "traceEvents": [\n{lines}\n]}}\n'


def _rows(rows: Mapping[int, str], pid: int, used: set[tuple[int, int]]) -> dict[int, str]:
    return {row: name for row, name in rows.items() if (pid, row) in used}
