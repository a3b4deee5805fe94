"""Generation: bounds, monotonicity, conservation, scalar = array, and what each technique changes."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from generation_scenarios import generation
from hypothesis import given, settings
from hypothesis import strategies as st
from training_scenarios import behaving

from sightline import catalog
from sightline.cost.processor_constants import load_processor
from sightline.prediction import predict
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.profile import BOUNDS, GENERATION, MEMORY_PARTS

SIZES = {
    "batch": st.sampled_from([1, 3, 16, 128]),
    "prompt_tokens": st.sampled_from([1, 100, 2048]),
    "output_tokens": st.sampled_from([1, 2, 300]),
}
PLANS = st.sampled_from(
    [
        {"tensor_parallel": 8},
        {"tensor_parallel": 4, "pipeline_parallel": 2},
        {"tensor_parallel": 2, "replicas": 4, "quantization": "fp8"},
        {"tensor_parallel": 8, "quantization": ["w4a16", "kv-fp8"], "chunked_prefill": True, "max_batched_tokens": 512},
    ]
)


@settings(max_examples=25, deadline=None)
@given(sizes=st.fixed_dictionaries(SIZES), plan=PLANS, continuous=st.booleans())
def test_parts_add_up(sizes: dict[str, int], plan: dict[str, Any], continuous: bool):
    profile = predict(
        generation(model="llama-2-70b", cluster="8x h100-sxm-80gb", plan=plan, continuous=continuous, **sizes)
    )
    assert sum(profile.phases[p] for p in GENERATION.phases) == pytest.approx(profile.latency_s)
    assert sum(profile.limits[b] for b in BOUNDS) == pytest.approx(profile.latency_s)
    assert sum(profile.memory_bytes[p] for p in MEMORY_PARTS) == pytest.approx(profile.memory_bytes["total"])
    rows = profile.rows
    assert {
        phase: sum(row.exposed_s for row in rows if row.phase == phase) for phase in profile.phases
    } == pytest.approx(profile.phases, abs=1e-12)
    device_s = sum(row.time_s for row in profile.rows if row.phase not in ("transfer", "host"))
    assert device_s <= profile.latency_s * plan.get("pipeline_parallel", 1) * (1 + 1e-9)
    assert profile.latency_s > 0
    assert profile.energy_j > 0


@settings(max_examples=20, deadline=None)
@given(sizes=st.fixed_dictionaries(SIZES), plan=PLANS)
def test_no_step_is_faster_than_reading_weights_and_cache(sizes: dict[str, int], plan: dict[str, Any]):
    scenario = generation(model="llama-2-70b", cluster="8x h100-sxm-80gb", plan=plan, **sizes)
    profile = predict(scenario)
    stages = plan.get("pipeline_parallel", 1)
    weights_s = profile.memory_bytes["weights"] * 0.9 / scenario.cluster.device.memory_bandwidth
    assert profile.tpot_s >= weights_s * stages if sizes["output_tokens"] > 1 else True


@pytest.mark.parametrize("key", ["batch", "prompt_tokens", "output_tokens"])
def test_more_of_anything_takes_longer(key: str):
    values = [16, 64, 256, 1024, 4096]
    latencies = [float(predict(generation(**{key: value})).latency_s) for value in values]  # type: ignore[arg-type]
    for less, more in pairwise(latencies):
        assert more > 0.99 * less  # a larger matmul may get a better kernel
    assert latencies[-1] > 1.2 * latencies[0]


def test_a_mesh_of_sizes_equals_single_predictions():
    plan = {"tensor_parallel": 8, "chunked_prefill": True, "max_batched_tokens": 2048}
    one = generation(model="qwen3-30b-a3b", cluster="8x h100-sxm-80gb", plan=plan)
    batches, prompts = np.array([1, 7, 64]), np.array([33, 1024, 5000])
    work = replace(one.workload, batch=batches.reshape(-1, 1), prompt_tokens=prompts.reshape(1, -1))
    mesh = predict_generation(replace(one, workload=work))
    for i, batch in enumerate(batches):
        for j, prompt in enumerate(prompts):
            single = predict(replace(one, workload=replace(work, batch=int(batch), prompt_tokens=int(prompt))))
            assert mesh[i, j].ttft_s == pytest.approx(single.ttft_s, rel=1e-12)
            assert mesh[i, j].tpot_s == pytest.approx(single.tpot_s, rel=1e-12)
            assert mesh[i, j].memory_bytes == pytest.approx(single.memory_bytes, rel=1e-12)
            assert mesh[i, j].energy_j == pytest.approx(single.energy_j, rel=1e-12)


def test_a_mesh_of_degrees_equals_single_predictions():
    one = generation(model="llama-2-70b", cluster="8x h100-sxm-80gb", batch=16, plan={"tensor_parallel": 8})
    degrees = np.array([1, 2, 4, 8])
    mesh = predict_generation(replace(one, plan=replace(one.plan, tensor_parallel=degrees, replicas=8 / degrees)))
    for i, degree in enumerate(degrees):
        plan = {"tensor_parallel": int(degree), "replicas": 8 // int(degree)}
        single = predict(generation(model="llama-2-70b", cluster="8x h100-sxm-80gb", batch=16, plan=plan))
        assert mesh[i].tpot_s == pytest.approx(single.tpot_s, rel=1e-12)
        assert mesh[i].ttft_s == pytest.approx(single.ttft_s, rel=1e-12)


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_model_is_answered(name: str):
    profile = predict(generation(model=name, cluster="8x h200-sxm-141gb", batch=8, plan={"tensor_parallel": 1}))
    values = [
        profile.ttft_s,
        profile.tpot_s,
        profile.energy_j,
        *profile.phases.values(),
        *profile.memory_bytes.values(),
    ]
    assert np.all(np.isfinite(values))
    assert min(values) >= 0


def test_speculation_pays_by_its_acceptance():
    plain = predict(generation())
    good, bad = (predict(generation(plan={"speculative": {"tokens": 3, "acceptance": rate}})) for rate in (0.8, 0.0))
    assert good.tpot_s < plain.tpot_s < bad.tpot_s * 1.001
    expected = (1 - 0.8**4) / (1 - 0.8)
    assert good.tpot_s == pytest.approx(bad.tpot_s / expected)


def test_a_cached_prefix_is_not_computed_again():
    plan = {"prefix_cache": True}
    whole = predict(generation(prompt_tokens=4096, plan=plan))
    reused = predict(generation(prompt_tokens=4096, prefix_tokens=3584, plan=plan))
    off = predict(generation(prompt_tokens=4096, prefix_tokens=3584, plan={"prefix_cache": False}))
    assert reused.ttft_s < 0.4 * whole.ttft_s
    assert reused.tpot_s == whole.tpot_s
    assert off.ttft_s == whole.ttft_s


def test_prefills_of_a_steady_loop_hold_decodes_up():
    static, loop = (predict(generation(batch=32, prompt_tokens=2048, continuous=c)) for c in (False, True))
    assert loop.tpot_s > static.tpot_s
    assert loop.output_tokens_per_s == pytest.approx(32 * 128 / loop.latency_s)


def test_disaggregated_workers_decode_undisturbed():
    pools = {"prefill": {"tensor_parallel": 4, "batch": 1}, "decode": {"tensor_parallel": 8}}
    split = predict(
        generation(
            model="llama-2-70b", cluster="12x h100-sxm-80gb", batch=16, continuous=True, plan={"disaggregate": pools}
        )
    )
    alone = predict(generation(model="llama-2-70b", cluster="8x h100-sxm-80gb", batch=16, plan={"tensor_parallel": 8}))
    # A prompt on its way is not decoding, so that a step has a little less than the whole batch.
    assert 0.97 * alone.tpot_s < split.tpot_s <= alone.tpot_s
    assert split.phases["transfer"] > 0


@pytest.mark.parametrize("quantization", ["w8a16", "w4a16", "fp8", "nvfp4", "nf4"])
def test_narrower_weights_decode_faster_and_take_less_room(quantization: str):
    wide = predict(generation(model="llama-3-70b", cluster="1x b200-sxm-180gb", plan={"quantization": "none"}))
    narrow = predict(generation(model="llama-3-70b", cluster="1x b200-sxm-180gb", plan={"quantization": quantization}))
    assert narrow.memory_bytes["weights"] < 0.6 * wide.memory_bytes["weights"]
    assert narrow.tpot_s < wide.tpot_s


@pytest.mark.parametrize("device", ["h100-sxm-80gb", "h20", "b200-sxm-180gb"])
def test_weights_that_are_widened_for_products_make_prompts_no_faster(device: str):
    plans = [{"framework": "vllm", "quantization": name} for name in ("none", "w8a16", "w4a16")]
    scenarios = [generation(model="llama-3.1-8b", cluster=f"1x {device}", batch=64, plan=plan) for plan in plans]
    wide, *narrow = (predict(scenario).ttft_s for scenario in scenarios)
    assert all(ttft_s > 0.999 * wide for ttft_s in narrow)


def test_what_does_not_fit_is_answered_all_the_same():
    profile = predict(generation(model="llama-2-70b", plan={"dtype": "fp16"}))
    assert not profile.fits
    assert profile.tpot_s > 0
    assert profile.advice[0].startswith("does not fit: 13")
    assert any(sentence.startswith("quantization: w4a16 would fit with") for sentence in profile.advice)


def test_the_interval_lies_around_the_prediction():
    profile = predict(generation(plan={"framework": "tgi"}))
    for key, (low, high) in profile.interval.items():
        assert low < getattr(profile, key) < high


def test_fp8_is_answered_on_devices_with_neither_fp8_nor_bf16():
    old = generation(cluster="1x t4", plan={"dtype": "fp8"})
    assert (
        predict_generation(old).tpot_s
        == predict_generation(generation(cluster="1x t4", plan={"dtype": "fp16", "quantization": "fp8"})).tpot_s
    )


def _evidence(plan: dict[str, Any], cluster: str = "1x h100-sxm-80gb", model: str = "llama-3.1-8b") -> Any:
    return predict_generation(generation(model=model, cluster=cluster, plan=plan)).evidence


def test_only_what_was_measured_is_called_calibrated():
    sixteen = _evidence({})
    assert {sixteen[part] for part in ("matmul", "prefill attention", "decode attention")} == {"calibrated"}
    assert _evidence({"quantization": "kv-int8"})["decode attention"] == "extrapolated"
    assert _evidence({"dtype": "fp32"})["prefill attention"] == "extrapolated"
    assert _evidence({"quantization": "kv-fp8"}, "1x a100-sxm-80gb")["decode attention"] == "extrapolated"


def test_collectives_across_nodes_were_not_measured():
    inside = _evidence({"tensor_parallel": 8}, "8x h100-sxm-80gb")
    across = _evidence({"tensor_parallel": 16}, "16x h100-sxm-80gb")
    copies = _evidence({"tensor_parallel": 8}, "16x h100-sxm-80gb")
    assert [said["collectives"] for said in (inside, across, copies)] == ["calibrated", "extrapolated", "calibrated"]


def test_mixers_beside_attention_have_evidence_of_their_own():
    assert _evidence({}, model="qwen3.5-27b")["linear attention"] in ("datasheet", "extrapolated", "calibrated")
    assert "linear attention" not in _evidence({})


@pytest.mark.parametrize("continuous", [False, True])
def test_prompts_wait_for_those_who_only_prefill(continuous: bool):
    def split(batch: int, workers: int, at_once: int = 1) -> Any:
        pools = {
            "prefill": {"tensor_parallel": 4, "replicas": workers, "batch": at_once},
            "decode": {"tensor_parallel": 4},
        }
        sizes = {"batch": batch, "prompt_tokens": 2048, "output_tokens": 16}
        cluster = f"{4 * workers + 4}x h100-sxm-80gb"
        plan = {"disaggregate": pools}
        return predict_generation(
            generation(model="llama-3-70b", cluster=cluster, plan=plan, continuous=continuous, **sizes)
        )

    alone, many, shared = split(1, 1), split(256, 1), split(256, 2)
    assert many.output_tokens_per_s / 16 <= 1.03 / alone.ttft_s
    assert shared.ttft_s == pytest.approx(many.ttft_s / 2, rel=0.02)
    assert sum(many.phases.values()) == pytest.approx(many.latency_s)
    assert split(4, 2, at_once=2).ttft_s == pytest.approx(split(2, 1, at_once=2).ttft_s)


def test_formats_without_products_on_the_device_are_remarked_on():
    (said,) = predict_generation(generation(plan={"quantization": "fp8"})).warnings
    assert said.startswith("a100-sxm-80gb has no fp8 ")
    assert predict_generation(generation(cluster="1x h100-sxm-80gb", plan={"quantization": "fp8"})).warnings == ()


TINY = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4}
TINY |= {"intermediate_size": 688, "vocab_size": 2048, "max_position_embeddings": 4096}


def on_processor(layers: int = 4, framework: str = "transformers", **sizes: Any):
    model = {**TINY, "num_hidden_layers": layers}
    plan = {"framework": framework, "dtype": "fp32"}
    asked = {"batch": 1, "prompt_tokens": 64, "output_tokens": 16, **sizes}
    return predict(generation(model=model, cluster="this-machine", plan=plan, **asked))


def test_on_a_processor_every_layer_takes_its_calls():
    machine = load_processor("processor", "fp32")
    few, many = on_processor(4), on_processor(8)
    assert many.tpot_s - few.tpot_s > 4 * machine.calls["layer forward"]
    assert many.ttft_s - few.ttft_s > 4 * machine.calls["layer forward"]
    assert few.phases["host"] == 0.0
    assert sum(few.phases[p] for p in GENERATION.phases) == pytest.approx(few.latency_s)
    assert few.memory_bytes["framework"] == pytest.approx(machine.framework_bytes, rel=0.5)


def test_on_a_processor_longer_caches_are_copied_for_every_token():
    short, long = (on_processor(prompt_tokens=tokens).tpot_s for tokens in (64, 3000))
    copied = 2 * 4 * 4 * (3000 - 64) * 2 * 256  # read and written, fp32, layers, tokens, keys and values
    assert long - short > copied / 200e9
    one = on_processor().scenario
    both = predict_generation(replace(one, workload=replace(one.workload, batch=np.array([1.0, 4.0]))))
    assert both.tpot_s == pytest.approx([on_processor(batch=b).tpot_s for b in (1, 4)])


def test_one_sequence_is_ahead_of_those_sent_with_it():
    plan = {"framework": "lmdeploy"}
    alone, together = (predict(generation(batch=batch, prompt_tokens=128, plan=plan)) for batch in (1, 16))
    scenario = generation(batch=16, prompt_tokens=128, plan=plan)
    waiting = replace(scenario.plan, engine=behaving(scenario.plan.engine, {"lmdeploy.first_alone": False}))
    others = replace(scenario, plan=waiting)
    first = replace(generation(prompt_tokens=128, plan=plan), plan=waiting)
    assert together.ttft_s == pytest.approx(predict(others).ttft_s + together.tpot_s)
    assert alone.ttft_s == pytest.approx(predict(first).ttft_s)


def test_a_prompt_of_one_token_is_decoded():
    scenario = generation(prompt_tokens=1, plan={"framework": "lmdeploy"})
    prefilled = behaving(scenario.plan.engine, {"lmdeploy.decodes_single_tokens": False})
    waits_s = (
        predict(replace(scenario, plan=replace(scenario.plan, engine=prefilled))).ttft_s - predict(scenario).ttft_s
    )
    assert waits_s > 0
    longer = generation(prompt_tokens=2, plan={"framework": "lmdeploy"})
    assert predict(longer).ttft_s - predict(scenario).ttft_s > 0.9 * waits_s


def test_llm_int8_launches_many_kernels_from_python():
    # bitsandbytes benchmarking/README.md: Llama 3.1 8B on an H100, 24.4 ms a token in bf16, 81.7 ms with LLM.int8.
    plain, outliers = (
        predict(
            generation(
                model="llama-3.1-8b",
                cluster="1x h100-sxm-80gb",
                batch=1,
                plan={"framework": "transformers", "quantization": q},
            )
        ).tpot_s
        for q in ("none", "llm-int8")
    )
    assert outliers - plain == pytest.approx(0.0573, rel=0.2)


def test_four_bit_kernels_of_turbomind_take_as_long_as_their_weights():
    # Matrix units keep up with the memory until 64 rows, of which the profiler's time is no part.
    by_rows = [
        predict(
            generation(
                model="llama-2-7b",
                cluster="1x rtx-4090",
                batch=batch,
                plan={"framework": "lmdeploy", "quantization": "w4a16"},
            )
        )
        for batch in (1, 16)
    ]
    (few, many) = [
        sum(row.time_s for row in profile.rows if row.phase == "decode" and row.operator in ("matmul", "up", "down"))
        for profile in by_rows
    ]
    assert many < 1.1 * few
    assert not any(row.operator in ("rope", "cache write") for row in by_rows[0].rows if row.phase == "decode")
