"""A site's effects are what its own rows show; they move no other site, and little where rows are few."""

from dataclasses import replace

import pytest
from engine_fit import MeasuredGeneration, fit_inference, predicted_values, site_shifts
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.engine_constants import InferenceConstants, load_inference
from sightline.prediction.generation.policies import price_workers
from sightline.prediction.generation.sites import MeasuredSite, constants_at, source_site

PLANS = [
    {"framework": "transformers", "quantization": quantization, "dtype": "bf16"} for quantization in ("none", "w8a16")
]
SIZES = ("llama-2-7b", "llama-2-13b", "qwen-14b")
SCENARIOS = [
    generation(model=model, prompt_tokens=8, output_tokens=256, plan=plan) for model in SIZES for plan in PLANS
]


def measured(slower, source="own"):
    """What would be measured where launches take so many times as long as in the catalog's set."""
    constants, _ = load_inference("transformers")
    cases = [MeasuredGeneration(workers=price_workers(s), quantity="tpot_s", value=1.0) for s in SCENARIOS]
    seconds = predicted_values(cases, replace(constants, launch_s=constants.launch_s * slower))
    return [replace(case, value=float(t), source=source) for case, t in zip(cases, seconds, strict=True)]


def held(cases):
    """A fit in which no constant is free."""
    constants, _ = load_inference("transformers")
    found = fit_inference(cases, [])
    stated = {name: getattr(constants, name) for name in InferenceConstants.__dataclass_fields__}
    return replace(found, constants=stated)


def test_a_slower_host_is_found_at_its_site():
    cases = measured(1.5)
    site = source_site("own", "transformers", SCENARIOS[0].cluster.device)
    found = site_shifts([("transformers", held(cases))])
    assert found.keys() == {site}
    assert found[site]["launch_s"] == pytest.approx(0.4, abs=0.12)
    before = InferenceConstants.from_mapping(held(cases).constants)
    after = constants_at(before, found[site])
    for case, was, now in zip(cases, predicted_values(cases, before), predicted_values(cases, after), strict=True):
        assert abs(now / case.value - 1) < max(0.02, 0.5 * abs(was / case.value - 1))


def test_a_site_like_the_others_is_none():
    found = site_shifts([("transformers", held(measured(1.0)))])
    assert all(abs(shift) < 0.02 for shifts in found.values() for shift in shifts.values())


def test_rows_of_an_engine_with_the_same_kernels_are_of_its_own_set():
    assert site_shifts([("litgpt", held(measured(1.5)))]) == {}


def test_a_site_that_nobody_measured_is_predicted_as_any_users():
    scenario = SCENARIOS[0]
    alone, site = predict_generation(scenario), predict_generation(scenario, known=MeasuredSite(name="nowhere"))
    assert site.tpot_s == alone.tpot_s
    assert site.interval == alone.interval


def test_a_measured_site_moves_its_figures_and_keeps_the_width_of_its_interval():
    scenario = generation(model="qwen-14b", plan={"framework": "transformers", "dtype": "bf16"})
    alone = predict_generation(scenario)
    name = source_site("QwenLM/Qwen", "transformers", scenario.cluster.device)
    at = predict_generation(scenario, known=MeasuredSite(name=name))
    assert at.tpot_s != alone.tpot_s
    low, high = at.interval["tpot_s"]
    assert high / low == pytest.approx(alone.interval["tpot_s"][1] / alone.interval["tpot_s"][0])
    assert at.evidence["framework"] == alone.evidence["framework"]


def test_one_token_has_no_further_ones_at_a_site_either():
    scenario = generation(model="qwen-14b", output_tokens=1, plan={"framework": "transformers", "dtype": "bf16"})
    name = source_site("QwenLM/Qwen", "transformers", scenario.cluster.device)
    found = predict_generation(scenario, known=MeasuredSite(name=name))
    assert found.tpot_s is None
    assert found.ttft_s > 0.0
