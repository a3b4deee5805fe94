"""When bytes came, as the system says it, however late they are read."""

import socket
import sys
import time

import pytest

from sightline.measurement.serving.stream import Sockets

READ_LATE_S, TRIES = 0.1, 4
CLOCKS_NS = 1_000_000


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
    late_ns = []
    for _ in range(TRIES):
        before = time.perf_counter_ns()
        theirs.sendall(b"token")
        after = time.perf_counter_ns()
        time.sleep(READ_LATE_S)
        assert received(ours, into) == b"token"
        assert before - CLOCKS_NS < ours.arrived_ns
        late_ns.append(ours.arrived_ns - after)
    # Stamps are of the way through this machine, and not of the late reader; a system begins to stamp some time after
    # it was asked to.
    assert min(late_ns) < READ_LATE_S * 1e9 / 2
    assert sockets.of(ours.fileno()) is ours


def test_a_socket_of_others_is_not_known():
    assert Sockets().of(0) is None
