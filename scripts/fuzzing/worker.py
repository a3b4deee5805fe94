"""The process in which inputs are asked about: little memory, little time, and nothing that it may harm."""

import contextlib
import faulthandler
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Final

from fuzzing.inputs import Input
from fuzzing.verbs import VERBS, Defect

MEMORY_BYTES: Final = 5 * 2**30
"""Of addresses. What is imported and its threads take 2 GiB of them."""
TAKEN_BYTES: Final = 2**30
"""Of memory, that one input may take at a time."""
CPU_S: Final = float(os.environ.get("FUZZ_CPU_S", "5"))
"""Of one input, of a processor."""
_IMPORTED: Final = ("sightline.cli.app", "sightline.prediction", "sightline.launching", "numpy", "polars")
"""What a process loads before its first input, whose time it is not."""
_SHOWN: Final = 12
"""Frames of a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an input."""

    word: str
    """answered, refused, failed or defect."""
    problem: str = ""
    """What is wrong, with a traceback."""
    signature: str = ""
    """What defects with one cause have in common."""


class TooLong(BaseException):
    """An input took too much time."""


def serve(connection: Connection, place: str) -> None:
    """Answer inputs until there are no more; a process that dies has a traceback in the file ``died``."""
    folder = Path(place)
    _limit(folder)
    for module in _IMPORTED:
        import_module(module)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            connection.send(outcome_of(connection.recv(), folder / "files"))


def _limit(folder: Path) -> None:
    """Bound this process, and keep what it writes in a folder."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The compiled simulator is that of this machine.
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    names = {"SIGHTLINE_RUNS": "runs", "SIGHTLINE_JOBS": "jobs", "XDG_DATA_HOME": "data", "HOME": "home"}
    os.environ.update({variable: str(folder / name) for variable, name in names.items()})
    os.environ["POLARS_MAX_THREADS"] = "2"
    died = (folder / "died").open("w")
    # What libraries print, such as Polars when it panics, belongs to no one's answer.
    os.dup2(died.fileno(), sys.stdout.fileno())
    os.dup2(died.fileno(), sys.stderr.fileno())
    faulthandler.enable(died)
    signal.signal(signal.SIGPROF, _too_long)
    warnings.simplefilter("error")


def _too_long(_: int, __: FrameType | None) -> None:
    raise TooLong(f"more than {CPU_S:.0f} s of a processor")


def _most_bytes(*, anew: bool = False) -> int:
    """The most memory that this process had at a time; ``anew`` from now on, on Linux alone."""
    with contextlib.suppress(OSError):
        if anew:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        said = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(said.partition("VmHWM:")[2].split()[0])
    return 0


def _check_memory(taken_bytes: int) -> None:
    if taken_bytes > TAKEN_BYTES:
        raise Defect(f"more than {TAKEN_BYTES / 1e9:.1f} GB of memory at a time: {taken_bytes / 1e9:.1f}")


@contextlib.contextmanager
def _timed() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def outcome_of(asked: Input, folder: Path) -> Outcome:
    """Return what comes of an input whose files lie in a folder of their own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    for name, content in asked.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    before = _most_bytes(anew=True)
    try:
        with _timed():
            word = VERBS[asked.verb](asked.arguments)
        _check_memory(_most_bytes() - before)
        return Outcome(word=word)
    except (Exception, SystemExit, TooLong) as error:  # noqa: BLE001 - whatever comes out is what is looked for
        return _defect(error)


def _defect(error: BaseException) -> Outcome:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/sightline/" in frame.filename] or list(frames)
    shown = "".join(traceback.format_list(frames[-_SHOWN:]))
    said = f"{type(error).__name__}: {error!s:.500}"
    where = f"{own[-1].filename.rpartition('/src/')[2]}:{own[-1].lineno}" if own else ""
    signature = f"{type(error).__name__} at {where}"
    if isinstance(error, Defect):
        signature = f"{said:.60}"
    elif isinstance(error, MemoryError | TooLong):
        # Where it happens to stop says little: what was entered last of ours with a loop says more.
        signature = f"{type(error).__name__} in {own[-1].name} of {where.partition(':')[0]}" if own else said
    return Outcome(word="defect", problem=f"{said}\n{shown}", signature=signature)
