"""How far a suite is, on stderr: a bar on a terminal, else a line per case."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sightline.measurement.suite import Step


@contextmanager
def shown(cases: int) -> Iterator[Callable[[Step], None]]:
    """Give the function to hand to ``run_suite`` as ``on_step``."""
    if not sys.stderr.isatty():
        yield _Lines(cases)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=cases)

        def step(step: Step) -> None:
            if step.run is None:
                bar.update(task, description=step.case.name)
                return
            bar.advance(task)
            if step.run.status != "ok" and not step.resumed:
                bar.console.print(ended(step), markup=False, highlight=False)

        yield step


class _Lines:
    def __init__(self, cases: int) -> None:
        self._cases, self._ended = cases, 0

    def __call__(self, step: Step) -> None:
        if step.run is not None:
            self._ended += 1
            print(f"sightline: {self._ended}/{self._cases} {ended(step)}", file=sys.stderr, flush=True)  # noqa: T201


def ended(step: Step) -> str:
    """Return in a line how a case ended."""
    status = step.run.status.replace("_", " ")
    reason = f": {step.run.reason}" if step.run.reason else ""
    return f"{step.case.name}: {status}{' (measured before)' if step.resumed else ''}{reason}"
