"""Steps of published sources: what steers an estimate, and what is asked of a source left out."""

from dataclasses import replace

import numpy as np
from training_scenarios import training

from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.training.constants import shifted
from sightline.validation.left_out import SourceStep, fitted, leave_sources_out


def step(source: str, split: str, shift: float, length: int) -> SourceStep:
    """A step whose products take exp(shift) times as long as they should."""
    scenario = training(
        model="llama-2-7b",
        cluster="1x a100-sxm-80gb",
        sequence_length=length,
        plan={"framework": "megatron", "framework_version": "2022", "micro_batch": 1},
    )
    asked = MeasuredStep(scenario=scenario, seconds=1.0, site=f"{source} on a100-sxm")
    seconds = float(asked.seconds_with(shifted(scenario, {"matmul_slowdown": shift})))
    return SourceStep(suite=source, source=source, split=split, step=replace(asked, seconds=seconds))  # type: ignore[arg-type]


def steps(source: str, split: str, shift: float) -> list[SourceStep]:
    return [step(source, split, shift, length) for length in (512, 1024, 2048, 3072, 4096)]


def test_the_test_part_steers_nothing() -> None:
    fit = [*steps("one", "fit", 0.05), *steps("two", "fit", 0.05)]
    alone = fitted(fit).beliefs
    beside = fitted([*fit, *steps("one", "test", 0.5), *steps("three", "test", 0.5)]).beliefs
    assert beside.names == alone.names
    assert np.allclose(beside.mean, alone.mean)


def test_a_source_left_out_is_asked_without_what_it_alone_showed() -> None:
    everything = [*steps("one", "fit", 0.0), *steps("two", "fit", 0.0), *steps("slow", "fit", 0.3)]
    left_out = {source[0].of.source: source for source in leave_sources_out(everything, fitted(everything))}
    assert set(left_out) == {"one", "two", "slow"}
    errors = [step.error for step in left_out["slow"]]
    assert np.mean(errors) < -0.12
    assert all(step.spread > 0.1 for step in left_out["slow"])


def test_both_parts_of_a_source_are_asked() -> None:
    everything = [*steps("one", "fit", 0.0), *steps("two", "fit", 0.0), *steps("two", "test", 0.0)]
    found = {source[0].of.source: source for source in leave_sources_out(everything, fitted(everything))}
    assert len(found["two"]) == 10
