"""How far long work is, and whether it should stop: one object for command line, notebook and web page."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from math import inf
from types import FrameType
from typing import Final, ParamSpec, TypeVar

from sightline.errors import SightlineError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")


class Cancelled(SightlineError):  # noqa: N818 - nothing went wrong
    """The work was stopped because somebody asked for it. Long functions catch it and return what they found so far."""

    def __init__(self) -> None:
        super().__init__("stopped before the end")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far one stage of the work is."""

    what: str
    """What is being done, such as "predicting"."""
    done: int
    total: int | None
    """None where nobody knows."""
    share: float | None = field(default=None, compare=False)
    """Share of the work that is done; None where nobody knows."""
    elapsed_s: float = field(default=0.0, compare=False)
    """Seconds since the work began."""
    left_s: float | None = field(default=None, compare=False)
    """Estimate of the seconds until its end, as if it went on as fast as until now; None where nobody knows."""
    best: str = field(default="", compare=False)
    """The best that was found until now, such as "5.7 requests/s: tp 8, ep 8"."""

    @property
    def words(self) -> str:
        """How far the work is, as one line."""
        of = "" if self.total is None else f" of {self.total:,}"
        times = [f"{_rounded(self.elapsed_s)} so far" if self.elapsed_s >= 1 else ""]
        times += [f"about {_rounded(self.left_s)} left" if self.left_s is not None else ""]
        far = f"{self.what}: {self.done:,}{of}" if self.what else "starting"
        return "; ".join(filter(None, [", ".join(filter(None, [far, *times])), self.best and f"best: {self.best}"]))


def _rounded(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < MINUTES_FROM_S else f"{seconds / 60:.0f} min"


def _nobody(_: State) -> None:
    """Tell nobody."""


MINUTES_FROM_S: Final = 100.0
"""From which on times are told in minutes."""
AGAIN_S: Final = 1.0
"""Seconds without anything done after which the state is told again."""


class Progress:
    """Counts what is done of long work and carries the wish to stop it. Any thread may call it.

    A long function calls ``begin`` for each of its stages, ``advance`` when something is done, and ``check`` where it
    can stop. Who waits gives a function to ``tell``, and calls ``cancel``.

    Args:
        tell: Called with each state: at the begin and end of a stage, and in between at most every ``every_s`` seconds.
        every_s: Seconds between two calls.
    """

    def __init__(self, tell: Callable[[State], None] = _nobody, *, every_s: float = 0.1) -> None:
        self.cancelled = False
        self._tell, self._every_s = tell, every_s
        self._what, self._done, self._total = "", 0, None  # type: tuple[str, int, int | None]
        self._best, self._rank = "", inf
        self._began = self._counts_from = time.monotonic()
        self._shares = (0.0, 1.0)
        self._told_at = 0.0
        # A listener may call what it listens to, so the same thread may enter again.
        self._lock = threading.RLock()

    @property
    def state(self) -> State:
        """How far the stage at hand is."""
        now, share = time.monotonic(), self._share()
        known_s = now - self._counts_from
        left_s = known_s * (1 - share) / share if share and known_s >= AGAIN_S else None
        return State(
            what=self._what,
            done=self._done,
            total=self._total,
            share=share,
            elapsed_s=now - self._began,
            left_s=left_s,
            best=self._best,
        )

    def begin(self, total: int | None, what: str, until: float | None = None) -> None:
        """Begin a stage of ``total`` things to do; the one before it has ended.

        Args:
            total: How many; None where nobody knows.
            what: What is done.
            until: Share of the whole work that is usually done at the end of this stage, of work with several.
        """
        with self._lock:
            before = 0.0 if until is None else (self._share() or 0.0)
            if not before:
                self._counts_from = time.monotonic()
            self._shares = before, max(until or 1.0, before)
            self._what, self._done, self._total = what, 0, total
            self._say(time.monotonic())

    def found(self, best: str, rank: float = -inf) -> None:
        """Say what the best is that was found until now; one of a larger ``rank`` than the one before is none."""
        if rank <= self._rank:
            self._best, self._rank = best, rank

    def _share(self) -> float | None:
        first, last = self._shares
        if self._total is None and self._shares == (0.0, 1.0):
            return None
        # Nobody knows how many there are: each is half of what is left.
        of_stage = 1 - 0.5**self._done if self._total is None else self._done / max(self._total, 1)
        return first + (last - first) * min(of_stage, 1.0)

    def advance(self, count: int = 1) -> None:
        """Count things as done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if self._done == self._total or now - self._told_at >= self._every_s:
                self._say(now)

    def cancel(self) -> None:
        """Ask the work to stop where it next can."""
        self.cancelled = True

    def check(self) -> None:
        """Raise `Cancelled` once somebody asked to stop; who waits is told again now and then how far the work is."""
        if self.cancelled:
            raise Cancelled
        if time.monotonic() - self._told_at >= max(self._every_s, AGAIN_S):
            self.advance(0)

    def over(self, items: Sequence[Item], what: str, until: float | None = None) -> Iterator[Item]:
        """Go through ``items`` as a stage; ends early, without an error, once somebody asked to stop."""
        with suppress(Cancelled):
            yield from self.each(items, what, until)

    def each(self, items: Sequence[Item], what: str, until: float | None = None) -> Iterator[Item]:
        """Go through ``items`` as a stage; raise `Cancelled` where one is left once somebody asked to stop."""
        self.begin(len(items), what, until)
        for item in items:
            self.check()
            yield item
            self.advance()

    def _say(self, now: float) -> None:
        self._told_at = now
        self._tell(self.state)


class _Silent(Progress):
    """Nobody watches, and nobody can stop what all share."""

    def begin(self, total: int | None, what: str, until: float | None = None) -> None:
        """Do nothing."""

    def found(self, best: str, rank: float = -inf) -> None:
        """Do nothing."""

    def advance(self, count: int = 1) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


SILENT: Final[Progress] = _Silent()
"""What long functions take where nobody watches."""

Watched = Callable[[], AbstractContextManager[Progress]]
_watchers: list[Watched] = []
"""What shows the progress of long functions that are called without one: of a notebook; otherwise nothing."""


def watch_by(show: Watched | None) -> None:
    """Show the progress of `watched` functions that are called without one by ``show``; None: do not show it."""
    _watchers[:] = [] if show is None else [show]


def watched(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Let a long function with a keyword ``progress`` be watched by whoever said so (`watch_by`)."""

    @wraps(function)
    def called(*args: Parameters.args, **given: Parameters.kwargs) -> Answer:
        if not _watchers or given.get("progress", SILENT) is not SILENT:
            return function(*args, **given)
        with _watchers[0]() as progress:
            given["progress"] = progress
            return function(*args, **given)

    return called


@contextmanager
def stopped_by_interrupt(
    progress: Progress, remark_on: Callable[[], None] = lambda: None, *, tables: bool
) -> Iterator[None]:
    """Let a first Ctrl-C, or a notebook's stop button, cancel the work, and a second one interrupt it.

    What ignores Ctrl-C, or is no main thread, stays as it is.

    Args:
        progress: Of the work, which may return what it found.
        remark_on: Says so; a signal may come in the middle of a write of Python's streams.
        tables: The work has tables. When Polars is loaded it has its own functions interrupted too, unless Ctrl-C is
            handled anew after that: so it is loaded before.
    """
    usual = (signal.default_int_handler, signal.SIG_DFL)
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before not in usual:
        yield
        return
    if tables:
        import_module("polars")

    def stop(_: int, __: FrameType | None) -> None:
        if progress.cancelled:
            raise KeyboardInterrupt
        progress.cancel()
        remark_on()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_listener: ContextVar[Callable[[str], None]] = ContextVar("_listener", default=lambda _: None)


def remark(sentence: str) -> None:
    """Say why work will take long to whoever listens (`listening`)."""
    _listener.get()(sentence)


@contextmanager
def listening(tell: Callable[[str], None]) -> Iterator[None]:
    """Give what is remarked meanwhile to a function."""
    before = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(before)
