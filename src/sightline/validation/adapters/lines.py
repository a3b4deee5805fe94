"""Lines of sources' tables that hold several measurements, or columns in other columns' places."""

import re
from collections.abc import Iterator

from sightline.validation.cells import Cells

SPEED, PRECISION = "Tokens / sec / GPU", "Precision"
UNNAMED = ("first", "second")
"""What the two values of a line without a precision are called."""

_PAIR = re.compile(r"(.*?)\s*\((.*)\)")


LOGGED, DERIVED = "logged_step_time_s", "derived_step_time_s"


def megatron_bridge(cells: Cells) -> Iterator[Cells]:
    """Yield the measurements of a line, each with its model, system, precision and speed in columns of their own.

    Columns of NVIDIA's Megatron-Bridge performance tables moved from release to release. Older ones print the system in
    the model's place, and two precisions in one line: ``FP8-CS (FP8-MX)`` beside ``31508 (29789)``. The pair of release
    25.09 is not named.
    """
    straight = {key: value or "" for key, value in cells.items()}
    if straight["model"].startswith("System: "):
        straight |= {"System": straight["model"].removeprefix("System: "), "model": straight["Model"]}
    speeds = _parts(straight[SPEED])
    precisions = _parts(straight[PRECISION])
    if not straight[PRECISION] and len(speeds) > 1:
        precisions = UNNAMED
    for precision, speed in zip(precisions, speeds, strict=False):
        yield {**straight, PRECISION: precision, SPEED: speed}


def _parts(text: str) -> tuple[str, ...]:
    """A value and the one in parentheses behind it, if there is one."""
    pair = _PAIR.fullmatch(text)
    return (text,) if pair is None else pair.groups()


def mlperf_training(cells: Cells) -> Iterator[Cells]:
    """Yield a line of MLPerf Training's logs with its step time in the logged column.

    Where a step's time was not logged it follows from the throughput, which includes some time between steps.
    """
    yield {**cells, LOGGED: cells[LOGGED] or cells[DERIVED]}
