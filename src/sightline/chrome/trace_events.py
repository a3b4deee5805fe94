"""The events of a Chrome trace, and the file that they become.

Format: "Trace Event Format" (Google, 2016), JSON object form: complete events (``ph: X``) with microseconds, counters
(``C``), flows (``s`` and ``f``), asynchronous events (``b`` and ``e``), and metadata that names processes and rows.
Categories are those of PyTorch's profiler, so that ``sightline explain`` reads the file too. A slice ends where its
last one ends, so slices of a row nest.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sightline.profile import COMMUNICATION, Profile, Row

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
    # Of slices that begin together the longest encloses the others; of equally long ones the first does.
    found = sorted(events, key=lambda one: (one["ts"], one["pid"], one["tid"], -one.get("dur", 0.0)))
    used = {(one["pid"], one["tid"]) for one in found}
    meta = [event for pid, name in processes.items() for event in names(pid, name, _rows(rows, pid, used))]
    lines = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in [*meta, *found])
    head = json.dumps({"displayTimeUnit": "ms", "otherData": {**about}}, allow_nan=False)
    return f'{head[:-1]}, "traceEvents": [\n{lines}\n]}}\n'


def _rows(rows: Mapping[int, str], pid: int, used: set[tuple[int, int]]) -> dict[int, str]:
    return {row: name for row, name in rows.items() if (pid, row) in used}


ONCE = ("step", "batch")
"""Blocks of what happens once per step or batch, outside of every pass."""
_MATMULS = ("up", "down", "gate", "logits", "input gradient", "weight gradient", "router")
"""Operators that are products of matrices and do not say so in their names."""
_LAST = ("head", "prediction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of a block, once."""

    name: str
    exposed_s: float
    hidden_s: float = 0.0
    """Of communication: seconds behind the compute before it."""
    is_communication: bool = False
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a pass: a kind of layer, the embedding, the head."""

    name: str
    repeats: int
    modules: Sequence[tuple[str, Sequence[Operator]]]

    @property
    def is_layer(self) -> bool:
        """Whether it is one of the model's layers, which are numbered."""
        return self.name not in (*_LAST, "embedding")

    @property
    def seconds(self) -> float:
        """Exposed seconds of all repeats."""
        return self.repeats * sum(one.exposed_s for _, inside in self.modules for one in inside)

    @property
    def events(self) -> int:
        """Slices at most that drawing it takes."""
        return self.repeats * (1 + sum(1 + len(inside) for _, inside in self.modules))


def blocks_of(profile: Profile, phases: Sequence[str], passes: float) -> list[Block]:
    """Return the blocks of one pass, in the order in which they run.

    Args:
        profile: With the rows of one device.
        phases: Those of a pass, in their order: ``("recompute", "backward")``. Communication belongs to the phase that
            its operator names.
        passes: How many passes the rows stand for.
    """
    rows = [(row, _phase(row)) for row in profile.rows if row.block not in ONCE]
    own = [row for phase in phases for row, of in rows if of == phase and float(row.time_s) > 0.0]
    names = list(dict.fromkeys(row.block for row in own))
    if "backward" in phases:
        names = sorted(names, key=lambda name: (name not in _LAST, name == "embedding"))
    return [_block(name, [row for row in own if row.block == name], passes) for name in names]


def _phase(row: Row) -> str:
    """The pass that a row is part of; communication says it at the end of its name."""
    if row.phase not in COMMUNICATION:
        return row.phase
    return row.operator.rpartition(" in ")[2] if " in " in row.operator else "forward"


def _block(name: str, rows: Sequence[Row], passes: float) -> Block:
    repeats = max(1, round(min(float(row.count) for row in rows) / passes))
    modules: dict[str, list[Operator]] = {}
    for row in _in_order(rows):
        exposed_s, time_s = (float(value) / passes / repeats for value in (row.exposed_s, row.time_s))
        modules.setdefault(row.module, []).append(
            Operator(
                name=row.operator,
                exposed_s=exposed_s,
                hidden_s=max(0.0, time_s - exposed_s) if row.phase in COMMUNICATION else 0.0,
                is_communication=row.phase in COMMUNICATION,
                bound=row.bound,
            )
        )
    return Block(name=name, repeats=repeats, modules=list(modules.items()))


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows with the communication of a module behind its compute."""
    places = {row.module: place for place, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: (places[row.module], row.phase in COMMUNICATION))


def kernel_name(operator: str, *, is_communication: bool = False) -> str:
    """Return the name of a kernel, in which readers of traces find what it does."""
    if is_communication:
        return f"nccl: {operator.replace('-', '_')}"
    return f"matmul: {operator}" if operator in _MATMULS else operator


def resized(blocks: Iterable[Block], share: float) -> list[Block]:
    """Return the blocks of a stage that has a ``share`` of the layers of the one that the rows are of."""
    return [replace(one, repeats=max(1, round(one.repeats * share))) if one.is_layer else one for one in blocks]


def drawn(
    blocks: Sequence[Block], pid: int, start_s: float, end_s: float, *, first: int = 0, is_backward: bool = False
) -> Iterator[Event]:
    """Yield the slices inside of a pass, which fill it from its start to its end.

    Args:
        blocks: In their order.
        pid: The process.
        start_s: Of the pass.
        end_s: Of the pass. The seconds of operators are scaled to it, as stages have different loads.
        first: The number of the first of its layers.
        is_backward: Whether layers run from the last to the first.
    """
    whole_s = sum(one.seconds for one in blocks)
    if whole_s <= 0.0:
        return
    scale, at_s, sent_s = (end_s - start_s) / whole_s, start_s, start_s
    layers = sum(one.repeats for one in blocks if one.is_layer)
    numbers = iter(range(first + layers - 1, first - 1, -1) if is_backward else range(first, first + layers))
    for block in blocks:
        for _ in range(block.repeats):
            begun_s, inside = at_s, list[Event]()
            block_name = f"{block.name} {next(numbers)}" if block.is_layer else block.name
            for module, operators in block.modules:
                module_s, kernels = at_s, list[Event]()
                for one in operators:
                    until_s = min(at_s + one.exposed_s * scale, end_s)
                    name = kernel_name(one.name, is_communication=one.is_communication)
                    if one.is_communication:
                        sent_from_s = max(at_s - one.hidden_s * scale, sent_s)
                        kernels.append(slice_of(name, KERNEL, pid, LAYERS_SEND, sent_from_s, until_s, module=module))
                        sent_s = until_s
                    else:
                        kernels.append(
                            slice_of(name, KERNEL, pid, COMPUTE, at_s, until_s, module=module, bound=one.bound)
                        )
                    at_s = until_s
                if module != block_name:
                    inside.append(slice_of(module, RANGE, pid, COMPUTE, module_s, at_s))
                inside += kernels
            # A viewer nests slices of one place and length in the order of the file.
            yield slice_of(block_name, RANGE, pid, COMPUTE, begun_s, at_s)
            yield from inside
