"""Points of a study: each is what its scenario alone is predicted to be."""

import math

import pytest
from study_bases import GENERATION, OPERATOR, SERVING, TECHNOLOGY, TRAINING, at_point

from sightline.errors import InputError
from sightline.exploration.base import in_view
from sightline.exploration.run import explore
from sightline.loading import load
from sightline.prediction import predict

CASES = {
    "a training step": (
        TRAINING,
        {
            "cluster.device.memory_bandwidth": ["1 TB/s", "5 TB/s"],
            "cluster.device.peak_flops.bf16": ["500 TFLOP/s", "2 PFLOP/s"],
            "cluster.network.bandwidth_per_node": ["50 GB/s", "400 GB/s"],
            "cluster.intra_node.latency": ["1 us", "10 us"],
            "plan.tensor_parallel": [2, 4],
            "plan.micro_batch": [1, 2],
            "plan.sequence_parallel": [False, True],
        },
        ("step_time_s", "mfu", "memory_bytes.total", "energy_per_step_j"),
    ),
    "names and numbers": (
        TRAINING,
        {
            "cluster.device": ["a100-sxm-80gb", "h100-sxm-80gb"],
            "cluster.device.l2_bandwidth": ["3 TB/s", "9 TB/s"],
            "cluster.device.vector_flops": ["20 TFLOP/s", "80 TFLOP/s"],
            "cluster.power_cap": ["250 W", "650 W"],
            "plan.recompute": ["none", "full"],
            "plan.pipeline_parallel": [1, 4],
        },
        ("step_time_s", "phases.communication_exposed"),
    ),
    "hosts and prices": (
        TRAINING,
        {
            "cluster.host.launch_time": ["2 us", "20 us"],
            "cluster.device.price": ["1 USD/hour", "4 USD/hour"],
            "cluster.network.oversubscription": [1, 4],
            "plan.zero_stage": [0, 1, 3],
        },
        ("step_time_s", "usd_per_hour"),
    ),
    "a generation": (
        GENERATION,
        {
            "cluster.device.memory_bandwidth": {"from": "2 TB/s", "to": "8 TB/s", "factor": 2},
            "workload.batch": [1, 64],
            "workload.prompt_tokens": [128, 2048],
            "cluster.intra_node.bandwidth": ["100 GB/s", "900 GB/s"],
        },
        ("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s", "cost_usd_per_million_tokens"),
    ),
    "an operator": (
        OPERATOR,
        {"cluster.device.memory_bandwidth": ["1 TB/s", "5 TB/s"], "workload.m": [16, 4096]},
        ("time_s", "flops_per_s"),
    ),
    "a technology": (
        TRAINING,
        {
            f"{TECHNOLOGY}.node": ["7nm", "3nm"],
            f"{TECHNOLOGY}.memory": ["hbm2e", "hbm3"],
            f"{TECHNOLOGY}.stacks": [4, 5],
            f"{TECHNOLOGY}.link_bandwidth": ["200 GB/s", "450 GB/s"],
            f"{TECHNOLOGY}.die_area": ["600 mm2", "814 mm2"],
            f"{TECHNOLOGY}.power": ["400 W", "1 kW"],
            f"{TECHNOLOGY}.split.compute": [0.3, 0.45],
        },
        ("step_time_s", "memory_bytes.total", "energy_per_step_j"),
    ),
}


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
@pytest.mark.parametrize("case", CASES)
def test_each_point_is_what_its_scenario_is(case, view):
    base, axes, report = CASES[case]
    if case == "an operator" and view == "ideal":
        pytest.skip("no framework runs a single operator")
    answer = explore({"base": base, "axes": axes, "view": view, "report": list(report)})
    rows, compared = list(answer.rows), 0
    for row in rows[:: max(1, len(rows) // 12)]:
        if row["bound_level"] == "":
            with pytest.raises(InputError):
                load(in_view(at_point(base, row, axes), view))
            continue
        profile, compared = predict(load(in_view(at_point(base, row, axes), view))), compared + 1
        for key in report:
            assert row[key] == pytest.approx(profile.figure(key), rel=1e-9), (key, row)
        assert row["bound_level"] == profile.bound_level
        if profile.fits is not None:
            assert row["fits"] == profile.fits
    assert compared > 3


def test_a_load_is_simulated_at_every_point():
    answer = explore({"base": SERVING, "axes": {"cluster.device.memory_bandwidth": ["1 TB/s", "4 TB/s"]}})
    slow, fast = answer.rows
    assert slow["cluster.device.memory_bandwidth"] == 1e12
    assert slow["tpot_s.p90"] > fast["tpot_s.p90"] > 0


def test_multiples_are_of_the_devices_own_number():
    axes = {"cluster.device": ["a100-sxm-80gb", "h100-sxm-80gb"], "cluster.device.memory_bandwidth": ["1x", "2x"]}
    rows = list(explore({"base": TRAINING, "axes": axes}).rows)
    for i in (0, 2):
        assert rows[i + 1]["cluster.device.memory_bandwidth"] == 2 * rows[i]["cluster.device.memory_bandwidth"]
    assert rows[0]["cluster.device.memory_bandwidth"] != rows[2]["cluster.device.memory_bandwidth"]


def test_points_that_cannot_be_stay_in_the_table_and_are_counted():
    axes = {"plan.tensor_parallel": [1, 3, 4], "cluster.network.latency": ["1 us", "5 us"]}
    answer = explore({"base": TRAINING, "axes": axes})
    assert len(answer) == 6
    (sentence, count), *_ = answer.summary["not_possible"].items()
    assert (count, "plan.tensor_parallel is 3" in sentence) == (2, True)
    assert [math.isnan(row["step_time_s"]) for row in answer.rows] == [False, False, True, True, False, False]
    assert any("2 invalid points" in warning for warning in answer.warnings)


def test_devices_that_cannot_be_built_are_counted_with_what_they_exceed():
    axes = {f"{TECHNOLOGY}.node": ["5nm"], f"{TECHNOLOGY}.split.compute": [0.4, 0.9]}
    answer = explore({"base": TRAINING, "axes": axes})
    assert [row["fits"] for row in answer.rows] == [True, None]
    (sentence, count), *_ = answer.summary["not_possible"].items()
    assert (count, "technology: split" in sentence) == (1, True)


def test_a_plan_that_does_not_fit_is_a_point():
    answer = explore({"base": TRAINING, "axes": {"cluster.device.memory": ["8 GB", "80 GB"]}})
    assert [row["fits"] for row in answer.rows] == [False, True]
    assert (answer.summary["fit"], answer.summary["do_not_fit"]) == (1, 1)


def test_blocks_do_not_change_the_answer(monkeypatch):
    from sightline.exploration.own import grid

    axes = {
        "cluster.device.memory_bandwidth": {"from": "1 TB/s", "to": "5 TB/s", "steps": 7},
        "plan.micro_batch": [1, 2, 4],
        "cluster.network.latency": ["1 us", "2 us", "3 us"],
    }
    whole = explore({"base": TRAINING, "axes": axes})
    monkeypatch.setattr(grid.blocks, "__defaults__", (4,))
    parts = explore({"base": TRAINING, "axes": axes})
    assert parts.columns["step_time_s"] == pytest.approx(whole.columns["step_time_s"])
    assert list(parts.columns["bound_level"]) == list(whole.columns["bound_level"])
