import json
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import load, scenario_from_mapping, to_mapping
from sightline.scenario import Adapter, Plan, Scenario
from sightline.scenario.rules.techniques import briefly
from sightline.scenario.techniques import Recomputation


def mapping(task: str = "finetune", model: Any = "llama-2-7b", **plan: Any) -> dict[str, Any]:
    workload = {"task": task, "sequence_length": 350, "global_batch": 8}
    plan = {"framework": "reference", "micro_batch": 1, **plan}
    return {"model": model, "cluster": "8x a800-sxm-80gb", "workload": workload, "plan": plan}


def plan_of(task: str = "finetune", **plan: Any) -> Plan:
    return scenario_from_mapping(mapping(task, **plan)).plan


def problems(task: str = "finetune", **plan: Any) -> str:
    with pytest.raises(InputError) as caught:
        scenario_from_mapping(mapping(task, **plan))
    return "\n".join(caught.value.problems)


def test_nothing_stated_is_nothing_used() -> None:
    plan = plan_of()
    assert (plan.offload, plan.quantization, plan.adapter, plan.compile) == (frozenset(), "none", None, False)
    neutral = plan_of(offload="none", quantization=["none"], adapter={"kind": "none"}, compile=False)
    assert neutral.to_dict() == plan.to_dict()


def test_offload_takes_a_word_or_a_list() -> None:
    assert plan_of(offload="optimizer").offload == {"optimizer"}
    assert plan_of(offload=["parameters", "optimizer"], zero_stage=3).offload == {"optimizer", "parameters"}


def test_adapters() -> None:
    assert plan_of(adapter="lora").adapter == Adapter()
    stated = {"kind": "lora", "rank": 8, "targets": ["q_proj", "v_proj"], "also_trained": "embedding", "dropout": 0.05}
    read = plan_of(adapter=stated).adapter
    assert read == Adapter(rank=8, targets=("query", "value"), also_trained=("embedding",), dropout=0.05)


def test_qlora_means_nf4_unless_another_format_is_stated() -> None:
    assert plan_of(adapter={"kind": "qlora"}).quantization == "nf4"
    assert plan_of(adapter={"kind": "qlora"}, quantization="w4a16").quantization == "int4"


def test_all_linear_is_every_projection_there_is() -> None:
    assert "gate" in Adapter().projections(gated=True)
    assert Adapter().projections(gated=False) == ("query", "key", "value", "output", "up", "down")


PLANS: list[dict[str, Any]] = [
    {"offload": ["optimizer", "activations"]},
    {"quantization": "nf4-single"},
    {"quantization": "int4", "adapter": "lora", "framework": "fsdp", "zero_stage": 3},
    {"adapter": {"kind": "lora", "rank": 4, "targets": ["qkv", "output"], "also_trained": ["head"]}},
    {"adapter": "qlora", "compile": True},
]


@pytest.mark.parametrize("plan", PLANS)
def test_a_written_scenario_loads_as_the_same(plan: dict[str, Any]) -> None:
    scenario = scenario_from_mapping(mapping(**plan))
    loaded = load(json.dumps(to_mapping(scenario)))
    assert isinstance(loaded, Scenario)
    assert loaded.plan.to_dict() == scenario.plan.to_dict()
    assert (loaded.plan.adapter, loaded.plan.offload) == (scenario.plan.adapter, scenario.plan.offload)


def test_adapters_can_be_swept() -> None:
    ranks = [
        s.plan.adapter.rank for s in load(mapping(adapter="lora"), sweeps=["plan.adapter={kind: lora, rank: 4},qlora"])
    ]
    assert ranks == [4, 64]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"offload": "optimiser"}, "plan.offload is 'optimiser'; allowed: none, optimizer, parameters, activations"),
        ({"offload": ["optimizer", 3]}, "plan.offload is 3; allowed: none, optimizer"),
        (
            {"offload": "parameters"},
            "plan.zero_stage is 0",
        ),
        ({"quantization": "nf5"}, "did you mean 'nf4'?"),
        ({"quantization": ["nf4", "int8"]}, "plan.quantization is ['nf4', 'int8']"),
        ({"quantization": "fp8"}, "plan.quantization is 'fp8'; allowed: none, nf4"),
        ({"dtype": "fp8"}, "plan.dtype is 'fp8'"),
        (
            {"fp8_recipe": "current"},
            "plan.fp8_recipe is current with plan.dtype bf16",
        ),
        ({"dtype": "fp8", "fp8_recipe": "curent"}, "did you mean 'current'?"),
        ({"bf16_layers": 2}, "plan.bf16_layers is 2 with plan.dtype bf16"),
        ({"narrow_head": True}, "plan.narrow_head is true with plan.dtype bf16"),
        (
            {"narrow_head": True, "dtype": "mxfp8", "framework": "torchtitan"},
            "plan.narrow_head is true",
        ),
        ({"dtype": "nvfp4", "bf16_layers": 99}, "plan.bf16_layers is 99"),
        ({"dtype": "fp8", "quantization": "nf4"}, "plan.quantization is nf4 with plan.dtype fp8; allowed: none"),
        ({"dtype": "mxfp8", "framework": "deepspeed"}, "(it is offered by: megatron, reference, torchtitan)"),
        ({"compile": "yes"}, "plan.compile is 'yes'; allowed: true, false"),
        ({"adapter": 3}, "plan.adapter is 3"),
        ({"adapter": {"rank": 8}}, "plan.adapter.kind is missing; needed: lora, qlora"),
        ({"adapter": {"kind": "dora"}}, "plan.adapter.kind is 'dora'; allowed: lora, qlora, none"),
        ({"adapter": {"kind": "lora", "rank": 0}}, "plan.adapter.rank is 0"),
        ({"adapter": {"kind": "lora", "ranks": 8}}, "plan.adapter.ranks is not a known key"),
        ({"adapter": {"kind": "lora", "targets": ["quary"]}}, "did you mean 'query'?"),
        ({"adapter": {"kind": "lora", "targets": []}}, "plan.adapter.targets is none; allowed: all-linear"),
        ({"adapter": {"kind": "lora", "targets": ["qkv", "key"]}}, "names qkv together with query, key or value"),
        ({"adapter": {"kind": "lora", "also_trained": "norms"}}, "allowed: none, embedding, head"),
        ({"adapter": {"kind": "lora", "upcast": True}}, "plan.adapter.upcast is true with plan.quantization none"),
        ({"adapter": "qlora", "quantization": "none"}, "plan.quantization is none with plan.adapter.kind qlora"),
        ({"adapter": "lora", "framework": "torchtitan"}, "(it is offered by: deepspeed, fsdp, litgpt"),
        ({"offload": "optimizer", "framework": "deepspeed", "zero_stage": 0}, "needs plan.zero_stage 1, 2, 3"),
        ({"offload": "optimizer", "framework": "fsdp"}, "plan.offload optimizer of fsdp needs plan.offload parameters"),
        ({"data_parallel_shard": 3}, "plan.data_parallel_shard is 3"),
        ({"data_parallel_shard": 4}, "with plan.zero_stage 0"),
        ({"data_parallel_shard": 4, "framework": "litgpt"}, "litgpt offers none (it is offered by: deepspeed, fsdp"),
        ({"tensor_overlap": "all", "framework": "fsdp"}, "plan.tensor_overlap is 'all'"),
        ({"optimizer": "muon", "framework": "fsdp"}, "(it is offered by: deepspeed, maxtext, megatron, reference)"),
        ({"optimizer": "muon", "offload": "optimizer"}, "plan.offload is optimizer with plan.optimizer muon"),
        ({"optimizer": "muon", "adapter": "lora"}, "plan.optimizer is muon with plan.adapter lora"),
        (
            {"quantization": "int4", "framework": "litgpt"},
            "litgpt offers none, nf4, nf4-single, int8 (it is offered by: deepspeed",
        ),
    ],
)
def test_mistakes(plan: dict[str, Any], said: str) -> None:
    assert said in problems(**plan)


def test_adapters_do_not_pretrain() -> None:
    assert "plan.adapter is lora with workload.task pretrain" in problems("pretrain", adapter="lora")


def test_a_gate_needs_a_gated_mlp() -> None:
    with pytest.raises(InputError, match=r"names gate; bloom-7b1 has no gated MLP"):
        scenario_from_mapping(mapping(model="bloom-7b1", adapter={"kind": "lora", "targets": ["gate"]}))


@pytest.mark.parametrize(
    ("model", "targets", "said"),
    [
        ("mixtral-8x7b", ["query", "up"], "which has up"),
        (
            "deepseek-v2-lite",
            ["query"],
            "plan.adapter is lora",
        ),
    ],
)
def test_adapters_are_not_predicted_next_to_every_layer(model: str, targets: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        scenario_from_mapping(mapping(model=model, adapter={"kind": "lora", "targets": targets}))


def test_a_copy_of_the_states_may_be_shared_by_fewer_replicas_than_there_are():
    plan = plan_of(data_parallel_shard=1, zero_stage=1)
    assert plan.data_parallel_shard == 1
    assert plan_of().data_parallel_shard is None


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ("none", "none"),
        ([], "none"),
        ("full", "full"),
        (["full"], "full"),
        ({"modules": "full"}, "full"),
        ({}, "full"),
        ("mlp", Recomputation(modules=frozenset({"mlp"}))),
        (["mlp", "core_attention", "mlp"], Recomputation(modules=frozenset({"mlp", "core_attention"}))),
        ({"layers": 4}, Recomputation(layers=4)),
        ({"modules": ["layernorm"], "every": 2}, Recomputation(modules=frozenset({"layernorm"}), every=2)),
    ],
)
def test_recomputation_is_a_word_a_list_or_a_mapping(stated, kept):
    scenario = scenario_from_mapping(mapping(recompute=stated))
    assert scenario.plan.recompute == kept
    assert scenario_from_mapping(json.loads(json.dumps(to_mapping(scenario)))).plan.recompute == kept


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            {"recompute": ["full", "mlp"]},
            "plan.recompute combines full with modules",
        ),
        ({"recompute": {"modules": "selective", "layers": 2}}, "plan.recompute.modules is selective with layers"),
        ({"recompute": {"modules": "mlp", "together": 2}}, "plan.recompute.together is 2 with modules"),
        ({"recompute": {"layer": 2}}, "plan.recompute.layer is not a known key"),
        ({"recompute": "core_atention"}, "did you mean 'core_attention'?"),
        ({"recompute": "moe"}, "plan.recompute names moe; llama-2-7b has no experts"),
        ({"recompute": "latent_up"}, "llama-2-7b has no latent attention"),
        (
            {"recompute": "mlp", "framework": "fsdp"},
            "plan.recompute is 'mlp'",
        ),
        ({"recompute": {"layers": 2}, "framework": "fsdp"}, "plan.recompute is 'layers'"),
        ({"recompute": "per_op", "attention": "eager"}, "per_op with plan.attention eager"),
    ],
)
def test_recomputation_that_makes_no_sense(plan, said):
    assert said in problems(**plan)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            {"pipeline_parallel": 8},
            "plan.schedule is dualpipe with 8 micro-batches",
        ),
        ({"pipeline_parallel": 1}, "plan.pipeline_parallel is 1 with plan.schedule dualpipe"),
        (
            {"pipeline_parallel": 2, "framework": "megatron"},
            "megatron offers gpipe, 1f1b, interleaved (it is offered by:",
        ),
        ({"pipeline_parallel": 2, "virtual_stages": 2}, "plan.schedule is 'dualpipe' with plan.virtual_stages 2"),
    ],
)
def test_a_pipeline_is_fed_from_both_ends_only_where_it_can_be(plan, said):
    assert said in problems("pretrain", schedule="dualpipe", **plan)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"framework": "deepspeed", "schedule": "dualpipe"}, "plan.schedule is 'dualpipe'"),
        ({"framework": "fsdp", "optimizer": "muon"}, "plan.optimizer is 'muon'"),
        ({"virtual_stages": 2}, "(pipeline_parallel is 1)"),
    ],
)
def test_in_brief_only_those_that_offer_it_elsewhere_are_left_out(plan: dict[str, Any], said: str) -> None:
    sentence = problems("pretrain", **plan)
    assert said in briefly(sentence)
    assert "offered by" not in briefly(sentence)
    assert ("offered by" in sentence) == (briefly(sentence) != sentence)
