"""A case may end in any way; it costs that case only and leaves no process."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import get_args

import pytest
from measurement.running import alive
from waiting import PATIENCE_S, until

from sightline.errors import WorkError
from sightline.measurement.processes.isolation import FINISHED, Status, run_case

CASES = "measurement.cases"


@pytest.fixture
def mark():
    return f"mark-{uuid.uuid4().hex}"


def run(name, on_sample=None, limit_s=PATIENCE_S, variables=None, **arguments):
    return run_case(f"{CASES}:{name}", arguments, limit_s, on_sample, variables=variables)


def test_a_case_gives_its_samples_and_its_result():
    samples = []
    outcome = run("returns", samples.append, x=21, samples=3)
    assert (outcome.status, outcome.reason, outcome.result["double"]) == ("ok", "", 42)
    assert samples == [{"number": n, "time_s": n / 8} for n in range(3)]
    assert outcome.output == "printed by the case\n"
    assert outcome.cpu_s > 0
    assert 1e6 < outcome.peak_memory_bytes < 1e9


def test_samples_come_while_the_case_runs(mark):
    came = []

    def stop(sample):
        came.append(alive(str(sample["pid"])) is not None)
        raise WorkError("the disk is full")

    with pytest.raises(WorkError, match="disk is full"):
        run("starts_daemons_and_hangs", stop, mark=mark)
    assert came == [True]
    until(lambda: not alive(mark))


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("raises", "crashed", "ValueError: the first line"),
        ("is_unsupported", "unsupported", "nf4 needs bitsandbytes"),
        ("asks_for_too_much", "out_of_memory", "MemoryError"),
        ("dies_in_native_code", "crashed", "killed by Segmentation fault (SIGSEGV)"),
        ("leaves", "crashed", "exited with code 3 before it returned"),
        ("kills_itself_in_the_middle_of_a_line", "crashed", "killed by Killed (SIGKILL)"),
        ("is_not_there", "crashed", "AttributeError: module 'measurement.cases' has no attribute 'is_not_there'"),
    ],
)
def test_an_end_has_a_reason(name, status, reason):
    outcome = run(name)
    assert (outcome.status, outcome.reason) == (status, reason)
    assert outcome.status in get_args(Status)
    assert outcome.result == {}


def test_what_was_printed_last_is_kept():
    assert "ValueError: the first line" in run("raises").output
    assert "Segmentation fault" in run("dies_in_native_code").output


def test_a_hang_ends_at_its_limit_with_all_its_processes(mark):
    samples = []
    # A busy machine may take longer than the first limits to start the case.
    for limit_s in (1, 8, 64, 512):
        outcome = run("starts_daemons_and_hangs", samples.append, float(limit_s), mark=mark)
        assert (outcome.status, outcome.reason) == ("timeout", f"not finished within {limit_s} s")
        assert not alive(mark)
        if samples:
            break
    assert len(samples) == 1


def test_what_a_case_leaves_running_is_ended(mark):
    assert run("starts_daemons_and_returns", mark=mark).status == "ok"
    assert not alive(mark)


def test_a_case_has_variables_and_a_scratch_folder_of_its_own():
    surroundings = run("says_its_surroundings", variables={"OMP_NUM_THREADS": "7"}, variable="OMP_NUM_THREADS").result
    assert surroundings["variable"] == "7"
    assert surroundings["scratch"].rpartition("/")[2].startswith("sightline-case-")
    assert not Path(surroundings["scratch"]).exists()
    assert surroundings["stdin"] == ""
    assert surroundings["leader"]


def test_ctrl_c_interrupts_the_case(mark):
    samples = []

    def press(sample):
        samples.append(sample)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    outcome = run("starts_daemons_and_hangs", press, mark=mark)
    assert (outcome.status, outcome.reason) == ("interrupted", "interrupted")
    assert len(samples) == 1
    assert not alive(mark)
    assert "interrupted" not in FINISHED


def test_a_keeper_that_is_killed_leaves_nothing(mark, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def kill_keeper(sample):
        stat = Path(f"/proc/{sample['pid']}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)

    outcome = run("starts_daemons_and_hangs", kill_keeper, mark=mark)
    assert (outcome.status, outcome.reason) == ("crashed", "the supervisor process exited with -9")
    until(lambda: not alive(mark))
    assert [*tmp_path.iterdir()] == []


def test_a_caller_that_is_killed_leaves_nothing(mark, tmp_path):
    script = (
        "from sightline.measurement.processes.isolation import run_case\n"
        f"run_case('{CASES}:starts_daemons_and_hangs', {{'mark': '{mark}'}}, 600.0, lambda s: print(s, flush=True))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, cwd=tmp_path)
    assert caller.stdout.readline()
    assert len(alive(mark)) >= 3
    caller.kill()
    caller.wait()
    caller.stdout.close()
    until(lambda: not alive(mark))
