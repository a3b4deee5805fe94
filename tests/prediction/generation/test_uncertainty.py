"""What a generation's interval is made of: fitted cases, the effect of a source, and what an engine never saw."""

from dataclasses import replace
from math import hypot, log

import pytest
from generation_scenarios import generation

from sightline import predict
from sightline.prediction.generation.engine_constants import load_inference
from sightline.prediction.generation.policies import price_workers
from sightline.prediction.generation.sites import least_latencies
from sightline.prediction.generation.uncertainty import (
    extrapolated_terms,
    fitted_spreads,
    iteration_spreads,
    kind_of,
    load_extrapolation,
    request_spread,
    spreads,
    unmeasured_kernels,
    waiting_spread,
    years_apart,
)
from sightline.quantities import FOUR_IN_FIVE

TERMS = load_extrapolation()


def asked(**changes):
    known = {"model": "llama-3.1-70b", "cluster": "8x h200-sxm-141gb", "prompt_tokens": 1024, "output_tokens": 1024}
    plan = {"framework": "vllm", "tensor_parallel": 8, "quantization": ["fp8", "kv-fp8"]} | changes.pop("plan", {})
    return generation(**{**known, **changes}, plan=plan)


def terms(**changes):
    scenario = asked(**changes)
    constants, _ = load_inference(scenario.plan.engine.name, scenario.plan.engine.version)
    return extrapolated_terms(scenario, constants)


def test_a_run_like_those_fitted_has_the_effect_of_a_source_alone():
    assert terms() == {"source": TERMS.source}


def test_everything_never_fitted_adds_a_term():
    assert terms(cluster="8x rtx-4090", model="llama-3.1-8b") == {"source": TERMS.source, "device": TERMS.device}
    assert terms(cluster="8x mi300x").keys() == {"source", "device", "kernels"}
    assert terms(model="qwen3-next-80b-a3b").keys() == {"source", "kind"}
    assert terms(plan={"quantization": "int8"}).keys() == {"source", "format"}
    assert terms(plan={"framework_version": "0.99"}).keys() == {"source", "release"}


def test_releases_far_from_those_measured_are_less_certain():
    near, far = (terms(plan={"framework_version": version})["release"] for version in ("0.13", "0.99"))
    assert TERMS.release == near < far
    old = {"framework": "sglang", "framework_version": "0.4", "quantization": None}
    assert terms(plan=old).keys() == {"source", "release"}
    assert terms(plan=old, model="deepseek-v3").keys() == {"source", "kind", "release"}
    assert years_apart("vllm", ("0.11", "0.12"), ("0.15", "0.28")) == pytest.approx(1 / 12)


@pytest.mark.parametrize(("batch", "tokens_per_s"), [(1, 30.29), (32, 760.52)])
def test_a_release_that_served_a_model_before_its_kernels_were_fused_is_slow(batch: int, tokens_per_s: float):
    """DeepSeek-V3 on eight H200 with SGLang 0.4.1 (sgl-project/sglang, issue 2643)."""
    asked = {"model": "deepseek-v3", "cluster": "8x h200-sxm-141gb", "prompt_tokens": 128, "output_tokens": 256}
    plan = {"framework": "sglang", "framework_version": "0.4.1", "tensor_parallel": 8}
    low, high = predict(generation(**asked, batch=batch, plan=plan)).interval["tpot_s"]
    assert low < batch / tokens_per_s < high


def test_the_context_s_term_grows_with_every_doubling_beyond_the_longest():
    longest = load_inference("vllm")[0].fitted_context
    near, far = (terms(prompt_tokens=int(longest * times) - 1024) for times in (2, 8))
    assert near["context"] == pytest.approx(TERMS.context, rel=1e-3)
    assert far["context"] == pytest.approx(3 * TERMS.context, rel=1e-3)


@pytest.mark.parametrize("engine", ["vllm", "tgi"])
def test_intervals_grow_with_the_distance_of_a_device_from_those_measured(engine: str):
    """Measured itself, of an architecture that was, another of the maker, another maker's."""

    def step(device: str) -> float:
        plan = {"framework": engine, "tensor_parallel": 1, "dtype": "fp16"}
        scenario = generation(model="llama-3.1-8b", cluster=f"1x {device}", plan=plan)
        return spreads(scenario, load_inference(engine)[0], float)[1]

    order = ("h100-sxm-80gb", "h100-pcie-80gb", "v100-sxm2-32gb", "mi300x")
    widths = [step(device) for device in order]
    assert widths == sorted(widths)
    assert len(set(widths)) > 2
    assert step("gaudi3") == step("mi300x")


def test_an_engine_fitted_on_the_architecture_has_its_kernels_errors_already():
    lent = {
        "model": "llama-3.1-8b",
        "cluster": "1x apple-m1-ultra-64core-128gb",
        "prompt_tokens": 128,
        "output_tokens": 64,
    }
    for engine, causes in (("llama.cpp", {"source", "device"}), ("vllm", {"source", "device", "kernels"})):
        assert terms(**lent, plan={"framework": engine, "quantization": None, "tensor_parallel": 1}).keys() == causes


def test_kernels_add_nothing_where_a_processor_runs_operators_one_by_one():
    assert unmeasured_kernels(generation(cluster="this-machine", plan={"dtype": "fp32"}).cluster.device) == 0.0


def test_terms_add_up_as_squares():
    scenario = asked(cluster="8x mi300x")
    constants, _ = load_inference("vllm")
    first, step = spreads(scenario, constants, float)
    beyond = hypot(TERMS.source, TERMS.device, unmeasured_kernels(scenario.cluster.device))
    assert first == pytest.approx(hypot(constants.ttft_spread, FOUR_IN_FIVE * beyond))
    assert step == pytest.approx(hypot(constants.tpot_spread, FOUR_IN_FIVE * beyond))
    low, high = predict(scenario).interval["tpot_s"]
    assert high / low == pytest.approx(2.718281828459045 ** (2 * step), rel=1e-6)


def test_estimated_spreads_are_of_whole_engines():
    assert terms(plan={"framework": "tgi"}) == {}
    estimated = replace(load_inference("unmeasured")[0], tpot_spread=0.0)
    assert spreads(asked(), estimated, float) == (0.0, 0.0)


def test_kinds_of_models_are_told_apart_by_their_layers():
    names = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3")
    assert [kind_of(generation(model=name).model) for name in names] == [
        "softmax dense",
        "softmax experts",
        "latent experts",
    ]


@pytest.mark.parametrize("measured", [False, True])
def test_no_end_of_an_interval_is_faster_than_physics_allows(measured: bool):
    """Kernels near the peak and the bandwidth leave an interval less room below than above."""
    plan = {"framework": "transformers", "quantization": None, "tensor_parallel": 1}
    scenario = asked(model="llama-3.1-8b", cluster="1x h200-sxm-141gb", batch=64, prompt_tokens=2048, plan=plan)
    own = replace(scenario, measured={"tpot_s": 1.3 * predict(scenario).tpot_s})
    found = predict(scenario, anchor=[own]) if measured else predict(scenario)
    workers = price_workers(scenario)
    least = least_latencies(workers, load_inference("transformers")[0].running_on(scenario.cluster))
    for key in ("ttft_s", "tpot_s", "latency_s"):
        low, high = found.interval[key]
        assert 0.999 * getattr(least, key) <= low <= getattr(found, key) <= high
    assert found.interval["output_tokens_per_s"][1] <= 1.001 * least.output_tokens_per_s


def test_what_passes_before_the_queue_is_unsure_where_no_prefill_s_time_was_fitted():
    assert request_spread("vllm", "0.19") == pytest.approx(FOUR_IN_FIVE)
    assert request_spread("tensorrt-llm", "0.9") == 0.0


def test_first_tokens_under_a_load_are_less_sure_where_no_fit_saw_any():
    scenario, constants = asked(), load_inference("vllm")[0]
    waiting = waiting_spread(scenario, constants)
    assert waiting == FOUR_IN_FIVE * TERMS.loads["vllm dense"] > 0
    steady = replace(scenario, workload=replace(scenario.workload, continuous=True))
    first, step = iteration_spreads(steady, constants, float)
    assert spreads(steady, constants, float) == (pytest.approx(hypot(first, waiting)), step)
    assert spreads(scenario, constants, float) == (first, step)
    fitted = replace(constants, ttft_spread=2 * constants.tpot_spread)
    assert waiting_spread(scenario, fitted) == 0.0
    split = {"tensor_parallel": 4, "disaggregate": {"prefill": {"tensor_parallel": 4}, "decode": {}}}
    pools = asked(plan=split)
    assert waiting_spread(pools, fitted) == FOUR_IN_FIVE * TERMS.loads["pools"]
    unmeasured = asked(plan={"framework": "sglang"})
    assert waiting_spread(unmeasured, constants) == FOUR_IN_FIVE * TERMS.loads["sglang experts"]


def test_mixtures_of_experts_have_the_spread_of_mixtures():
    constants = replace(load_inference("vllm")[0], ttft_spread=0.1, tpot_spread=0.1, experts_spread=0.2)
    dense, mixture = asked(), asked(model="qwen3-30b-a3b")
    assert fitted_spreads(dense, constants) == (0.1, 0.1)
    assert fitted_spreads(mixture, constants) == (0.2, 0.2)
    assert extrapolated_terms(mixture, constants)["source"] == pytest.approx(2 * TERMS.source)
    assert fitted_spreads(mixture, replace(constants, ttft_spread=0.3, experts_spread=0.0)) == (0.3, 0.1)


def test_a_model_that_was_not_read_whole_is_as_uncertain_as_one_of_another_kind():
    scenario = asked()
    unsure = replace(scenario, model=replace(scenario.model, assumed=("ignored keys: quux",)))
    constants, _ = load_inference("vllm", scenario.plan.engine.version)
    assert "kind" not in extrapolated_terms(scenario, constants)
    assert extrapolated_terms(unsure, constants)["kind"] == TERMS.kind
    assert (predict(scenario).evidence["framework"], predict(unsure).evidence["framework"]) != (
        "estimated",
        "estimated",
    )
    assert predict(unsure).evidence["framework"] == "estimated"


def test_splitting_over_pcie_is_unsure_where_nobody_knows_how_the_server_shares_it():
    plan = {"framework": "vllm", "tensor_parallel": 4}
    cluster = {"devices": "4x rtx-3090"}
    shared = {**cluster, "intra_node": {"same_as": "pcie4-no-p2p", "shares": {2: 1.0, 4: 1.0}}}
    widths = []
    for of in (cluster, shared):
        low, high = predict(generation(cluster=of, batch=64, prompt_tokens=512, plan=plan)).interval["tpot_s"]
        widths.append(log(high / low))
    assert widths[0] > 1.5 * widths[1]
