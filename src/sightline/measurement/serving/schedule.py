"""When requests are sent: at their times whatever happens (open loop), or as earlier ones end (closed loop)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator

from sightline.measurement.serving.prompts import Row, rows_of
from sightline.simulation.requests import Requests

Send = Callable[[Row, int], Awaitable[None]]
"""Sends a request and waits for its end; the number is when it was to be sent, in ns of ``time.perf_counter_ns``."""


def all_rows(load: Iterable[Requests]) -> Iterator[Row]:
    """Yield the requests of a load, part by part."""
    first = 0
    for part in load:
        yield from rows_of(part, first)
        first += len(part)


class Turns:
    """Order in conversations: a turn waits for the one before it and its think time."""

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self._last: dict[int, asyncio.Future[int]] = {}

    async def send(self, row: Row, send: Send, earliest_ns: int = 0) -> None:
        """Send a request at its time, or when its conversation has come to it."""
        intended_ns = max(self._begin_ns + round(row.arrival_s * 1e9), earliest_ns)
        if row.session_id < 0:
            await sleep_until(intended_ns)
            await send(row, intended_ns)
            return
        before = self._last.get(row.session_id)
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._last[row.session_id] = ended
        try:
            if before is not None:
                intended_ns = max(intended_ns, await before + round(row.think_s * 1e9))
            await sleep_until(intended_ns)
            await send(row, intended_ns)
        finally:
            ended.set_result(time.perf_counter_ns())


async def open_loop(load: Iterable[Requests], send: Send, begin_ns: int) -> None:
    """Send every request at its time: one that waits for its answer never delays another."""
    turns = Turns(begin_ns)
    async with asyncio.TaskGroup() as group:
        for row in all_rows(load):
            await sleep_until(begin_ns + round(row.arrival_s * 1e9))
            group.create_task(turns.send(row, send))


async def closed_loop(
    load: Iterable[Requests],
    send: Send,
    begin_ns: int,
    *,
    concurrency: int,
    think_s: float = 0.0,
    ramp_up_s: float = 0.0,
) -> None:
    """Keep ``concurrency`` users busy: each sends its next request ``think_s`` after the end of the one before.

    They begin one after the other over ``ramp_up_s``.
    """
    rows, turns = all_rows(load), Turns(begin_ns)

    async def user(earliest_ns: int) -> None:
        await sleep_until(earliest_ns)
        for row in rows:
            await turns.send(row, send, earliest_ns)
            earliest_ns = time.perf_counter_ns() + round(think_s * 1e9)

    async with asyncio.TaskGroup() as group:
        for number in range(concurrency):
            group.create_task(user(begin_ns + round(1e9 * ramp_up_s * number / concurrency)))


async def sleep_until(time_ns: int) -> None:
    """Wait for a time of ``time.perf_counter_ns``; a time that has passed costs nothing."""
    left = time_ns - time.perf_counter_ns()
    if left > 0:
        await asyncio.sleep(left / 1e9)
