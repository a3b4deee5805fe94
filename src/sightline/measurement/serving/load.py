"""Send a load to a server and record every request, in the order in which they end.

Requests go out at their times whatever happens (open loop), or as earlier ones end (closed loop).
"""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.measurement.serving.prompts import (
    CHAT,
    COMPLETIONS,
    Content,
    Prompts,
    RequestFormat,
    Row,
    model_of,
    request_format_of,
    rows_of,
)
from sightline.measurement.serving.stream import Answer, Client, Limits, Sockets
from sightline.simulation.load import Requests

if TYPE_CHECKING:
    from aiohttp import ClientSession

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


Record = Mapping[str, Any]
"""A request: its ``Row``, ``intended_s``, ``sent_s``, ``ended_s`` and ``chunk_s`` (seconds from the load's begin),
``chunk_tokens``, the counts of the server, ``failure`` and ``detail``."""
OnRecord = Callable[[Record], None]
WARM_UP = 1_000_000_000
"""Number of the first request that warms up: its prompt is none of the load's."""
_NEVER = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a load is sent."""

    url: str
    model: str = ""
    """As the server calls it; empty: the only one that it has."""
    vocabulary: int
    """Tokens of the model, from which prompts are drawn."""
    tokenizer: Path | None = None
    """Folder with the model's tokenizer, for servers that take only text."""
    chat: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    key_variable: str = ""
    """Environment variable that the key among the headers is from, for errors to name."""
    concurrency: int = 0
    """Users of a closed loop; 0: requests are sent at their times."""
    think_s: float = 0.0
    ramp_up_s: float = 0.0
    """Seconds over which they begin."""
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    warm_up: int = 4
    """Requests before the measured ones, as long as these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentLoad:
    """A load that has been sent."""

    request_format: RequestFormat
    duration_s: float


async def send_load(load: Iterable[Requests], settings: ClientSettings, on_record: OnRecord) -> SentLoad:
    """Send a load and hand over each request's record when it has ended, whatever its end.

    Raises:
        WorkError: No server answers, or it answers no completion at all.
        InputError: It takes only text, and there is no tokenizer to write prompts with.
    """
    sockets = Sockets()
    async with _session(sockets) as session:
        url = settings.url.rstrip("/")
        model = settings.model or await model_of(session, url, settings.headers, settings.key_variable)
        address = f"{url}{CHAT if settings.chat else COMPLETIONS}"
        async with Client(session, address, settings.headers, settings.limits, sockets) as client:
            request_format = await request_format_of(
                client,
                model,
                vocabulary=settings.vocabulary,
                tokenizer=settings.tokenizer,
                chat=settings.chat,
                key_variable=settings.key_variable,
            )
            first, load = _first_of(load)
            await _warm_up(client, request_format, settings, first)
            with _steady_memory(), _first_on_its_core():
                duration_s = await _send(load, settings, client, request_format, on_record)
        return SentLoad(request_format=request_format, duration_s=duration_s)


async def _send(
    load: Iterable[Requests],
    settings: ClientSettings,
    client: Client,
    request_format: RequestFormat,
    on_record: OnRecord,
) -> float:
    """Send the load; return how long it took."""
    begin_ns = time.perf_counter_ns()
    prompts = Prompts(request_format.encoding, settings.seed, overhead=request_format.overhead)

    async def send(row: Row, intended_ns: int) -> None:
        prompt: Content = prompts.prompt(row)
        answer = await client.send(request_format.body(prompt, row.output_tokens, row.priority))
        prompts.answered(row, prompt, "".join(answer.stream.text), answer.stream.token_ids)
        on_record(record_of(row, answer, intended_ns, begin_ns))

    if settings.concurrency:
        await closed_loop(
            load,
            send,
            begin_ns,
            concurrency=settings.concurrency,
            think_s=settings.think_s,
            ramp_up_s=settings.ramp_up_s,
        )
    else:
        await open_loop(load, send, begin_ns)
    return (time.perf_counter_ns() - begin_ns) / 1e9


def record_of(row: Row, answer: Answer, intended_ns: int, begin_ns: int) -> Record:
    """Return what is kept of a request."""
    stream = answer.stream

    def seconds(time_ns: int) -> float:
        return (time_ns - begin_ns) / 1e9

    return {
        **row._asdict(),
        "intended_s": seconds(intended_ns),
        "sent_s": seconds(answer.sent_ns),
        "ended_s": seconds(answer.ended_ns),
        "chunk_s": [seconds(time_ns) for time_ns in stream.times_ns],
        "chunk_tokens": stream.tokens,
        "server_prompt_tokens": stream.prompt_tokens,
        "server_output_tokens": stream.output_tokens,
        "server_cached_tokens": stream.cached_tokens,
        "failure": answer.failure,
        "detail": answer.detail,
    }


def _first_of(load: Iterable[Requests]) -> tuple[Requests, Iterable[Requests]]:
    """The first part of a load, and the whole of it."""
    parts = iter(load)
    first = next(parts)

    def whole() -> Iterable[Requests]:
        yield first
        yield from parts

    return first, whole()


async def _warm_up(client: Client, request_format: RequestFormat, settings: ClientSettings, first: Requests) -> None:
    """Have a server do what only its first requests need: allocate, compile, fill caches that are not the load's."""
    prompts = Prompts(request_format.encoding, settings.seed, overhead=request_format.overhead)
    for row in rows_of(first[: settings.warm_up], WARM_UP):
        prompt = prompts.prompt(row._replace(prefix_id=-1, session_id=-1))
        await client.send(request_format.body(prompt, row.output_tokens))


@contextlib.asynccontextmanager
async def _session(sockets: Sockets) -> AsyncIterator["ClientSession"]:
    """Connections without a limit of their number, and without time limits but ours."""
    import aiohttp

    _allow_open_files()
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=3600, socket_factory=sockets.make)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=60.0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        yield session


def _allow_open_files() -> None:
    """Allow as many connections as the system lets this process have."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def _steady_memory() -> Iterator[None]:
    """Let the collector of cyclic garbage look at young objects alone: all together it stops the clock for 40 ms.

    Objects that the caller has frozen stay so.
    """
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*before[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


@contextlib.contextmanager
def _first_on_its_core() -> Iterator[None]:
    """Let nobody else's work delay requests, where this process may ask for that; the client needs little time."""
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        first = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, first, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, priority)
