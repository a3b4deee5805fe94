"""Lines of MLPerf Training's logs: a step's time as it was logged, or as it follows from the logged throughput."""

from collections.abc import Iterator

from sightline.validation.cells import Cells

LOGGED, DERIVED = "logged_step_time_s", "derived_step_time_s"


def lines(cells: Cells) -> Iterator[Cells]:
    """Yield the line with its step time in the logged column; throughputs include some time between steps."""
    yield {**cells, LOGGED: cells[LOGGED] or cells[DERIVED]}
