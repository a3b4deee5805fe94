"""The terminal of a watch: one line that changes in place, plain lines where there is no terminal."""

import os
import sys
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import Any, Final

PLAIN_EVERY_S: Final = 30.0
"""Seconds between two lines where they stay."""


class Screen:
    """Writes to standard error, so that what the job prints stays what it is."""

    def __init__(self, *, show: bool, in_place: bool = True) -> None:
        self.is_shown = show
        self._wants_place, self._console, self._told_at = in_place, None, 0.0  # type: bool, Any, float
        self._line_of_others = _LineOfOthers(self._clear)
        self._is_open = False

    def is_due(self, *, last: bool = False) -> bool:
        """Return whether figures would be shown now."""
        if not self.is_shown:
            return False
        return last or self._changes_in_place or not self._told_at or monotonic() - self._told_at >= PLAIN_EVERY_S

    def figures(self, text: str, *, last: bool = False) -> None:
        """Show the figures of now, if they are due; the ``last`` ones stay."""
        if not self.is_due(last=last):
            return
        self._told_at = monotonic()
        if self._changes_in_place:
            self._in_place(text, stays=last)
        else:
            self._line(text)
        if last:
            self._line_of_others.leave()

    def say(self, sentence: str) -> None:
        """Say something once."""
        if self.is_shown:
            self._line(sentence)

    @property
    def _changes_in_place(self) -> bool:
        """Whether there is a line to change: a job that is in the middle of a line of its own keeps it."""
        return self._wants_place and bool(self._rich().is_terminal) and not self._line_of_others.is_begun

    def _rich(self) -> Any:
        if self._console is None or self._console.file is not sys.stderr:
            from rich.console import Console

            self._console = Console(file=sys.stderr, highlight=False, soft_wrap=False)
        return self._console

    def _in_place(self, text: str, *, stays: bool) -> None:
        """Write over the line before; the cursor waits at its start, where what the job prints begins."""
        from rich.text import Text

        self._line_of_others.follow()
        self._line_of_others.writer = get_ident()
        self._erase()
        self._is_open = not stays
        words = Text.assemble(("sightline ", "bold"), text)
        self._rich().print(words, end="\n" if stays else "\r", no_wrap=True, overflow="ellipsis")

    def _line(self, text: str) -> None:
        self._line_of_others.writer = get_ident()
        self._clear()
        # A command must stay one line to be copied.
        after = "\n" if self._line_of_others.take_begun() else ""
        self._rich().print(f"{after}sightline: {text}", markup=False, soft_wrap=True)

    def _clear(self) -> None:
        """Leave an empty line in place of the one that changes."""
        if self._is_open:
            self._is_open = False
            self._erase()

    def _erase(self) -> None:
        from rich.control import Control
        from rich.segment import ControlType

        console = self._rich()
        console.control(Control((ControlType.CARRIAGE_RETURN,), (ControlType.ERASE_IN_LINE, 2)))
        console.file.flush()


class _LineOfOthers:
    """What the job itself writes to the terminal, so that nothing of another line is left behind it.

    The streams stay the job's own; only their ``write`` first clears the line that changes. No lock is held: a process
    that the job forks would wait for it.
    """

    def __init__(self, clear: Any) -> None:
        self._clear, self._process, self._streams = clear, os.getpid(), []  # type: Any, int, list[Any]
        self.writer = 0
        """The thread that writes for the watch."""
        self.is_begun = False
        """Whether the job has begun a line and not ended it."""

    def follow(self) -> None:
        """Look at what is written from now on."""
        for stream in (sys.stdout, sys.stderr):
            if not any(stream is one for one in self._streams) and _is_terminal(stream):
                with suppress(AttributeError, TypeError):
                    stream.write = self._writing(stream.write)  # type: ignore[method-assign]
                    self._streams.append(stream)

    def leave(self) -> None:
        """Look no more."""
        for stream in self._streams:
            with suppress(AttributeError):
                del stream.write
        self._streams.clear()

    def take_begun(self) -> bool:
        """Return whether the job's line has not ended; what follows begins another."""
        begun, self.is_begun = self.is_begun, False
        return begun

    def _writing(self, write: Any) -> Any:
        def cleared(text: str) -> Any:
            if get_ident() == self.writer or os.getpid() != self._process:
                return write(text)
            self._clear()
            self.is_begun = bool(text) and not text.endswith("\n")
            return write(text)

        return cleared


def _is_terminal(stream: Any) -> bool:
    with suppress(AttributeError, ValueError):
        return bool(stream.isatty())
    return False
