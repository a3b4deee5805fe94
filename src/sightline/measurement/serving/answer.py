"""One request asked of a server: when each of its tokens came, or why it failed."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from sightline.measurement.serving.sockets import Sockets, StampedSocket
from sightline.measurement.serving.stream import CUT, AnswerStream, events
from sightline.runs import credentials

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

REFUSED, TIMED_OUT, STALLED, NO_ANSWER = "connection refused", "timed out", "stalled", "no answer"
"""Why there is no stream, or no end of it."""
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

    async def send(self, body: bytes) -> Answer:
        """Send a request and read its answer; whatever goes wrong is in the answer."""
        begun = time.perf_counter_ns()
        pending = PendingRequest(asyncio.current_task(), begun, begun)
        pieces: list[bytes] = []
        times_ns: list[int] = []
        self._pending.add(pending)
        try:
            failure, detail = await self._receive(body, pending, pieces, times_ns)
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
        self, body: bytes, pending: PendingRequest, pieces: list[bytes], times_ns: list[int]
    ) -> tuple[str, str]:
        """Send, then keep every piece with its time; return why that failed."""
        import aiohttp

        now = time.perf_counter_ns
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
            return f"nothing came for {self._silence_s(pending):g} s; --stall allows more"
        return f"it did not end within {self._limits.total_s:g} s"

    def _silence_s(self, pending: PendingRequest) -> float:
        """How long nothing may come of an answer."""
        limits = self._limits
        if pending.begun:
            return limits.stall_s
        return limits.total_s if limits.first_s is None else limits.first_s

    async def _end_late_ones(self) -> None:
        """End requests that stall or take too long."""
        total_ns = self._limits.total_s * 1e9
        while True:
            await asyncio.sleep(min(1.0, self._limits.stall_s / 4))
            now = time.perf_counter_ns()
            for pending in tuple(self._pending):
                late = now - pending.sent_ns > total_ns
                stalled = now - pending.last_ns > self._silence_s(pending) * 1e9
                if (stalled or late) and not pending.why and pending.task is not None:
                    pending.why = TIMED_OUT if late else STALLED
                    pending.task.cancel()
