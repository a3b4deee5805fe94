"""A new user's questions are answered from an empty folder in one command each."""

import json
import shlex

import pytest

WHERE = ("--model", "llama-3.1-8b", "--cluster", "8x h100-sxm-80gb")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def answered(in_process, *arguments):
    code, out, err = in_process(*arguments, "--json")
    assert code == 0, err
    return json.loads(out), err


def test_does_it_fit(in_process):
    answer, err = answered(in_process, "predict", *WHERE, "--sequence", "8192")
    assert answer["fits"] in (True, False)
    assert (
        answer["scenario"]["workload"] | {"sequence_length": 8192, "task": "pretrain"} == answer["scenario"]["workload"]
    )
    assert any("assumed: workload.task pretrain" in warning for warning in answer["warnings"])
    assert "assumed: workload.task pretrain" in err


def test_how_long_and_how_much(in_process):
    answer, err = answered(in_process, "plan", *WHERE, "--tokens", "100B", "--top", "1")
    assert answer["plans"][0]["run_time_s"] > 0
    assert answer["plans"][0]["cost_usd"] > 0
    assert "assumed: workload.task pretrain" in err


def test_how_many_users(in_process):
    answer, _ = answered(
        in_process,
        *("simulate", *WHERE, "--slo", "ttft<=1s,tpot<=50ms", "--capacity", "--no-intervals"),
        *("--set", "workload.requests.count=50"),
    )
    assert answer["capacity_requests_per_s"] > 1


def test_the_next_command_asks_the_same(in_process):
    said = answered(in_process, "explain", *WHERE)[0]["advice"][0]["command"]
    assert shlex.split(said)[:6] == ["sightline", "predict", *WHERE]
    assert answered(in_process, *shlex.split(said)[1:])[0]["scenario"]["model"]["name"] == "llama-3.1-8b"


def test_checks_and_sweeps_need_no_file(in_process):
    assert in_process("check", *WHERE, "--prompt", "1000", "--require", "fits")[0] == 0
    answers, _ = answered(in_process, "predict", *WHERE, "--prompt", "1000", "--sweep", "workload.batch=1,2,4")
    assert [answer["scenario"]["workload"]["batch"] for answer in answers] == [1, 2, 4]


def test_options_override_a_file(in_process, example):
    answer, _ = answered(in_process, "predict", example, "--batch", "32")
    assert answer["scenario"]["workload"]["global_batch"] == 32


@pytest.mark.parametrize("command", ["predict", "plan", "simulate", "check", "explain", "sensitivity"])
def test_without_a_question_it_is_said_what_is_missing(in_process, command):
    required = ["--require", "fits"] if command == "check" else []
    code, out, err = in_process(command, *required)
    assert (code, out) == (2, "")
    assert err.startswith("sightline: FILE is missing; needed: ")


@pytest.mark.parametrize("stated", [["--model", "llama-3.1-8b"], ["--cluster", "8x h100"], ["--sequence", "512"]])
@pytest.mark.parametrize("command", ["predict", "plan", "explain", "sensitivity"])
def test_half_a_question_names_the_other_half(in_process, command, stated):
    code, out, err = in_process(command, *stated)
    missing = {"model", "cluster"} - {stated[0].removeprefix("--")}
    assert (code, out) == (2, "")
    assert all(f"{key} is missing" in err for key in missing)
