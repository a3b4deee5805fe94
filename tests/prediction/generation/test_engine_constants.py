"""Whose constants an engine's release takes."""

from dataclasses import replace

import pytest
from generation_scenarios import generation

from sightline.catalog import entry
from sightline.loading.clusters import read_cluster
from sightline.prediction.generation.engine_constants import InferenceConstants, borrowed_releases, load_inference
from sightline.prediction.generation.predict import predict_generation


def test_a_release_that_was_measured_needs_no_remark():
    assert borrowed_releases("lmdeploy", "0.2.3") == ()
    assert borrowed_releases("tensorrt-llm", "0.9.0") == ()


def test_another_release_says_whose_constants_it_takes():
    (said,) = borrowed_releases("lmdeploy", "0.6")
    assert said == "lmdeploy 0.6 was not measured: its constants are those of 0.2"
    (said,) = borrowed_releases("tensorrt-llm", "0.10")
    assert said.endswith("those of 0.5, 0.6, 0.7, 0.8, 0.9")


def test_a_set_of_measurements_without_releases_says_so():
    (said,) = borrowed_releases("llama.cpp", "b4000")
    assert said.endswith("those of another release")
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


def test_a_release_line_does_not_inherit_what_others_were_fitted_on():
    """Llama-2-70B on A100 is what vLLM 0.2 was fitted on, though the engine's own set never saw it."""
    first, _ = load_inference("vllm", "0.2")
    assert "llama-2-70b on a100-sxm-80gb" not in load_inference("vllm")[0].fitted_on
    assert first.step_spread("llama-2-70b", "a100-sxm-80gb", pools=False) == first.tpot_spread


def test_a_pair_never_fitted_and_pools_have_spreads_of_their_own():
    constants, _ = load_inference("reference")
    constants = replace(
        constants, tpot_spread=0.1, pools_spread=0.3, unseen_spread=0.4, fitted_on=frozenset({"a on b"})
    )
    assert constants.step_spread("a", "b", pools=False) == 0.1
    assert constants.step_spread("a", "b", pools=True) == 0.3
    assert constants.step_spread("a", "c", pools=True) == pytest.approx(0.5)
    nobody_tells = replace(constants, fitted_on=frozenset(), pools_spread=0.0)
    assert nobody_tells.step_spread("a", "c", pools=True) == 0.1


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
