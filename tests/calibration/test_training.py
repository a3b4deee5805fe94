"""Fits of training constants: what steps tell is found again, what they don't tell stays at its prior."""

from dataclasses import replace

import numpy as np
import pytest
from training_scenarios import training

from sightline.calibration.training import PRIORS, MeasuredStep, fit_training, predicted_seconds
from sightline.prediction.training.framework import TrainingConstants, load_training
from sightline.scenario import Scenario

PLAIN = load_training("a100-sxm", "reference")[0]
GIVEN = {"attention_kernel": "flash-2"}


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


def measured(truth: TrainingConstants, cases: list[Scenario] | None = None) -> list[MeasuredStep]:
    """Steps that take exactly what the model with ``truth`` says."""
    cases = cases or scenarios()
    plain = [MeasuredStep(scenario=s, seconds=1.0) for s in cases]
    return [replace(step, seconds=float(t)) for step, t in zip(plain, predicted_seconds(plain, truth), strict=True)]


def test_constants_that_made_the_steps_are_found_again():
    truth = replace(PLAIN, matmul_slowdown=1.25, launch_forward_s=1.2e-4, collective_slowdown=1.5)
    steps = measured(truth)
    free = ("matmul_slowdown", "launch_forward_s", "collective_slowdown")
    result = fit_training(steps, free, GIVEN)
    # The priors pull a little towards themselves.
    assert result.constants["matmul_slowdown"] == pytest.approx(1.25, rel=0.03)
    assert result.constants["launch_forward_s"] == pytest.approx(1.2e-4, rel=0.1)
    assert result.constants["collective_slowdown"] == pytest.approx(1.5, rel=0.15)
    assert result.residuals["fit"]["mean"] < 0.02
    assert result.rows == {"fitted": 6}


def test_what_is_not_free_stays_as_given_or_at_its_prior():
    result = fit_training(measured(PLAIN), ("matmul_slowdown",), GIVEN | {"step_s": 0.123})
    assert result.constants["step_s"] == 0.123
    assert result.constants["attention_kernel"] == "flash-2"
    rest = {name for name in PRIORS if name not in {"matmul_slowdown", "step_s"}}
    assert all(result.constants[name] == PRIORS[name].value for name in rest)


def test_priors_hold_where_the_steps_say_nothing():
    # One device has no collectives, and a long step no visible launches.
    steps = measured(replace(PLAIN, matmul_slowdown=1.2), scenarios()[:1])
    free = ("matmul_slowdown", "collective_slowdown", "synchronization_s", "launch_forward_s")
    result = fit_training(steps, free, GIVEN)
    assert result.constants["matmul_slowdown"] > 1.15
    for name in free[1:]:
        assert result.constants[name] == pytest.approx(PRIORS[name].value, rel=0.02), name


def test_the_more_steps_there_are_the_less_a_prior_counts():
    (step,) = measured(replace(PLAIN, matmul_slowdown=1.3), scenarios()[:1])
    prior = PRIORS["matmul_slowdown"].value
    one, many = (
        fit_training([step] * count, ("matmul_slowdown",), GIVEN).constants["matmul_slowdown"] for count in (1, 12)
    )
    assert prior < one < 1.28 < many <= 1.3


def test_constants_stay_within_their_bounds():
    impossible = [replace(step, seconds=100 * step.seconds) for step in measured(PLAIN)[:2]]
    fitted = fit_training(impossible, ("matmul_slowdown", "memory_fraction"), GIVEN).constants
    for name in ("matmul_slowdown", "memory_fraction"):
        assert PRIORS[name].low * 0.999 <= fitted[name] <= PRIORS[name].high * 1.001


def test_heavier_steps_pull_harder():
    case = scenarios()[0]
    fast, slow = (measured(replace(PLAIN, matmul_slowdown=x), [case])[0] for x in (1.0, 1.3))

    def fitted(weight: float) -> float:
        steps = [fast, replace(slow, weight=weight)]
        return fit_training(steps, ("matmul_slowdown",), GIVEN).constants["matmul_slowdown"]

    assert fitted(0.1) < fitted(1.0) < fitted(10.0)


def test_predictions_of_steps_are_those_of_single_predictions():
    seconds = predicted_seconds([MeasuredStep(scenario=s, seconds=1.0) for s in scenarios()[:2]], PLAIN)
    assert seconds.shape == (2,)
    assert np.all(seconds > 0)


def test_a_fitted_set_loads_as_constants():
    result = fit_training(measured(PLAIN)[:1], ("matmul_slowdown",), GIVEN)
    assert TrainingConstants.from_mapping(result.constants).matmul_slowdown == result.constants["matmul_slowdown"]
