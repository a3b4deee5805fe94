"""Long work at a terminal: a bar on stderr beyond the first second, and Ctrl-C, which once stops and twice kills."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING

from sightline.cli.main import INTERRUPTED
from sightline.cli.output import print_remark
from sightline.progress import SILENT, Cancelled, Progress, State, stopped_by_interrupt

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from sightline.runs import Store

APPEARS_AFTER_S = 1.0
"""Work that is done sooner needs no bar."""
_STOPPING = b"\nsightline: stopping; Ctrl-C again stops at once\n"


@contextmanager
def progress_bar(
    *, stops: bool = True, tables: bool = False, stored: "Store | None" = None, lines: bool = False
) -> Iterator[Progress]:
    """Give the progress of work that is shown on a terminal.

    Args:
        stops: Ctrl-C asks the work to stop, so that it can return what it found; a second one interrupts it. Without
            this, the first one interrupts it, as for work that waits for other processes.
        tables: The work that stops has tables, as `stopped_by_interrupt` has to know.
        stored: Where the work stores what has ended, which is said when it is interrupted. Such work lasts: where
            nobody sees a bar, as in the log of a job, a line says so at the beginning.
        lines: There is a line there too about other work that lasts.
    """
    bar = _Bar()
    line = _Line(f"; what has ended is stored in {stored.place}", 0.0) if stored else _Line("", APPEARS_AFTER_S)
    progress = Progress(bar.show) if sys.stderr.isatty() else Progress(line.show) if stored or lines else Progress()
    bar.progress = progress
    try:
        with stopped_by_interrupt(progress, _say_so, tables=tables) if stops else nullcontext():
            yield progress
    except (Cancelled, KeyboardInterrupt):
        progress.cancel()
        raise
    finally:
        bar.close()
        if stored and progress.cancelled:
            print_remark(f"{_how_far(progress.state)}; {_resumed(stored)}")


def _resumed(store: "Store") -> str:
    """What is stored of work that stores what has ended, and how it goes on."""
    from sightline.cli.reports import typed

    last = next(iter(store.runs()[-1:]), None)
    named = "" if last is None else f", the last is {last.id} ({last.status})"
    return f"runs are stored in {store.place}{named}; resume with `{typed() or 'the same command'}`"


def end_if_stopped(progress: Progress) -> None:
    """After the answer: if the work was stopped, say how far it came, and end with the exit code of an interruption."""
    if progress.cancelled:
        import typer

        print_remark(f"interrupted: {_how_far(progress.state)}")
        raise typer.Exit(INTERRUPTED)


def _how_far(state: State) -> str:
    of = "" if state.total is None else f" of {state.total:,}"
    return f"{state.what or 'work'} stopped after {state.done:,}{of}"


def _say_so() -> None:
    """Say that a second Ctrl-C kills, not through Python's streams: a signal may come in the middle of a write."""
    os.write(2, _STOPPING)


class _Line:
    """A single line, where there is no terminal, when the work has lasted some seconds."""

    def __init__(self, after: str, silence_s: float) -> None:
        self._after, self._begins, self._is_said = after, monotonic() + silence_s, False

    def show(self, state: State) -> None:
        """Print how far the work is, once."""
        if not self._is_said and monotonic() >= self._begins:
            self._is_said = True
            print_remark(f"{state.words}{self._after}")


class _Bar:
    """A bar of Rich, which is loaded and shown when the work has lasted long enough."""

    progress: Progress = SILENT
    """Whose state it shows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._latest: State | None = None
        self._shown: tuple[RichProgress, TaskID] | None = None
        self._is_closed = False

    def show(self, state: State) -> None:
        """Show how far the work is, now or when it has lasted long enough."""
        with self._lock:
            self._latest = state
            if self._timer is None:
                self._timer = threading.Timer(APPEARS_AFTER_S, self._appear)
                self._timer.daemon = True
                self._timer.start()
            elif self._shown is not None:
                bar, task = self._shown
                bar.update(task, completed=state.share or 0.0, total=_total(state.share))

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            if self._shown is not None:
                self._shown[0].stop()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column
        from rich.text import Text

        class Words(ProgressColumn):
            """How far the work is now, also where it has not said anything for some time."""

            def render(_, task: object) -> Text:  # noqa: ARG002, N805 - self is the bar
                return Text(self.progress.state.words)

        with self._lock:
            if self._is_closed or self._latest is None:
                return
            # Answers go to stdout as they are; remarks on stderr are printed above the bar.
            columns = BarColumn(bar_width=20), Words(table_column=Column(no_wrap=True))
            bar = RichProgress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._shown = bar, bar.add_task("", total=_total(self._latest.share))
            bar.start()


def _total(share: float | None) -> float | None:
    """The end of the bar; where nobody knows how far the work is, it has none and moves."""
    return 1.0 if share else None
