"""What is refused of a scenario of generation, or answered with a remark, though every value alone is right."""

import pytest
from generation_scenarios import generation

from sightline.errors import InputError


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"quantization": ["kv-fp8", "kv-int8"]}, "plan.quantization lists kv-fp8, kv-int8"),
        ({"quantization": ["fp8", "w8a8"]}, "plan.quantization lists fp8, w8a8"),
        ({"quantization": ["router-tf32", "router-tf32"]}, "plan.quantization lists router-tf32, router-tf32"),
        ({"quantization": ["fp8", "fp8"]}, "plan.quantization lists fp8, fp8"),
        ({"quantization": ["fp8", "router-tf32"]}, "llama-2-7b has no router"),
        ({"quantization": "mxfp4"}, "plan.quantization is 'mxfp4'"),
        ({"compile": True}, "plan.compile is true"),
        ({"sequence_parallel": True}, "plan.sequence_parallel is true"),
        ({"zero_stage": 1}, "plan.zero_stage is 1"),
        ({"expert_parallel": 2}, "plan.expert_parallel is 2"),
        (
            {"tensor_parallel": 1, "replicas": 2},
            "plan.pipeline_parallel 1 x plan.data_parallel 1 x plan.replicas 2 is 2",
        ),
        ({"dtype": "nvfp4"}, "plan.dtype is 'nvfp4'"),
        ({"expert_tensor_parallel": 2}, "plan.expert_tensor_parallel is 2"),
        ({"max_sequences": 2}, "workload.batch is 8"),
        (
            {"disaggregate": {"prefill": {"tensor_parallel": 4}, "decode": {}}},
            "uses 4 devices for prefill and 1 for decode, 5 in total",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(plan, said):
    with pytest.raises(InputError) as refused:
        generation(batch=8, plan=plan)
    assert any(said in problem for problem in refused.value.problems), refused.value.problems


@pytest.mark.parametrize(
    ("data_parallel", "expert_parallel", "said"),
    [
        (1, 3, "plan.expert_parallel is 3"),
        (2, 16, "plan.expert_parallel is 16"),
    ],
)
def test_experts_that_do_not_fill_the_ranks_are_refused(data_parallel, expert_parallel, said):
    degrees = {"tensor_parallel": 8, "data_parallel": data_parallel, "expert_parallel": expert_parallel}
    with pytest.raises(InputError) as refused:
        generation(model="mixtral-8x7b", cluster=f"{8 * data_parallel}x h100-sxm-80gb", plan=degrees)
    (problem,) = refused.value.problems
    assert problem.startswith(said)


def test_the_last_token_of_a_prompt_is_not_in_the_prefix():
    assert generation(prompt_tokens=512, prefix_tokens=511, plan={"prefix_cache": True})
    with pytest.raises(InputError, match="prefix_tokens is 512"):
        generation(prompt_tokens=512, prefix_tokens=512, plan={"prefix_cache": True})


@pytest.mark.parametrize(
    "plan",
    [
        {"quantization": ["fp8", "kv-fp8"]},
        {"compile": False, "sequence_parallel": False, "zero_stage": 0, "offload": ["none"]},
        {"expert_tensor_parallel": 1, "max_sequences": 8},
    ],
)
def test_what_says_nothing_or_fits_is_taken(plan):
    assert generation(cluster="1x h100-sxm-80gb", batch=8, plan=plan).warnings == ()


def test_a_prefix_without_a_cache_is_remarked_on():
    assert generation(prefix_tokens=128, plan={"prefix_cache": True}).warnings == ()
    (said,) = generation(prefix_tokens=128, plan={"prefix_cache": False}).warnings
    assert "workload.prefix_tokens 128" in said
    assert "plan.prefix_cache" in said


def test_drafts_from_elsewhere_are_remarked_on():
    plan = {"speculative": {"tokens": 3, "acceptance": 0.7}}
    assert "plan.speculative" in generation(plan=plan).warnings[0]
    assert generation(model="deepseek-v3", cluster="8x h200-sxm-141gb", plan=plan).warnings == ()


def test_a_name_that_promises_narrow_weights_is_remarked_on():
    mapping = {"same_as": "llama-3.1-8b", "name": "Llama-3.1-8B-NVFP4"}
    (said,) = generation(model=mapping, cluster="1x b200-sxm-180gb").warnings
    assert said.startswith("Llama-3.1-8B-NVFP4 has nvfp4 in its name")
    assert generation(model=mapping, cluster="1x b200-sxm-180gb", plan={"quantization": "nvfp4"}).warnings == ()
