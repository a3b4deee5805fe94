"""Work in chunks: each done once, kept in a folder as soon as it is done, and done again if its worker dies."""

import hashlib
import io
import json
import os
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sightline import __version__
from sightline.catalog.index import VARIABLE
from sightline.errors import InputError, WorkError
from sightline.parquet import polars_faults, refuse_deep
from sightline.progress import SILENT, Cancelled, Progress
from sightline.runs.storage import Storage, storage_at
from sightline.sweeps.pools import Job, Pool, Workers, open_pool, read_workers, require_answer

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "sweep.json"
PARTS = "parts"
SCHEMA = 1
WHAT = "the sweep folder"


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
        raise InputError(f"'{place}' holds a {MANIFEST} that is not from a sweep; use another folder") from error
    if not isinstance(there, dict) or there.get("content") != own["content"]:
        why = _difference(there if isinstance(there, dict) else {}, own)
        raise InputError(f"'{place}' holds another sweep ({why}); use another folder, or empty it")
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
    return "other scenarios"


Chunk: TypeAlias = Mapping[str, Any]
"""What to do, in values that JSON has; ``name``, if there is one, says it to people."""
Work: TypeAlias = "Callable[[Chunk], pl.DataFrame]"
"""A function of a module, or what is called like one and can be sent.

The same chunk gives the same table, so that it may be done again.
"""

_MANY = 32
"""Chunks from which on workers start while the first chunks are done in this process."""
_DEATHS_IN_A_CROWD = 2
"""Times that they may die among others before it is done alone, where it must be the one that kills."""
_DEATHS = 3
"""Times that its workers may die over a chunk."""
_LOOKS_EVERY_S = 0.1


class Part(NamedTuple):
    """What was found for a chunk."""

    chunk: int
    """Its position among the chunks."""
    table: "pl.DataFrame"


def run_chunks(
    work: Work,
    chunks: Sequence[Chunk],
    *,
    where: str | None = None,
    workers: Workers | str | None = None,
    progress: Progress = SILENT,
    what: str = "sweeping",
    is_first: Callable[[Chunk], bool] = lambda _: False,
) -> Iterator[Part]:
    """Yield the table of every chunk: first those that ``where`` has from before, then others as they are done.

    If stopped, those that were done until then. No more tables than there are workers are held at a time.

    Args:
        work: Makes the table of a chunk.
        chunks: Independent of each other.
        where: A folder or URL that keeps the tables, so that a later call does only what is left.
        workers: Who does the work, as ``--workers`` has it; None for this process.
        progress: Counts the chunks.
        what: What is done, in a word.
        is_first: Whether a chunk is done in this process before there are workers; asked in order, each when all before
            it that are are done.

    Raises:
        InputError: A chunk is a wrong request, ``where`` holds other work, or no cluster answers at its address.
        WorkError: Nothing more can be kept, or some chunks ended their workers again and again. What is kept stays.
    """
    asked = read_workers(workers) if isinstance(workers, str) else workers
    folder = None if where is None else open_folder(where, _name_of(work), chunks)
    progress.begin(len(chunks), what)
    left = list(range(len(chunks)))
    with suppress(Cancelled):
        if folder is not None:
            there = folder.kept()
            for index in [one for one in left if one in there]:
                progress.check()
                if (table := folder.read(index)) is not None:
                    left.remove(index)
                    progress.advance()
                    yield Part(index, table)
        for part in _fresh(work, chunks, left, asked, progress, is_first):
            if folder is not None:
                _keep(folder, part, len(chunks))
            progress.advance()
            yield part


def _name_of(work: Work) -> str:
    """The function, or the class of what is called like one."""
    named = work if hasattr(work, "__qualname__") else type(work)
    return f"{named.__module__}.{named.__qualname__}"


def _keep(folder: SweepFolder, part: Part, of: int) -> None:
    try:
        folder.write(part.chunk, part.table)
    except WorkError as error:
        kept = len(folder.kept())
        raise WorkError(f"{error}; {kept} of {of} parts are saved there; run the same command to resume") from error


def _fresh(
    work: Work,
    chunks: Sequence[Chunk],
    left: Sequence[int],
    workers: Workers | None,
    progress: Progress,
    is_first: Callable[[Chunk], bool],
) -> Iterator[Part]:
    """Do the chunks that are left."""
    here = workers is None or workers == Workers(kind="local", count=1)
    if workers is not None and left:
        require_answer(workers)
    others = list[int]()
    with ExitStack() as opened:
        pool = None
        if workers and not here and len(left) >= _MANY:
            pool = opened.enter_context(open_pool(workers))
            for _ in range(pool.width):
                pool.submit(_name_of, work)  # has workers import what the work needs
        for index in left:
            if is_first(chunks[index]) or here:
                progress.check()
                yield Part(index, work(chunks[index]))
            else:
                others.append(index)
        if workers and others:
            pool = pool or opened.enter_context(open_pool(workers))
            yield from _Crowd(work, chunks, others, pool, str(workers)).parts(progress)


class _Answer(NamedTuple):
    """What a worker says of a chunk."""

    table: "pl.DataFrame | None" = None
    problems: tuple[str, ...] = ()
    """Mistakes in the request."""
    failure: str = ""
    """Why the work failed."""
    bug: str = ""
    """A traceback."""


def _answer(work: Work, chunk: Chunk, version: str) -> _Answer:
    """Do a chunk, on a worker: whatever it raises comes back as words, as not all errors can be sent."""
    if version != __version__:
        return _Answer(failure=f"the workers run sightline {__version__}, this is {version}")
    try:
        return _Answer(table=work(chunk))
    except InputError as error:
        return _Answer(problems=error.problems)
    except WorkError as error:
        return _Answer(failure=str(error))
    except Exception:  # noqa: BLE001 - it is raised where the sweep was asked for
        return _Answer(bug=traceback.format_exc())


class _Crowd:
    """Chunks among workers, some of which die."""

    def __init__(self, work: Work, chunks: Sequence[Chunk], left: Sequence[int], pool: Pool, workers: str) -> None:
        self._work, self._chunks, self._pool, self._workers = work, chunks, pool, workers
        self._waiting, self._doubtful = deque(left), deque[int]()
        self._running: dict[int, Job] = {}
        self._deaths: Counter[int] = Counter()
        self._given_up: list[int] = []

    def parts(self, progress: Progress) -> Iterator[Part]:
        """Yield parts as they are done."""
        while self._waiting or self._doubtful or self._running:
            progress.check()
            self._give()
            try:
                self._pool.wait(_LOOKS_EVERY_S)
            except ConnectionError as error:
                raise WorkError(f"--workers is '{self._workers}': {error}") from error
            deaths: dict[int, Exception] = {}
            for index in [one for one, job in self._running.items() if self._pool.is_done(job)]:
                try:
                    answer: _Answer = self._pool.result(self._running[index])
                except Exception as error:  # noqa: BLE001 - every library has its own for workers that died
                    deaths[index] = error
                    continue
                del self._running[index]
                yield Part(index, self._table(index, answer))
            # One death may take all that runs with it, so what has been answered is taken first.
            for index, death in deaths.items():
                if index in self._running:
                    self._died(index, death)
        if self._given_up:
            raise WorkError(self._why_given_up())

    def _give(self) -> None:
        """Keep all workers busy, with a chunk each in reserve; what may be deadly is done alone."""
        while self._waiting and len(self._running) < 2 * self._pool.width:
            self._start(self._waiting.popleft())
        if self._doubtful and not self._running:
            self._start(self._doubtful.popleft())

    def _start(self, index: int) -> None:
        try:
            job = self._pool.submit(_answer, self._work, self._chunks[index], __version__)
        except Exception as error:  # noqa: BLE001 - likewise
            self._running[index] = None
            self._died(index, error)
        else:
            self._running[index] = job

    def _died(self, index: int, error: Exception) -> None:
        """Do the chunk again, and all that were lost with it."""
        try:
            lost = list(self._running) if self._pool.mend() else [index]
        except Exception as again:  # noqa: BLE001 - likewise
            raise WorkError(f"--workers is '{self._workers}': its workers are gone ({_first_line(again)})") from error
        for one in lost:
            del self._running[one]
            self._deaths[one] += 1
            if self._deaths[one] >= _DEATHS:
                self._given_up.append(one)
            elif self._deaths[one] >= _DEATHS_IN_A_CROWD:
                self._doubtful.append(one)
            else:
                self._waiting.appendleft(one)

    def _table(self, index: int, answer: _Answer) -> "pl.DataFrame":
        if answer.problems:
            raise InputError(answer.problems)
        if answer.failure:
            raise WorkError(answer.failure)
        if answer.table is None:
            raise RuntimeError(f"{self._name(index)} failed on a worker:\n{answer.bug}")
        return answer.table

    def _name(self, index: int) -> str:
        return f"chunk {index + 1} of {len(self._chunks)} ({self._chunks[index].get('name', 'unnamed')})"

    def _why_given_up(self) -> str:
        names = ", ".join(map(self._name, sorted(self._given_up)[:3]))
        more = f" and {len(self._given_up) - 3} more" if len(self._given_up) > 3 else ""
        return (
            f"{names}{more}: the workers of '{self._workers}' died repeatedly, perhaps out of memory; all other "
            "chunks are done"
        )


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
