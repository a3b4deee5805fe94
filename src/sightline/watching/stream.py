"""Write a watch into the store, line by line while the job runs, and read the watches of a store, running ones too."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.errors import InputError
from sightline.runs import Run, Store, open_store
from sightline.runs.storage import LocalStorage
from sightline.runs.store import SAMPLES, RunWriter, as_parquet, from_journal

if TYPE_CHECKING:
    from sightline.scenario import Scenario

ABOUT, STEPS, EVENTS = "watch.json", "steps.jsonl", "events.jsonl"
SUITE: Final = "watch"
"""Of runs that are watches."""


class Stream:
    """The folder of one watch, while it is written."""

    def __init__(self, store: Store, name: str, scenario: Mapping[str, Any]) -> None:
        self._store = store
        self._writer: RunWriter = store.begin(name, scenario=scenario, suite=SUITE)
        self._has_steps = False

    @property
    def id(self) -> str:
        """The run's."""
        return self._writer.run.id

    @property
    def name(self) -> str:
        """The run's, until it ends."""
        return self._writer.run.name

    @property
    def folder(self) -> str:
        """Where the files lie; empty where that is no folder of this machine."""
        storage = self._store.storage
        return str((Path(storage.place) / self.id).resolve()) if isinstance(storage, LocalStorage) else ""

    def about(self, document: Mapping[str, Any]) -> None:
        """Say what is watched, in place of what was said before."""
        self._store.storage.write(f"{self.id}/{ABOUT}", _json(document))

    def steps(self, line: Mapping[str, Any]) -> None:
        """Add a line about some steps."""
        self._append(STEPS, line)
        self._has_steps = True

    def event(self, line: Mapping[str, Any]) -> None:
        """Add a line about something that was said."""
        self._append(EVENTS, {"at": now(), **line})

    def finish(
        self, *, status: str, reason: str, result: Mapping[str, Any], scenario: Mapping[str, Any], **figures: Any
    ) -> Run:
        """End the run; the lines about steps are its samples too."""
        storage = self._store.storage
        if self._has_steps:
            table = from_journal(storage.read(f"{self.id}/{STEPS}"))
            storage.write(f"{self.id}/{SAMPLES}.parquet", as_parquet(table))
        return self._writer.finish(status=status, reason=reason, result=result, scenario=scenario, **figures)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        self._store.storage.append(f"{self.id}/{name}", _json(line) + b"\n")


def open_stream(store: str | None, name: str, scenario: "Scenario | None") -> Stream:
    """Return the stream of a new run.

    Args:
        store: Its place; None for the user's own.
        name: Of the run; empty for the scenario's.
        scenario: What is watched, where that is known.
    """
    from sightline.runs import open_store
    from sightline.watching.expected import as_mapping

    asked = {} if scenario is None else as_mapping(scenario)
    named = name or (scenario.name if scenario is not None else "") or "watched job"
    return Stream(open_store(store), named, asked)


def now() -> str:
    """Return the present time as files have it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _json(document: Mapping[str, Any]) -> bytes:
    from sightline.quantities import as_json

    return json.dumps(as_json(document), allow_nan=False, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WatchRecord:
    """One watch."""

    run: Run
    """Its status is running while the job runs, and interrupted once the job's process has been killed."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """``watch.json``: ``scenario``, ``predicted`` (result keys), ``devices``, ``every_s``, ``folder``."""
    steps: Sequence[Mapping[str, Any]] = ()
    """Lines about some steps each: ``step`` (the last), ``steps``, ``elapsed_s``, ``step_time_s``, ``spread_s``,
    ``tokens_per_s``, ``mfu``, ``memory_bytes``, ``input_wait_s``, ``gap`` (measured over predicted, less 1), ..."""
    events: Sequence[Mapping[str, Any]] = ()
    """Lines about what was said: ``at``, ``kind`` (baseline, departure, replan, note), ``sentence``, ..."""
    next_step: int = 0
    """The number of the first line about steps that was not there yet: where to go on (``since``)."""
    next_event: int = 0
    """The same of events."""

    @property
    def id(self) -> str:
        """That of its run."""
        return self.run.id

    @property
    def is_running(self) -> bool:
        """Whether more lines may come."""
        return self.run.status == "running"

    @property
    def last(self) -> Mapping[str, Any]:
        """The last line about steps; empty before the first."""
        return self.steps[-1] if self.steps else {}

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        said = {key: getattr(self.run, key) for key in ("id", "name", "status", "reason", "created", "ended")}
        return said | {
            "result": dict(self.run.result),
            "about": dict(self.about),
            "steps": [dict(line) for line in self.steps],
            "events": [dict(line) for line in self.events],
            "next_step": self.next_step,
            "next_event": self.next_event,
        }


def read(store: Store | str | None = None) -> list[WatchRecord]:
    """Return all watches of a store, oldest first, each with its last line about steps and all events."""
    opened = _opened(store)
    records = [_record(opened, run) for run in opened.runs() if run.suite == SUITE]
    return [replace(record, steps=record.steps[-1:]) for record in records]


def read_one(watch: str, store: Store | str | None = None, *, since: int = 0, since_event: int = 0) -> WatchRecord:
    """Return a watch with the lines from number ``since`` on; ``next_step`` of the answer is where to go on.

    Args:
        watch: Its id, the start of it, or ``latest``.
        store: The store of runs, or its place.
        since: Lines about steps that are left out.
        since_event: Events that are left out.

    Raises:
        InputError: There is no such run, or it is no watch.
    """
    opened = _opened(store)
    run = _latest(opened) if watch == "latest" else opened.find(watch)
    if run.suite != SUITE:
        raise InputError(f"run '{run.id}' was measured, not watched; show it with `sightline runs show {run.id}`")
    return _record(opened, run, since, since_event)


def _latest(store: Store) -> Run:
    runs = [run for run in store.runs() if run.suite == SUITE]
    if not runs:
        raise InputError(f"the run store '{store.place}' has no watched job")
    return runs[-1]


def _opened(store: Store | str | None) -> Store:
    return store if isinstance(store, Store) else open_store(store)


def _record(store: Store, run: Run, since: int = 0, since_event: int = 0) -> WatchRecord:
    steps, events = _lines(store, f"{run.id}/{STEPS}"), _lines(store, f"{run.id}/{EVENTS}")
    return WatchRecord(
        run=run,
        about=_about(store, run),
        steps=steps[since:],
        events=events[since_event:],
        next_step=len(steps),
        next_event=len(events),
    )


def _about(store: Store, run: Run) -> dict[str, Any]:
    try:
        found = json.loads(store.storage.read(f"{run.id}/{ABOUT}"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(store: Store, path: str) -> list[dict[str, Any]]:
    """The whole lines of a file; one that is being written, or was cut by the end of its writer, is left out."""
    try:
        data = store.storage.read(path)
    except FileNotFoundError:
        return []
    found = []
    for line in data.split(b"\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
