"""The server as people start and end it."""

import signal
import socket
import subprocess
import sys

import pytest
from page_checks import running
from waiting import PATIENCE_S

LONG = {
    "model": "llama-3-70b",
    "cluster": "1024x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 8192, "global_batch": 2048},
}


def start(*options):
    command = [sys.executable, "-m", "sightline", "ui", "--no-browser", *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_port_that_is_taken_is_a_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = start("--port", str(port))
    assert found.returncode == 2
    assert f"--port {port}: address already in use; --port 0 takes a free one" in found.stderr
    assert not found.stdout


@pytest.mark.parametrize("port", ["70000", "-1", "http"])
def test_a_wrong_port_is_a_sentence(port):
    found = start(f"--port={port}")
    assert found.returncode == 2
    assert "allowed: a whole number from 0 to 65535" in found.stderr


@pytest.mark.slow
def test_ctrl_c_ends_the_server_and_its_jobs(tmp_path):
    import httpx2

    with running(environment={"SIGHTLINE_JOBS": str(tmp_path)}) as (address, process):
        assert httpx2.post(f"{address}/api/v1/plan", json=LONG, timeout=PATIENCE_S).status_code == 202
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 0


@pytest.mark.slow
def test_the_server_listens_on_this_machine_alone(server):
    port = int(server.rpartition(":")[2])
    mine = socket.gethostbyname(socket.gethostname())
    if mine.startswith("127."):
        pytest.skip("this machine has no other address")
    with socket.socket() as other:
        assert other.connect_ex((mine, port)) != 0
