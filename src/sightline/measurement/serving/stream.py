"""Send one request to an OpenAI-compatible server and read its stream: when tokens arrived, or why it failed.

Linux stamps every packet when its network stack takes it, so that a token's time leaves out the wait for the client's
processor, which other streams, and other programs, use too.
"""

import asyncio
import json
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakValueDictionary

from sightline.runs import credentials
from sightline.runs.credentials import Credentials

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

SO_TIMESTAMPNS: Final = 35
"""Socket option of Linux (include/uapi/asm-generic/socket.h) that has reads say when their last packet came."""
_STAMP: Final = struct.Struct("ll")
"""Seconds and nanoseconds of the wall clock."""
_ROOM: Final = socket.CMSG_SPACE(_STAMP.size) if hasattr(socket, "CMSG_SPACE") else 0
_OLDEST_NS: Final = 600_000_000_000
"""A stamp that is older comes from a clock that was set meanwhile."""
_AT_ONCE_NS: Final = 10_000
"""Clocks that were read in so short a time were not interrupted."""
_TRIES: Final = 4
AncillaryData = Sequence[tuple[int, int, bytes]]
"""Ancillary data of a message: level, type and content."""


class StampedSocket(socket.socket):
    """A socket that keeps when the bytes of its last read had come, in ns of ``time.perf_counter_ns``."""

    __slots__ = ("arrived_ns",)
    arrived_ns: int

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read bytes."""
        data, notes, _, _ = self.recvmsg(bufsize, _ROOM, flags)
        self.arrived_ns = _arrived_ns(notes)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read bytes into a buffer, as connections with TLS do."""
        whole = memoryview(buffer)
        read, notes, _, _ = self.recvmsg_into([whole[:nbytes] if nbytes else whole], _ROOM, flags)
        self.arrived_ns = _arrived_ns(notes)
        return read


def _arrived_ns(notes: AncillaryData) -> int:
    """When the last packet came; now, where the system does not say."""
    now_ns = time.perf_counter_ns()
    for level, kind, content in notes:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(content) == _STAMP.size:
            seconds, rest_ns = _STAMP.unpack(content)
            arrived_ns = seconds * 1_000_000_000 + rest_ns - _wall_clock_offset_ns()
            return arrived_ns if 0 < now_ns - arrived_ns < _OLDEST_NS else now_ns
    return now_ns


def _wall_clock_offset_ns() -> int:
    """How far the wall clock, of which stamps are, is ahead of that of the reader."""
    before_ns = wall_ns = after_ns = 0
    for _ in range(_TRIES):
        before_ns, wall_ns, after_ns = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        if after_ns - before_ns < _AT_ONCE_NS:
            break
    return wall_ns - (before_ns + after_ns) // 2


class Sockets:
    """Makes the sockets of a session, and finds that of a connection again."""

    def __init__(self) -> None:
        self._made: WeakValueDictionary[int, StampedSocket] = WeakValueDictionary()

    def make(
        self, address: tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, object]
    ) -> socket.socket:
        """Return a socket for an address of ``getaddrinfo``, which stamps what comes where the system does."""
        family, kind, protocol, _, _ = address
        if sys.platform != "linux":
            return socket.socket(family, kind, protocol)
        made = StampedSocket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        made.arrived_ns = 0
        self._made[made.fileno()] = made
        return made

    def of(self, number: int) -> StampedSocket | None:
        """Return the socket with this file descriptor; None where it is none of these."""
        return self._made.get(number)


DONE: Final = b"[DONE]"
MALFORMED, CUT, CONTRADICTED, REPORTED = (
    "malformed stream",
    "connection dropped",
    "wrong token counts",
    "server error",
)
"""Why a stream that began is no answer."""


@dataclass(slots=True, kw_only=True)
class AnswerStream:
    """What a stream says; it grows event by event."""

    times_ns: list[int] = field(default_factory=list)
    """When each chunk with tokens had come, on the clock of the reader."""
    tokens: list[int] = field(default_factory=list)
    """Tokens of each of these chunks: the server's running count where it sends one, else 1."""
    prompt_tokens: int = -1
    """As the server counted them; -1 where it does not say."""
    output_tokens: int = -1
    cached_tokens: int = 0
    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    """Of the answer, where the server sends them."""
    finished: bool = False
    credentials: Credentials = field(default_factory=Credentials)
    """What details must not hold."""
    failure: str = ""
    detail: str = ""
    _told: int = 0
    """Tokens of the running count so far."""

    def take(self, data: bytes, time_ns: int) -> None:
        """Read the content of one event."""
        if data == DONE:
            self.finished = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            self._fail(MALFORMED, f"an event is not a JSON object: {self._quoted(data)}")
            return
        if error := event.get("error"):
            said = error.get("message", error) if isinstance(error, Mapping) else error
            self._fail(REPORTED, self.credentials.hide(str(said)).strip().partition("\n")[0][:200])
            return
        try:
            self._add(event, time_ns)
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError):
            self._fail(MALFORMED, f"an event is not a completion: {self._quoted(data)}")

    def _add(self, event: Mapping[str, Any], time_ns: int) -> None:
        """One chunk of the answer, and whatever counts come with it."""
        usage = event.get("usage")
        if usage:
            self.prompt_tokens = _counted(usage["prompt_tokens"])
            self.output_tokens = _counted(usage.get("completion_tokens") or 0)
            self.cached_tokens = _counted((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        choices = event.get("choices") or ()
        text = ""
        ids: list[int] = []
        for choice in choices:
            delta = choice.get("delta") or {}
            text = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
            ids = choice.get("token_ids") or []
            self.finished = self.finished or choice.get("finish_reason") is not None
        if not isinstance(text, str):
            raise TypeError("text is not a string")
        new = len(ids) or (self.output_tokens - self._told if usage and choices else int(bool(text)))
        # A last event that only tells the counts is no chunk: its tokens came before.
        if not text and not ids and not (usage and new == 1):
            return
        self.times_ns.append(time_ns)
        self.tokens.append(max(new, 1))
        self._told += max(new, 1)
        self.text.append(text)
        self.token_ids += ids

    def _quoted(self, data: bytes) -> str:
        """The begin of an event, as details have it."""
        return self.credentials.hide(data.decode(errors="replace"))[:80]

    def _fail(self, failure: str, detail: str) -> None:
        if not self.failure:
            self.failure, self.detail = failure, detail

    def close(self) -> None:
        """The stream has ended: say what is wrong with it as a whole."""
        if not self.finished:
            self._fail(CUT, f"the stream ended after {sum(self.tokens)} tokens without its final event")
        told = self.output_tokens
        if 0 <= told < len(self.times_ns):
            self._fail(CONTRADICTED, f"{len(self.times_ns)} chunks have tokens, but the server reports {told}")
        if told > 0 and not self.times_ns:
            self._fail(CONTRADICTED, f"the server reports {told} tokens but sent none")
        if told < 0:
            self.output_tokens = sum(self.tokens)


def _counted(tokens: Any) -> int:
    """Tokens as a server reports them; raise `ValueError` for what is no count."""
    if not 0 <= int(tokens) <= MOST_TOKENS:
        raise ValueError(tokens)
    return int(tokens)


def events(pieces: Sequence[bytes], times_ns: Sequence[int]) -> Iterator[tuple[bytes, int]]:
    """Yield the data of each event with the time at which its last byte had come; pieces are cut anywhere."""
    begun: list[bytes] = []
    for piece, time_ns in zip(pieces, times_ns, strict=True):
        begun.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(begun).split(b"\n")
        begun = [rest]
        for line in lines:
            # Events of this interface have one line of data; comments, names and empty lines say nothing.
            if line.startswith(b"data:"):
                yield line[5:].strip(), time_ns
    rest = b"".join(begun)
    if rest.strip():
        yield rest.removeprefix(b"data:").strip(), times_ns[-1]


REFUSED, TIMED_OUT, STALLED, NO_ANSWER = "connection refused", "timed out", "stalled", "no answer"
ENDLESS: Final = "endless stream"
"""Why there is no stream, or no end of it."""
MORE_EVENTS, FURTHER_EVENTS = 2, 100
"""Events of a stream for each token that was asked for, and besides: some servers send a token in parts."""
TOKEN_BYTES, FURTHER_BYTES = 2_048, 2**16
"""Bytes of a stream likewise, where the prompt may come back in; each piece counts as ``PIECE_BYTES`` more."""
PIECE_BYTES: Final = 64
MOST_TOKENS: Final = 2**40
"""That a server may report."""
SLICE = 32
"""Events read before other streams get their turn: a long answer must not delay the clock of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a request; times are of ``time.perf_counter_ns``."""

    sent_ns: int
    ended_ns: int
    stream: AnswerStream = field(default_factory=AnswerStream)
    failure: str = ""
    """One of few reasons; empty: the answer is whole."""
    detail: str = ""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request that is under way."""

    task: "asyncio.Task[Answer] | None"
    sent_ns: int
    last_ns: int
    """When something last came."""
    begun: bool = False
    """Whether the answer has."""
    why: str = ""
    """Why it was ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a request may take."""

    stall_s: float = 120.0
    """Without a further byte of an answer that has begun."""
    first_s: float | None = None
    """Without its first byte; None: only ``total_s`` counts, since requests wait long for a server under load."""
    total_s: float = 1800.0


class Client:
    """Sends requests to one address; as a context, it watches over those under way."""

    def __init__(
        self,
        session: "ClientSession",
        address: str,
        headers: Mapping[str, str],
        limits: Limits,
        sockets: Sockets | None = None,
    ) -> None:
        """Send with ``headers``; a key is among them and nowhere else. ``sockets`` made those of the session."""
        self.address = address
        self.credentials = credentials.of_request(headers, address)
        self._session, self._limits, self._sockets = session, limits, sockets or Sockets()
        self._headers = {**headers, "Content-Type": "application/json"}
        self._pending: set[PendingRequest] = set()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._end_late_ones())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def send(self, body: bytes, tokens: int) -> Answer:
        """Send a request for an answer of so many tokens and read it; whatever goes wrong is in the answer."""
        begun = time.perf_counter_ns()
        pending = PendingRequest(asyncio.current_task(), begun, begun)
        pieces: list[bytes] = []
        times_ns: list[int] = []
        self._pending.add(pending)
        try:
            failure, detail = await self._receive(body, tokens, pending, pieces, times_ns)
        except asyncio.CancelledError:
            if not pending.why:
                raise
            failure, detail = pending.why, self._words(pending)
        finally:
            self._pending.discard(pending)
        stream = AnswerStream(credentials=self.credentials)
        for count, (data, time_ns) in enumerate(events(pieces, times_ns) if not failure or pieces else ()):
            stream.take(data, time_ns)
            if count % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        if not failure:
            stream.close()
            failure, detail = stream.failure, stream.detail
        return Answer(sent_ns=pending.sent_ns, ended_ns=pending.last_ns, stream=stream, failure=failure, detail=detail)

    async def _receive(
        self, body: bytes, tokens: int, pending: PendingRequest, pieces: list[bytes], times_ns: list[int]
    ) -> tuple[str, str]:
        """Send, then keep every piece with its time; return why that failed."""
        import aiohttp

        now = time.perf_counter_ns
        events_left = MORE_EVENTS * tokens + FURTHER_EVENTS
        bytes_left = TOKEN_BYTES * tokens + FURTHER_BYTES + 2 * len(body)
        try:
            pending.sent_ns = now()
            async with self._session.post(self.address, data=body, headers=self._headers) as response:
                if response.status != 200:
                    said = (await response.content.read(4096)).decode(errors="replace")
                    pending.last_ns = now()
                    return f"HTTP {response.status}", " ".join(self.credentials.hide(said).split())[:200]
                # The loop of a load: anything else happens when the stream has ended.
                readany, keep, stamp = response.content.readany, pieces.append, times_ns.append
                socket = self._socket_of(response)
                while piece := await readany():
                    pending.last_ns, pending.begun = now(), True
                    stamp(pending.last_ns if socket is None else socket.arrived_ns)
                    keep(piece)
                    events_left -= piece.count(b"data:")
                    bytes_left -= len(piece) + PIECE_BYTES
                    if events_left < 0 or bytes_left < 0:
                        response.close()
                        return ENDLESS, f"the answer goes on beyond {tokens:,} tokens; the stream was closed"
        except aiohttp.ClientConnectorError as error:
            return REFUSED, self.credentials.hide(str(error))
        except (aiohttp.ClientError, OSError) as error:
            pending.last_ns = now()
            return CUT if pieces else NO_ANSWER, self.credentials.hide(str(error)) or type(error).__name__
        return "", ""

    def _socket_of(self, response: "ClientResponse") -> StampedSocket | None:
        """The socket that an answer comes by; None where it has come as a whole, or knows no times."""
        transport = None if response.connection is None else response.connection.transport
        socket = None if transport is None else transport.get_extra_info("socket")
        return None if socket is None else self._sockets.of(socket.fileno())

    def _words(self, pending: PendingRequest) -> str:
        if pending.why == STALLED:
            return f"no output for {self._silence_s(pending):g} s; raise --stall to wait longer"
        return f"not finished within {self._limits.total_s:g} s"

    def _silence_s(self, pending: PendingRequest) -> float:
        """How long nothing may come of an answer."""
        limits = self._limits
        if pending.begun:
            return limits.stall_s
        return inf if limits.first_s is None else limits.first_s

    async def _end_late_ones(self) -> None:
        """End requests that stall or take too long."""
        total_ns = self._limits.total_s * 1e9
        while True:
            await asyncio.sleep(min(1.0, self._limits.stall_s / 4, self._limits.total_s / 100))
            now = time.perf_counter_ns()
            for pending in tuple(self._pending):
                late = now - pending.sent_ns > total_ns
                stalled = now - pending.last_ns > self._silence_s(pending) * 1e9
                if (stalled or late) and not pending.why and pending.task is not None:
                    pending.why = TIMED_OUT if late else STALLED
                    pending.task.cancel()
