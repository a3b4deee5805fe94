"""What is said when a plan does not fit: what is missing, and changes that were tried."""

import re
from dataclasses import replace

import pytest
import strategies
from hypothesis import given, settings
from training_scenarios import training

import sightline as sl
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping, to_mapping
from sightline.prediction import predict
from sightline.prediction.changes import NO_SINGLE_CHANGE, candidate_changes, changed, plans_beside, settings_of
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import MEMORY_PARTS, REFERENCE, TRAINING, Profile

SUGGESTION = re.compile(r"(\w+): (\S+) would fit with ([\d.]+) GiB, at ([\d.]+) x the step time")
GIB = 2**30


def suggestions(profile: Profile) -> list[tuple[str, str, float, float]]:
    found = (SUGGESTION.fullmatch(sentence) for sentence in profile.advice)
    return [(m[1], m[2], float(m[3]), float(m[4])) for m in found if m]


def test_a_plan_that_fits_needs_no_advice():
    assert predict(training(model="gpt-125m", plan={"micro_batch": 1})).advice == ()


def test_what_does_not_fit_is_a_result_with_every_number():
    scenario = training(model="llama-2-70b", cluster="8x a100-sxm-80gb", global_batch=8, plan={"micro_batch": 1})
    profile = predict(scenario)
    assert profile.fits is False or not profile.fits
    assert set(profile.phases) == set(TRAINING.phases) - {REFERENCE}
    assert set(profile.memory_bytes) == {*MEMORY_PARTS, "total"}
    assert profile.step_time_s > 0
    assert profile.rows
    needed = profile.memory_bytes["total"] / GIB
    assert profile.advice[0] == (
        f"does not fit: {needed:.1f} GiB of 80.0 GiB, including optimizer "
        f"{profile.memory_bytes['optimizer'] / GIB:.1f} GiB"
    )


def test_recomputation_is_named_where_it_helps():
    scenario = training(
        model="llama-2-7b",
        cluster="8x a100-sxm-80gb",
        sequence_length=4096,
        global_batch=64,
        plan={"micro_batch": 8, "zero_stage": 3},
    )
    fields = {(field, value) for field, value, *_ in suggestions(predict(scenario))}
    assert ("recompute", "full") in fields
    assert "micro_batch" in {field for field, _ in fields}


def test_the_largest_micro_batch_that_fits_is_named() -> None:
    asked = {"framework": "megatron", "zero_stage": 1, "recompute": "full"}
    scenario = training(
        model="llama-2-7b", cluster="8x a100-sxm-80gb", sequence_length=4096, global_batch=512, plan=asked
    )
    profile = predict(replace(scenario, plan=replace(scenario.plan, micro_batch=64)))
    (named,) = [int(value) for field, value, *_ in suggestions(profile) if field == "micro_batch"]
    fitting = [
        m for m in (1, 2, 4, 8, 16, 32) if predict(replace(scenario, plan=replace(scenario.plan, micro_batch=m))).fits
    ]
    assert named == max(fitting)
    assert named > 1


def test_where_no_single_change_helps_that_is_said():
    profile = predict(
        training(model="gpt-3-175b", cluster="1x v100-sxm2-32gb", plan={"micro_batch": 1, "dtype": "fp16"})
    )
    assert profile.advice[1:] == [NO_SINGLE_CHANGE]


def test_a_framework_is_asked_only_for_what_it_offers():
    scenario = training(
        model="llama-2-13b",
        cluster="8x a100-sxm-80gb",
        global_batch=8,
        plan={"framework": "megatron", "micro_batch": 1},
    )
    zero_stages = {value for field, value, *_ in suggestions(predict(scenario)) if field == "zero_stage"}
    assert zero_stages <= {"1", "3"}


@pytest.mark.parametrize(("virtual_stages", "tried"), [(1, {5, 10, 20}), (4, {5, 10, 20})])
def test_a_pipeline_is_not_lengthened_beyond_the_layers(virtual_stages, tried):
    # Of 10 stages with chunks of one layer, 20 stages have half as many chunks of one layer.
    plan = {"framework": "megatron", "pipeline_parallel": 10, "micro_batch": 1, "virtual_stages": virtual_stages}
    scenario = training(model="opt-13b", cluster="20x a100-sxm-80gb", global_batch=120, plan=plan)
    assert {plan.pipeline_parallel for _, plan in plans_beside(scenario)} == tried


@settings(max_examples=30)
@given(strategies.trainings())
def test_every_suggestion_loads_and_fits_as_it_says(scenario):
    profile = predict(scenario)
    if profile.fits:
        assert profile.advice == ()
        return
    assert len(profile.advice) >= 2
    for field, value, gib, slower in suggestions(profile):
        mapping = to_mapping(scenario)
        mapping["plan"] = mapping["plan"] | {field: {"true": True}.get(value, int(value) if value.isdigit() else value)}
        if field in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
            mapping["plan"]["data_parallel"] //= 2
        other = scenario_from_mapping(mapping)
        # Floats written as text may differ in the last digit, so the scenario itself is changed as the file was.
        changed = profile_of(replace(scenario, plan=other.plan))
        assert changed.fits
        assert f"{changed.memory_bytes['total'] / GIB:.1f}" == f"{gib:.1f}"
        assert f"{changed.step_time_s / profile.step_time_s:.2f}" == f"{slower:.2f}"


PUBLISHED = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 3072,
    "vocab_size": 32000,
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
}


def served(quantization=None, model=PUBLISHED, **plan):
    """A scenario of generation with some formats; None for those of the checkpoint."""
    stated = {} if quantization is None else {"quantization": quantization}
    work = {"task": "generate", "batch": 8, "prompt_tokens": 64, "output_tokens": 16}
    asked = {"framework": "vllm", **stated, **plan}
    return sl.load({"model": model, "cluster": "1x h100-sxm-80gb", "workload": work, "plan": asked})


def test_none_quantizes_neither_weights_nor_cache_whatever_the_checkpoint_has():
    plain = {key: value for key, value in PUBLISHED.items() if key != "quantization_config"}
    none, without, own = (sl.predict(one) for one in (served("none"), served(model=plain), served()))
    for part in ("weights", "kv_cache"):
        assert none.memory_bytes[part] == pytest.approx(without.memory_bytes[part])
        assert own.memory_bytes[part] < 0.8 * none.memory_bytes[part]
    again = sl.predict(sl.load(to_mapping(none.scenario)))
    assert again.memory_bytes["kv_cache"] == none.memory_bytes["kv_cache"]
    assert sl.predict(served(model=plain)).ttft_s == pytest.approx(sl.predict(served("none", plain)).ttft_s)


@pytest.mark.parametrize("quantization", [None, "none", "fp8", ["fp8", "kv-fp8"], "kv-fp8", "w4a16"])
@pytest.mark.parametrize("is_published", [True, False])
def test_a_change_of_formats_typed_is_the_one_that_was_predicted(quantization, is_published):
    model = PUBLISHED if is_published else {k: v for k, v in PUBLISHED.items() if k != "quantization_config"}
    scenario = served(quantization, model)
    for change in candidate_changes(scenario):
        if "quantization" in change:
            (value,) = settings_of(change).values()
            told, typed = (sl.predict(one) for one in (changed(scenario, change), served(value, model)))
            assert typed.memory_bytes == told.memory_bytes
            assert typed.tpot_s == told.tpot_s
    if is_published and quantization is None:
        words = [change["quantization"] for change in candidate_changes(scenario) if "quantization" in change]
        assert all("kv-fp8" in one and len(one) == 2 for one in words)


def test_none_with_a_dtype_of_fp8_is_refused():
    with pytest.raises(InputError, match=r"plan.quantization is none, but plan.dtype fp8"):
        served("none", dtype="fp8")


@pytest.mark.parametrize("on", [True, False])
def test_blocking_launches_might_end(on):
    plan = {"micro_batch": 1, "launch_blocking": on}
    assert ({"launch_blocking": False} in candidate_changes(training(plan=plan))) is on
