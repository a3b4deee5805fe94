"""Suites: stored as they go, resumed, and hard to kill."""

import json
import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from measurement.running import alive
from waiting import PATIENCE_S, until

from sightline.measurement.machine import record_environment
from sightline.measurement.processes.cases import Case, run_suite
from sightline.runs import open_store

CASES = "measurement.cases"


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "runs"))


def case(name, **arguments):
    return Case(
        name=name.replace("_", " "), entry=f"{CASES}:{name}", arguments=arguments, limit_s=PATIENCE_S, variables={}
    )


def test_cases_are_stored_in_order(store):
    rows = [{"operator": "matmul", "time_s": 0.5}]
    cases = [case("returns", x=1, samples=2, rows=rows), case("raises"), case("is_unsupported")]
    runs = run_suite(cases, store, suite="three")
    assert [run.status for run in runs] == ["ok", "crashed", "unsupported"]
    assert [run.id for run in store.runs()] == [run.id for run in runs]
    first = store.find(runs[0].id)
    assert (first.suite, first.result) == ("three", {"double": 2})
    assert store.samples(first).to_dicts() == [{"number": 0, "time_s": 0.0}, {"number": 1, "time_s": 0.125}]
    assert store.rows(first).to_dicts() == rows
    assert first.output == "printed by the case\n"
    assert first.environment["cpu"]["logical_cpus"] == os.cpu_count()
    assert first.environment["before"]["load_average"]
    assert isinstance(first.environment["contended"], bool)
    assert store.find(runs[1].id).reason == "ValueError: the first line"


def test_a_rerun_skips_what_ended_and_tries_crashes_again(store):
    cases = [case("returns", x=1), case("raises"), case("is_unsupported")]
    first = run_suite(cases, store)
    steps = []
    second = run_suite(cases, store, on_step=steps.append)
    assert [a.id == b.id for a, b in zip(first, second, strict=True)] == [True, False, True]
    assert [step.resumed for step in steps if step.run] == [True, False, True]
    third = run_suite(cases[:1], store, rerun=True)
    assert third[0].id != first[0].id


def test_equal_cases_run_once(store):
    runs = run_suite([case("returns", x=1)] * 2, store)
    assert runs[0].id == runs[1].id


def test_another_question_or_another_machine_is_measured_anew(monkeypatch, store):
    run_suite([case("returns", x=1)], store)
    run_suite([case("returns", x=2)], store)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    run_suite([case("returns", x=1)], store)
    assert len(store.runs()) == 3


def test_ctrl_c_ends_the_suite_and_keeps_what_there_is(store):
    cases = [case("returns", x=1), case("raises_ctrl_c"), case("returns", x=2)]
    with pytest.raises(KeyboardInterrupt):
        run_suite(cases, store)
    assert [run.status for run in store.runs()] == ["ok", "interrupted"]


RUNNER = """
import json, os, sys
from sightline.measurement.processes.cases import Case, run_suite
from sightline.runs import open_store

cases, store, log, mark, turn_s = json.loads(sys.argv[1])

def announce(step):
    if step.run is not None and not step.resumed:
        with open(log + ".ended", "a") as file:
            file.write(f"{step.case.arguments['number']} {step.run.id}\\n")
            file.flush()
            os.fsync(file.fileno())

run_suite([Case(name=f"case {n}", entry="measurement.cases:counts_its_starts",
                arguments={"number": n, "log": log, "mark": mark, "turn_s": turn_s}) for n in range(cases)],
          open_store(store), suite="killed", on_step=announce)
"""


def survive(tmp_path, cases, kills, turn_s, seed):
    """Kill a suite this often at random moments, then let it end; check after each death what a reader sees."""
    store, log, mark = str(tmp_path / "runs"), str(tmp_path / "log"), f"mark-{uuid.uuid4().hex}"
    command = [sys.executable, "-c", RUNNER, json.dumps([cases, store, log, mark, turn_s])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}
    moments = random.Random(seed)
    killed = 0
    while True:
        suite = subprocess.Popen(command, env=environment, cwd=tmp_path)
        if killed < kills:
            # At first it must get somewhere, or slow starts would be all that is ever killed.
            wait_until_started(log, suite)
            time.sleep(moments.uniform(0.0, 12 * turn_s))
            killed += suite.poll() is None
            suite.kill()
        code = suite.wait()
        until(lambda: not alive(mark))
        check_readable(store, log)
        if code == 0:
            break
    return store, log, killed


def wait_until_started(log, suite):
    before = len(started(log))
    until(lambda: len(started(log)) > before or suite.poll() is not None)


def started(log):
    return Path(log).read_text().split() if Path(log).exists() else []


def announced(log):
    said = Path(f"{log}.ended")
    return dict(line.split() for line in said.read_text().splitlines()) if said.exists() else {}


def check_readable(place, log):
    """Everything said to have ended is there, whole; nothing is running; nothing is half."""
    store = open_store(place)
    runs = {run.id: run for run in store.runs()}
    assert {run.status for run in runs.values()} <= {"ok", "interrupted"}
    for number, run in announced(log).items():
        assert runs[run].result == {"number": int(number)}
    for run in runs.values():
        samples, rows = store.samples(run), store.rows(run)
        if run.status == "ok":
            assert (samples.height, rows.height) == (3, 1)
        assert samples.height <= 3


def check_whole(place, log, cases, killed):
    ok = [run for run in open_store(place).runs() if run.status == "ok"]
    assert sorted(run.result["number"] for run in ok) == list(range(cases)), "each case ended exactly once"
    assert len(started(log)) <= cases + killed, "only those that were killed began again"


def test_a_kill_loses_nothing(tmp_path):
    store, log, killed = survive(tmp_path, cases=3, kills=1, turn_s=0.02, seed=1)
    check_whole(store, log, 3, killed)


@pytest.mark.slow
def test_ten_kills_of_fifty_cases_lose_nothing(tmp_path):
    store, log, killed = survive(tmp_path, cases=50, kills=10, turn_s=0.03, seed=7)
    assert killed == 10
    check_whole(store, log, 50, killed)


def test_figures_of_this_machine_that_came_out_otherwise_are_no_other_question() -> None:
    environment = record_environment()

    def key(bandwidth=1e10, ranks=1, name="this-machine"):
        cluster = {"devices": ranks, "per_node": ranks, "device": {"name": name, "memory_bandwidth": bandwidth}}
        scenario = {"cluster": cluster, "workload": {"task": "pretrain"}}
        return Case(name="a", entry="b:c", arguments={"scenario": scenario}, scenario=scenario).key(environment)

    assert key(bandwidth=1.1e10) == key()
    assert key(ranks=2) != key()
    assert key(bandwidth=1.1e10, name="mine") != key(name="mine")
