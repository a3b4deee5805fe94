"""What was read back becomes a scenario file."""

import pytest

from sightline import load
from sightline.errors import InputError
from sightline.launching import Reading, completed, read, scenario_text

COMMAND = "vllm serve Qwen/Qwen3-32B -tp 4"


def test_what_is_given_is_no_longer_missing_or_assumed():
    reading = completed(read(COMMAND), {"cluster": "4x h100-sxm-80gb", "workload.batch": 3})
    assert reading.missing == {}
    assert "workload.batch" not in reading.assumed
    assert "workload.prompt_tokens" in reading.assumed
    assert reading.scenario["workload"]["batch"] == 3


def test_the_text_loads_as_the_scenario():
    reading = completed(read(COMMAND), {"cluster": "4x h100-sxm-80gb", "plan.framework_version": "0.10"})
    scenario = load(scenario_text(reading))
    assert scenario.plan.tensor_parallel == 4
    assert scenario.plan.engine.name == "vllm"


def test_what_is_missing_stands_at_the_head():
    head = scenario_text(read(COMMAND)).splitlines()
    assert head[0] == "# parsed the text as a command for vLLM (0.32)"
    assert head[1].startswith("# cluster is missing: ")


def test_a_scenario_that_breaks_rules_is_refused():
    with pytest.raises(InputError, match="allowed: the cluster's 8 devices"):
        completed(read(COMMAND), {"cluster": "8x h100-sxm-80gb"})


def test_an_unknown_model_of_the_source_stays_and_is_said():
    reading = completed(read("vllm serve somebody/qwen3-33b -tp 4"), {"cluster": "4x h100-sxm-80gb"})
    assert reading.scenario["model"] == "somebody/qwen3-33b"
    assert "model" in reading.missing
    assert "did you mean 'qwen3-32b'" in reading.missing["model"]


def test_an_unknown_model_is_said_while_something_else_is_missing():
    assert set(completed(read("vllm serve somebody/else"), {}).missing) == {"cluster", "model"}


def test_an_unknown_model_of_the_user_is_refused():
    with pytest.raises(InputError, match="did you mean 'qwen3-32b'"):
        completed(read(COMMAND), {"cluster": "4x h100-sxm-80gb", "model": "qwen3-33b"})


def test_a_key_below_what_is_given_is_known():
    reading = Reading(
        framework="megatron", scenario={"model": {"a": 1}}, missing={"model.vocab_size": "", "cluster": ""}
    )
    assert set(completed(reading, {"model": "llama-2-7b"}).missing) == {"cluster"}


@pytest.mark.parametrize("whole", ["", '"train_batch_size": "auto", '])
@pytest.mark.parametrize("cluster", ["8x a100-sxm-80gb", {"devices": "8x a100-sxm-80gb"}])
def test_a_batch_that_follows_from_the_devices_is_not_missing(whole, cluster):
    config = f'{{{whole}"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}}'
    reading = completed(read(config), {"cluster": cluster})
    assert reading.scenario["workload"]["global_batch"] == 256
    assert "workload.global_batch" not in reading.missing
    assert "workload.global_batch" in completed(read(config), {}).missing


def test_devices_that_share_samples_count_once():
    config = '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}'
    reading = completed(read(config), {"cluster": "8x a100-sxm-80gb", "plan.tensor_parallel": 2})
    assert reading.scenario["workload"]["global_batch"] == 4 * 8 * 4


@pytest.mark.parametrize("given", [{"cluster": "somewhere"}, {"workload.global_batch": 64}])
def test_a_batch_that_does_not_follow_is_left_to_the_user(given):
    config = '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}'
    reading = completed(read(config), {"cluster": "8x a100-sxm-80gb", **given})
    assert reading.scenario["workload"].get("global_batch") == given.get("workload.global_batch")


def test_another_word_for_the_vocabulary_is_told_by_ours():
    with pytest.raises(InputError, match=r"model\.vocabulary is not a known key - did you mean 'vocab_size'"):
        load({"model": {"same_as": "llama-3-8b", "vocabulary": 32000}, "cluster": "1x h100-sxm-80gb"})
