"""How far long work is, and whether it should stop: one object for command line, notebook and web page."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from sightline.errors import SightlineError

Item = TypeVar("Item")


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


def _nobody(_: State) -> None:
    """Tell nobody."""


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
        self._told_at = 0.0
        # A listener may call what it listens to, so the same thread may enter again.
        self._lock = threading.RLock()

    @property
    def state(self) -> State:
        """How far the stage at hand is."""
        return State(what=self._what, done=self._done, total=self._total)

    def begin(self, total: int | None, what: str) -> None:
        """Begin a stage of ``total`` things to do; the one before it has ended."""
        with self._lock:
            self._what, self._done, self._total = what, 0, total
            self._say(time.monotonic())

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
        """Raise `Cancelled` once somebody asked to stop."""
        if self.cancelled:
            raise Cancelled

    def over(self, items: Sequence[Item], what: str) -> Iterator[Item]:
        """Go through ``items`` as a stage; ends early, without an error, once somebody asked to stop."""
        self.begin(len(items), what)
        for item in items:
            if self.cancelled:
                return
            yield item
            self.advance()

    def _say(self, now: float) -> None:
        self._told_at = now
        self._tell(self.state)


class _Silent(Progress):
    """Nobody watches, and nobody can stop what all share."""

    def begin(self, total: int | None, what: str) -> None:
        """Do nothing."""

    def advance(self, count: int = 1) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


SILENT: Final[Progress] = _Silent()
"""What long functions take where nobody watches."""


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
