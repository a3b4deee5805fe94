"""Long work shows a bar on a terminal, and only there."""

import json
import os
import pty
import subprocess
import sys

SWEEP = ["--sweep", "workload.sequence_length=" + ",".join(str(256 * n) for n in range(1, 41)), "--json"]


def test_a_terminal_sees_progress_and_stdout_stays_json(example):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "sightline", "predict", str(example), *SWEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, text=True) as process:
        os.close(follower)
        out, _ = process.communicate(timeout=60)
    seen = read_all(leader)
    assert process.returncode == 0
    assert len(json.loads(out)) == 40
    assert "predicting" in seen


def test_a_file_sees_none(run, example):
    answer = run("predict", example, *SWEEP)
    assert answer.returncode == 0
    assert "predicting" not in answer.stderr


def read_all(leader):
    """Return what was written to a terminal; its end shows as an error on Linux."""
    seen = b""
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:
        pass
    os.close(leader)
    return seen.decode()
