"""Runs out of a store and into another, as one ZIP file with a folder per run."""

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

from sightline.errors import InputError
from sightline.runs.run import FORMAT, JOURNAL, ROWS, RUNNING, SAMPLES, Run, from_json
from sightline.runs.store import ID, Store

_FILES = ("run.json", JOURNAL, f"{SAMPLES}.parquet", f"{ROWS}.parquet")
_MOST_BYTES = 2**32


def to_archive(store: Store, runs: Iterable[Run]) -> bytes:
    """Return the runs as the content of a ZIP file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for run in runs:
            for name in store.storage.files(run.id):
                if name in _FILES:
                    archive.writestr(f"{run.id}/{name}", store.storage.read(f"{run.id}/{name}"))
    return buffer.getvalue()


def from_archive(store: Store, path: Path) -> tuple[list[str], list[str]]:
    """Store the runs of a ZIP file; return the ids that are new, and those that were there before and stay as they are.

    Raises:
        InputError: It is no archive of runs; nothing has been stored then.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = _checked(archive, path)
            there = set(store.storage.folders())
            new = [run for run in found if run not in there]
            for run in new:
                _store(store, archive, run, found[run])
    except FileNotFoundError as error:
        raise InputError(f"there is no file '{path}'") from error
    except (zipfile.BadZipFile, IsADirectoryError) as error:
        raise InputError(f"'{path}' is no archive of runs: {error}") from error
    return new, [run for run in found if run in there]


def _checked(archive: zipfile.ZipFile, path: Path) -> dict[str, list[str]]:
    """Return the files of each run, once everything in the archive is known to be a run's."""
    found: dict[str, list[str]] = {}
    for entry in archive.infolist():
        run, _, name = entry.filename.partition("/")
        if not ID.fullmatch(run) or name not in _FILES:
            raise InputError(f"'{path}' is no archive of runs: it holds '{entry.filename}'")
        found.setdefault(run, []).append(name)
    if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
        raise InputError(f"'{path}' unpacks to more than {_MOST_BYTES / 2**30:g} GiB")
    for run, names in found.items():
        _check_run(archive, run, names, path)
    return found


def _check_run(archive: zipfile.ZipFile, run: str, names: list[str], path: Path) -> None:
    if "run.json" not in names:
        raise InputError(f"'{path}' is no archive of runs: '{run}' has no run.json")
    try:
        said = from_json(archive.read(f"{run}/run.json"))
    except ValueError as error:
        raise InputError(f"'{path}': the run.json of '{run}' cannot be read: {error}") from error
    if said.format > FORMAT:
        raise InputError(f"'{path}': run '{run}' was written by a newer Sightline ({said.version})")


def _store(store: Store, archive: zipfile.ZipFile, run: str, names: list[str]) -> None:
    """Store one run, ``run.json`` last: without it there is no run."""
    store.storage.create(run)
    for name in sorted(names, key=lambda name: name == "run.json"):
        store.storage.write(f"{run}/{name}", archive.read(f"{run}/{name}"))


def exportable(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that have ended.

    Raises:
        InputError: One that was asked for still runs.
    """
    chosen = list(runs)
    running = [run.id for run in chosen if run.status == RUNNING]
    if running:
        raise InputError([f"run '{run}' has not ended" for run in running])
    return chosen
