"""Long work at a terminal: a bar on stderr beyond the first second, and Ctrl-C, which once stops and twice kills."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from sightline.cli.main import INTERRUPTED
from sightline.cli.output import print_remark
from sightline.progress import Cancelled, Progress, State, stopped_by_interrupt

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

LINES_EVERY_S = 10.0
"""Between two lines about one stage, where there is no terminal."""
APPEARS_AFTER_S = 1.0
"""Work that is done sooner needs no bar."""
_STOPPING = b"\nsightline: stopping; Ctrl-C again stops at once\n"


@contextmanager
def progress_bar(
    *, stops: bool = True, tables: bool = False, stored: str = "", lines: bool = False
) -> Iterator[Progress]:
    """Give the progress of work that is shown on a terminal.

    Args:
        stops: Ctrl-C asks the work to stop, so that it can return what it found; a second one interrupts it. Without
            this, the first one interrupts it, as for work that waits for other processes.
        tables: The work that stops has tables, as `stopped_by_interrupt` has to know.
        stored: Where the work stores what has ended, which is said when it is interrupted. Such work lasts: where
            nobody sees a bar, as in the log of a job, a line is printed now and then.
        lines: Lines are printed there too of other work that lasts.
    """
    bar = _Bar()
    written = _Lines(0.0 if stored else APPEARS_AFTER_S)
    progress = Progress(bar.show) if sys.stderr.isatty() else Progress(written.show) if stored or lines else Progress()
    try:
        with stopped_by_interrupt(progress, _say_so, tables=tables) if stops else nullcontext():
            yield progress
    except (Cancelled, KeyboardInterrupt):
        progress.cancel()
        raise
    finally:
        bar.close()
        if stored and progress.cancelled:
            print_remark(
                f"{_how_far(progress.state)}; runs that ended are stored in {stored}; run the same command to resume"
            )


def end_if_stopped(progress: Progress) -> None:
    """After the answer: if the work was stopped, say how far it came, and end with the exit code of an interruption."""
    if progress.cancelled:
        _end(progress.state)


def _end(state: State) -> NoReturn:
    import typer

    print_remark(f"interrupted: {_how_far(state)}")
    raise typer.Exit(INTERRUPTED)


def _how_far(state: State) -> str:
    of = "" if state.total is None else f" of {state.total:,}"
    return f"{state.what or 'work'} stopped after {state.done:,}{of}"


def _say_so() -> None:
    """Say that a second Ctrl-C kills, not through Python's streams: a signal may come in the middle of a write."""
    os.write(2, _STOPPING)


class _Lines:
    """A line for each stage, and then one now and then, after so many seconds of silence."""

    def __init__(self, silence_s: float) -> None:
        self._begins = monotonic() + silence_s
        self._shown = State(done=0, total=None, what="")
        self._at = 0.0

    def show(self, state: State) -> None:
        """Print how far the work is, unless that was said already or something else a moment ago."""
        now = monotonic()
        is_new_stage = state.what != self._shown.what
        if now < self._begins or state == self._shown or (not is_new_stage and now - self._at < LINES_EVERY_S):
            return
        self._shown, self._at = state, now
        of = "" if state.total is None else f" of {state.total:,}"
        print_remark(f"{state.what}: {state.done:,}{of}")


class _Bar:
    """A bar of Rich, which is loaded and shown when the work has lasted long enough."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._latest: State | None = None
        self._shown: tuple[RichProgress, TaskID] | None = None
        self._is_closed = False

    def show(self, state: State) -> None:
        """Show how far the work is, now or when it has lasted long enough."""
        with self._lock:
            is_new = self._latest is None or state.what != self._latest.what
            self._latest = state
            if self._timer is None:
                self._timer = threading.Timer(APPEARS_AFTER_S, self._appear)
                self._timer.daemon = True
                self._timer.start()
            elif self._shown is not None:
                bar, task = self._shown
                if is_new:
                    bar.reset(task)
                bar.update(task, description=state.what, total=state.total, completed=state.done)

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
        from rich.progress import Progress as RichProgress

        with self._lock:
            if self._is_closed or self._latest is None:
                return
            # Answers go to stdout as they are; remarks on stderr are printed above the bar.
            bar = RichProgress(console=Console(stderr=True), transient=True, redirect_stdout=False)
            state = self._latest
            self._shown = bar, bar.add_task(state.what, total=state.total, completed=state.done)
            bar.start()
