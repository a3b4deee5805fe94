"""Sockets that know when their bytes came to this machine, however late the client gets to read them.

Linux stamps every packet when its network stack takes it. What is left out of a token's time is then the wait for the
client's processor, which other streams, and other programs, use too.
"""

import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

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
