"""Connections of the local server: few at a time, each with little time to send a request, and few lines of log."""

import logging
from asyncio import TimerHandle, Transport
from time import monotonic
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS: Final = 200
"""Open at the same time; systems allow a process 256 files or more."""
ACCEPTED_AT_ONCE: Final = 32
"""Connections that are accepted before they are counted."""
MOST_WAITING: Final = 2048
"""Connections that wait to be accepted: one that finds no room is only tried again a second later, or more."""
MOST_S: Final[dict[Any, float]] = {h11.IDLE: 10.0, h11.SEND_BODY: 300.0}
"""Seconds that the head of a request, and its body, may take."""
MOST_LINES: Final = 20
"""Lines of log within ``WITHIN_S``."""
WITHIN_S: Final = 60.0


class Connection(H11Protocol):
    """Ends a connection whose request does not come, the oldest one of those at once where there are too many."""

    part: Any = None
    """What of a request has begun, as h11 names it."""
    since_s: float = 0.0
    timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Make room for a new connection."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MOST_CONNECTIONS:
            of_ours = (one for one in self.connections if isinstance(one, Connection))
            oldest = min((one for one in of_ours if one.conn.their_state in MOST_S), key=lambda one: one.since_s)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._watch(ended=True)

    def _watch(self, *, ended: bool = False) -> None:
        """Let the time of the part begin that has just begun."""
        part = None if ended else self.conn.their_state
        if part is self.part:
            return
        if self.timer is not None:
            self.timer.cancel()
        self.part, self.since_s = part, self.loop.time()
        self.timer = self.loop.call_later(MOST_S[part], self.transport.abort) if part in MOST_S else None


class FewLines(logging.Filter):
    """Lets only so many lines of log through within a time; the last of them says that there are more."""

    def __init__(self) -> None:
        super().__init__()
        self._begun_s, self._lines = -WITHIN_S, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is shown."""
        if monotonic() - self._begun_s > WITHIN_S:
            self._begun_s, self._lines = monotonic(), 0
        self._lines += 1
        if self._lines == MOST_LINES:
            record.msg, record.args, record.exc_info = "further problems of this minute are not shown", (), None
        return self._lines <= MOST_LINES


def limit_log() -> None:
    """Bound what the server and its loop write about connections."""
    few = FewLines()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(few)
