"""A question about prompts alone: nothing takes time per further token, and no command makes a figure of it."""

import csv
import io
import json
import re

import pytest

KEYS = ("tpot_s", "ttft_s", "latency_s")


@pytest.fixture
def prompts(tmp_path):
    """A batch whose answers are one token long."""
    asked = {
        "model": "llama-2-7b",
        "cluster": "2x a100-sxm-80gb",
        "workload": {"task": "generate", "batch": 4, "prompt_tokens": 512, "output_tokens": 1},
        "plan": {"framework": "vllm", "tensor_parallel": 2},
    }
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps(asked))
    return file


@pytest.fixture
def load(tmp_path):
    """A server whose answers are one token long."""
    requests = {"count": 20, "prompt_tokens": 200, "output_tokens": 1}
    workload = {"task": "serve", "requests": requests, "slo": {"ttft": 1.0}, "seed": 1}
    asked = {"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "plan": {"framework": "vllm"}}
    file = tmp_path / "load.json"
    file.write_text(json.dumps(asked | {"workload": workload}))
    return file


def answered(in_process, *arguments):
    code, out, err = in_process(*arguments)
    assert code == 0, err
    assert "nan" not in out.lower().split()
    return out


@pytest.mark.parametrize("option", [(), ("--set", "workload.continuous=true"), ("--set", "plan.framework=sglang")])
def test_a_prediction_has_no_time_per_token(in_process, prompts, option):
    found = json.loads(answered(in_process, "predict", prompts, "--json", *option))
    assert found["tpot_s"] is None
    assert found["ttft_s"] == found["latency_s"] > 0
    assert found["output_tokens_per_s"] == pytest.approx(4 / found["latency_s"])
    assert "tpot_s" not in found["interval"]
    assert "TPOT" not in answered(in_process, "predict", prompts, *option)


def test_a_table_leaves_it_empty(in_process, prompts):
    sweep = ("--sweep", "workload.output_tokens=1,2")
    lines = list(csv.DictReader(io.StringIO(answered(in_process, "predict", prompts, "--csv", *sweep))))
    assert [bool(line["tpot_s"]) for line in lines] == [False, True]
    assert lines[0]["ttft_s"] == lines[1]["ttft_s"]


def test_a_simulation_has_none_either(in_process, load):
    found = json.loads(answered(in_process, "simulate", load, "--json"))
    assert set(found["tpot_s"].values()) == set(found["itl_s"].values()) == {None}
    assert found["good_share"] == 1.0


@pytest.mark.parametrize("options", [(), ("--capacity",), ("--stream",)], ids=" ".join)
@pytest.mark.parametrize("slo", ["tpot<=1ms", "ttft<=1s,tpot<=1s"])
def test_a_limit_on_it_is_refused(in_process, load, slo, options):
    code, out, err = in_process("simulate", load, "--slo", slo, *options)
    assert (code, out) == (2, "")
    assert "workload.slo.tpot" in err


def test_a_limit_on_it_is_for_requests_of_more_tokens(in_process, load, tmp_path):
    trace = tmp_path / "trace.csv"
    ask = ("simulate", load, "--set", "workload.requests=null", "--set", f"workload.trace={trace}", "--json")
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,200,1\n1,200,1\n2,200,1\n3,200,9\n")
    for limit, share in (("1us", 0.75), ("1s", 1.0)):
        found = json.loads(answered(in_process, *ask, "--slo", f"ttft<=1s,tpot<={limit}"))
        assert found["good_share"] == share
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,200,1\n1,200,1\n")
    code, _, err = in_process(*ask, "--slo", "tpot<=1s")
    assert code == 2
    assert "workload.slo.tpot" in err


@pytest.mark.parametrize("require", ["tpot<1s", "tpot<=1s", "tpot>1us"])
@pytest.mark.parametrize("options", [(), ("--whole-interval",)])
def test_a_requirement_on_it_is_not_met(in_process, prompts, require, options):
    code, out, _ = in_process("check", prompts, "--require", require, "--json", *options)
    (judged,) = json.loads(out)["required"]
    assert (code, judged["met"], judged["value"]) == (1, False, None)
    assert "undefined" in judged["sentence"]


def test_a_requirement_on_that_of_a_load_is_not_met(in_process, load):
    code, out, _ = in_process("check", load, "--require", "tpot_p90<1s", "--json")
    assert code == 1
    assert "undefined" in json.loads(out)["required"][0]["sentence"]


def test_a_requirement_on_times_of_no_request_is_not_met(in_process, load):
    longer = ("--set", "workload.requests.prompt_tokens=200000")
    code, out, _ = in_process("check", load, "--require", "tpot_p90<1s,ttft_p99<1h", "--json", *longer)
    assert code == 1
    assert all("no request is answered" in one["sentence"] for one in json.loads(out)["required"])


PLANS = (
    (),
    ("--objective", "ttft_s"),
    ("--objective", "users", "--ttft", "500ms"),
    ("--ttft", "1us"),
    ("--pareto", "ttft_s,cost"),
)


@pytest.mark.parametrize("options", PLANS, ids=" ".join)
def test_plans_are_compared_by_what_there_is(in_process, prompts, options):
    free = ("--set", "plan={}")
    found = json.loads(answered(in_process, "plan", prompts, *free, "--json", *options))
    best = [*found["plans"], *found["nearest"]]
    assert best
    assert all(one["tpot_s"] is None for one in found["plans"])
    assert answered(in_process, "plan", prompts, *free, *options)


@pytest.mark.parametrize(
    "options",
    [("--objective", "latency"), ("--objective", "tpot_s"), ("--pareto", "interactivity,cost"), ("--tpot", "10 ms")],
    ids=" ".join,
)
def test_plans_are_not_compared_by_what_there_is_not(in_process, prompts, options):
    code, out, err = in_process("plan", prompts, "--set", "plan={}", *options)
    assert (code, out) == (2, "")
    assert "workload.output_tokens is 1" in err


def test_what_depends_on_hardware_names_the_times_that_there_are(in_process, prompts):
    found = json.loads(answered(in_process, "sensitivity", prompts, "--json"))
    assert {key for of in found["elasticity"].values() for key in of} == {"ttft_s", "latency_s"}


def test_a_study_calls_no_missing_time_the_best(in_process, prompts, tmp_path):
    study = tmp_path / "study.json"
    axes = {"workload.output_tokens": [1, 4], "workload.batch": [1, 2]}
    study.write_text(json.dumps({"study": "lengths", "base": prompts.name, "axes": axes, "report": list(KEYS)}))
    rows = json.loads(answered(in_process, "explore", study, "--json"))["rows"]
    assert [row["tpot_s"] is None for row in rows] == [row["workload.output_tokens"] == 1 for row in rows]
    assert answered(in_process, "explore", study)


@pytest.mark.parametrize("measured", [{"tpot_s": 0.01}, {"ttft_s": 0.1, "tpot_s": 0.01}])
def test_it_cannot_have_been_measured(in_process, prompts, measured):
    prompts.write_text(json.dumps(json.loads(prompts.read_text()) | {"measured": measured}))
    code, _, err = in_process("predict", prompts)
    assert code == 2
    assert "measured.tpot_s" in err


@pytest.mark.parametrize("measured", [{"ttft_s": 0.1}, {"latency_s": 0.1}])
def test_a_run_of_it_is_an_anchor(in_process, prompts, measured, tmp_path):
    run = tmp_path / "run.json"
    run.write_text(json.dumps(json.loads(prompts.read_text()) | {"measured": measured}))
    found = json.loads(answered(in_process, "predict", prompts, "--json", "--anchor", run))
    assert found["tpot_s"] is None
    assert found["ttft_s"] == pytest.approx(0.1, rel=0.2)
    assert json.loads(answered(in_process, "validate", run, "--json"))["suites"][0]["unanswered"] == 0


@pytest.mark.parametrize(
    "words", [("explain", "prompts"), ("compare", "prompts", "prompts"), ("roofline", "prompts"), ("explain", "load")]
)
def test_every_command_answers(in_process, prompts, load, words):
    files = {"prompts": prompts, "load": load}
    assert answered(in_process, *(files.get(word, word) for word in words))


def test_loads_over_their_rate_are_drawn(in_process, load, tmp_path):
    rates = ("--set", "workload.arrival.process=poisson", "--sweep", "workload.arrival.rate=1,2,4,8")
    answered(in_process, "simulate", load, *rates, "--chart", tmp_path / "rates.svg")
    assert "NaN" not in (tmp_path / "rates.svg").read_text()


@pytest.mark.parametrize("option", ["--chart", "--html", "--trace"])
def test_every_report_is_written(in_process, prompts, tmp_path, option):
    written = tmp_path / {"--chart": "out.svg", "--html": "out.html", "--trace": "out.json"}[option]
    answered(in_process, "predict", prompts, option, written)
    # The drawing library in a page knows the word.
    assert not re.search(r"[:\[,] ?NaN", re.sub(r"<script>.*?</script>", "", written.read_text(), flags=re.DOTALL))
