"""Estimates of training constants: what steps tell is found again, what they do not tell stays unknown."""

from dataclasses import replace

import numpy as np
import pytest
from fit_training import coverage
from training_scenarios import training

from sightline.calibration.training_constants import FEWEST_STEPS, estimate, estimated, logarithms, predictor
from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.training.constants import NOTHING, base_constants, priors, shifted
from sightline.scenario import Scenario


def scenarios() -> list[Scenario]:
    """Steps bound by different things: large and small models, one and several devices, short and long sequences."""
    cases = [
        ("llama-2-7b", 1, 4096, 4, {}),
        ("gpt-1.3b", 1, 2048, 8, {}),
        ("gpt-125m", 1, 128, 4, {}),
        ("gpt-125m", 1, 128, 64, {}),
        ("llama-2-13b", 8, 4096, 8, {"tensor_parallel": 8}),
        ("llama-2-13b", 8, 512, 8, {"tensor_parallel": 8}),
    ]
    return [
        training(
            model=model,
            cluster=f"{devices}x a100-sxm-80gb",
            sequence_length=length,
            global_batch=batch,
            plan={"framework": "megatron", "framework_version": "2022", "micro_batch": 1, **plan},
        )
        for model, devices, length, batch, plan in cases
    ]


def measured(shift: dict[str, float], site: str = "here", cases: list[Scenario] | None = None) -> list[MeasuredStep]:
    """Steps that take exactly as long as constants at these shifts say."""
    plain = [MeasuredStep(scenario=s, seconds=1.0, site=site) for s in cases or scenarios()]
    return [replace(step, seconds=float(step.seconds_with(shifted(step.scenario, shift)))) for step in plain]


def of_sites(*shift: dict[str, float]) -> list[MeasuredStep]:
    """The steps of several sites, one after the other."""
    return [step for place, one in enumerate(shift) for step in measured(one, f"site {place}")]


def believed(steps: list[MeasuredStep], constant: str) -> float:
    """How far a constant of the framework on the device is shifted, sites apart."""
    found = estimate(steps).beliefs
    causes = ("all/", "device/a100-sxm", "framework/megatron-lm")
    return sum(found.mean_of(f"{constant}/{cause}") for cause in causes)


def test_what_several_sites_share_is_found_again() -> None:
    steps = of_sites(*[{"matmul_slowdown": 0.15}] * 3)
    assert believed(steps, "matmul_slowdown") == pytest.approx(0.15, abs=0.04)


def test_what_one_site_alone_shows_is_mostly_its_own() -> None:
    alone = believed(of_sites({"matmul_slowdown": 0.15}, {}, {}, {}), "matmul_slowdown")
    assert alone < 0.06


def test_steps_as_expected_move_nothing() -> None:
    found = estimate(measured({})).beliefs
    assert np.abs(found.mean).max() < 0.02


def test_an_effect_needs_enough_different_steps() -> None:
    steps = [*measured({"matmul_slowdown": 0.1}), *measured({"matmul_slowdown": 0.2}, "there")]
    _, gradients = predictor(steps)(NOTHING)
    few = estimated(steps[: FEWEST_STEPS - 1], gradients[: FEWEST_STEPS - 1])
    assert {name.split("/")[1] for name in few} == {"site"}
    assert "matmul_slowdown/device/a100-sxm" in estimated(steps, gradients)
    # The same step over and over says no more than once.
    repeated = [steps[0]] * 20
    assert {name.split("/")[1] for name in estimated(repeated, [gradients[0]] * 20)} == {"site"}


def test_leaving_a_site_out_forgets_what_it_alone_showed() -> None:
    steps = of_sites({}, {}, {"matmul_slowdown": 0.3})
    found = estimate(steps)
    without = found.without(lambda step: step.site == "site 2")
    assert abs(without.mean_of("matmul_slowdown/device/a100-sxm")) < 0.01
    own = "matmul_slowdown/site/site 2"
    assert without.mean_of(own) == 0.0
    assert without.spread_of(own) == pytest.approx(NOTHING.spread_of(own))


def test_predictions_are_those_of_single_predictions() -> None:
    steps = measured({})[:2]
    predicted, _ = predictor(steps)(NOTHING)
    assert np.allclose(predicted, logarithms(steps))
    assert steps[0].seconds == pytest.approx(float(steps[0].seconds_with(base_constants(steps[0].scenario))))


def test_coverage_counts_steps_and_sites_by_device() -> None:
    steps = of_sites({}, {})
    (covered,) = coverage([step.scenario for step in steps], [step.site for step in steps]).values()
    assert covered["devices"] == 8
    assert covered["tokens"] == 4096
    assert covered["on"] == {"a100-sxm": {"rows": 12, "sites": 2}}
    assert set(priors()) >= {"matmul_slowdown", "pace"}
