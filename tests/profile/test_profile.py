"""Profiles: what they derive and compute on demand, and one plan out of many."""

import pickle
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from training_scenarios import training

from sightline.prediction.training.step_profile import predict, profile_of
from sightline.profile import (
    BETWEEN_PASSES,
    BOUNDS,
    MEMORY_PARTS,
    TASKS,
    NumbersOnDemand,
    Profile,
    Row,
    StageMemory,
    overlapped_s,
)

SCENARIO = training(
    model="gpt-125m",
    cluster="4x a100-sxm-80gb",
    sequence_length=100,
    global_batch=20,
    total_tokens=1e6,
    plan={"micro_batch": 1},
)
ROW = Row(
    phase="forward",
    block="layer",
    module="mlp",
    operator="up",
    count=12.0,
    flops=1e12,
    bytes=1e9,
    network_bytes=0.0,
    time_s=0.5,
    exposed_s=0.5,
    bound="compute",
)


def stage(weights: float | np.ndarray) -> StageMemory:
    parts = dict.fromkeys(MEMORY_PARTS, 1.0) | {"weights": weights}
    total = weights + len(MEMORY_PARTS) - 1.0
    moments = {BETWEEN_PASSES: total - 0.5, "loss": total - 0.25, "backward of a layer": total}
    return StageMemory(stage="first", parts=parts, items={"logits and loss": 0.5}, moments=moments)


@pytest.mark.parametrize(
    ("exposed_s", "hidden_s"), [(0.5, 0.0), (0.5 - 1e-16, 0.0), (0.3, 0.2), (0.0, 0.5), (0.7, 0.0)]
)
def test_only_communication_is_overlapped_and_no_rounding_is(exposed_s: float, hidden_s: float):
    sent = replace(ROW, phase="communication_exposed", exposed_s=exposed_s)
    assert overlapped_s([replace(ROW, exposed_s=0.1), sent]) == hidden_s


def profile(**changes: object) -> Profile:
    limits = {"compute": 1.0, "memory": 0.5, "network": 0.25, "host": 0.25, "bubble": 0.0}
    plain = Profile(
        scenario=SCENARIO,
        source="predicted",
        step_time_s=2.0,
        phases={"forward": 1.5, "host": 0.5},
        memory_bytes={"weights": 1e9, "total": 1e9},
        fits=True,
        model_flops=8e14,
        hardware_flops=1e15,
        limits=limits,
        energy_per_step_j=3e3,
        rows=[ROW],
        stages=[stage(1e9)],
        stage_times={"first": (0.5, 1.0, 0.5)},
    )
    return plain.replace(**changes)


def test_rates_follow_from_the_step():
    p = profile()
    assert p.tokens_per_s == 100 * 20 / 2.0
    assert p.tokens_per_s_per_device == p.tokens_per_s / 4
    assert p.model_flops_per_s_per_device == 1e14
    assert p.peak_flops == 312e12
    assert p.mfu == pytest.approx(1e14 / 312e12)
    assert p.hfu == pytest.approx(1.25 * p.mfu)


def test_a_run_is_its_steps():
    p = profile()
    assert p.steps == 500
    assert p.run_time_s == 1000
    assert p.energy_j == 1.5e6
    assert p.cost_usd == pytest.approx(1000 / 3600 * 4 * SCENARIO.cluster.device.usd_per_hour)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_bottleneck_is_the_largest_limit(bound):
    assert profile(limits=dict.fromkeys(BOUNDS, 0.1) | {bound: 0.2}).bottleneck == bound


def test_every_plan_has_its_own_bottleneck():
    limits = {b: np.eye(len(BOUNDS))[i] for i, b in enumerate(BOUNDS)}
    assert profile(limits=limits).bottleneck.tolist() == list(BOUNDS)


def test_a_stage_s_total_is_that_of_its_fullest_moment():
    fullest = stage(5.0)
    assert fullest.total == fullest.moments["backward of a layer"] == sum(fullest.parts.values())


def test_numbers_on_demand_are_worked_out_once_and_only_when_asked_for():
    asked: list[str] = []

    def work_out(name: str) -> float:
        asked.append(name)
        return 2.0

    numbers = NumbersOnDemand({name: partial(work_out, name) for name in ("weights", "buffers")})
    assert list(numbers) == ["weights", "buffers"]
    assert len(numbers) == 2
    assert not asked
    assert numbers["buffers"] == numbers["buffers"] == 2.0
    assert asked == ["buffers"]


def test_rows_are_a_data_frame():
    table = profile().table
    assert table.columns == [f.name for f in fields(Row)]
    assert table.row(0, named=True) == {f.name: getattr(ROW, f.name) for f in fields(Row)}


def many() -> Profile:
    """Three plans, of which figures that do not differ stand there once."""
    plan = replace(SCENARIO.plan, micro_batch=np.array([1, 2, 4]), zero_stage=1)
    return profile(
        scenario=replace(SCENARIO, plan=plan),
        step_time_s=np.array([1.0, 2.0, 4.0]),
        fits=np.array([True, True, False]),
        phases={"forward": np.array([0.5, 1.5, 3.5]), "host": 0.5},
        stages=[stage(np.array([1e9, 2e9, 3e9])), stage(np.array([0.0, 1e9, 0.0]))],
        stage_times={"first": (np.array([1.0, 2.0, 3.0]), 4.0, 2.0)},
    )


def test_one_of_many_is_a_plain_profile():
    one = many()[2]
    assert one.step_time_s == 4.0
    assert one.fits is False
    assert one.phases == {"forward": 3.5, "host": 0.5}
    assert one.stage_times == {"first": (3.0, 4.0, 2.0)}
    assert one.rows[0].time_s == ROW.time_s
    assert one.scenario.plan.micro_batch == 4
    assert one.scenario.plan.zero_stage == 1
    assert one.tokens_per_s == 500
    assert all(not isinstance(v, np.ndarray) for v in (*one.phases.values(), *one.limits.values(), one.mfu))


def test_stages_that_hold_nothing_are_not_listed():
    assert [len(many()[i].stages) for i in range(3)] == [1, 2, 1]


def test_negative_indices_and_slices_pick_as_arrays_do():
    assert many()[-1].step_time_s == 4.0
    assert many()[1:].step_time_s.tolist() == [2.0, 4.0]
    assert many()[1:].scenario.plan.micro_batch.tolist() == [2, 4]
    with pytest.raises(IndexError):
        many()[3]


def test_numbers_of_the_cluster_are_picked_with_the_plan_s():
    device = replace(SCENARIO.cluster.device, peak_flops={"bf16": np.array([1e14, 2e14])})
    link = replace(SCENARIO.cluster.intra_node, bandwidth=np.array([1e11, 3e11]))
    cluster = replace(SCENARIO.cluster, device=device, intra_node=link)
    both = profile_of(replace(SCENARIO, cluster=cluster))
    for i, (peak, bandwidth) in enumerate(zip((1e14, 2e14), (1e11, 3e11), strict=True)):
        one = both[i]
        assert one.peak_flops == peak
        assert one.scenario.cluster.intra_node.bandwidth == bandwidth
        assert one.mfu == pytest.approx(both.mfu[i])


def test_every_metric_is_an_attribute_with_a_meaning_and_python_s_own_type():
    plain = profile(fits=np.bool_(True), step_time_s=np.float64(2.0), phases={"forward": np.array(1.5)})
    assert (type(plain.fits), type(plain.step_time_s), type(plain.phases["forward"])) == (bool, float, float)
    for key, metric in plain.task.metrics.items():
        assert metric.label
        assert metric.meaning.endswith(".")
        assert type(getattr(plain, key)) in (float, int, type(None))


def test_a_figure_given_as_a_function_is_computed_once_and_when_it_is_read():
    read: list[str] = []

    def advice(of: Profile) -> tuple[str, ...]:
        read.append(of.source)
        return ("recompute: full would fit",)

    lazy = profile(advice=advice)
    assert not read
    assert lazy.advice == lazy.advice == ("recompute: full would fit",)
    assert read == ["predicted"]


def test_a_profile_takes_and_has_what_its_task_declares_and_never_changes():
    with pytest.raises(TypeError, match="a training profile has no ttft_s"):
        profile(ttft_s=1.0)
    with pytest.raises(AttributeError, match="a training profile has no ttft_s"):
        _ = profile().ttft_s
    with pytest.raises(AttributeError, match="replace"):
        profile().step_time_s = 1.0


def test_a_profile_shows_itself_in_a_line_and_in_a_notebook():
    assert repr(profile()) == (
        "<predicted training profile: step_time_s=2, tokens_per_s=1000, mfu=0.3205, hfu=0.4006, fits=True>"
    )
    assert "step_time_s=1 to 4" in repr(many())
    assert "<td>mfu</td><td>0.3205</td>" in profile()._repr_html_()


def test_what_does_not_fit_predicts_its_neighbours_when_asked_for_advice(monkeypatch):
    tried: list[object] = []
    monkeypatch.setattr(
        "sightline.prediction.training.step_profile.what_would_fit", lambda p, _: tried.append(p) or ["less would fit"]
    )
    large = training(model="llama-2-70b", cluster="1x a100-sxm-80gb", sequence_length=2048, global_batch=1, plan={})
    predicted = predict(large)
    assert (predicted.fits, tried) == (False, [])
    assert predicted.to_dict()["advice"] == ["less would fit"]
    assert tried == [predicted]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_metric_and_phase_is_documented(task):
    page = (Path(__file__).parents[2] / "docs" / "scenario.md").read_text(encoding="utf-8")
    results = page.partition("## Results")[2]
    assert [key for key in (*task.metrics, *task.phases) if f"`{key}`" not in results] == []
    keys = {*task.headline, *task.details, *task.totals, task.whole, task.best, *task.phase_times.values()}
    assert keys <= set(task.figures)


def test_a_profile_is_copied_with_every_figure_computed():
    copied = pickle.loads(pickle.dumps(predict(SCENARIO)))
    assert repr(copied) == repr(predict(SCENARIO))
    assert [row.exposed_s for row in copied.rows] == [row.exposed_s for row in predict(SCENARIO).rows]


@pytest.mark.parametrize(
    ("ends", "probability", "fit"),
    [
        ((50.0, 70.0), 0.989, "yes"),
        ((50.0, 80.0), 0.9, "tight"),
        ((64.0, 100.0), 0.5, "tight"),
        ((80.0, 90.0), 0.1, "tight"),
        ((81.0, 90.0), 0.056, "no"),
    ],
)
def test_the_probability_to_fit_is_that_of_the_memory_s_interval(ends, probability, fit):
    interval = {"memory_bytes.total": tuple(end * 2**30 for end in ends)}
    middle = (ends[0] * ends[1]) ** 0.5 * 2**30
    of = profile(interval=interval, memory_bytes={"total": middle}, fits=middle <= 80 * 2**30)
    assert of.fits_probability == pytest.approx(probability, abs=0.002)
    assert of.fit == fit
    assert of.tight == (fit == "tight")
    assert {key: of.to_dict()[key] for key in ("fit", "fits_probability")} == {
        "fit": fit,
        "fits_probability": of.fits_probability,
    }


def test_without_an_interval_or_with_full_hosts_the_point_decides():
    assert (profile().fit, profile().fits_probability) == ("yes", 1.0)
    assert (profile(fits=False).fit, profile(fits=False).fits_probability) == ("no", 0.0)
    interval = {"memory_bytes.total": (0.5e9, 2e9)}
    assert profile(fits=False, host_fits=False, interval=interval).fit == "no"
