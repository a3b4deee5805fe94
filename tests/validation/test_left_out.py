"""Sources left out are strangers, and every source counts the same; figures are worked out by hand."""

from dataclasses import replace
from math import expm1, log

import numpy as np
import pytest
from training_scenarios import training

from sightline.calibration.training_constants import estimate
from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.training.constants import base_constants
from sightline.progress import Progress
from sightline.validation.left_out import (
    LeftOut,
    SourceStep,
    by_kind,
    expected,
    expected_of,
    figures_of_suites,
    leave_architectures_out,
    results_left_out,
    sources_left_out,
    steps_of_constants,
)


def step(source, model="gpt-1.3b", device="a100-sxm-80gb", micro_batch=1, slower=1.0):
    scenario = training(
        model=model, cluster=f"8x {device}", global_batch=16, plan={"framework": "fsdp", "micro_batch": micro_batch}
    )
    own = MeasuredStep(scenario=scenario, seconds=1.0, site=f"{source} on {device}")
    seconds = float(own.seconds_with(base_constants(scenario))) * slower
    own = replace(own, seconds=seconds)
    return SourceStep(suite=f"{source}-times", source=source, split="fit", step=own, stated={"name": model})


def left(source, predicted_over_measured, half_width, **of):
    return LeftOut(of=step(source, **of), error=log(predicted_over_measured), spread=log(1 + half_width))


SOURCES = [
    [left("long", 1.1, 0.2), left("long", 0.9, 0.2), left("long", 1.0, 0.2), left("long", 1.2, 0.1)],
    [left("short", 1.5, 0.1)],
]


def test_every_source_counts_the_same_whatever_its_rows():
    found = expected(SOURCES)
    assert (found["sources"], found["rows"]) == (2, 5)
    assert found["mape"] == pytest.approx((0.1 + 0.5) / 2)
    assert found["largest"] == pytest.approx(0.5)
    assert found["coverage"] == pytest.approx((0.75 + 0.0) / 2)
    assert found["sources_below_60"] == 1
    assert found["half_width"] == pytest.approx((0.2 + 0.1) / 2)


def test_without_sources_nothing_is_expected():
    assert expected([]) == {}
    assert expected_of([]) == {}


def test_mixtures_of_experts_stand_apart():
    sources = [[left("both", 1.1, 0.2), left("both", 1.4, 0.2, model="mixtral-8x7b")]]
    assert {kind: len(of[0]) for kind, of in by_kind(sources).items() if of} == {"all": 2, "dense": 1, "experts": 1}
    assert {r.suite: r.mape for r in results_left_out(sources)} == {
        "both": pytest.approx(0.1),
        "both (MoE)": pytest.approx(0.4),
    }
    assert expected_of(sources)["experts"]["mape"] == pytest.approx(0.4)


def test_results_have_the_usual_figures():
    (result, _) = results_left_out(SOURCES)
    assert (result.suite, result.split, result.cases) == ("long", "left-out", 4)
    assert result.coverage == 0.75
    assert result.bias == pytest.approx(0.05)
    assert result.half_width == pytest.approx(expm1(log(1.2)))


def test_figures_are_told_by_suite():
    assert figures_of_suites(SOURCES)["short-times"]["mape"] == pytest.approx(0.5)


@pytest.fixture(scope="module")
def steps():
    slow = [step("slow", model, micro_batch=n, slower=1.5) for model in ("gpt-1.3b", "llama-2-7b") for n in (1, 2)]
    return [*slow, *(step("even", model, micro_batch=n) for model in ("gpt-1.3b", "llama-2-7b") for n in (1, 2))]


@pytest.fixture(scope="module")
def found(steps):
    return estimate([step.step for step in steps])


def test_a_source_left_out_is_asked_without_what_it_showed(steps, found):
    progress = Progress()
    slow, _ = (
        next(s for s in sources_left_out(steps, found, progress=progress) if s[0].of.source == name)
        for name in ("slow", "even")
    )
    assert all(one.error < log(1 / 1.4) for one in slow)
    assert progress.state.done == progress.state.total == 2
    (only,) = sources_left_out(steps, found, {"even"})
    assert only[0].of.source == "even"


def test_a_step_left_out_does_not_know_its_own_time(steps, found):
    """Were it used, its error would shrink with the estimate that it is part of."""
    slow = next(s for s in sources_left_out(steps, found) if s[0].of.source == "slow")
    times = [replace(s, step=replace(s.step, seconds=2 * s.step.seconds)) if s.source == "slow" else s for s in steps]
    later = next(s for s in sources_left_out(times, found) if s[0].of.source == "slow")
    assert [one.error - log(2) for one in slow] == pytest.approx([one.error for one in later])


def test_a_device_left_out_takes_no_constants_of_its_architecture(steps, found):
    mixed = [*steps, step("h", device="h100-sxm-80gb")]
    ampere, hopper = list(leave_architectures_out(mixed, found))
    assert {one.of.step.scenario.cluster.device.name for one in hopper} == {"h100-sxm-80gb"}
    assert all(one.of.step.scenario.cluster.device.calibration not in ("a100-sxm", "h100-sxm") for one in ampere)
    assert all(np.isfinite(one.spread) for one in (*ampere, *hopper))
    assert hopper[0].error != 0.0


def test_free_constants_are_counted_with_their_steps(found):
    counts = steps_of_constants(found)
    assert set(counts) == {name for name in found.beliefs.names if "/site/" not in name}
    assert counts["matmul_slowdown/all/"] == len(found.steps)
