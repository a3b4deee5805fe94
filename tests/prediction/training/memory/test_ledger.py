"""The memory ledger against sums that anyone can do on paper."""

from dataclasses import replace

import numpy as np
import pytest
from training_scenarios import training

from sightline.loading import scenario_from_mapping
from sightline.prediction import predict
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import Profile, StageMemory

GIB = 2**30
SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 160,
    "vocab_size": 320,
}
PLAIN = {"cluster": "1x a100-sxm-80gb", "workload": {"task": "pretrain", "sequence_length": 32, "global_batch": 2}}


def ledger(model: str = "llama-2-7b", devices: int = 8, batch: int = 8, **plan: object) -> Profile:
    scenario = training(
        model=model, cluster=f"{devices}x a100-sxm-80gb", global_batch=batch, plan={"micro_batch": 1, **plan}
    )
    return profile_of(scenario)


def stages(profile: Profile) -> dict[str, StageMemory]:
    return {stage.stage: stage for stage in profile.stages}


@pytest.mark.parametrize(
    ("zero_stage", "weights", "gradients", "optimizer"),
    [(0, 2, 2, 12), (1, 2, 2, 12 / 8), (2, 2, 2 / 8, 12 / 8), (3, 2 / 8, 2 / 8, 12 / 8)],
)
def test_model_states_take_the_bytes_per_parameter_of_zero(zero_stage, weights, gradients, optimizer):
    profile = ledger(zero_stage=zero_stage)
    parameters = profile.scenario.model.parameters
    for part, per_parameter in (("weights", weights), ("gradients", gradients), ("optimizer", optimizer)):
        assert profile.memory_bytes[part] == pytest.approx(per_parameter * parameters, rel=1e-12)


def test_megatron_keeps_main_gradients_in_fp32():
    profile = ledger(devices=1, framework="megatron")
    parameters = 2 * 32000 * 4096 + 32 * profile.scenario.model.parameters_of(profile.scenario.model.kinds[0]) + 4096
    assert profile.memory_bytes["gradients"] == pytest.approx(4 * parameters, rel=1e-3)


@pytest.mark.parametrize(("device", "dtype"), [("a100-sxm-80gb", "bf16"), ("h100-sxm-80gb", "fp8")])
def test_megatron_core_keeps_gradients_in_the_type_that_replicas_reduce(device, dtype):
    plan = {"framework": "megatron", "dtype": dtype, "micro_batch": 1}
    wide, narrow = (
        predict(
            training(model="llama-2-7b", cluster=f"8x {device}", global_batch=8, plan={**plan, **reduced})
        ).memory_bytes
        for reduced in ({"gradient_reduce_dtype": "fp32"}, {"gradient_reduce_dtype": "bf16"})
    )
    assert narrow["gradients"] == 0.5 * wide["gradients"]
    assert narrow["total"] < wide["total"]


@pytest.mark.parametrize(("tensor_parallel", "bytes_per_logit"), [(1, 16), (4, 20)])
def test_scaling_has_the_loss_of_the_whole_vocabulary_on_every_tensor_parallel_rank(tensor_parallel, bytes_per_logit):
    profile = ledger(framework="scaling", tensor_parallel=tensor_parallel, recompute="full")
    logits = stages(profile)["first"].items["logits and loss"]
    assert logits == bytes_per_logit * profile.scenario.workload.sequence_length * 32000


def test_zero_3_holds_the_layers_at_work_in_full():
    model = ledger().scenario.model
    gathered = stages(ledger(zero_stage=3))["first"].items["gathered parameters"]
    ends = model.embedding_parameters + model.head_parameters
    assert gathered == 2 * (2 * model.parameters_of(model.kinds[0]) + ends)
    assert stages(ledger(zero_stage=3, dtype="fp32"))["first"].items["gathered parameters"] == 2 * gathered
    assert stages(ledger(zero_stage=2))["first"].items["gathered parameters"] == 0


def test_zero_3_never_gathers_more_than_there_is():
    small = ledger("gpt-125m", zero_stage=3, pipeline_parallel=4, devices=8)
    for stage in small.stages:
        assert stage.items["gathered parameters"] <= 8 / 2 * stage.parts["weights"]


def test_tensor_parallelism_splits_all_but_the_norms():
    whole, split = (ledger(devices=8, tensor_parallel=t, batch=8) for t in (1, 8))
    model = whole.scenario.model
    norms = (2 * model.layers + 1) * model.norm_parameters
    assert split.memory_bytes["weights"] == pytest.approx(2 * ((model.parameters - norms) / 8 + norms), rel=1e-12)


def test_pipeline_stages_hold_the_whole_model_together():
    profile = ledger(pipeline_parallel=4, devices=4, batch=16)
    parts, model = stages(profile), profile.scenario.model
    both_middles = (
        parts["first"].parts["weights"] + 2 * parts["middle"].parts["weights"] + parts["last"].parts["weights"]
    )
    assert both_middles == pytest.approx(2 * model.parameters, rel=1e-12)


def test_a_tied_head_on_another_stage_needs_its_own_copy():
    profile = ledger("gpt-125m", pipeline_parallel=2, devices=2)
    model, parts = profile.scenario.model, stages(profile)
    assert model.tied_embeddings
    together = sum(stage.parts["weights"] for stage in parts.values()) / 2
    assert together == pytest.approx(model.parameters + model.embedding_parameters, rel=0.01)
    assert together > model.parameters + model.vocab_size * model.hidden_size


@pytest.mark.parametrize(("schedule", "first", "last"), [("1f1b", 4, 1), ("gpipe", 16, 16)])
def test_stages_hold_the_micro_batches_in_flight(schedule, first, last):
    profile = ledger(pipeline_parallel=4, devices=4, batch=16, schedule=schedule)
    one = stages(ledger(pipeline_parallel=4, devices=4, batch=1))
    held = {name: stage.items["layer activations"] for name, stage in stages(profile).items()}
    assert held["first"] == pytest.approx(first * one["first"].items["layer activations"], rel=1e-12)
    assert held["last"] == pytest.approx(last * one["last"].items["layer activations"], rel=1e-12)


def test_interleaving_holds_a_part_more():
    plain, interleaved = (
        stages(ledger(pipeline_parallel=4, devices=4, batch=16, virtual_stages=v))["first"] for v in (1, 2)
    )
    ratio = interleaved.items["layer activations"] / plain.items["layer activations"]
    assert ratio == pytest.approx(1 + 3 / (4 * 2), rel=1e-12)


def test_logits_and_a_recomputed_layer_are_never_there_together():
    full = stages(ledger(recompute="full", devices=1))["first"]
    kept = full.items["layer activations"] + full.items["embedding and head activations"]
    working = max(full.items["logits and loss"], full.items["recomputation working set"])
    assert full.parts["activations"] == pytest.approx(kept + working, rel=1e-12)
    assert full.items["logits and loss"] == 2048 * 32000 * full_loss_bytes()


def test_a_compiled_loss_holds_logits_and_their_gradient():
    whole, layers = (
        ledger(framework="torchtitan", compile=True),
        ledger(framework="torchtitan", framework_version="2024", compile=True),
    )
    logits = 2048 * 32000
    assert stages(whole)["first"].items["logits and loss"] == logits * 4
    assert (
        stages(layers)["first"].items["logits and loss"]
        == logits * layers.scenario.plan.framework.memory.loss_bytes_per_logit
    )
    assert layers.phases["forward"] > whole.phases["forward"]


def full_loss_bytes() -> float:
    return ledger().scenario.plan.framework.memory.loss_bytes_per_logit


def test_the_fullest_stage_is_the_answer():
    profile = ledger("gpt-3-175b", tensor_parallel=8, pipeline_parallel=8, devices=64, batch=64, framework="megatron")
    totals = {name: stage.total for name, stage in stages(profile).items()}
    assert profile.memory_bytes["total"] == max(totals.values()) == totals["first"]
    for part, size in profile.memory_bytes.items():
        if part != "total":
            assert size == stages(profile)["first"].parts[part]


def test_only_replicas_need_communication_buckets():
    one, many = (ledger(devices=d).memory_bytes["buffers"] for d in (1, 8))
    assert many - one == pytest.approx(ledger().scenario.plan.framework.memory.communication_buffer_bytes)


def test_a_stage_that_holds_only_an_end_is_listed():
    # 12 layers on 14 stages: the first holds the embedding alone, the last the head alone.
    profile = ledger("gpt-125m", devices=14, pipeline_parallel=14, batch=14)
    assert set(stages(profile)) == {"first", "middle", "last"}
    assert stages(profile)["first"].items["layer activations"] == 0
    assert stages(profile)["first"].parts["weights"] > 0


def test_published_states_of_gpt_3():
    # 18 bytes per parameter over all devices (arXiv 2205.05198, section 5, without optimizer sharding).
    profile = ledger("gpt-3-175b", tensor_parallel=8, pipeline_parallel=8, devices=64, batch=64, framework="megatron")
    states = [profile.memory_bytes[p] for p in ("weights", "gradients", "optimizer")]
    assert sum(states) / GIB == pytest.approx(18 * 175e9 / 64 / GIB, rel=0.04)


def test_a_processor_holds_libraries_and_no_driver_and_offloads_to_itself() -> None:
    mapping = {
        "model": {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        | {"num_key_value_heads": 4, "intermediate_size": 160, "vocab_size": 320},
        "cluster": "2x this-machine",
        "workload": {"task": "pretrain", "sequence_length": 32, "global_batch": 4},
        "plan": {"framework": "deepspeed", "zero_stage": 2, "data_parallel": 2, "micro_batch": 1, "dtype": "fp32"},
    }
    kept = predict(scenario_from_mapping(mapping))
    assert 1e8 < kept.memory_bytes["framework"] < 1e9
    assert kept.memory_bytes["buffers"] < 1e6
    moved = predict(scenario_from_mapping({**mapping, "plan": {**mapping["plan"], "offload": "optimizer"}}))
    assert moved.memory_bytes == kept.memory_bytes
    assert moved.step_time_s == kept.step_time_s
    assert [w for w in moved.warnings if "plan.offload has no effect on a CPU" in w]
    assert not [w for w in kept.warnings if "offload" in w]


def test_units_that_reduce_once_per_step_keep_whole_gradients():
    stage_2, stage_3 = (ledger(framework="torchtitan", zero_stage=stage) for stage in (2, 3))
    assert stage_2.memory_bytes["gradients"] == pytest.approx(8 * stage_3.memory_bytes["gradients"])
    fsdp = ledger(framework="fsdp", zero_stage=2)
    assert fsdp.memory_bytes["gradients"] == pytest.approx(stage_3.memory_bytes["gradients"])


def test_the_parts_are_those_of_the_fullest_moment_and_it_is_named():
    for plan in ({}, {"recompute": "full"}, {"zero_stage": 3}, {"framework": "galvatron", "zero_stage": 3}):
        profile = ledger(**plan)
        stage = max(profile.stages, key=lambda one: one.total)
        assert stage.total == pytest.approx(max(stage.moments.values()), rel=1e-12)
        assert stage.moments[profile.memory_peak] == pytest.approx(stage.total, rel=1e-12)


def test_the_peak_moves_from_the_loss_to_the_layers_and_to_the_update():
    small = {"devices": 1, "batch": 1}
    assert ledger("gpt-125m", **small).memory_peak == "loss"
    assert ledger("gpt-3-175b", tensor_parallel=8, batch=1, recompute="full").memory_peak == "backward of a layer"
    short = training(
        model="qwen-1.8b",
        cluster="1x a100-sxm-80gb",
        sequence_length=256,
        global_batch=1,
        plan={"micro_batch": 1, "framework": "deepspeed", "zero_stage": 2, "recompute": "full"},
    )
    assert profile_of(short).memory_peak == "optimizer step"


@pytest.mark.parametrize(("zero_stage", "dtype", "copies"), [(0, "bf16", 2), (0, "fp16", 6), (2, "bf16", 6 / 8)])
def test_deepspeed_flattens_gradients_and_casts_them_when_it_updates(zero_stage, dtype, copies):
    profile = ledger(framework="deepspeed", zero_stage=zero_stage, dtype=dtype)
    parameters = profile.scenario.model.parameters
    assert stages(profile)["first"].items["update temporaries"] == pytest.approx(copies * parameters)


def test_deepspeed_updates_a_billion_parameters_at_a_time_under_stage_3():
    few, many = (stages(ledger(framework="deepspeed", zero_stage=3, devices=devices))["first"] for devices in (8, 4))
    assert few.items["update temporaries"] == pytest.approx(6 / 8 * ledger().scenario.model.parameters)
    assert many.items["update temporaries"] == pytest.approx(6e9)


def galvatron(layers: int = 2, batch: int = 8, **plan: object) -> StageMemory:
    scenario = training(
        model={"same_as": "llama-2-7b", "num_hidden_layers": layers},
        cluster="8x a100-sxm-80gb",
        sequence_length=4096,
        global_batch=batch,
        plan={"framework": "galvatron", "micro_batch": batch // plan.get("data_parallel", 8), **plan},
    )
    return profile_of(scenario).stages[0]


def test_gradients_that_are_freed_come_back_with_the_backward_pass():
    first, later = galvatron(), galvatron(batch=16, micro_batch=1)
    gradients = later.moments["between passes"] - later.parts["weights"] - later.parts["optimizer"]
    gradients -= later.parts["framework"] + 20.25 * 2**20
    assert later.moments["loss"] - first.moments["loss"] == pytest.approx(gradients, rel=1e-9)
    head = 32000 / (2 * 32000 + 2 * 49408.03)  # rows of 4,096; a layer has 202.4 M parameters
    layer = (later.moments["backward of a layer"] - first.moments["backward of a layer"]) / gradients
    assert layer == pytest.approx(1 - head, rel=1e-3)


def test_units_are_gathered_when_it_is_their_turn():
    wide = galvatron(data_parallel=8)
    layer, head = 202383360 * 2, 32000 * 4096 * 2
    assert wide.items["gathered parameters"] == pytest.approx(2 * layer, rel=1e-3)
    chain = 4 * 4096 * 32000 + head
    norm = 4096 * 2
    rise = wide.moments["loss"] - wide.moments["between passes"]
    kept = wide.items["layer activations"] + wide.items["embedding and head activations"]
    gradients = 4 * (202383360 * 2 + 2 * 32000 * 4096 + 4096) / 8
    assert rise == pytest.approx(kept + chain + norm - gradients, rel=1e-9)


def test_the_moments_of_many_plans_are_those_of_each():
    mesh = (1, 2, 4)
    micro = np.array(mesh)
    many = training(
        model="llama-2-7b",
        cluster="8x a100-sxm-80gb",
        global_batch=64,
        plan={"framework": "galvatron", "micro_batch": 1},
    )
    profile = profile_of(replace(many, plan=replace(many.plan, micro_batch=micro)))
    for i, one in enumerate(mesh):
        single = profile_of(replace(many, plan=replace(many.plan, micro_batch=one)))
        for part, size in single.memory_bytes.items():
            assert np.broadcast_to(profile.memory_bytes[part], (3,))[i] == pytest.approx(float(size), rel=1e-12)


def test_deepspeed_copies_fp32_weights_and_fills_a_bucket_of_gradients():
    def held(framework: str, stage: int, cluster: str = "2x this-machine", dtype: str = "fp32") -> dict[str, float]:
        scenario = scenario_from_mapping(
            {
                "model": SMALL,
                "cluster": cluster,
                "workload": {"task": "pretrain", "sequence_length": 32, "global_batch": 2},
                "plan": {"framework": framework, "zero_stage": stage, "micro_batch": 1, "dtype": dtype},
            }
        )
        return {part: float(size) for part, size in profile_of(scenario).memory_bytes.items()}

    parameters = scenario_from_mapping({**PLAIN, "model": SMALL}).model.parameters
    whole, split, plain = held("deepspeed", 0), held("deepspeed", 2), held("fsdp", 3)
    assert whole["optimizer"] == pytest.approx(8 * parameters), "no ZeRO, no copies"
    assert split["optimizer"] == pytest.approx((8 + 4) / 2 * parameters)
    assert split["gradients"] == pytest.approx(4 / 2 * parameters)
    assert split["buffers"] - whole["buffers"] == pytest.approx(4 * parameters), "less than a whole bucket"
    assert split["framework"] - plain["framework"] == 76e6
    # In bf16 the copies are the optimizer's 12 bytes already; an accelerator's bucket is among what collectives take.
    assert held("deepspeed", 2, dtype="bf16")["optimizer"] == pytest.approx(12 / 2 * parameters)
    on_gpu = [held("deepspeed", stage, "2x a100-sxm-80gb") for stage in (1, 2)]
    assert on_gpu[0]["buffers"] == pytest.approx(on_gpu[1]["buffers"])


def test_zero_1_keeps_whole_gradients_on_the_device_until_the_update_on_the_host() -> None:
    def predicted(stage: int) -> Profile:
        return predict(
            scenario_from_mapping(
                {
                    "model": "llama-2-7b",
                    "cluster": "8x a100-sxm-80gb",
                    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
                    "plan": {"framework": "deepspeed", "zero_stage": stage, "micro_batch": 1, "offload": "optimizer"},
                }
            )
        )

    whole, sharded = predicted(1), predicted(2)
    assert whole.memory_bytes["gradients"] == whole.memory_bytes["weights"]
    assert sharded.memory_bytes["gradients"] == 0.0
    kept = [profile.stages[0].items["in the host's memory"] for profile in (whole, sharded)]
    assert kept[0] == pytest.approx(kept[1])


def test_padded_samples_need_the_memory_of_the_longest():
    workload = {"task": "finetune", "global_batch": 16, "sequence_length": 2048}
    lengths = {"lengths": [100, 200, 300, 1500]}
    padded, longest, packed = (
        predict(training(model="llama-2-7b", cluster="8x a100-sxm-80gb", **{**workload, **of}, plan={"micro_batch": 2}))
        for of in (lengths, {"sequence_length": 1500}, {**lengths, "packing": True})
    )
    assert dict(padded.memory_bytes) == dict(longest.memory_bytes)
    assert packed.memory_bytes["activations"] > padded.memory_bytes["activations"]
    assert any("1,500 tokens" in said for said in padded.warnings)
