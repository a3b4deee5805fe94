"""Other names of frameworks and engines, and the attention of old ones."""

import pytest

from sightline import load

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
