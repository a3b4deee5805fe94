"""``sightline measure`` of a load: a server that runs, an engine that is started and ended, and what goes wrong."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars
import pytest

pytest.importorskip("aiohttp")

from measurement.running import TINY, alive
from waiting import PATIENCE_S, until

from sightline.runs import open_store

SERVER = Path(__file__).parents[2] / "measurement/serving/misbehaving.py"
KEY = "a-secret-that-nobody-stores"


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    path = tmp_path / "scenario.json"
    work = {
        "task": "serve",
        "requests": {"count": 30, "prompt_tokens": 24, "output_tokens": 8},
        "arrival": {"process": "poisson", "rate": 200},
        "slo": {"ttft": "300 s"},
    }
    plan = {"framework": "transformers", "dtype": "fp32"}
    path.write_text(json.dumps({"model": TINY, "cluster": "this-machine", "workload": work, "plan": plan}))
    return path


@pytest.fixture
def served():
    """Start the server with a behavior, and return its URL."""
    started = []

    def serve(behavior="well"):
        server = subprocess.Popen([sys.executable, SERVER, "0", behavior], stdout=subprocess.PIPE, text=True)
        started.append(server)
        return f"http://127.0.0.1:{server.stdout.readline().split()[1]}"

    yield serve
    for server in started:
        server.kill()
        server.communicate()


def test_a_server_that_runs_is_measured_and_its_key_is_stored_nowhere(in_process, scenario, served, monkeypatch):
    monkeypatch.setenv("SERVER_KEY", KEY)
    code, out, err = in_process("measure", scenario, "--url", served(), "--api-key-env", "SERVER_KEY", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert (said["source"], said["completed"], said["failed"]) == ("measured", 30, 0)
    assert 0 < said["ttft_s"]["p50"] <= said["ttft_s"]["p99"] <= said["latency_s"]["p99"]
    assert said["goodput_requests_per_s"] == said["requests_per_s"] > 0
    assert said["queue_s"] is None
    store = open_store()
    samples = store.samples(store.find("latest"))
    assert samples.height == 30
    assert samples["chunk_s"].list.len().to_list() == [8] * 30
    written = [path.read_bytes() for path in Path(os.environ["SIGHTLINE_RUNS"]).rglob("*") if path.is_file()]
    assert written
    assert not any(KEY.encode() in data for data in written)
    assert KEY not in out + err


def tpot_error(answer):
    """The relative error of the mean time per token of a replayed run."""
    errors = {(row["time"], row["statistic"]): row["error"] for row in answer["replay"]}
    return errors["tpot_s", "mean"]


def test_a_measured_run_is_replayed_and_anchors_others(in_process, scenario, served, tmp_path):
    code, _, err = in_process("measure", scenario, "--url", served(), "--json")
    assert code == 0, err
    table = tmp_path / "beside.parquet"
    chart = tmp_path / "beside.svg"
    again = ("--anchor", "latest", "--replay", "latest", "--requests", table, "--chart", chart, "--json")
    code, out, err = in_process("simulate", scenario, "--set", "plan.memory_fraction=0.05", "--no-intervals", *again)
    assert code == 0, err
    said = json.loads(out)
    unanchored = ("--replay", "latest", "--json", "--no-intervals", "--set", "plan.memory_fraction=0.05")
    code, out, err = in_process("simulate", scenario, *unanchored)
    assert code == 0, err
    assert abs(tpot_error(said)) < abs(tpot_error(json.loads(out)))
    assert chart.read_text(encoding="utf-8").startswith("<svg")
    assert said["anchor"][0]["from"] == open_store().find("latest").id
    assert polars.read_parquet(table).height == 30
    wrong = ("simulate", scenario, "--anchor", "latest", "--set", "plan.framework=vllm")
    code, _, err = in_process(*wrong)
    assert code == 2
    assert "transformers" in err
    assert "vllm" in err


def test_failures_are_told_in_a_sentence_and_the_others_count(in_process, scenario, served):
    code, out, err = in_process("measure", scenario, "--url", served("500"), "--json")
    assert code == 0, err
    said = json.loads(out)
    assert 0 < said["failed"] < 15
    assert said["completed"] == 30 - said["failed"]
    assert any(
        f"{said['failed']} of 30 requests failed: {said['failed']} x HTTP 500" in why for why in said["warnings"]
    )


def test_keys_in_commands_and_logs_are_stored_nowhere(in_process, scenario, monkeypatch):
    monkeypatch.setenv("SERVER_KEY", KEY)
    typed = "another-secret"
    command = f"{sys.executable} {SERVER} {{port}} well {KEY} --api-key {typed}"
    monkeypatch.setattr(sys, "orig_argv", ["sightline", "measure", "--engine-command", f"serve --api-key {typed}"])
    asked = ("--engine-command", command, "--api-key-env", "SERVER_KEY", "--json")
    code, out, err = in_process("measure", scenario, *asked)
    assert code == 0, err
    assert json.loads(out)["measurement"]["command"][-3:] == ["***", "--api-key", "***"]
    folder = Path(os.environ["SIGHTLINE_RUNS"]) / json.loads(out)["run"]
    assert (folder / "server.log").read_text().splitlines()[1] == "started with *** --api-key ***"
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert typed.encode() not in written
    assert json.loads((folder / "run.json").read_text())["command"][-1] == "serve --api-key ***"


def test_an_engine_is_started_and_ended(in_process, scenario):
    mark = "the-engine-of-this-test"
    command = f"{sys.executable} {SERVER} {{port}} well {mark}"
    code, out, err = in_process("measure", scenario, "--engine-command", command, "--json")
    assert code == 0, err
    run = json.loads(out)["run"]
    assert (Path(os.environ["SIGHTLINE_RUNS"]) / run / "server.log").read_text().startswith("ready")
    until(lambda: not alive(mark))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (f"{sys.executable} -c 'print(\"no such device\"); exit(3)'", "no such device"),
        ("there-is-no-such-engine", "there-is-no-such-engine"),
    ],
)
def test_an_engine_that_does_not_start_says_why(in_process, scenario, command, sentence):
    code, out, err = in_process("measure", scenario, "--engine-command", command)
    assert (code, out) == (1, "")
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--url", "localhost:8000"), "--url is 'localhost:8000'; allowed: a URL such as"),
        (("--url", "http://me:secret@host"), "--api-key-env"),
        (("--url", "http://host", "--engine-command", "x"), "--engine-command"),
        (("--url", "http://host", "--api-key-env", "NOT_SET"), "NOT_SET"),
        (("--set", "plan.framework=vllm"), "plan.framework is vllm"),
        (("--steps", "3"), "--steps applies to training, not to serving"),
    ],
)
def test_wrong_requests_are_refused_before_anything_runs(in_process, scenario, monkeypatch, arguments, sentence):
    monkeypatch.setenv("PATH", "")
    code, out, err = in_process("measure", scenario, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_where_nobody_answers_the_command_fails(in_process, scenario):
    code, _, err = in_process("measure", scenario, "--url", "http://127.0.0.1:9")
    assert code == 1
    assert "http://127.0.0.1:9" in err


@pytest.mark.slow
def test_ctrl_c_keeps_the_requests_that_have_ended(scenario, served):
    slow = ("--set", "workload.arrival.rate=2", "--url", served())
    process = subprocess.Popen([sys.executable, "-m", "sightline", "measure", scenario, *slow], stderr=subprocess.PIPE)
    store = open_store()
    until(lambda: store.runs() and store.samples(store.runs()[0]).height >= 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    (run,) = store.runs()
    assert run.status == "interrupted"
    assert store.samples(run).height >= 2
