"""What a watch leaves in the store: a run's folder whose files grow line by line while the job runs.

``watch.json`` says what is watched and what was predicted, ``steps.jsonl`` has a line for the steps of some time,
``events.jsonl`` one for everything that was said. ``run.json`` ends the run, as that of every other.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.runs import Run, Store
from sightline.runs.run import SAMPLES, RunWriter, as_parquet, from_journal
from sightline.runs.storage import LocalStorage

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
