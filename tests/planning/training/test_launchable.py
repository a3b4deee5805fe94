"""What a search calls launchable is what is written, and nothing else."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.launching import write
from sightline.launching.registry import WRITERS
from sightline.planning.search import plan

DENSE = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 640,
    "vocab_size": 1024,
}
EXPERTS = {**DENSE, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
FIELDS = {
    "tensor_parallel": [1, 2, {"any": [1, 2, 4]}],
    "zero_stage": [0, 1, 2, 3],
    "recompute": ["selective", "full", {"modules": "full", "layers": 1}, {"modules": "full", "every": 2}],
    "tensor_overlap": ["none", "all"],
    "optimizer": ["adamw", "adamw-8bit", "muon", "sgd"],
    "dtype": ["bf16", "fp16", "fp8"],
    "compile": [True, False],
    "gradient_reduce_dtype": ["fp32", "bf16"],
    "overlap_gradient_reduce": [True, False],
    "overlap_parameter_gather": [True, False],
    "data_parallel_shard": [1, 2],
    "expert_tensor_parallel": [1, 2],
    "bf16_layers": [0, 2],
    "adapter": ["none", "lora", "qlora"],
}


@st.composite
def questions(draw, framework):
    """A scenario of a framework, with some fields of the plan fixed and the others free."""
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=3, unique=True))
    adapted = "adapter" in names or framework == "torchtune"
    return {
        "model": draw(st.sampled_from([DENSE, EXPERTS, "qwen3-0.6b", "gpt-oss-20b"])),
        "cluster": draw(st.sampled_from(["1x h100-sxm-80gb", "8x h100-sxm-80gb", "12x h100-sxm-80gb"])),
        "workload": {"task": "finetune" if adapted else "pretrain", "sequence_length": 64, "global_batch": 24},
        "plan": {"framework": framework} | {name: draw(st.sampled_from(FIELDS[name])) for name in names},
    }


def refusals(one):
    """What stands in the way of a plan's launch, as its writer says."""
    try:
        write(one.profile.scenario)
    except InputError as error:
        return tuple(error.problems)
    return ()


def found(question, **options):
    """The answer to a question; None where its own rules refuse it."""
    try:
        return plan(question, top=6, **options)
    except InputError:
        return None


@pytest.mark.parametrize("framework", WRITERS)
@given(data=st.data())
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_launchable_plans_are_written_and_others_are_refused_with_the_same_words(framework, data):
    question = data.draw(questions(framework))
    objective = data.draw(st.sampled_from(["time", "memory", "energy"]))
    launchable, free = (found(question, launchable=is_set, objective=objective) for is_set in (True, False))
    assume(launchable is not None or free is not None)
    for one in () if launchable is None else launchable.plans:
        assert refusals(one) == ()
        assert one.launchable
    for one in () if free is None else free.plans:
        assert refusals(one) == tuple(one.obstacles)
        assert one.launchable == (not one.obstacles)


def both(framework):
    """The answers to a small question with launchable plans alone, and with all."""
    tunes = framework == "torchtune"
    model, task = ("qwen3-0.6b", "finetune") if tunes else (DENSE, "pretrain")
    question = {"model": model, "cluster": "4x h100-sxm-80gb", "plan": {"framework": framework}}
    question["workload"] = {"task": task, "sequence_length": 64, "global_batch": 24}
    return plan(question, top=1), plan(question, launchable=False, top=1)


@pytest.mark.parametrize("framework", WRITERS)
def test_every_launched_framework_has_launchable_plans(framework):
    launchable, free = both(framework)
    assert launchable.plans
    assert launchable.evaluated < free.evaluated
    # A rule of the launch counts what it leaves out.
    if framework == "deepspeed":
        assert launchable.rejected["script_degrees"]
        assert "script_degrees" not in free.rejected


def test_a_framework_without_a_launch_has_what_it_offers():
    first = both("megatron-deepspeed")[0].plans[0]
    assert not first.launchable
    assert [sentence for sentence in first.obstacles if "megatron-deepspeed" in sentence] == list(first.obstacles)


def test_unlike_devices_are_not_launched_together():
    devices = ["4x a100-sxm-80gb", "4x h100-sxm-80gb"]
    stated = {"framework": "megatron", "offload": "none", "recompute": "none", "micro_batch": 1}
    question = {"model": DENSE, "cluster": {"devices": devices}, "plan": stated}
    question["workload"] = {"task": "pretrain", "sequence_length": 64, "global_batch": 24}
    alone = plan(question)
    assert alone.plans
    assert not any(one.profile.scenario.cluster.groups for one in alone.plans)
    assert any("--all" in said for said in alone.warnings)
    mixed = [one for one in plan(question, top=50, launchable=False).plans if one.profile.scenario.cluster.groups]
    assert mixed
    assert all(not one.launchable and refusals(one) for one in mixed)
