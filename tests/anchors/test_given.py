"""What may be given as an anchor, and what teaches nothing."""

import json
from dataclasses import replace

import pytest
from anchor_steps import measured, steps

import sightline as sl
from sightline.anchors.sources import anchors_of, of_document
from sightline.errors import InputError
from sightline.explanation.reading import side_of_file


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
