"""What no simulation follows is refused by name."""

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.simulation.deployment import check_plan

TIERS = [{"bytes": "100 GB", "bandwidth": "25 GB/s"}]


def _scenario(model="llama-2-7b", cluster="4x a100-sxm-80gb", **plan):
    return sl.load(
        {
            "model": model,
            "cluster": cluster,
            "workload": {"task": "serve", "requests": {"count": 10, "prompt_tokens": 100, "output_tokens": 10}},
            "plan": {"framework": "vllm", **plan},
        }
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            {"framework": "lightllm", "speculative": {"tokens": 3, "acceptance": 0.7}},
            "plan.speculative is not supported",
        ),
        ({"kv_tiers": TIERS, "prefix_cache": False}, "plan.kv_tiers requires plan.prefix_cache true"),
        ({"kv_tiers": TIERS, "framework": "tgi"}, "plan.kv_tiers is not supported for tgi"),
        ({"kv_tiers": TIERS, "framework_version": "0.6"}, "plan.kv_tiers is not supported for vllm 0.6"),
        (
            {"kv_tiers": TIERS, "disaggregate": {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}},
            "plan.kv_tiers cannot be combined with plan.disaggregate",
        ),
        ({"lora_adapters": {"count": 4, "loaded": 2}}, "plan.lora_adapters.loaded is 2"),
        ({"autoscale": {"min": 1, "max": 8, "startup": 30}}, "plan.autoscale.max is 8; allowed: up to plan.replicas 4"),
        (
            {
                "autoscale": {"min": 1, "max": 2, "startup": 30},
                "disaggregate": {"prefill": {"replicas": 2}, "decode": {"replicas": 2}},
            },
            "plan.autoscale is not supported with plan.disaggregate",
        ),
        ({"framework_version": "0.2", "prefix_cache": True}, "plan.prefix_cache is true; supported for vllm 0.2"),
        ({"framework_version": "0.6", "chunked_prefill": True}, "plan.chunked_prefill is true"),
        ({"framework": "sglang", "chunked_prefill": False}, "plan.chunked_prefill is false"),
        ({"framework": "fastertransformer", "max_batched_tokens": 512}, "plan.max_batched_tokens is 512"),
    ],
)
def test_a_plan_is_not_followed_in_part(plan, said):
    with pytest.raises(InputError, match=said) as refused:
        check_plan(_scenario(**plan))
    assert len(refused.value.problems) == 1


def test_every_key_is_named_at_once():
    with pytest.raises(InputError) as refused:
        check_plan(_scenario(kv_tiers=TIERS, prefix_cache=False, autoscale={"min": 1, "max": 8, "startup": 30}))
    assert len(refused.value.problems) == 2


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "lightllm", "transformers", "tensorrt-llm"])
def test_what_engines_do_by_default_is_simulated(engine):
    check_plan(_scenario(framework=engine, cluster="1x a100-sxm-80gb"))
