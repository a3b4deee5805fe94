"""Whose constants an engine's release takes."""

from dataclasses import replace

import pytest
from generation_scenarios import generation

from sightline.catalog import entry
from sightline.cost.inference_constants import borrowed_releases, load_inference
from sightline.prediction.generation import predict_generation


def test_a_release_that_was_measured_needs_no_remark():
    assert borrowed_releases("lmdeploy", "0.2.3") == ()
    assert borrowed_releases("tensorrt-llm", "0.9.0") == ()


def test_another_release_says_whose_constants_it_takes():
    (said,) = borrowed_releases("lmdeploy", "0.6")
    assert said == "nobody measured lmdeploy 0.6: its constants are those of 0.2"
    (said,) = borrowed_releases("tensorrt-llm", "0.10")
    assert said.endswith("those of 0.6, 0.7, 0.8, 0.9")


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
