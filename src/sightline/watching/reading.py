"""Watches as the store has them, also while their jobs run: for the page, the terminal and whoever else looks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.errors import InputError
from sightline.runs import Run, Store, open_store
from sightline.watching.stream import ABOUT, EVENTS, STEPS, SUITE


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
    found = [_record(opened, run) for run in opened.runs() if run.suite == SUITE]
    return [_with_last(one) for one in found]


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
        raise InputError(f"run '{run.id}' was measured, not watched; `sightline runs show {run.id}` shows it")
    return _record(opened, run, since, since_event)


def _latest(store: Store) -> Run:
    runs = [run for run in store.runs() if run.suite == SUITE]
    if not runs:
        raise InputError(f"the store of runs '{store.place}' has no watch")
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


def _with_last(one: WatchRecord) -> WatchRecord:
    from dataclasses import replace

    return replace(one, steps=one.steps[-1:])


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
