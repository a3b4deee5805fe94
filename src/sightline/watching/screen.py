"""The terminal of a watch: one line that changes in place, plain lines where there is no terminal."""

import sys
from time import monotonic
from typing import Any, Final

PLAIN_EVERY_S: Final = 30.0
"""Seconds between two lines where they stay."""


class Screen:
    """Writes to standard error, so that what the job prints stays what it is."""

    def __init__(self, *, show: bool, in_place: bool = True) -> None:
        self.is_shown = show
        self._wants_place, self._console, self._told_at = in_place, None, 0.0  # type: bool, Any, float
        self._is_open = False

    def figures(self, text: str, *, last: bool = False) -> None:
        """Show the figures of now; the ``last`` ones stay."""
        if not self.is_shown:
            return
        if self._changes_in_place:
            self._in_place(text, stays=last)
        elif last or monotonic() - self._told_at >= PLAIN_EVERY_S or not self._told_at:
            self._told_at = monotonic()
            self._line(text)

    def say(self, sentence: str) -> None:
        """Say something once."""
        if self.is_shown:
            self._line(sentence)

    @property
    def _changes_in_place(self) -> bool:
        return self._wants_place and bool(self._rich().is_terminal)

    def _rich(self) -> Any:
        if self._console is None or self._console.file is not sys.stderr:
            from rich.console import Console

            self._console = Console(file=sys.stderr, highlight=False, soft_wrap=False)
        return self._console

    def _in_place(self, text: str, *, stays: bool) -> None:
        """Write over the line before; the cursor waits at its start, so that what the job prints replaces it."""
        from rich.control import Control
        from rich.segment import ControlType
        from rich.text import Text

        console = self._rich()
        console.control(Control((ControlType.CARRIAGE_RETURN,), (ControlType.ERASE_IN_LINE, 2)))
        words = Text.assemble(("sightline ", "bold"), text)
        console.print(words, end="\n" if stays else "\r", no_wrap=True, overflow="ellipsis")
        self._is_open = not stays

    def _line(self, text: str) -> None:
        console = self._rich()
        if self._is_open:
            from rich.control import Control
            from rich.segment import ControlType

            console.control(Control((ControlType.CARRIAGE_RETURN,), (ControlType.ERASE_IN_LINE, 2)))
            self._is_open = False
        # A command must stay one line to be copied.
        console.print(f"sightline: {text}", markup=False, soft_wrap=True)
