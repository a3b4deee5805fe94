"""What a sweep leaves behind: a folder or URL with one Parquet file per chunk, each whole or not there.

``sweep.json`` says what the sweep is, so that nobody takes the files of one for another's. Any reader takes
``parts/*.parquet`` together.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline import __version__
from sightline.catalog.index import VARIABLE
from sightline.errors import InputError
from sightline.parquet import polars_faults, refuse_deep
from sightline.runs.storage import Storage, storage_at

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "sweep.json"
PARTS = "parts"
SCHEMA = 1
WHAT = "the folder of the sweep"


class SweepFolder:
    """The parts of one sweep."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def place(self) -> str:
        """The folder or URL."""
        return self._storage.place

    @property
    def parts(self) -> str:
        """What readers of Parquet take: all parts."""
        return f"{self.place.rstrip('/')}/{PARTS}/*.parquet"

    def kept(self) -> set[int]:
        """Return the chunks that have a part."""
        names = (name.removesuffix(".parquet").removeprefix("part-") for name in self._storage.files(PARTS))
        return {int(name) for name in names if name.isdecimal()}

    def read(self, chunk: int) -> "pl.DataFrame | None":
        """Return the part of a chunk; None for one that is not there, that is torn, or that no sweep wrote."""
        import polars as pl

        try:
            part = io.BytesIO(self._storage.read(_path(chunk)))
            refuse_deep(part, _path(chunk))
            return pl.read_parquet(part)
        except polars_faults(FileNotFoundError, InputError):
            return None

    def write(self, chunk: int, table: "pl.DataFrame") -> None:
        """Keep the part of a chunk.

        Raises:
            WorkError: It cannot be written; what was there stays as it is.
        """
        content = io.BytesIO()
        table.write_parquet(content)
        self._storage.write(_path(chunk), content.getvalue())


def open_folder(place: str, work: str, chunks: Sequence[Mapping[str, Any]]) -> SweepFolder:
    """Return the folder for the chunks of some work, made if it is not there, to be gone on with if it is.

    Raises:
        InputError: It is no folder and no URL, or it holds another sweep.
        WorkError: It cannot be used.
    """
    storage = storage_at(place, WHAT)
    own = _manifest(work, chunks)
    with suppress(FileExistsError):
        storage.create(PARTS)
    try:
        there = json.loads(storage.read(MANIFEST))
    except FileNotFoundError:
        storage.write(MANIFEST, json.dumps(own, indent=1).encode() + b"\n")
        return SweepFolder(storage)
    except ValueError as error:
        raise InputError(f"'{place}' holds a {MANIFEST} that is none of a sweep; name another folder") from error
    if not isinstance(there, dict) or there.get("content") != own["content"]:
        why = _difference(there if isinstance(there, dict) else {}, own)
        raise InputError(f"'{place}' holds another sweep ({why}); name another folder, or empty it")
    return SweepFolder(storage)


def _path(chunk: int) -> str:
    return f"{PARTS}/part-{chunk:06d}.parquet"


def _manifest(work: str, chunks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a sweep is; its content is the same when it would give the same parts."""
    digest = hashlib.sha256(json.dumps([SCHEMA, __version__, work]).encode())
    for chunk in chunks:
        digest.update(json.dumps(chunk, sort_keys=True).encode() + b"\n")
    for data in _own_entries():
        digest.update(data)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "work": work,
        "chunks": len(chunks),
        "content": digest.hexdigest(),
    }


def _own_entries() -> Iterator[bytes]:
    """The catalog entries that the user added, which answers depend on."""
    for folder in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        for path in sorted(Path(folder).rglob("*.*")):
            if path.is_file():
                yield str(path.relative_to(folder)).encode() + b"\n" + path.read_bytes()


def _difference(there: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """In which figure two manifests differ, for people."""
    for key, words in (("work", "of {}"), ("version", "made by sightline {}"), ("chunks", "of {} chunks")):
        if there.get(key) != own[key]:
            return words.format(there.get(key))
    return "of other scenarios"
