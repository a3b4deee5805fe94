"""The progress of long work in a notebook: a line with a bar, which the stop button ends and which then is gone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from sightline.progress import Cancelled, Progress, State, stopped_by_interrupt

APPEARS_AFTER_S = 1.0
"""Work that is done sooner needs no line."""


@contextmanager
def progress_line() -> Iterator[Progress]:
    """Show how far work is. The stop button ends it with what was found so far; pressed twice, with nothing."""
    line = _Line()
    progress = Progress(line.show, every_s=0.3)
    try:
        with stopped_by_interrupt(progress, line.stop, tables=True):
            yield progress
    except Cancelled:
        raise KeyboardInterrupt from None
    finally:
        line.close()


class _Line:
    """The line, which is shown when the work has lasted long enough."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._handle: Any = None
        self._is_stopping = False

    def show(self, state: State) -> None:
        """Show how far the work is."""
        if self._handle is None and time.monotonic() - self._since < APPEARS_AFTER_S:
            return
        text = state.words + "; stopping, once more stops at once" * self._is_stopping
        value = "" if state.share is None else f' value="{state.share:.3f}"'
        bar = f'<progress max="1"{value} aria-label="{escape(state.what)}"></progress>'
        shown = {"text/plain": text, "text/html": f"{bar} {escape(text)}"}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown, raw=True)

    def stop(self) -> None:
        """Say from the next state on that the work is being stopped."""
        self._is_stopping = True

    def close(self) -> None:
        """Leave nothing of the line."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
