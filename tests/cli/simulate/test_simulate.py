"""``sightline simulate``: answers, files, and what is refused."""

import json

import polars
import pytest

SCENARIO = """
model: llama-3.1-8b
cluster: 1x h100-sxm-80gb
workload:
  task: serve
  requests: {count: 120, prompt_tokens: 512, output_tokens: 64}
  arrival: {process: poisson, rate: 8}
  slo: {ttft: 1 s, tpot: 50 ms}
plan: {framework: vllm}
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "serve.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def answered(in_process, *arguments):
    code, out, err = in_process("simulate", *map(str, arguments), "--json")
    assert code == 0, err
    return json.loads(out)


def test_a_short_load_without_intervals_says_so_and_what_it_rests_on(in_process, scenario):
    code, out, err = in_process("simulate", str(scenario), "--no-intervals", "--set", "workload.requests.count=20")
    assert code == 0
    assert "workload.requests.count" in err
    assert "evidence" in out


def test_the_answer_has_the_documented_keys(in_process, scenario):
    found = answered(in_process, scenario)
    assert (found["source"], found["fits"], found["completed"], found["refused"]) == ("predicted", True, 120, {})
    for key in ("ttft_s", "tpot_s", "itl_s", "latency_s"):
        times = found[key]
        assert 0 < times["p50"] <= times["p90"] <= times["p99"]
    assert sum(found["phases"].values()) == pytest.approx(found["latency_s"]["mean"])
    low, high = found["interval"]["ttft_s.p90"]
    assert low < found["ttft_s"]["p90"] < high
    assert found["limited_by"]
    assert 0 < found["energy_j"] <= 700.0 * found["duration_s"]


def test_the_same_seed_gives_the_same_answer(in_process, scenario):
    first, second = (answered(in_process, scenario, "--no-intervals") for _ in range(2))
    other = answered(in_process, scenario, "--no-intervals", "--set", "workload.seed=1")
    assert first == second
    assert other["ttft_s"] != first["ttft_s"]


def test_people_get_a_table(in_process, scenario):
    code, out, _ = in_process("simulate", str(scenario), "-v")
    assert code == 0
    for said in ("time to first token", "p99", "120 completed", "Mean latency by phase"):
        assert said in out


def test_sweeps_are_one_list_and_lines_of_csv(in_process, scenario):
    sweep = ("--sweep", "workload.arrival.rate=2,8", "--no-intervals")
    found = answered(in_process, scenario, *sweep)
    assert found[0]["ttft_s"]["mean"] <= found[1]["ttft_s"]["mean"]
    code, out, _ = in_process("simulate", str(scenario), *sweep, "--csv")
    header, *lines = out.splitlines()
    assert (code, len(lines)) == (0, 2)
    assert {"ttft_s.p90", "kv_use.mean", "workload.arrival.rate"} <= set(header.split(","))


def test_files_of_requests_and_a_timeline(in_process, scenario, tmp_path):
    requests, trace = tmp_path / "requests.parquet", tmp_path / "trace.json"
    found = answered(in_process, scenario, "--requests", requests, "--trace", trace, "--no-intervals")
    table = polars.read_parquet(requests)
    assert table.height == 120
    assert table["ttft_s"].mean() == pytest.approx(found["ttft_s"]["mean"])
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]


def test_a_streamed_load_writes_the_same_requests(in_process, scenario, tmp_path):
    kept, streamed = tmp_path / "kept.parquet", tmp_path / "streamed.parquet"
    one = answered(in_process, scenario, "--requests", kept, "--no-intervals")
    other = answered(in_process, scenario, "--requests", streamed, "--no-intervals", "--stream")
    assert other["requests_per_s"] == pytest.approx(one["requests_per_s"])
    assert polars.read_parquet(streamed).sort("request").equals(polars.read_parquet(kept))
    assert list(tmp_path.glob(".sightline-*")) == []


def test_a_sweep_is_streamed_too(in_process, scenario, monkeypatch):
    from sightline.anchors import corrected as anchors

    simulate, kept = anchors.simulate, []

    def noted(*given, **asked):
        answer = simulate(*given, **asked)
        kept.append(answer.outcome)
        return answer

    monkeypatch.setattr(anchors, "simulate", noted)
    found = answered(in_process, scenario, "--stream", "--sweep", "workload.arrival.rate=2,8", "--no-intervals")
    assert [one["completed"] for one in found] == [120, 120]
    assert kept == [None, None]


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_simulated(in_process, scenario, tmp_path):
    code, _, err = in_process(
        "simulate", str(scenario), "--stream", "--requests", str(tmp_path / "none" / "out.parquet")
    )
    assert code == 2
    assert "none/out.parquet" in err


def test_capacity_is_searched(in_process, scenario, tmp_path):
    chart = tmp_path / "capacity.svg"
    found = answered(in_process, scenario, "--capacity", "--no-intervals", "--chart", chart)
    rates = [point["rate"] for point in found["curve"]]
    assert rates == sorted(rates)
    good = {point["rate"]: point["good_share"] for point in found["curve"]}
    assert good[found["capacity_requests_per_s"]] >= 0.9
    at_capacity = next(point for point in found["curve"] if point["rate"] == found["capacity_requests_per_s"])
    assert (found["ttft_s"], found["requests_per_s"]) == (at_capacity["ttft_s"], at_capacity["requests_per_s"])
    assert chart.read_text(encoding="utf-8").startswith("<svg")


def test_the_capacity_has_an_interval(in_process, scenario):
    found = answered(in_process, scenario, "--capacity")
    low, high = found["interval"]["capacity_requests_per_s"]
    assert low < found["capacity_requests_per_s"] < high


def test_a_chart_of_several_searches_is_refused_before_they_run(in_process, scenario, tmp_path):
    sweep = ("--sweep", "plan.max_sequences=8,16", "--capacity", "--chart", str(tmp_path / "all.svg"))
    code, _, err = in_process("simulate", str(scenario), *sweep)
    assert code == 2
    assert "--chart" in err
    assert "--capacity" in err


def test_people_are_told_whether_the_objective_is_kept(in_process, scenario):
    _, kept, _ = in_process("simulate", str(scenario), "--no-intervals")
    _, missed, _ = in_process("simulate", str(scenario), "--no-intervals", "--set", "workload.slo.ttft=1us")
    assert "90 %" in " ".join(kept.split())
    assert "SLO" in " ".join(missed.split())


def test_an_objective_that_nobody_meets_is_answered(in_process, scenario):
    code, out, err = in_process(
        "simulate", str(scenario), "--capacity", "--no-intervals", "--set", "workload.slo.ttft=1us", "--json"
    )
    assert (code, json.loads(out)["capacity_requests_per_s"]) == (0, None)
    assert "SLO" in err
    assert "limit 1e-06 s" in err
    assert "workload.slo.tpot is" not in err


def test_a_model_that_does_not_fit_is_answered(in_process, scenario):
    found = answered(in_process, scenario, "--set", "model=llama-3-70b")
    assert (found["fits"], found["completed"], found["refused"]) == (False, 0, {"larger than the KV cache": 120})
    assert len(found["advice"]) > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "workload={task: generate, batch: 1, prompt_tokens: 8, output_tokens: 8}"], "serve"),
        (["--capacity", "--set", "workload.slo=null"], "workload.slo"),
        (["--trace", "t.json", "--sweep", "workload.arrival.rate=1,2"], "--trace needs one scenario, got 2"),
        (["--requests", "t.csv"], ".parquet"),
        (["--chart", "t.svg", "--sweep", "workload.requests.count=10,20"], "--chart 't.svg'"),
        (["--stream", "--capacity"], "--stream cannot be combined with --capacity"),
        (["--stream", "--replay", "latest"], "--stream cannot be combined with --replay"),
        (["--json", "--csv"], "--csv"),
    ],
)
def test_wrong_requests_are_refused(in_process, scenario, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = in_process("simulate", str(scenario), *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
