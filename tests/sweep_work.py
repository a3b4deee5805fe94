"""Work for tests of sweeps, in a module of its own so that workers find it."""

import os
import signal
import time
from pathlib import Path

import polars as pl

from sightline.errors import InputError, WorkError


def square(chunk):
    """The square of a number, and the process that made it."""
    time.sleep(chunk.get("seconds", 0))
    return pl.DataFrame({"n": [chunk["n"]], "square": [chunk["n"] ** 2], "process": [os.getpid()]})


def square_or_die(chunk):
    """The same; the chunk that is ``deadly`` kills its worker as often as it has ``lives``."""
    if chunk.get("deadly"):
        marks = Path(chunk["marks"])
        deaths = len(list(marks.iterdir()))
        if deaths < chunk["lives"]:
            (marks / str(deaths)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return square(chunk)


def refuse(chunk):
    """A wrong request in the third chunk, a failure in the fourth, a bug in the fifth."""
    if chunk["n"] == chunk.get("wrong"):
        raise InputError(["n is wrong", "so is another"])
    if chunk["n"] == chunk.get("failing"):
        raise WorkError("there is no more paper")
    if chunk["n"] == chunk.get("buggy"):
        raise ZeroDivisionError("a bug")
    return square(chunk)
