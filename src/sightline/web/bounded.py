"""Answers at once are bounded in time: what takes longer is a job, or for the command line."""

from collections.abc import Callable
from functools import cache
from typing import Final, TypeVar

import anyio

from sightline.errors import InputError

Result = TypeVar("Result")
MOST_SECONDS: Final = 30
_MOST_AT_ONCE: Final = 8
"""Answers that are worked on at the same time, those that nobody waits for any more among them."""


async def bounded(answer: Callable[[], Result]) -> Result:
    """Return what a function answers in a thread; raise `InputError` once it takes too long."""
    with anyio.move_on_after(MOST_SECONDS):
        return await anyio.to_thread.run_sync(answer, limiter=_working(), abandon_on_cancel=True)
    raise InputError(f"the answer takes longer than {MOST_SECONDS} seconds; the command line has no limit")


@cache
def _working() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(_MOST_AT_ONCE)
