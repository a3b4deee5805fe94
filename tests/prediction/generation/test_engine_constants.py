"""Whose constants an engine's release takes."""

from dataclasses import replace

import pytest
from engine_fit import PRIORS
from generation_scenarios import generation

from sightline.catalog import entry, names
from sightline.cost.prices import OperatorCost
from sightline.loading.clusters import read_cluster
from sightline.prediction.generation.batch_profile import engine_constants, predict_generation, server_constants
from sightline.prediction.generation.engine_constants import (
    InferenceConstants,
    borrowed_releases,
    load_inference,
    missing_measurements,
    serving_one_by_one,
    set_of,
)
from sightline.prediction.generation.replica import time_in_engine
from sightline.program import Elementwise


def test_a_release_that_was_measured_needs_no_remark():
    assert borrowed_releases("lmdeploy", "0.2.3") == ()
    assert borrowed_releases("tensorrt-llm", "0.9.0") == ()


def test_another_release_says_whose_constants_it_takes():
    (said,) = borrowed_releases("lmdeploy", "0.6")
    assert said == "no measurement of lmdeploy 0.6; using the constants of 0.2"
    (said,) = borrowed_releases("tensorrt-llm", "0.10")
    assert said.endswith(" 0.5, 0.6, 0.7, 0.8, 0.9")


def test_a_set_of_measurements_without_releases_says_so():
    (said,) = borrowed_releases("llama.cpp", "b4000")
    assert said.endswith("of another release")
    assert borrowed_releases("llama.cpp", "b1671") == ()


@pytest.mark.parametrize("engine", ["lightllm", "mlc"])
def test_no_release_no_remark(engine: str):
    assert borrowed_releases(engine, "") == ()


def test_the_prediction_carries_the_remark():
    plan = {"framework": "lmdeploy", "framework_version": "0.6"}
    assert any("lmdeploy 0.6" in remark for remark in predict_generation(generation(plan=plan)).warnings)


def test_a_release_line_of_its_own_has_its_own_constants():
    stated = entry("inference", "tensorrt-llm")["versions"]["0"]["constants"]
    constants, evidence = load_inference("tensorrt-llm", "0.8")
    assert (constants.collective_slowdown, evidence) == (stated["collective_slowdown"], "calibrated")


def test_a_set_of_few_rows_or_one_source_is_not_calibrated():
    said = missing_measurements("sglang")
    assert "runs of sglang from 1 source" in said
    assert load_inference("sglang")[1] == "extrapolated"
    on_fitted = generation(cluster="1x h200-sxm-141gb", plan={"framework": "sglang"})
    assert predict_generation(on_fitted).missing == {"framework": said}
    assert missing_measurements("mlc").startswith("only 5 runs of mlc from 1 source")


def test_runs_of_other_releases_are_named_as_theirs():
    measured = ", ".join(map(str, set_of("sglang", "0.4")["releases"]))
    assert f" runs of sglang {measured} from " in missing_measurements("sglang", "0.4")


IN_TORCH = {"framework": "transformers", "dtype": "fp32"}


def test_operators_called_one_by_one_take_none_of_the_engine_s_constants():
    """A processor runs them without the engine, whose few rows then matter to nobody."""
    asked = generation(cluster="this-machine", plan=IN_TORCH)
    assert predict_generation(asked).missing == {}


def test_a_server_s_own_code_takes_turns_with_the_model_on_a_processor() -> None:
    alone = generation(cluster="this-machine", plan=IN_TORCH)
    in_process, served = engine_constants(alone)[0], server_constants(alone)[0]
    assert in_process.sequence_s == in_process.iteration_s == 0
    assert served.sequence_s > 0
    assert served.iteration_s > 0


def test_an_engine_whose_server_was_not_measured_there_takes_another_one_s_code() -> None:
    assert serving_one_by_one("sglang") == serving_one_by_one("vllm")
    assert serving_one_by_one("transformers") != serving_one_by_one("vllm")


def test_a_device_that_works_meanwhile_has_the_engine_s_fitted_constants() -> None:
    alone = generation(cluster="1x a100-sxm-80gb", plan={"framework": "vllm"})
    assert server_constants(alone) == engine_constants(alone)


def test_rows_of_two_sources_need_no_remark():
    assert missing_measurements("tensorrt-llm", "0.8") == ""


def test_an_engine_is_not_calibrated_on_a_device_that_it_was_never_measured_on():
    """The terminal prints what is missing, in one sentence."""
    plan = {"framework": "tensorrt-llm", "framework_version": "0.8"}
    found = predict_generation(generation(cluster="1x mi300x", plan=plan))
    assert found.missing["framework"].startswith("no published measurement of tensorrt-llm 0.8 on mi300x")
    assert found.evidence["framework"] == "extrapolated"
    known = predict_generation(generation(cluster="1x h100-sxm-80gb", plan=plan))
    assert (known.missing, known.evidence["framework"]) == ({}, "calibrated")


@pytest.mark.parametrize("engine", ["reference", "tgi"])
def test_an_estimate_does_not_name_missing_rows(engine: str):
    assert missing_measurements(engine) == ""


@pytest.mark.parametrize("device", ["rtx-4090", "mi300x"])
def test_a_factor_of_collectives_is_never_carried_from_a_switch_to_other_links(device: str):
    """What ranks lose over a switch was fitted there; elsewhere it is what unmeasured engines have."""
    constants, usual = load_inference("vllm")[0], load_inference("unmeasured")[0]
    switch, other = (read_cluster(f"8x {name}").intra_node for name in ("h100-sxm-80gb", device))
    assert constants.linked_by(switch) is constants
    elsewhere = constants.linked_by(other)
    assert constants.collective_slowdown != usual.collective_slowdown == elsewhere.collective_slowdown
    assert replace(elsewhere, collective_slowdown=0, synchronization_s=0, long_prefill_slowdown=0) == replace(
        constants, collective_slowdown=0, synchronization_s=0, long_prefill_slowdown=0
    )


def test_sglang_reduces_with_its_own_kernels():
    engine = generation(plan={"framework": "sglang", "framework_version": "0.5.10"}).plan.engine
    assert engine.all_reduce_library == "sglang 0.5.10"


@pytest.mark.parametrize("engine", names("inference"))
def test_every_free_constant_has_five_rows_and_lies_off_its_bounds(engine: str):
    stated = entry("inference", engine)
    for of in (stated, *(stated.get("versions") or {}).values()):
        for name in of.get("free", ()):
            prior = PRIORS[name]
            assert of["rows"]["noticing"][name] >= 5
            assert prior.low * 1.01 < of["constants"][name] < prior.high * 0.99
        assert not set(of.get("free", ())) & set(of.get("held", ()))


def test_products_by_blocks_take_longer_where_their_constants_are_lent():
    constants = load_inference("sglang")[0]
    lent, measured = (read_cluster(f"1x {name}").device for name in ("b200-sxm-180gb", "h20"))
    assert constants.multiplying_on(lent) is constants
    assert constants.fp8_block_slowdown != constants.multiplying_on(measured).fp8_block_slowdown == 1.0


def test_only_products_by_blocks_are_slowed_down():
    constants = load_inference("sglang")[0]
    faster = replace(constants, fp8_block_slowdown=1.0)
    slower = replace(constants, fp8_block_slowdown=1.5)

    def step_s(quantization: str, chosen: InferenceConstants) -> float:
        plan = {"framework": "sglang", "quantization": quantization}
        asked = generation(plan=plan, cluster={"devices": "1x b200-sxm-180gb"})
        return float(predict_generation(asked, chosen).tpot_s)

    assert step_s("fp8-block", slower) > step_s("fp8-block", faster)
    assert step_s("fp8", slower) == step_s("fp8", faster)


def test_a_date_and_an_old_release_have_the_constants_of_their_time():
    """Not those of the newest engine, which are twice as fast."""

    def step_s(version: str) -> float:
        plan = {"framework": "vllm", "framework_version": version, "chunked_prefill": False}
        return float(predict_generation(generation(cluster="1x h100-sxm-80gb", plan=plan)).tpot_s)

    assert step_s("2023-10") == step_s("0.2") > 1.3 * step_s("0.15")
    (said,) = borrowed_releases("vllm", "0.3")
    assert said == "no measurement of vllm 0.3; using the constants of 0.2"


def test_a_date_beyond_the_catalog_s_is_said():
    said = generation(plan={"framework": "vllm", "framework_version": "2031-05"}).warnings
    assert any("2031-05 is newer than" in remark for remark in said)


def test_experts_in_a_format_that_was_never_fitted_take_those_of_engines_without_measurements() -> None:
    fitted, usual = load_inference("vllm")[0], load_inference("unmeasured")[0]
    assert "16-bit" not in fitted.fitted_experts
    assert fitted.slowdown_of_experts("nvfp4") == (fitted.experts_slowdown, fitted.prefill_experts_slowdown)
    assert fitted.slowdown_of_experts("16-bit") == (usual.experts_slowdown, usual.prefill_experts_slowdown)


def test_what_engines_gain_on_products_of_few_rows_says_nothing_of_prompts() -> None:
    scenario = generation(cluster="1x h100-sxm-80gb", plan={"framework": "vllm"}, prompt_tokens=4096)
    usual, _ = engine_constants(scenario)
    reached = {
        name: predict_generation(scenario, replace(usual, **{name: 2.0 * getattr(usual, name)}))
        for name in ("matmul_slowdown", "prefill_matmul_slowdown")
    }
    few, bulk, base = (
        reached["matmul_slowdown"],
        reached["prefill_matmul_slowdown"],
        predict_generation(scenario, usual),
    )
    assert float(few.tpot_s / base.tpot_s) > 1.5 > 1.03 > float(bulk.tpot_s / base.tpot_s)
    assert float(bulk.ttft_s / base.ttft_s) > 1.5 > 1.08 > float(few.ttft_s / base.ttft_s)


def test_a_stream_of_more_than_l2_holds_gains_nothing_below_its_bytes() -> None:
    usual = replace(load_inference("unmeasured")[0], kernel_gap_s=0.0)
    gaining = replace(usual, elementwise_slowdown=0.5)
    norm = Elementwise(module="mlp norm", part="norm", kind="norm", traffic_bytes=1e9, kernels=1.0)
    long, short = OperatorCost(4e-4, 0.0, 3.6e-4, 3.5e-4), OperatorCost(2e-6, 0.0, 1e-8, 4e-9)
    assert time_in_engine(norm, long, usual) == 4e-4
    assert time_in_engine(norm, long, gaining) == pytest.approx(3.54e-4, rel=1e-3)
    assert time_in_engine(norm, short, gaining) == pytest.approx(1e-6, rel=0.01)


def test_python_launches_kernels_as_in_the_release_that_had_no_graphs():
    of_all, measured = load_inference("tgi", "1")[0], load_inference("vllm", "0.2")[0]
    assert of_all.eager_launch_s == measured.launch_s
