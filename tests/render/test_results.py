"""The documented result keys."""

import json
import math

import numpy as np
import pytest

from sightline.content import flatten
from sightline.loading import operation_from_mapping
from sightline.prediction import predict
from sightline.quantities import as_json
from sightline.render.csv import to_csv

KEYS = {
    "scenario",
    "source",
    "fits",
    "memory_bytes",
    "bottleneck",
    "interval",
    "evidence",
    "warnings",
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "model_flops_per_s_per_device",
    "mfu",
    "hfu",
    "phases",
}


def test_every_documented_key_is_there(profile):
    assert set(profile.to_dict()) >= KEYS | {"run_time_s", "energy_j", "cost_usd"}


def test_a_run_of_unknown_length_has_no_run_figures(build, without_total_tokens):
    result = build(scenario=without_total_tokens).to_dict()
    assert not {"run_time_s", "energy_j", "cost_usd"} & set(result)


def test_figures_follow_from_each_other(profile):
    result = profile.to_dict()
    assert result["tokens_per_s"] == 350 * 64 / 1.25
    assert result["tokens_per_s_per_device"] == result["tokens_per_s"] / 8
    assert sum(result["phases"].values()) == pytest.approx(result["step_time_s"])
    memory = result["memory_bytes"]
    assert sum(v for k, v in memory.items() if k != "total") == pytest.approx(memory["total"])
    assert result["run_time_s"] == pytest.approx(2e12 / (350 * 64) * 1.25)


def test_numpy_never_reaches_json(build):
    result = build(step_time_s=np.float64(1.25), fits=np.bool_(True)).to_dict()
    text = json.dumps(result, allow_nan=False)
    assert json.loads(text)["fits"] is True
    assert type(result["step_time_s"]) is float


def test_plain_says_null_for_what_json_cannot_say():
    assert as_json({"a": math.nan, "b": (1, np.inf), "c": np.arange(3), "d": {2, 1}}) == {
        "a": None,
        "b": [1, None],
        "c": [0, 1, 2],
        "d": [1, 2],
    }


def test_flatten_makes_dotted_keys():
    assert flatten({"a": {"b": {"c": 1}, "d": [1, 2]}, "e": 3}) == {"a.b.c": 1, "a.d": [1, 2], "e": 3}


@pytest.mark.parametrize(
    "sizes",
    [
        {"operator": "matmul", "m": 16, "n": 32, "k": 64, "batch": 2},
        {"operator": "grouped_matmul", "rows": 64, "experts": 8, "n": 32, "k": 64, "per_token": 2, "layout": "masked"},
    ],
)
def test_csv_of_an_operator_has_its_sizes_before_its_dtype(sizes):
    workload = {"task": "operator", **sizes, "dtype": "fp8", "format": "fp8-block"}
    profile = predict(operation_from_mapping({"cluster": "1x h100-sxm-80gb", "workload": workload}))
    header = to_csv([profile]).splitlines()[0].split(",")
    assert [key for key in header if key.startswith("workload.")] == [f"workload.{key}" for key in workload]


def test_csv_has_a_line_per_scenario_and_one_header(profile, too_large):
    lines = to_csv([profile, too_large]).splitlines()
    assert len(lines) == 3
    header = lines[0].split(",")
    assert {"name", "model", "plan.zero_stage", "step_time_s", "phases.forward", "memory_bytes.total", "fits"} <= set(
        header
    )
    assert len(set(header)) == len(header)
    assert '"Llama-2-7B, ZeRO-2, 8 x A800"' in lines[1]


def test_the_scenario_in_a_result_loads_back_to_the_same_result(profile):
    from sightline.loading import scenario_from_mapping

    scenario = profile.to_dict()["scenario"]
    again = scenario_from_mapping(scenario)
    assert again.model == profile.scenario.model
    assert again.workload == profile.scenario.workload
    assert again.cluster.device.memory_bytes == profile.scenario.cluster.device.memory_bytes
    assert again.plan.to_dict() == profile.scenario.plan.to_dict()
