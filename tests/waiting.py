"""How tests wait for processes, servers and pages: for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 300.0
"""A busy machine is slow, not wrong: only what never happens takes so long."""


def until(condition: Callable[[], Any]) -> Any:
    """Return the first true answer of a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not happen within {PATIENCE_S:g} s")
        time.sleep(0.01)
    return answer
