"""Send a load to a server and record every request, in the order in which they end.

Requests go out at their times whatever happens (open loop), or as earlier ones end (closed loop).
"""

import asyncio
import contextlib
import gc
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, WorkError
from sightline.measurement.serving.stream import Answer, Client, Limits, Sockets
from sightline.runs import credentials
from sightline.simulation.load import Requests

if TYPE_CHECKING:
    from aiohttp import ClientSession

Content = Any
"""A prompt or a part of one: a list of token ids, or text. Parts of one kind are joined by +."""
TRIED = 4000
"""Entries of a vocabulary that are tried as words."""
FEWEST_WORDS = 16
OWN, SHARED, ANSWER = 0, 1, 2
"""Kinds of drawn tokens: no two kinds, and no two numbers of a kind, begin alike."""


class Row(NamedTuple):
    """One request of a load."""

    number: int
    """From 0, in order of the load."""
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prefix_id: int
    prefix_tokens: int
    session_id: int
    think_s: float
    priority: int
    adapter: int
    slo_class: int
    transcript: int = 0


def rows_of(part: Requests, first: int) -> list[Row]:
    """Return the requests of a part one by one, numbered from ``first``."""
    columns = [getattr(part, name).tolist() for name in Row._fields[1:]]
    return [Row(first + i, *values) for i, values in enumerate(zip(*columns, strict=True))]


class PromptEncoding(Protocol):
    """How drawn tokens are written in a request."""

    @property
    def size(self) -> int:
        """Different tokens that can be drawn."""

    @property
    def empty(self) -> Content:
        """Content of no tokens."""

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return drawn tokens, numbers below ``size``, as content."""


class TokenIds:
    """Content is a list of token ids: exactly the tokens that are asked for."""

    empty: Final[Content] = []

    def __init__(self, vocabulary: int) -> None:
        # Special tokens stand at either end of vocabularies.
        self._first, self.size = vocabulary // 8, max(vocabulary * 3 // 4, 1)

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return the ids of drawn tokens."""
        return (drawn + self._first).tolist()


@dataclass(frozen=True, slots=True)
class Words:
    """Content is text of words that are one token each, wherever they stand."""

    words: Sequence[str]
    empty: str = ""

    @property
    def size(self) -> int:
        """Different words."""
        return len(self.words)

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return drawn words, each behind a space."""
        return "".join(f" {self.words[i]}" for i in drawn)


def words_of(folder: Path) -> Words:
    """Return the words of the tokenizer in a model's folder.

    Raises:
        InputError: There is none, or hardly any of its tokens is a word.
    """
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise InputError(f"'{folder}' has no tokenizer.json, needed to write prompts of exact lengths")
    tokenizer: Any = Tokenizer.from_file(str(file))
    size = tokenizer.get_vocab_size()
    found = dict.fromkeys(tokenizer.decode([i]).strip() for i in range(0, size, max(1, size // TRIED)))
    words = [word for word in found if word.isalnum() and _is_one_token(tokenizer, word)]
    if len(words) < FEWEST_WORDS:
        raise InputError(f"'{file}' has {len(words)} single-token words; prompts need {FEWEST_WORDS}")
    return Words(words)


def _is_one_token(tokenizer: Any, word: str) -> bool:
    """Whether every further occurrence adds one token."""
    counts = [len(tokenizer.encode(f" {word}" * n, add_special_tokens=False).ids) for n in (1, 2, 4)]
    return counts[1] - counts[0] == 1 and counts[2] - counts[1] == 2


class Prompts:
    """The prompts of a load; the same seed draws the same ones."""

    def __init__(self, encoding: PromptEncoding, seed: int, *, overhead: int = 0) -> None:
        """Write what is drawn in an encoding; ``overhead`` tokens are what the server itself adds to each prompt."""
        self._encoding, self._seed, self._overhead = encoding, seed, overhead
        self._histories: dict[tuple[int, int], tuple[Content, int]] = {}

    def prompt(self, row: Row) -> Content:
        """Return the prompt of a request; earlier turns of its conversation have ended."""
        wanted = max(row.prompt_tokens - self._overhead, 1)
        begin, there = self._histories.get((row.session_id, row.transcript), (self._encoding.empty, 0))
        if row.session_id < 0 or not there:
            there = min(row.prefix_tokens, wanted) if row.prefix_id >= 0 else 0
            begin = self._drawn(SHARED, row.prefix_id, there) if there else self._encoding.empty
        if there >= wanted:
            return begin[:wanted] if isinstance(begin, list) else begin
        return begin + self._drawn(OWN, row.number, wanted - there)

    def answered(self, row: Row, prompt: Content, text: str, token_ids: Sequence[int]) -> None:
        """Keep what a conversation consists of so far: the prompt and its answer, drawn anew where ids are unknown."""
        if row.session_id < 0:
            return
        answer: Content = text
        if isinstance(prompt, list):
            answer = list(token_ids) or self._drawn(ANSWER, row.number, row.output_tokens)
        tokens = max(row.prompt_tokens - self._overhead, 1) + row.output_tokens
        self._histories[row.session_id, row.transcript] = (prompt + answer, tokens)

    def _drawn(self, kind: int, number: int, tokens: int) -> Content:
        draw = np.random.default_rng((self._seed, kind, number + 1))
        return self._encoding.write(draw.integers(0, self._encoding.size, tokens))


COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PATIENCE_S = 10.0
LONGEST_LIST: Final = 2**22
"""Characters of a list of models."""
PROBE_PROMPT, PROBE_OUTPUT = 32, 4
"""Tokens of the requests that find out what a server takes."""
EXACT: Final[Mapping[str, Any]] = {"ignore_eos": True}
COUNTED: Final[Mapping[str, Any]] = {"stream_options": {"include_usage": True}}
COUNTED_ALWAYS: Final[Mapping[str, Any]] = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
FIELDS: Final[Sequence[Mapping[str, Any]]] = (
    {**EXACT, **COUNTED_ALWAYS, "return_token_ids": True},
    {**EXACT, **COUNTED},
    COUNTED,
    {},
)
"""What requests have beyond the interface's own fields, most first; servers refuse fields that they do not know."""
UNKNOWN: Final = ("HTTP 400", "HTTP 404", "HTTP 415", "HTTP 422")
"""Failures of servers that do not know a field, or take no token ids."""
BUSY: Final = ("HTTP 429", "HTTP 503")
"""Failures that pass."""
WAITS_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How long a busy server is left alone before it is asked again."""
FORBIDDEN: Final = ("HTTP 401", "HTTP 403")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """How requests to a server are written."""

    model: str
    chat: bool = False
    encoding: PromptEncoding
    fields: Mapping[str, Any] = field(default_factory=dict)
    overhead: int = 0
    """Tokens that the server adds to each prompt: a first token, or a chat's template."""
    counts: bool = False
    """Whether the server says how many tokens it processed."""

    def body(self, prompt: Content, output_tokens: int, priority: int = 0) -> bytes:
        """Return the body of a request for exactly so many tokens."""
        asked: dict[str, Any] = {"model": self.model, "stream": True, "temperature": 0, "max_tokens": output_tokens}
        asked |= self.fields
        if "ignore_eos" in self.fields:
            asked["min_tokens"] = output_tokens
        if priority:
            asked["priority"] = priority
        asked |= {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        return json.dumps(asked).encode()


async def model_of(session: "ClientSession", url: str, headers: Mapping[str, str], key_variable: str = "") -> str:
    """Return the name of the only model that a server lists.

    Raises:
        WorkError: It does not answer, or lists several or none.
    """
    import aiohttp

    patience, hide = aiohttp.ClientTimeout(total=PATIENCE_S), credentials.of_request(headers, url).hide
    asked, url = f"{url}/v1/models", credentials.without_credentials(url)
    address = f"{url}/v1/models"
    try:
        async with session.get(asked, headers=headers, timeout=patience) as response:
            said = ""
            async for piece in response.content.iter_any():
                said += piece.decode(errors="replace")
                if len(said) > LONGEST_LIST:
                    raise WorkError(f"{address} lists more than {LONGEST_LIST:,} characters of models")
            if response.status != 200:
                answered = f"HTTP {response.status}"
                why = f"{answered}: {' '.join(hide(said).split())[:200]}"
                raise WorkError(f"{address} answers {why}{_about_key(answered, key_variable)}")
            names = [str(model["id"]) for model in json.loads(said)["data"]]
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise WorkError(f"no server answers at {url}: {hide(str(error)) or type(error).__name__}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise WorkError(f"{address} does not list models; check that this is an OpenAI-compatible server") from error
    if len(names) != 1:
        listed = ", ".join(names[:8]) or "none"
        raise WorkError(f"{url} lists {len(names)} models; choose one with --served-model: {listed}")
    return names[0]


def _about_key(failure: str, key_variable: str) -> str:
    """What to do where a server wants another key."""
    if failure not in FORBIDDEN:
        return ""
    if key_variable:
        return f"; the key is from {key_variable} (--api-key-env)"
    return "; no key was sent; set --api-key-env to the variable that holds it"


async def request_format_of(
    client: Client, model: str, *, vocabulary: int, tokenizer: Path | None, chat: bool = False, key_variable: str = ""
) -> RequestFormat:
    """Return the fullest format of requests that a server takes, found out by short requests.

    Token ids come before text, and running counts before counts at the end.

    Raises:
        WorkError: It takes none of them, refuses the key, or stays busy.
        InputError: It takes only text, and there is no tokenizer to write prompts with.
    """
    encodings: list[PromptEncoding] = [] if chat else [TokenIds(vocabulary)]
    if tokenizer is not None:
        encodings.append(words_of(tokenizer))
    address, last = credentials.without_credentials(client.address), "chats need text prompts"
    for encoding, fields in product(encodings, FIELDS):
        request_format = RequestFormat(chat=chat, model=model, encoding=encoding, fields=fields)
        answer = await _probe(client, request_format)
        if not answer.failure:
            counted = answer.stream.prompt_tokens
            return replace(request_format, overhead=counted - PROBE_PROMPT if counted >= 0 else 0, counts=counted >= 0)
        last = f"{answer.failure}: {answer.detail}"
        if answer.failure not in UNKNOWN:
            raise WorkError(f"{address} returns no completion: {last}{_about_key(answer.failure, key_variable)}")
    if tokenizer is None:
        raise InputError(
            f"{address} does not accept prompts of token ids ({last}); to send text of exact lengths, set "
            "--weights to the folder with the tokenizer"
        )
    raise WorkError(f"{address} returns no completion: {last}")


async def _probe(client: Client, request_format: RequestFormat) -> Answer:
    """Ask for a few tokens, again where the server is busy."""
    body = request_format.body(
        request_format.encoding.write(np.arange(PROBE_PROMPT) % request_format.encoding.size), PROBE_OUTPUT
    )
    answer = await client.send(body, PROBE_OUTPUT)
    for wait_s in WAITS_S:
        if answer.failure not in BUSY:
            break
        await asyncio.sleep(wait_s)
        answer = await client.send(body, PROBE_OUTPUT)
    return answer


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


async def open_loop(load: Iterable[Requests], send: Send, begin_ns: int, *, concurrency: int = 0) -> None:
    """Send every request at its time: one that waits for its answer never delays another.

    With a ``concurrency``, each waits for one of so many places first, and is due when it has one.
    """
    turns, places = Turns(begin_ns), asyncio.Semaphore(concurrency)

    async def in_place(row: Row, intended_ns: int) -> None:
        waits = places.locked()
        async with places:
            await send(row, time.perf_counter_ns() if waits else intended_ns)

    async with asyncio.TaskGroup() as group:
        for row in all_rows(load):
            await sleep_until(begin_ns + round(row.arrival_s * 1e9))
            group.create_task(turns.send(row, in_place if concurrency else send))


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
    """Requests in flight at most; 0: any number."""
    closed: bool = False
    """Whether these are users who wait for their answers; else requests are sent at their times."""
    think_s: float = 0.0
    ramp_up_s: float = 0.0
    """Seconds over which they begin."""
    seed: int = 0
    sampling: Mapping[str, float] = field(default_factory=dict)
    """What each request says of how tokens are drawn, besides a temperature of 0."""
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
            request_format = replace(request_format, fields={**request_format.fields, **settings.sampling})
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
        answer = await client.send(request_format.body(prompt, row.output_tokens, row.priority), row.output_tokens)
        prompts.answered(row, prompt, "".join(answer.stream.text), answer.stream.token_ids)
        on_record(record_of(row, answer, intended_ns, begin_ns))

    if settings.closed:
        await closed_loop(
            load,
            send,
            begin_ns,
            concurrency=settings.concurrency,
            think_s=settings.think_s,
            ramp_up_s=settings.ramp_up_s,
        )
    else:
        await open_loop(load, send, begin_ns, concurrency=settings.concurrency)
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
        await client.send(request_format.body(prompt, row.output_tokens), row.output_tokens)


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
