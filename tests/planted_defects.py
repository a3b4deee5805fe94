"""A verb for the search of readers for defects: it has one defect of each kind. Processes of the search import it."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from fuzzing import worker
from fuzzing.verbs import VERBS

CPU_S = 1.0
"""Of a processor, which the loop takes before it is ended."""
TAKEN_BYTES = 2**27
"""Of memory, which an input may take."""


def traceback() -> None:
    raise KeyError("a key that nobody looked for")


def loop() -> None:
    while True:
        pass


def wait() -> None:
    time.sleep(3600.0)


def memory() -> None:
    bytearray(2 * worker.MEMORY_BYTES)


def much() -> None:
    bytearray(b"1") * (worker.TAKEN_BYTES * 3 // 2)


def warning() -> None:
    import numpy

    numpy.float64(1.0) / numpy.float64(0.0)


def death() -> None:
    os.abort()


DEFECTS: Mapping[str, Callable[[], None]] = {
    one.__name__: one for one in (traceback, loop, wait, memory, much, warning, death)
}


def planted(arguments: Sequence[str]) -> str:
    """Do what the argument says; ``once`` fails where the file that it names is not there yet."""
    kind, *more = arguments
    if kind in DEFECTS:
        DEFECTS[kind]()
    if kind == "once" and not Path(more[0]).exists():
        Path(more[0]).touch()
        raise KeyError("a key of the past")
    return "refused" if kind == "refuse" else "answered"


def serve(connection: Connection, place: str) -> None:
    """Answer inputs as `fuzzing.worker.serve`, with the planted verb and less time."""
    worker.CPU_S, worker.TAKEN_BYTES = CPU_S, TAKEN_BYTES
    VERBS[planted.__name__] = planted
    worker.serve(connection, place)
