"""What is believed of training's constants: by device, framework and site, and how far off a step may be."""

from dataclasses import fields, replace

import numpy as np
import pytest
from training_scenarios import training

from sightline import predict
from sightline.catalog import entry
from sightline.prediction.beliefs import Beliefs
from sightline.prediction.common_figures import FEWEST_ROWS
from sightline.prediction.training.constants import (
    NOTHING,
    TrainingConstants,
    base_constants,
    believed_constants,
    causes_of,
    effects_on,
    gradient,
    priors,
    shifted,
    shipped_beliefs,
    shipped_coverage,
    stated_set,
)
from sightline.prediction.training.knowledge import Knowledge, lacking_measurements, spread_unmeasured, variance_beyond
from sightline.prediction.training.step_profile import profile_of
from sightline.quantities import FOUR_IN_FIVE
from sightline.scenario import Scenario

A100 = training(
    model="llama-2-7b",
    cluster="8x a100-sxm-80gb",
    global_batch=16,
    plan={"framework": "megatron", "micro_batch": 1, "tensor_parallel": 2},
)


def seconds(scenario: Scenario, constants: TrainingConstants) -> float:
    return profile_of(scenario, constants).step_time_s  # type: ignore[return-value]


def test_every_constant_has_a_prior_and_every_prior_a_constant() -> None:
    names = {f.name for f in fields(TrainingConstants)} - {"spread"}
    assert set(priors()) == names | {"pace"}


def test_without_effects_constants_are_the_catalogs_values() -> None:
    constants = believed_constants(A100, NOTHING)
    assert constants == base_constants(A100)
    assert constants.matmul_slowdown == priors()["matmul_slowdown"].value


def test_an_effect_shifts_a_logarithm_and_a_fractions_odds() -> None:
    moved = shifted(A100, {"matmul_slowdown": np.log(2.0), "memory_fraction": np.log(2.0)})
    base = base_constants(A100)
    assert moved.matmul_slowdown == pytest.approx(2 * base.matmul_slowdown)
    odds = [c.memory_fraction / (1 - c.memory_fraction) for c in (moved, base)]
    assert odds[0] == pytest.approx(2 * odds[1])


def test_a_sites_pace_makes_everything_slower_by_as_much() -> None:
    times = [seconds(A100, shifted(A100, {"pace": shift})) for shift in (0.0, 0.05)]
    assert np.log(times[1] / times[0]) == pytest.approx(0.05, abs=0.005)


def test_frameworks_share_a_devices_effects_and_devices_a_frameworks() -> None:
    other = replace(A100, plan=replace(A100.plan, framework=training(plan={"framework": "fsdp"}).plan.framework))
    mine, others = (effects_on("matmul_slowdown", causes_of(s, shipped_beliefs())) for s in (A100, other))
    assert "matmul_slowdown/device/a100-sxm" in set(mine) & set(others)
    assert "matmul_slowdown/framework/megatron-core" in set(mine) - set(others)


def test_launches_are_those_of_the_model_code_that_a_framework_runs() -> None:
    plans = [{"framework": name, "zero_stage": 0} for name in ("deepspeed", "transformers", "litgpt")]
    causes = [causes_of(training(plan=plan), shipped_beliefs()) for plan in plans]
    launches = [effects_on("launch_forward_s", of) for of in causes]
    assert launches[0] == launches[1] != launches[2]
    assert len({effects_on("micro_batch_s", of) for of in causes}) == 3


def test_a_device_without_effects_has_a_relatives_and_one_of_its_own_on_top() -> None:
    causes = causes_of(training(cluster="1x h200-sxm-141gb", plan={"framework": "megatron"}), shipped_beliefs())
    assert causes["device"] == "h100-sxm"
    assert causes["lent"] == "h200-sxm-141gb"
    assert "lent" not in causes_of(A100, shipped_beliefs())


def test_a_gradient_is_what_single_predictions_show() -> None:
    logarithm, slopes = gradient(lambda c: profile_of(A100, c).step_time_s, A100, NOTHING)
    base = seconds(A100, base_constants(A100))
    assert logarithm == pytest.approx(np.log(base))
    for name in ("matmul_slowdown", "collective_slowdown", "memory_fraction"):
        moved = seconds(A100, shifted(A100, {name: 0.03}))
        assert slopes[f"{name}/all/"] == pytest.approx(np.log(moved / base) / 0.03, rel=1e-6)
    assert "mxfp8_slowdown/device/a100-sxm" not in slopes


def test_a_site_moves_no_value_of_anybody_else() -> None:
    names = [f"{name}/site/somewhere" for name, prior in priors().items() if "site" in prior.spreads]
    known = replace(NOTHING.with_effects(names), mean=np.full(len(names), 0.3))
    assert believed_constants(A100, known) == base_constants(A100)
    assert believed_constants(A100, known, "somewhere") != base_constants(A100)


def width(scenario: Scenario) -> float:
    low, high = predict(scenario).interval["step_time_s"]
    return float(np.log(high / low))


def test_intervals_grow_with_the_distance_from_what_was_measured() -> None:
    unseen = training(
        model="llama-2-7b",
        cluster="8x mi300x",
        global_batch=16,
        plan={"framework": "megatron", "micro_batch": 1, "tensor_parallel": 2},
    )
    larger = training(
        model="llama-2-7b",
        cluster="131072x a100-sxm-80gb",
        global_batch=131072,
        plan={"framework": "megatron", "micro_batch": 1, "tensor_parallel": 2},
    )
    assert width(unseen) > width(A100)
    assert variance_beyond(larger) > variance_beyond(A100) == 0.0


def test_what_no_step_was_measured_with_widens_the_interval_by_its_spread() -> None:
    spreads = entry("training", "constants")["beyond"]
    plan = {"framework": "megatron", "micro_batch": 1, "tensor_parallel": 2}
    h100 = training(model="llama-2-7b", cluster="8x h100-sxm-80gb", global_batch=16, plan=plan)
    assert Knowledge().evidence(h100) == "calibrated"
    offloaded = replace(h100, plan=replace(h100.plan, offload=frozenset({"optimizer"})))
    exact = replace(h100, plan=replace(h100.plan, dtype="fp32"))
    assert variance_beyond(offloaded) == pytest.approx(spreads["offload"] ** 2)
    assert variance_beyond(exact) == pytest.approx(spreads["format"] ** 2)
    for scenario, named in ((offloaded, "anything offloaded"), (exact, "that dtype")):
        assert Knowledge().evidence(scenario) == "extrapolated"
        assert named in Knowledge().missing(scenario)["framework"]
        inside = Knowledge().spread(scenario, lambda _: 1.0)
        assert inside > FOUR_IN_FIVE * variance_beyond(scenario) ** 0.5


def test_no_interval_is_narrower_than_the_noise_of_one_case() -> None:
    case = entry("training", "constants")["case"]
    assert Knowledge().spread(A100, lambda _: 1.0) == pytest.approx(FOUR_IN_FIVE * case)


def test_devices_that_nothing_was_measured_on_differ_by_more_and_by_less_from_a_relative() -> None:
    usual = priors()["matmul_slowdown"].spreads
    alone, related = (spread_unmeasured(f"matmul_slowdown/{cause}/mi300x") for cause in ("device", "lent"))
    assert usual["device"] < related < alone
    assert spread_unmeasured("matmul_slowdown/framework/other") == usual["framework"]


def test_constants_are_calibrated_by_enough_steps_of_two_sources_only() -> None:
    for lineage, covered in shipped_coverage().items():
        for family, known in covered["on"].items():
            assert known["sites"] >= 1, (lineage, family)
    few = training(cluster="1x mi300x", plan={"framework": "megatron", "micro_batch": 1})
    assert lacking_measurements(few).startswith("no published measurement of megatron 0.18 on mi300x")
    assert predict(few).evidence["framework"] == "extrapolated"
    covered = shipped_coverage()["megatron-core"]["on"]["h100-sxm"]
    assert covered["rows"] >= FEWEST_ROWS
    assert Knowledge().evidence(training(plan={"framework": "megatron"})) == "calibrated"


def test_what_is_missing_names_the_lines_that_were_measured():
    asked = training(cluster="1x a100-sxm-80gb", plan={"framework": "megatron", "micro_batch": 1})
    said = lacking_measurements(asked)
    assert said.startswith("no published measurement of megatron 0.18 on a100-sxm-80gb (")
    assert "2019, 2022)" in said


def test_a_processor_keeps_the_set_that_was_stated_for_it() -> None:
    here = training(model="gpt-125m", cluster="1x this-machine", plan={"framework": "transformers", "dtype": "fp32"})
    stated = stated_set(here)
    assert stated is not None
    assert believed_constants(here) == stated[0]
    assert causes_of(here, shipped_beliefs()) == {"site": ""}


def test_shipped_beliefs_are_no_wider_than_before_anything_was_measured() -> None:
    known: Beliefs = shipped_beliefs()
    assert np.linalg.eigvalsh(known.covariance).min() > -1e-4
    for name in known.names:
        assert known.spread_of(name) <= known.prior(name) * 1.001, name


def test_experts_run_slower_where_each_is_a_kernel_and_not_as_one_grouped_product() -> None:
    def seconds_of_step(launched: str, slowdown: float) -> float:
        plan = {"framework": "megatron", "expert_launches": launched, "expert_parallel": 8, "micro_batch": 1}
        scenario = training(model="mixtral-8x7b", cluster="8x h100-sxm-80gb", global_batch=8, plan=plan)
        constants = replace(believed_constants(scenario), expert_matmul_slowdown=slowdown)
        return float(profile_of(scenario, constants).step_time_s)

    assert seconds_of_step("each", 2.0) > 1.1 * seconds_of_step("each", 1.0)
    assert seconds_of_step("grouped", 2.0) == seconds_of_step("grouped", 1.0)


def test_products_in_formats_that_nobody_tabulated_have_a_slowdown_of_their_own() -> None:
    constants = believed_constants(training(cluster="1x gb200", plan={"framework": "megatron"}))
    assert constants.format_slowdown("16-bit") == constants.format_slowdown("fp8") == 1.0
    assert constants.format_slowdown("mxfp8") == constants.mxfp8_slowdown
    assert constants.format_slowdown("nvfp4") == constants.nvfp4_slowdown
