"""What may be given as an anchor, and what teaches nothing."""

import json
from dataclasses import replace

import pytest
from anchor_steps import measured, steps

import sightline as sl
from sightline.anchors.sources import anchors_of, of_document
from sightline.errors import InputError
from sightline.explanation.reading import side_of_file
from sightline.loading import to_mapping


def test_a_measured_profile_is_an_anchor_and_a_predicted_one_is_none():
    scenario = steps()
    answer = sl.predict(scenario)
    profile = sl.Profile(scenario=scenario, source="measured", step_time_s=1.1 * answer.step_time_s)
    assert sl.predict(scenario, anchor=[profile]).step_time_s == pytest.approx(1.1 * answer.step_time_s, rel=0.05)
    with pytest.raises(InputError, match="predicted"):
        sl.predict(scenario, anchor=[answer])


def test_what_says_nothing_about_time_is_unused():
    answer = sl.predict(steps(), anchor=[measured(steps(), memory_bytes={"total": 3e10})])
    assert answer.anchor[0]["unused"] == ["memory_bytes"]
    own = replace(steps(), measured={"memory_bytes": {"total": 3e10}}, name="own")
    with pytest.raises(InputError, match="memory_bytes"):
        sl.predict(steps(), anchor=[own])


def test_anchors_of_one_name_are_told_apart():
    own = measured(steps(), 1.1)
    answer = sl.predict(steps(), anchor=[own, measured(steps(micro_batch=1), 1.1), measured(steps(), 1.2)])
    assert [one["from"] for one in answer.anchor] == ["own", "own (2)", "own (3)"]
    assert len({one["sentence"] for one in answer.anchor}) == 3


def test_a_time_of_zero_teaches_nothing():
    with pytest.raises(InputError, match="step_time_s"):
        sl.predict(steps(), anchor=[replace(steps(), measured={"step_time_s": 0.0})])


def test_what_is_no_anchor_is_a_sentence():
    for given in (3, [3.5]):
        with pytest.raises(InputError, match=r"float|int"):
            sl.anchored(given if isinstance(given, list) else [given])


@pytest.mark.parametrize("scenario", ["x", [1], 3, True])
def test_a_result_whose_scenario_is_no_mapping_is_refused(scenario, tmp_path):
    (tmp_path / "result.json").write_text(json.dumps({"source": "measured", "scenario": scenario, "step_time_s": 1}))
    with pytest.raises(InputError, match="model"):
        anchors_of(str(tmp_path / "result.json"))


@pytest.mark.parametrize("measurements", ["all", ["one"], [{"model": 3, "cluster": 4}], [[1]], {"a": 1}])
def test_a_saved_anchor_of_another_form_is_a_sentence_for_each_mistake(measurements):
    with pytest.raises(InputError) as raised:
        of_document({"measurements": measurements}, "ours")
    assert all("'ours'" in said for said in raised.value.problems)


LOAD = {
    "model": "qwen3-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {
        "task": "serve",
        "requests": {"count": 8, "prompt_tokens": 64, "output_tokens": 8},
        "arrival": {"process": "closed", "concurrency": 4},
    },
    "plan": {"framework": "vllm"},
}


def bench(folder, concurrency=4):
    """A plain result of `vllm bench serve`, which has no latency, and the scenario of a load."""
    figures = {"mean_ttft_ms": 30.0, "mean_tpot_ms": 8.0, "output_throughput": 400.0, "completed": 8}
    (folder / "bench.json").write_text(json.dumps({**figures, "request_rate": "inf", "max_concurrency": concurrency}))
    (folder / "load.yaml").write_text(json.dumps(LOAD))
    return folder / "bench.json", folder / "load.yaml"


def test_a_result_of_a_load_is_an_anchor_of_the_same_load_alone(tmp_path):
    result, scenario = bench(tmp_path)
    assert len(anchors_of(f"{result}@{scenario}")) == 1
    bench(tmp_path, concurrency=64)
    with pytest.raises(InputError, match="concurrency 64"):
        anchors_of(f"{result}@{scenario}")


def test_a_result_that_a_scenario_names_says_its_other_load(tmp_path):
    result, _ = bench(tmp_path, concurrency=64)
    warnings = sl.load({**LOAD, "measured": str(result)}).warnings
    assert any("concurrency 64" in sentence for sentence in warnings)
    bench(tmp_path)
    assert not any("concurrency" in sentence for sentence in sl.load({**LOAD, "measured": str(result)}).warnings)


def test_a_result_without_latency_is_compared_by_what_it_has(tmp_path):
    result, _ = bench(tmp_path)
    side = side_of_file(result, None, "bench.json")
    assert side.figures["ttft_s.mean"] == 0.03
    assert "latency_s.mean" not in side.figures
    assert any("'concurrency': 4" in sentence for sentence in side.warnings)


def stating(folder, result):
    """A scenario that names a result in ``measured``."""
    path = folder / "own.yaml"
    path.write_text(json.dumps({**LOAD, "measured": str(result)}))
    return path


FIGURES = {"mean_ttft_ms": 30.0, "mean_tpot_ms": 8.0, "max_concurrency": 4, "request_rate": "inf"}


@pytest.mark.parametrize(
    "stated",
    [
        {**FIGURES, "completed": 5, "failed": 35},
        {**FIGURES, "completed": 5, "errors": [""] * 5 + ["timeout"] * 35},
        {
            "input_config": {},
            "time_to_first_token": {"unit": "ms", "avg": 30.0},
            "inter_token_latency": {"unit": "ms", "avg": 8.0},
            "request_count": {"avg": 5},
            "error_request_count": {"avg": 35},
        },
    ],
)
def test_a_load_of_which_many_requests_failed_is_no_anchor_and_says_so(tmp_path, stated):
    result, scenario = bench(tmp_path)
    result.write_text(json.dumps(stated))
    assert any("35 of 40" in said for said in sl.load({**LOAD, "measured": str(result)}).warnings)
    side = side_of_file(result, None, "bench.json")
    assert (side.answered, side.unanswered) == (5, {"failed": 35})
    for word in (f"{result}@{scenario}", str(stating(tmp_path, result))):
        with pytest.raises(InputError, match="35 of 40"):
            anchors_of(word)


def test_a_few_failed_requests_leave_an_anchor(tmp_path):
    result, scenario = bench(tmp_path)
    result.write_text(json.dumps({**FIGURES, "completed": 98, "failed": 2}))
    assert len(anchors_of(f"{result}@{scenario}")) == 1
    assert not sl.load({**LOAD, "measured": str(result)}).warnings


def test_a_result_of_another_load_is_no_anchor_however_it_is_given(tmp_path):
    result, _ = bench(tmp_path, concurrency=64)
    for given in (str(stating(tmp_path, result)), sl.load({**LOAD, "measured": str(result)})):
        with pytest.raises(InputError, match="concurrency 64"):
            anchors_of(given)
    bench(tmp_path)
    assert len(anchors_of(str(stating(tmp_path, result)))) == 1


def test_a_rate_is_the_same_in_any_spelling(tmp_path):
    result, _ = bench(tmp_path)
    result.write_text(json.dumps({**FIGURES, "max_concurrency": None, "request_rate": 4.0, "completed": 8}))
    workload = {**LOAD["workload"], "arrival": {"process": "poisson", "rate": "4"}}
    assert len(anchors_of({**LOAD, "workload": workload, "measured": str(result)})) == 1


def test_requests_without_arrival_times_are_an_anchor_by_their_means(tmp_path):
    result, scenario = bench(tmp_path)
    lists = {"input_lens": [64, 64], "output_lens": [3, 3], "ttfts": [0.02, 0.04], "itls": [[0.01, 0.01]] * 2}
    result.write_text(json.dumps({**lists, "max_concurrency": 4, "request_rate": "inf"}))
    found = sl.load({**LOAD, "measured": str(result)}).measured
    assert found["ttft_s"]["mean"] == pytest.approx(0.03)
    assert "requests_per_s" not in found
    assert anchors_of(f"{result}@{scenario}")[0].loads[0].means["ttft_s"] == pytest.approx(0.03)


def test_a_result_without_a_scenario_says_how_to_name_one(tmp_path):
    result, _ = bench(tmp_path)
    with pytest.raises(InputError, match=r"bench\.json@SCENARIO"):
        anchors_of(str(result))


def test_the_second_of_several_results_is_an_anchor(tmp_path):
    result, scenario = bench(tmp_path)
    times = [{"time_to_first_token_ms": {"successful": {"mean": ms}}} for ms in (30.0, 50.0)]
    result.write_text(json.dumps({"benchmarks": [{"metrics": each} for each in times]}))
    (anchor,) = anchors_of(f"{result}#2@{scenario}")
    assert anchor.loads[0].means["ttft_s"] == pytest.approx(0.05)
    assert sl.load({**LOAD, "measured": f"{result}#2"}).measured["ttft_s"]["mean"] == pytest.approx(0.05)
    assert side_of_file(result, 2, "bench.json#2").figures["ttft_s.mean"] == pytest.approx(0.05)
    rows = [
        {"request_start_time": at, "first_token_time": at + 1, "last_token_time": at + 2, "prompt_tokens": 9}
        for at in (3.0, 4.0)
    ]
    runs = [{"requests": {"successful": [row | {"output_tokens": 3} for row in rows[:count]]}} for count in (1, 2)]
    result.write_text(json.dumps({"benchmarks": runs}))
    assert anchors_of(f"{result}#2@{scenario}")[0].loads[0].requests.prompt_tokens.size == 2
    for word in ("", "#3"):
        with pytest.raises(InputError, match=r"2 (benchmarks|results)"):
            anchors_of(f"{result}{word}@{scenario}")


def test_a_result_in_which_no_request_was_completed_is_one_sentence(tmp_path):
    result, scenario = bench(tmp_path)
    result.write_text(json.dumps({"completed": 0, "request_throughput": 0.0, "mean_ttft_mss": 0.0, "p99_itl_ms": 0.0}))
    for word in (str(result), f"{result}@{scenario}", str(stating(tmp_path, result))):
        with pytest.raises(InputError) as refused:
            anchors_of(word)
        (problem,) = refused.value.problems
        assert "no request was completed" in problem


def test_rows_that_ran_out_of_memory_are_left_out_and_counted(tmp_path):
    rows = [(1.0, None), (None, False), (None, None)]
    documents = [
        {**to_mapping(steps()), "measured": {"step_time_s": time, "fits": fits, "source": "ours"}}
        for time, fits in rows
    ]
    for document in documents:
        document["measured"] = {key: value for key, value in document["measured"].items() if value is not None}
    (tmp_path / "runs.json").write_text(json.dumps(documents))
    (anchor,) = anchors_of(tmp_path / "runs.json")
    assert (len(anchor.timed), anchor.out_of_memory) == (1, 2)
    answer = sl.predict(steps(), anchor=tmp_path / "runs.json")
    assert any("2 measurements" in one and "out of memory" in one for one in answer.warnings)
    assert not any("--anchor" in one for one in answer.missing.values())
