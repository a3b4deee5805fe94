"""The store: begin, list, find and delete runs. Many processes may write to one store at once."""

import io
import os
import re
import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, WorkError, nearest
from sightline.parquet import first_line, polars_faults, refuse_deep
from sightline.runs import credentials
from sightline.runs.run import (
    FORMAT,
    INTERRUPTED,
    JOURNAL,
    ROWS,
    SAMPLES,
    Run,
    RunWriter,
    from_journal,
    from_json,
    is_abandoned,
    this_process,
)
from sightline.runs.storage import Storage, storage_at

if TYPE_CHECKING:
    import polars

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LATEST = "latest"


def open_store(place: str | None = None) -> "Store":
    """Open the store at a folder or URL; without one, ``SIGHTLINE_RUNS``, else the user's own folder.

    Raises:
        InputError: The place is no folder and no URL, or a URL that lacks a slash.
        WorkError: It needs a package that is not installed.
    """
    return Store(storage_at(place or os.environ.get("SIGHTLINE_RUNS") or str(_users_folder())))


def _users_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "sightline" / "runs"


class Store:
    """Runs in one place."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def place(self) -> str:
        """The folder or URL."""
        return self.storage.place

    def begin(
        self,
        name: str,
        *,
        scenario: Mapping[str, Any] | None = None,
        suite: str = "",
        key: str = "",
    ) -> RunWriter:
        """Begin a run; it can be seen as running from now on."""
        from sightline import __version__

        now = datetime.now(UTC)
        run = Run(
            id=f"{now:%Y%m%d-%H%M%S}-{_slug(name)}-{secrets.token_hex(3)}",
            name=name,
            created=now.isoformat(timespec="milliseconds"),
            suite=suite,
            key=key,
            scenario=dict(scenario or {}),
            command=[credentials.of_command(sys.orig_argv).hide(word) for word in sys.orig_argv],
            version=__version__,
            writer=this_process(),
        )
        return RunWriter(self.storage, run)

    def runs(self) -> list[Run]:
        """Return all runs, oldest first; a folder without a readable ``run.json`` is none."""
        return sorted(self._read(self.storage.folders()), key=lambda run: (run.created, run.id))

    def newest(self, most: int) -> tuple[list[Run], int]:
        """Return the newest runs, newest first, at most ``most`` of them, and how many folders there are.

        Only these are read: an id begins with the time at which its run did.
        """
        folders = sorted(self.storage.folders(), reverse=True)
        found = sorted(self._read(folders[:most]), key=lambda run: (run.created, run.id), reverse=True)
        return found, len(folders)

    def find(self, asked: str) -> Run:
        """Return the run of this id, of an id that begins so, or ``latest``.

        Raises:
            InputError: There is no such run, or several.
        """
        if asked == LATEST:
            runs = self.runs()
            if not runs:
                raise InputError(f"the store of runs '{self.place}' is empty")
            return runs[-1]
        names = self.storage.folders()
        matches = [asked] if asked in names else [name for name in names if asked and name.startswith(asked)]
        if len(matches) > 1:
            raise InputError(f"'{asked}' begins {len(matches)} runs: {', '.join(matches[:5])}; write more of the id")
        for run in self._read(matches):
            return run
        raise InputError(f"no run '{asked}' in '{self.place}'{nearest(asked, names)}")

    def ended(self, statuses: Collection[str]) -> dict[str, Run]:
        """Return the newest run of each key that ended in one of these ways."""
        return {run.key: run for run in self.runs() if run.key and run.status in statuses}

    def samples(self, run: Run) -> "polars.DataFrame":
        """Return a run's samples, those so far while it runs; an empty table when there are none."""
        table = self._table(run, SAMPLES)
        if table is not None:
            return table
        try:
            return from_journal(self.storage.read(f"{run.id}/{JOURNAL}"))
        except FileNotFoundError:
            return from_journal(b"")

    def rows(self, run: Run) -> "polars.DataFrame":
        """Return a run's profile, a row per operator; an empty table when there is none."""
        table = self._table(run, ROWS)
        return from_journal(b"") if table is None else table

    def delete(self, runs: Iterable[Run]) -> None:
        """Delete runs; nobody reads half of one."""
        for run in runs:
            try:
                self.storage.remove_folder(run.id)
            except FileNotFoundError:
                continue

    def _read(self, folders: Iterable[str]) -> Iterator[Run]:
        for folder, data in self.storage.read_each(folders, "run.json").items():
            try:
                run = from_json(data)
            except ValueError:
                continue
            if run.format > FORMAT:
                raise WorkError(f"run '{folder}' was written by a newer Sightline ({run.version})")
            run = replace(run, id=folder)
            if is_abandoned(run):
                run = replace(run, status=INTERRUPTED, reason="the process that wrote it ended before it did")
            yield run

    def _table(self, run: Run, name: str) -> "polars.DataFrame | None":
        import polars

        try:
            table = io.BytesIO(self.storage.read(f"{run.id}/{name}.parquet"))
            refuse_deep(table, f"run '{run.id}': its {name}.parquet")
            return polars.read_parquet(table)
        except FileNotFoundError:
            return None
        except polars_faults() as error:
            raise InputError(f"run '{run.id}': its {name}.parquet cannot be read: {first_line(error)}") from error


def _slug(name: str) -> str:
    """Return a name as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower())[:20].strip("-.") or "run"
