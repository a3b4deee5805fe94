"""Connections that ask for nothing, or slowly, leave the server to others."""

import http.client
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest
import uvicorn
from page_checks import running
from waiting import PATIENCE_S, until

from sightline.web import connections, security
from sightline.web.connections import MOST_CONNECTIONS, MOST_LINES, Connection, FewLines
from sightline.web.server import create_app

ESTABLISHED = 1
"""As the kernel names the state of a connection."""
HALF = b"POST /api/v1/predict HTTP/1.1\r\nHost: 127.0.0.1"


def connected(port, sent):
    found = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    found.sendall(sent)
    return found


def is_closed(connection):
    """Whether the server has ended a connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def status(port, method="GET", path="/predict", body=None):
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    asked.request(method, path, body, {"content-type": "application/json"} if body else {})
    answer = asked.getresponse()
    answer.read()
    asked.close()
    return answer.status


@pytest.mark.skipif(sys.platform != "linux", reason="files of a process are limited as Linux does")
def test_half_open_connections_neither_silence_the_server_nor_fill_its_log(tmp_path):
    import resource

    log = tmp_path / "log"
    with log.open("w") as file, running(environment={"SIGHTLINE_JOBS": str(tmp_path)}, log=file) as (address, process):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (MOST_CONNECTIONS + 100,) * 2)
        port = int(address.rpartition(":")[2])
        half_open = [connected(port, HALF) for _ in range(3 * MOST_CONNECTIONS)]
        assert status(port) == 200
        until(lambda: sum(map(is_closed, half_open)) >= 2 * MOST_CONNECTIONS)
        for connection in half_open:
            connection.close()
        assert status(port) == 200
    assert log.stat().st_size < 50_000


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel says how far a connection is as Linux does")
def test_connections_that_come_at_once_are_not_left_to_try_again(tmp_path):
    most = int(Path("/proc/sys/net/core/somaxconn").read_text(encoding="utf-8"))
    if most < 1300:
        pytest.skip("this system lets fewer connections wait")
    with running(environment={"SIGHTLINE_JOBS": str(tmp_path)}) as (address, process):
        port = int(address.rpartition(":")[2])
        os.kill(process.pid, signal.SIGSTOP)  # it accepts none
        try:
            opened = [socket.socket() for _ in range(1300)]
            for one in opened:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            states = [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] for one in opened]
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert states.count(ESTABLISHED) == len(opened)
        assert status(port) == 200
        for one in opened:
            one.close()


@pytest.fixture
def port(monkeypatch, tmp_path):
    """The port of a server that leaves a request half a second."""
    monkeypatch.setattr(connections, "MOST_S", dict.fromkeys(connections.MOST_S, 0.5))
    monkeypatch.setenv("SIGHTLINE_JOBS", str(tmp_path))
    server = uvicorn.Server(uvicorn.Config(create_app(), http=Connection, log_level="error", lifespan="off", port=0))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    "sent", [b"", HALF, HALF + b":80\r\nContent-Length: 9\r\n\r\n{", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /"]
)
def test_a_request_that_does_not_come_is_given_up(port, sent):
    def ended():
        try:
            return connection.recv(4096) == b""
        except ConnectionError:
            return True

    with connected(port, sent) as connection:
        until(ended)
    assert status(port) == 200


def test_a_connection_is_kept_for_further_requests_and_for_a_long_answer(port):
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    for _ in range(3):
        asked.request("GET", "/predict")
        answer = asked.getresponse()
        assert (answer.status, len(answer.read()) > 1000) == (200, True)
    asked.close()


def test_an_answer_that_takes_too_long_is_no_mistake_of_the_request(client, monkeypatch):
    monkeypatch.setattr(security, "MOST_SECONDS", 0)
    scenario = {
        "model": "llama-3-8b",
        "cluster": "8x h100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
    }
    for path in ("predict", "explain"):
        answer = client.post(f"/api/v1/{path}", json=scenario)
        assert (answer.status_code, answer.json()["problems"]) == (503, [answer.json()["error"]])
    for address in ("/predict", "/predict?fragment=1"):
        assert client.get(address).status_code == 503


def test_the_description_of_the_interface_has_answers_that_take_too_long(client):
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    assert {path for path, one in paths.items() if "503" in one.get("post", {}).get("responses", {})} == {
        "/predict",
        "/explain",
    }


def test_a_log_has_few_lines_a_minute():
    few = FewLines()
    records = [logging.LogRecord("asyncio", logging.ERROR, "", 0, "accept failed", (), None) for _ in range(1000)]
    shown = [record.getMessage() for record in records if few.filter(record)]
    assert (len(shown), shown.count("accept failed")) == (MOST_LINES, MOST_LINES - 1)
