"""Other names of frameworks and engines, and the attention of old ones."""

import pytest

from sightline import InputError, load

REST = {
    "model": "llama-2-7b",
    "cluster": "1x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
}
GENERATE = {"task": "generate", "batch": 1, "prompt_tokens": 64, "output_tokens": 8}


@pytest.mark.parametrize(
    ("asked", "name"), [("hf", "transformers"), ("HuggingFace", "transformers"), ("megatron-core", "megatron")]
)
def test_a_framework_by_another_name(asked: str, name: str) -> None:
    assert load({**REST, "plan": {"framework": asked}}).plan.framework.name == name


@pytest.mark.parametrize(("asked", "name"), [("huggingface", "transformers"), ("trt-llm", "tensorrt-llm")])
def test_an_engine_by_another_name(asked: str, name: str) -> None:
    assert load({**REST, "workload": GENERATE, "plan": {"framework": asked}}).plan.engine.name == name


def test_old_releases_have_eager_attention_unless_the_plan_needs_a_fused_kernel() -> None:
    plan = {"framework": "megatron", "framework_version": "2022-03"}
    assert load({**REST, "plan": plan}).plan.attention == "eager"
    assert load({**REST, "plan": {**plan, "attention_kernel": "flash-1"}}).plan.attention == "flash"
    split = {**REST, "cluster": "2x a100-sxm-80gb", "plan": {**plan, "context_parallel": 2}}
    assert load(split).plan.attention == "flash"


def test_a_short_name_of_a_device_is_read_with_a_remark() -> None:
    scenario = load({**REST, "cluster": "8x H100"})
    assert scenario.cluster.device.name == "h100-sxm-80gb"
    assert any(said.startswith("H100 is read as h100-sxm-80gb") for said in scenario.warnings)
    for cluster in ({"devices": "8x h100"}, {"devices": 8, "device": "h100"}):
        assert any("is read as h100-sxm-80gb" in said for said in load({**REST, "cluster": cluster}).warnings)
    assert not [said for said in load({**REST, "cluster": "1x 4090"}).warnings if "read as" in said]


def test_a_device_that_may_be_several_is_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match=r"'a100'.* did you mean 'a100-sxm-40gb', 'a100-sxm-80gb'"):
        load({**REST, "cluster": "8x a100"})


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("15T", 15e12),
        ("300B", 300e9),
        ("300 B tokens", 300e9),
        ("2.5M", 2.5e6),
        ("4k", 4000),
        ("1b", 1e9),
        (2e12, 2e12),
    ],
)
def test_amounts_of_tokens_are_read_as_papers_write_them(written: object, amount: float) -> None:
    scenario = load({**REST, "workload": {**REST["workload"], "total_tokens": written}})
    assert scenario.workload.total_tokens == amount
    assert not [said for said in scenario.warnings if "read as" in said]


@pytest.mark.parametrize(("written", "length"), [("4k", 4096), ("2.5K", 2560), ("128k tokens", 131072), ("1M", 2**20)])
def test_a_thousand_tokens_of_a_length_are_1024(written: str, length: int) -> None:
    scenario = load({**REST, "workload": {**REST["workload"], "sequence_length": written}})
    assert scenario.workload.sequence_length == length
    assert any(f"is read as {length:,} tokens" in said for said in scenario.warnings)
    asked = load({**REST, "workload": {**GENERATE, "prompt_tokens": written}})
    assert asked.workload.prompt_tokens == length
    assert any(said.startswith(f"workload.prompt_tokens {written} is read") for said in asked.warnings)


@pytest.mark.parametrize("written", ["0.3k", "k", "4kB", "-4k", "4 k k"])
def test_other_lengths_are_refused(written: str) -> None:
    with pytest.raises(InputError, match=r"workload\.sequence_length is "):
        load({**REST, "workload": {**REST["workload"], "sequence_length": written}})


def test_where_thousands_are_ambiguous_the_sentence_says_so() -> None:
    with pytest.raises(InputError, match="global_batch is '1k'"):
        load({**REST, "workload": {**REST["workload"], "global_batch": "1k"}})
