"""When bytes came, as the system says it, however late they are read."""

import socket
import sys
import time

import pytest
from waiting import until

from sightline.measurement.serving.stream import Sockets

READ_LATE_S = 0.1
CLOCKS_NS = 1_000_000
"""How far two readings of the clocks may be apart."""


@pytest.fixture
def ends():
    sockets = Sockets()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = sockets.make((socket.AF_INET, socket.SOCK_STREAM, 0, "", server.getsockname()))
        with ours:
            ours.connect(server.getsockname())
            theirs, _ = server.accept()
            with theirs:
                yield sockets, ours, theirs


def received(end, into):
    if not into:
        return end.recv(100)
    buffer = bytearray(100)
    return bytes(buffer[: end.recv_into(buffer)])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems stamp no packets")
@pytest.mark.parametrize("into", [False, True])
def test_bytes_that_are_read_late_came_when_they_were_sent(ends, into):
    sockets, ours, theirs = ends

    def came_before_it_was_read():
        sent_ns = time.perf_counter_ns()
        theirs.sendall(b"token")
        time.sleep(READ_LATE_S)
        read_ns = time.perf_counter_ns()
        assert received(ours, into) == b"token"
        assert sent_ns - CLOCKS_NS < ours.arrived_ns
        return ours.arrived_ns < read_ns - CLOCKS_NS

    # A system begins to stamp some time after it was asked to.
    until(came_before_it_was_read)
    assert sockets.of(ours.fileno()) is ours


def test_a_socket_of_others_is_not_known():
    assert Sockets().of(0) is None
