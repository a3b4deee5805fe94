"""Tools of ``stacks.yaml`` are read and written in their own words; other tools are refused by name."""

import json

import pytest
import yaml
from launching.launched import asked

from sightline.errors import InputError
from sightline.launching import write
from sightline.launching.launch import completed
from sightline.launching.registry import read
from sightline.launching.training.stack_dialects import DERIVED
from sightline.launching.training.stacks import stacks
from sightline.loading import scenario_from_mapping

FACTORY = {
    "model_name_or_path": "Qwen/Qwen3-8B",
    "stage": "sft",
    "finetuning_type": "lora",
    "lora_rank": 16,
    "lora_target": "q_proj,v_proj",
    "quantization_bit": 4,
    "cutoff_len": 4096,
    "template": "qwen3",
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 8,
    "bf16": True,
}
AXOLOTL = {
    "base_model": "Qwen/Qwen3-8B",
    "adapter": "qlora",
    "load_in_4bit": True,
    "lora_r": 16,
    "lora_target_modules": ["q_proj", "v_proj"],
    "sequence_len": 4096,
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 8,
    "gradient_checkpointing": True,
    "optimizer": "adamw_torch",
    "bf16": "auto",
    "datasets": [{"path": "x"}],
}
SWIFT = (
    "swift sft --model Qwen/Qwen3-8B --train_type lora --quant_bits 4 --lora_rank 16 --target_modules q_proj,v_proj "
    "--max_length 4096 --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --optim adamw_torch"
)

TUNE = {
    "tokenizer": {"max_seq_len": 2048},
    "checkpointer": {},
    "model": {
        "_component_": "torchtune.models.llama3_1.qlora_llama3_1_8b",
        "lora_attn_modules": ["q_proj", "v_proj", "output_proj"],
        "apply_lora_to_mlp": True,
        "lora_rank": 16,
    },
    "dataset": {"packed": False},
    "optimizer": {"_component_": "torch.optim.AdamW", "fused": True},
    "batch_size": 2,
    "gradient_accumulation_steps": 8,
    "enable_activation_checkpointing": True,
    "epochs": 2,
    "max_steps_per_epoch": 50,
    "dtype": "bf16",
}
MAXTEXT = "python3 -m MaxText.train MaxText/configs/base.yml run_name=x model_name=llama3.1-8b max_target_length=4096"


def test_torchtune_is_read_by_its_builders_and_recipes(tmp_path):
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump(TUNE))
    line = "tune run --nproc_per_node 4 lora_finetune_distributed --config ours.yaml batch_size=4 optimizer.fused=False"
    (tmp_path / "run.sh").write_text(line)
    found = read(tmp_path / "run.sh")
    scenario, plan = found.scenario, found.scenario["plan"]
    assert (found.framework, plan["framework"], scenario["model"]) == ("torchtune", "torchtune", "llama-3.1-8b")
    assert scenario["workload"]["global_batch"] == 4 * 8 * 4
    assert scenario["workload"]["samples"] == 100 * 128
    assert (plan["quantization"], plan["optimizer"], plan["recompute"]) == ("nf4", "adamw-unfused", "full")
    assert plan["adapter"]["targets"] == ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    completed(found, {"cluster": "4x h100-sxm-80gb"})


def test_one_device_shards_nothing(tmp_path):
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump(TUNE))
    (tmp_path / "run.sh").write_text("tune run lora_finetune_single_device --config ours.yaml")
    scenario = completed(read(tmp_path / "run.sh"), {"cluster": "1x rtx-4090"}).scenario
    assert (scenario["workload"]["global_batch"], scenario["plan"]["zero_stage"]) == (16, 0)


@pytest.mark.parametrize(
    ("stated", "plan", "work"),
    [
        ("per_device_batch_size=4 steps=10", {"micro_batch": 4, "recompute": "full"}, {"task": "pretrain"}),
        ("ici_tensor_parallelism=2 per_device_batch_size=4.0", {"micro_batch": 8, "tensor_parallel": 2}, {}),
        ("ici_fsdp_parallelism=8 dcn_fsdp_parallelism=2", {"data_parallel_shard": 16}, {}),
        ("ici_fsdp_parallelism=1", {"zero_stage": 0}, {}),
        ("ici_tensor_parallelism=4 per_device_batch_size=0.25", {"micro_batch": 1, "tensor_parallel": 4}, {}),
        ("ici_fsdp_parallelism=1 ici_context_parallelism=2", {"zero_stage": None, "data_parallel_shard": 1}, {}),
        ("ici_context_parallelism=2", {"context_exchange": "all-gather"}, {}),
        ("ici_pipeline_parallelism=4", {"virtual_stages": 8, "schedule": "interleaved"}, {}),
        ("dcn_pipeline_parallelism=2 num_layers_per_pipeline_stage=16", {"virtual_stages": 1, "schedule": "gpipe"}, {}),
        ("parameter_memory_host_offload=true", {"offload": ["parameters"]}, {}),
        ("remat_policy=minimal_flash weight_dtype=bfloat16", {"recompute": ["activation", "layernorm"]}, {}),
        ("quantization=te_fp8_currentscaling", {"dtype": "fp8", "fp8_recipe": "current"}, {}),
        ("attention=cudnn_flash_te use_sft=true", {"attention_kernel": "cudnn"}, {"task": "finetune"}),
    ],
)
def test_maxtext_is_read_by_its_mesh(stated, plan, work):
    found = completed(read(f"{MAXTEXT} {stated}"), {"cluster": "16x h100-sxm-80gb"}).scenario
    assert found["model"] == "llama-3.1-8b"
    assert {key: found["plan"].get(key) for key in plan} == plan
    assert {key: found["workload"].get(key) for key in work} == work


def test_norms_in_fp32_count_beside_quantized_weights_of_the_trainer_alone():
    def upcast(**stated):
        found = read(yaml.safe_dump({**FACTORY, "upcast_layernorm": True, **stated}))
        return found.scenario["plan"]["adapter"].get("upcast"), any("fp32" in s for s in found.without_counterpart)

    assert upcast(quantization_bit=4) == (True, False)
    assert upcast(quantization_bit=None) == (None, True)
    assert upcast(quantization_bit=4, deepspeed="ds_z2_config") == (None, False)
    # A release that casts norms up by default changes nothing about tools that do not.
    for stated in (
        {**FACTORY, "quantization_bit": 4},
        {"base_model": "Qwen/Qwen3-8B", "sequence_len": 512, "adapter": "qlora", "load_in_4bit": True, "datasets": []},
        {"model": "Qwen/Qwen3-8B", "tuner_type": "lora", "quant_method": "bnb", "quant_bits": 4, "max_length": 512},
    ):
        assert read(yaml.safe_dump(stated)).scenario["plan"]["adapter"]["upcast"] is False


def test_maxtext_keeps_inputs_of_layers_on_the_host():
    stated = "remat_policy=custom decoder_layer_input=offload query_proj=offload"
    found = completed(read(f"{MAXTEXT} {stated}"), {"cluster": "16x h100-sxm-80gb"}).scenario
    assert (found["plan"]["recompute"], found["plan"]["offload"]) == ("full", ["activations"])
    assert found["unread"] == ["query_proj"]
    file, back = described("maxtext", "llama-3.1-8b", recompute="full", offload=["optimizer", "activations"])
    assert (file["remat_policy"], file["decoder_layer_input"]) == ("custom", "offload")
    assert back["plan"]["offload"] == ["optimizer", "activations"]


def test_maxtext_models_of_other_sizes_are_not_taken_for_the_named_one():
    sized = MAXTEXT.replace(" model_name=llama3.1-8b", " base_emb_dim=1024 base_num_decoder_layers=4")
    assert read(sized).scenario["model"]["hidden_size"] == 1024
    assert "model" in read(f"{MAXTEXT} base_emb_dim=1024 override_model_config=true").missing
    assert "model" in read(f"{sized} decoder_block=gemma3").missing


def test_what_shards_is_missing_where_only_the_script_tells():
    found = read(f"{SWIFT} --deepspeed $CONFIG --output_dir $OUT --padding_free $FREE --unknown_switch $X")
    assert (found.scenario["plan"]["framework"], "plan.zero_stage" in found.missing) == ("deepspeed", True)
    said = " ".join(found.without_counterpart)
    assert "$FREE" in said
    assert "$X" in said
    assert "$OUT" not in said


def test_what_only_the_script_tells_is_missing_of_pairs():
    assert "workload.global_batch" in read(f"{MAXTEXT} per_device_batch_size=$EACH").missing


MCORE = (
    "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --max_length 4096 --micro_batch_size 2 --global_batch_size 32 "
    "--tensor_model_parallel_size 2 --sequence_parallel true --train_iters 100"
)


@pytest.mark.parametrize(
    ("stated", "keys"),
    [
        ("", {"recompute": "selective", "zero_stage": 1, "fused_loss": True, "dtype": "bf16", "tensor_parallel": 2}),
        ("--recompute_granularity full --recompute_method uniform --recompute_num_layers 1", {"recompute": "full"}),
        ("--attention_backend fused --optimizer muon", {"attention_kernel": "cudnn", "optimizer": "muon"}),
        ("--fp8_format hybrid --fp8_recipe tensorwise", {"dtype": "fp8", "fp8_recipe": "current"}),
        ("--use_distributed_optimizer false --cross_entropy_loss_fusion false", {"zero_stage": 0, "fused_loss": False}),
        ("--apply_rope_fusion false --bias_activation_fusion true", {"fused_rope": False, "fused_activation": True}),
        ("--optimizer_cpu_offload true --overlap_grad_reduce true", {"offload": ["optimizer"]}),
    ],
)
def test_swift_starts_megatron_with_keys_of_its_own(stated, keys):
    found = completed(read(f"{MCORE} {stated}"), {"cluster": "8x h100-sxm-80gb"})
    work, plan = found.scenario["workload"], found.scenario["plan"]
    assert (found.framework, plan["framework"], work["global_batch"]) == ("Megatron-SWIFT", "megatron", 32)
    assert work["samples"] == 100 * 32
    assert {key: plan[key] for key in keys} == keys


NEMO = {
    "trainer": {"devices": 8, "num_nodes": 2, "precision": "bf16-mixed", "max_steps": 1000},
    "exp_manager": {"exp_dir": None},
    "model": {
        "micro_batch_size": 2,
        "global_batch_size": 64,
        "encoder_seq_length": 4096,
        "num_layers": 32,
        "bias": False,
        "hidden_size": 4096,
        "ffn_hidden_size": 11008,
        "num_attention_heads": 32,
        "normalization": "rmsnorm",
        "activation": "swiglu",
        "position_embedding_type": "rope",
        "share_embeddings_and_output_weights": False,
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 2,
        "sequence_parallel": True,
        "activations_checkpoint_granularity": "selective",
        "drop_layers": [],
        "tokenizer": {"library": "megatron"},
        "optim": {"name": "distributed_fused_adam", "lr": 1e-4, "overlap_grad_sync": True},
    },
}
BRIDGE = "torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe qwen3_30b_a3b_pretrain_config"


def test_nemo_is_read_by_its_groups():
    found = read(yaml.safe_dump(NEMO))
    assert (found.framework, "model.vocab_size" in found.missing, list(found.unread)) == ("NeMo", True, [])
    scenario = completed(found, {"cluster": "16x h100-sxm-80gb", "model.vocab_size": 32000}).scenario
    plan, model = scenario["plan"], scenario_from_mapping(scenario).model
    assert model.parameters == pytest.approx(6.74e9, rel=1e-3)
    read_keys = ("framework", "tensor_parallel", "pipeline_parallel", "zero_stage", "recompute", "sequence_parallel")
    assert [plan[key] for key in read_keys] == ["megatron", 4, 2, 1, "selective", True]
    assert (plan["overlap_gradient_reduce"], plan["tensor_overlap"]) == (True, "backward")
    assert scenario["workload"]["total_tokens"] == 1000 * 64 * 4096


@pytest.mark.parametrize(
    ("changed", "plan"),
    [
        ({"activation": "gelu", "bias": True, "normalization": "layernorm"}, {"micro_batch": 2}),
        ({"fp8": True}, {"dtype": "fp8", "fp8_recipe": "delayed"}),
        ({"peft": {"peft_scheme": "lora", "lora_tuning": {"adapter_dim": 8}}}, {"framework": "megatron"}),
        ({"optim": {"name": "fused_adam"}}, {"zero_stage": 0}),
        ({"ub_tp_comm_overlap": True}, {"tensor_overlap": "all"}),
    ],
)
def test_values_of_nemo_mean_what_it_does(changed, plan):
    found = read(yaml.safe_dump({**NEMO, "model": {**NEMO["model"], **changed}})).scenario
    assert {key: found["plan"].get(key) for key in plan} == plan
    assert (found["plan"].get("adapter") or {}).get("rank") == (8 if "peft" in changed else None)
    assert found["workload"]["task"] == ("finetune" if "peft" in changed else "pretrain")
    assert ("model" in found) == ("activation" not in changed)


def test_megatron_bridge_leaves_to_its_recipe_what_nobody_states():
    found = read(f"{BRIDGE} -tp 2 model.sequence_parallel=true mixed_precision=bf16_with_fp8_current_scaling_mixed")
    assert (found.framework, found.scenario["model"], found.scenario["workload"]) == (
        *("Megatron-Bridge", "qwen3-30b-a3b"),
        {"task": "pretrain"},
    )
    stated = {"framework": "megatron", "tensor_parallel": 2, "sequence_parallel": True, "dtype": "fp8"}
    assert found.scenario["plan"] == {**stated, "fp8_recipe": "current"}
    assert {"plan.micro_batch", "plan.recompute", "workload.global_batch"} <= found.missing.keys()


def test_megatron_bridge_is_read_by_options_and_keys():
    options = "-tp 2 -pp 1 -cp 1 -ep 4 -mb 1 -gb 64 -sl 4096 --max_steps 10"
    keys = "model.recompute_granularity=full ddp.use_distributed_optimizer=true ddp.grad_reduce_in_fp32=false"
    found = completed(read(f"{BRIDGE} {options} {keys}"), {"cluster": "8x h100-sxm-80gb"})
    plan, work = found.scenario["plan"], found.scenario["workload"]
    read_keys = (
        "tensor_parallel",
        "expert_parallel",
        "micro_batch",
        "recompute",
        "zero_stage",
        "gradient_reduce_dtype",
    )
    assert [plan[key] for key in read_keys] == [2, 4, 1, "full", 1, "bf16"]
    assert (work["global_batch"], work["total_tokens"], dict(found.missing)) == (64, 10 * 64 * 4096, {})
    tuned = read(
        f"{BRIDGE.replace('pretrain', 'sft')} --mode lora peft.dim=16 peft.target_modules=[linear_qkv]"
    ).scenario
    assert tuned["workload"]["task"] == "finetune"
    assert (tuned["plan"]["adapter"]["rank"], tuned["plan"]["adapter"]["targets"]) == (16, ["qkv"])


@pytest.mark.parametrize("text", [yaml.safe_dump(FACTORY), yaml.safe_dump(AXOLOTL), SWIFT])
def test_tools_say_the_same_in_their_own_words(text):
    found = read(text)
    scenario = completed(found, {"cluster": "2x rtx-4090"}).scenario
    assert scenario["model"] == "Qwen/Qwen3-8B"
    assert scenario["workload"] == {"task": "finetune", "sequence_length": 4096, "global_batch": 32}
    plan = scenario["plan"]
    assert (plan["framework"], plan["micro_batch"], plan["recompute"], plan["dtype"]) == (
        "transformers",
        2,
        "full",
        "bf16",
    )
    assert (plan["quantization"], plan["optimizer"]) == ("nf4", "adamw-unfused")
    adapter = plan["adapter"]
    assert (adapter["kind"], adapter["rank"], adapter["targets"]) == ("qlora", 16, ["q_proj", "v_proj"])
    (said,) = found.without_counterpart
    assert "workload.lengths" in said


def test_what_a_tool_does_by_default_is_read():
    plan = read(yaml.safe_dump({"stage": "sft", "cutoff_len": 1024, "model_name_or_path": "x"})).scenario["plan"]
    assert (plan["adapter"]["rank"], plan["adapter"]["kind"], plan["micro_batch"]) == (8, "lora", 8)
    assert (plan["recompute"], plan["dtype"]) == ("full", "fp32")


@pytest.mark.parametrize(
    ("stated", "named", "stage", "offload", "is_own"),
    [
        (FACTORY, "ds_z3_config.json", 3, None, True),
        (FACTORY, "zero2_offload", 2, ["optimizer"], False),
        (FACTORY, "our_zero1.json", 1, None, False),
        (AXOLOTL, "zero2.json", 2, ["optimizer"], True),
        (AXOLOTL, "zero3_bf16_cpuoffload_params.json", 3, ["parameters"], True),
    ],
)
def test_configurations_that_are_not_there_are_read_by_their_names(stated, named, stage, offload, is_own):
    found = read(yaml.safe_dump({**stated, "deepspeed": f"examples/{named}"}))
    plan = found.scenario["plan"]
    assert (plan["framework"], plan["zero_stage"], plan.get("offload")) == ("deepspeed", stage, offload)
    (sentence,) = (said for said in found.without_counterpart if named in said)
    assert ("own of that name" in sentence) == is_own


FSDP2 = {"reshard_after_forward": False, "offload_params": True, "activation_checkpointing": True}


@pytest.mark.parametrize(
    ("keys", "stage", "offload"),
    [
        ({"fsdp": "full_shard auto_wrap"}, 3, None),
        ({"fsdp": "shard_grad_op auto_wrap offload"}, 2, ["optimizer", "parameters"]),
        ({"fsdp_version": 2, "fsdp_config": FSDP2}, 2, ["optimizer", "parameters"]),
        ({"fsdp": "full_shard", "fsdp_config": {"fsdp_sharding_strategy": "NO_SHARD"}}, 0, None),
        ({"fsdp": "ours.json"}, 2, ["optimizer", "parameters"]),
    ],
)
def test_fsdp_is_read_in_every_form(keys, stage, offload, tmp_path):
    (tmp_path / "ours.json").write_text(json.dumps({"fsdp": "full_shard", "fsdp_config": FSDP2}))
    (tmp_path / "train.yaml").write_text(yaml.safe_dump({**AXOLOTL, "gradient_checkpointing": False, **keys}))
    plan = read(tmp_path / "train.yaml").scenario["plan"]
    assert (plan["framework"], plan["zero_stage"], plan.get("offload")) == ("fsdp", stage, offload)
    assert plan["recompute"] == ("full" if "fsdp_version" in keys or "ours.json" in keys.values() else "none")


def test_what_accelerate_starts_is_read_with_its_file(tmp_path):
    sharded = {"distributed_type": "FSDP", "num_processes": 4, "fsdp_config": {"fsdp_reshard_after_forward": True}}
    (tmp_path / "fsdp.yaml").write_text(yaml.safe_dump(sharded))
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(FACTORY))
    (tmp_path / "run.sh").write_text("accelerate launch --config_file fsdp.yaml src/train.py train.yaml max_steps=10")
    found = completed(read(tmp_path / "run.sh"), {"cluster": "4x rtx-4090"})
    plan, work = found.scenario["plan"], found.scenario["workload"]
    assert (found.framework, plan["framework"], plan["zero_stage"]) == ("LLaMA-Factory", "fsdp", 3)
    assert (work["global_batch"], work["samples"]) == (64, 10 * 64)


@pytest.mark.parametrize(
    ("line", "batch"),
    [
        ("NPROC_PER_NODE=4 NNODES=2", 128),
        ("export NPROC_PER_NODE=2\n", 32),
        ("CUDA_VISIBLE_DEVICES=3", 16),
    ],
)
def test_processes_are_told_by_the_environment(line, batch):
    assert read(f"{line} {SWIFT}").scenario["workload"]["global_batch"] == batch


def test_processes_of_accelerate_count_before_the_environment(tmp_path):
    (tmp_path / "ours.json").write_text(json.dumps({"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {}}))
    line = SWIFT.replace("swift sft", "accelerate launch --config_file ours.json swift/cli/sft.py")
    (tmp_path / "run.sh").write_text(f"CUDA_VISIBLE_DEVICES=0,1 {line}")
    scenario = read(tmp_path / "run.sh").scenario
    assert (scenario["workload"]["global_batch"], scenario["plan"]["framework"]) == (32, "fsdp")


def test_several_devices_of_one_process_are_refused():
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES is 0,1"):
        read(f"CUDA_VISIBLE_DEVICES=0,1 {SWIFT}")


def test_samples_that_only_the_script_tells_are_missing():
    each = SWIFT.replace("accumulation_steps 8", "accumulation_steps $(expr 16 / $N)")
    assert read(f"N=2\n{each}").samples_per_device == 16
    found = read(each)
    assert "workload.global_batch" in found.missing
    assert found.samples_per_device is None


@pytest.mark.parametrize(
    ("stated", "changed", "keys"),
    [
        (FACTORY, {"finetuning_type": "full", "pure_bf16": True}, {"state_dtype": "bf16", "dtype": "bf16"}),
        (FACTORY, {"finetuning_type": "full", "pure_bf16": True, "deepspeed": "ds_z2_config"}, {"state_dtype": None}),
        (FACTORY, {"double_quantization": False}, {"quantization": "nf4-single"}),
        (FACTORY, {"quantization_bit": 8}, {"quantization": "int8"}),
        (FACTORY, {"fp8": True}, {"dtype": "fp8", "fp8_recipe": "current"}),
        (FACTORY, {"flash_attn": "fa3"}, {"attention": "flash", "attention_kernel": "flash-3"}),
        (AXOLOTL, {"bf16": None}, {"dtype": "bf16"}),
        (AXOLOTL, {"adapter": None}, {"adapter": None, "state_dtype": "bf16"}),
        (AXOLOTL, {"bf16": False, "tf32": True}, {"dtype": "tf32"}),
        (AXOLOTL, {"gradient_checkpointing": "offload"}, {"offload": ["activations"], "recompute": "full"}),
        (AXOLOTL, {"optimizer": "adamw_torch_8bit"}, {"optimizer": "adamw-8bit"}),
        (AXOLOTL, {"attn_implementation": "flex_attention"}, {"attention_kernel": "triton"}),
    ],
)
def test_values_mean_what_the_tool_does_with_them(stated, changed, keys):
    plan = read(yaml.safe_dump({**stated, **changed})).scenario["plan"]
    assert {key: plan.get(key) for key in keys} == keys


@pytest.mark.parametrize(
    ("stated", "targets"),
    [
        ("model.layers.[\\d]+.(mlp|self_attn).(up|down|q|v)_proj", ["up_proj", "down_proj", "q_proj", "v_proj"]),
        ("q_proj, k_proj", ["q_proj", "k_proj"]),
        (["all-linear"], "all-linear"),
    ],
)
def test_projections_are_read_of_lists_and_patterns(stated, targets):
    adapter = read(yaml.safe_dump({**AXOLOTL, "lora_target_modules": stated})).scenario["plan"]["adapter"]
    assert adapter["targets"] == targets


def test_whole_modules_are_trained_beside_an_adapter():
    adapter = read(yaml.safe_dump({**AXOLOTL, "lora_modules_to_save": ["embed_tokens", "lm_head"]})).scenario["plan"]
    assert adapter["adapter"]["also_trained"] == ["embedding", "head"]


@pytest.mark.parametrize(("key", "is_said"), [("sample_packing", True), ("pad_to_sequence_len", False)])
def test_rows_are_said_to_be_packed_or_full(key, is_said):
    said = read(yaml.safe_dump({**AXOLOTL, key: True})).without_counterpart
    assert any("rows hold several samples" in one for one in said) == is_said
    assert not any("padded" in one for one in said)


def test_a_configuration_next_to_the_file_is_read(tmp_path):
    (tmp_path / "ours.json").write_text('{"zero_optimization": {"stage": 1}}')
    (tmp_path / "train.yaml").write_text(yaml.safe_dump({**FACTORY, "deepspeed": "ours.json"}))
    assert read(tmp_path / "train.yaml").scenario["plan"]["zero_stage"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (yaml.safe_dump({**FACTORY, "stage": "ppo"}), "stage is 'ppo': reinforcement learning"),
        (yaml.safe_dump({**AXOLOTL, "rl": "grpo"}), "rl is 'grpo': reinforcement learning"),
        (yaml.safe_dump({**FACTORY, "deepspeed": "ours.json"}), "no such file"),
        (yaml.safe_dump({**FACTORY, "optim": "adafactor"}), "optim is 'adafactor'"),
        (yaml.safe_dump({**FACTORY, "use_dora": True}), "use_dora is true: DoRA"),
        (yaml.safe_dump({**FACTORY, "tensor_model_parallel_size": 2}), "Megatron as a backend of LLaMA-Factory"),
        (yaml.safe_dump({**AXOLOTL, "unfrozen_parameters": ["lm_head"]}), "training of some layers"),
        (f"{SWIFT} --task_type seq_cls", "a classifier"),
        (SWIFT.replace("train_type lora", "tuner_type adalora"), "AdaLoRA"),
        (yaml.safe_dump({**FACTORY, "cutoff_len": "long"}), "cutoff_len is 'long'"),
        (yaml.safe_dump({**FACTORY, "fp16": True}), "fp16 and bf16 are true"),
        (yaml.safe_dump({"actor_rollout_ref": {}, "algorithm": {}}), "is of verl, which is not read"),
        (yaml.safe_dump({"parallelism": {"dp": 2}, "tokens": {}, "general": {}}), "is of nanotron"),
        (yaml.safe_dump({"pipe_parallel_size": 1, "num-layers": 8, "zero_optimization": {"stage": 1}}), "GPT-NeoX"),
        (yaml.safe_dump({"checkpoint_dir": "x", "out_dir": "y", "lora_r": 8}), "LitGPT"),
        (yaml.safe_dump({"gen1_gc_interval": 1, "device_train_microbatch_size": 2, "model": {}}), "OLMo"),
        (yaml.safe_dump({"train_loader": {}, "global_train_batch_size": 64, "model": {}}), "llm-foundry"),
        ("trl sft --model_name_or_path x --per_device_train_batch_size 2", "TRL"),
        ("accelerate launch ours/dpo.py --model_name_or_path x --per_device_train_batch_size 2", "TRL"),
        ("python3 train.py --actor-num-nodes 1 --rollout-num-gpus 8 --num-layers 2", "slime"),
        ("deepspeed pretrain_gpt.py --deepspeed --num-layers 4 --hidden-size 512 --zero-stage 1", "Megatron-DeepSpeed"),
        (
            "python src/train_bash.py --stage rm --finetuning_type lora --per_device_train_batch_size 2",
            "a reward model",
        ),
        ("swift rlhf --external_plugins ours/a.py --rlhf_type grpo --model x", "reinforcement learning of ms-swift"),
        ("megatron sft --config $OURS", "read that file instead"),
        ("tune run --nproc_per_node 2 lora_finetune_distributed --config llama3/8B_lora", "names llama3/8B_lora"),
        ("swift sft ours.yaml", "names ours.yaml, and there is no such file"),
        (yaml.safe_dump({**TUNE, "optimizer_in_bwd": True}), "an optimizer in the backward pass of torchtune"),
        (yaml.safe_dump({**TUNE, "loss": {"_component_": "torchtune.rlhf.loss.DPOLoss"}}), "preference training"),
        (f"{MCORE} --recompute_method block", "recomputation of some layers of Megatron-SWIFT"),
        ("nemo llm pretrain --factory llama3_8b", "is of NeMo's recipes, which is not read"),
        (f"{BRIDGE} --mode dora", "mode is 'dora': DoRA of Megatron-Bridge"),
        (f"{BRIDGE} model.recompute_method=block", "recomputation of some layers of Megatron-Bridge"),
        (yaml.safe_dump({**NEMO, "model": {"activations_checkpoint_method": "block"}}), "some layers of NeMo"),
        (yaml.safe_dump({**NEMO, "model": {"peft": {"peft_scheme": "ptuning"}}}), "a tuner of its own of NeMo"),
        (f"{MAXTEXT} per_device_batch_size=0.5", "per_device_batch_size is '0.5'"),
        (f"{MAXTEXT} remat_policy=save_qkv_proj", "remat_policy is 'save_qkv_proj'"),
        (f"{MAXTEXT} ici_fsdp_transpose_parallelism=2", "sharding along two axes of MaxText"),
    ],
)
def test_what_is_not_predicted_is_refused_by_name(text, said):
    with pytest.raises(InputError, match=said):
        read(text)


@pytest.mark.parametrize(
    ("text", "preference", "reference"),
    [
        (yaml.safe_dump({**FACTORY, "stage": "dpo", "pref_beta": 0.1}), "dpo", None),
        (yaml.safe_dump({**FACTORY, "stage": "dpo", "pref_loss": "hinge"}), "dpo", None),
        (yaml.safe_dump({**FACTORY, "stage": "dpo", "pref_loss": "simpo", "simpo_gamma": 0.5}), "simpo", None),
        (yaml.safe_dump({**FACTORY, "stage": "kto"}), "kto", None),
        (yaml.safe_dump({**FACTORY, "pref_loss": "orpo"}), None, None),
        (yaml.safe_dump({**AXOLOTL, "rl": "ipo", "rl_beta": 0.1}), "ipo", None),
        (yaml.safe_dump({**AXOLOTL, "rl": "dpo", "precompute_ref_log_probs": True}), "dpo", "precomputed"),
        (SWIFT.replace("sft", "rlhf"), "dpo", None),
        (SWIFT.replace("sft", "rlhf --rlhf_type orpo"), "orpo", None),
        (SWIFT, None, None),
    ],
)
def test_preference_training_is_read(text, preference, reference):
    found = read(text)
    workload = completed(found, {"cluster": "2x rtx-4090"}).scenario["workload"]
    assert (workload.get("preference"), workload.get("reference")) == (preference, reference)
    assert workload["global_batch"] == 32
    assert list(found.unread) == []


@pytest.mark.parametrize("stack", stacks(), ids=lambda stack: stack.name)
def test_no_key_is_harmless_and_read(stack):
    listed = [key for keys in stack.harmless.values() for key in keys.split()]
    assert not {*listed} & stack.ruled
    assert len(listed) == len({*listed})


@pytest.mark.parametrize(
    ("stated", "key"),
    [
        ({**FACTORY, "quantization_bit": 3}, "quantization_bit"),
        ({**FACTORY, "quantization_method": "gptq"}, "quantization_method"),
        ({**AXOLOTL, "fp8": "sometimes"}, "fp8"),
        ({**TUNE, "dataset": {"packd": True}}, "dataset.packd"),
        ({"tuner_type": "lora", "lora_rank": 8, "quant_bits": 4, "quant_method": "gptq", "model": "m"}, "quant_method"),
    ],
)
def test_a_value_that_no_rule_names_is_named(stated, key):
    assert key in read(yaml.safe_dump(stated)).unread


@pytest.mark.parametrize(
    ("words", "dtype", "recipe"),
    [
        ("e4m3", "fp8", "delayed"),
        ("e4m3 --fp8_recipe tensorwise", "fp8", "current"),
        ("hybrid --fp8_recipe tensorwise", "fp8", "current"),
        ("hybrid --fp8_recipe mxfp8", "mxfp8", None),
    ],
)
def test_every_recipe_of_fp8_is_read(words, dtype, recipe):
    plan = read(f"megatron sft --model m --fp8_format {words} --fp8_param_gather true").scenario["plan"]
    assert (plan["dtype"], plan["fp8_parameter_gather"]) == (dtype, True)
    assert recipe in (None, plan["fp8_recipe"])


def test_what_is_stated_later_says_how_attention_runs():
    stated = {**AXOLOTL, "flash_attention": True}
    assert read(yaml.safe_dump(stated)).scenario["plan"]["attention_kernel"] == "flash-2"
    found = read(yaml.safe_dump({**stated, "attn_implementation": "sdpa"})).scenario["plan"]
    assert (found["attention"], found.get("attention_kernel")) == ("flash", None)


def test_the_batch_is_that_of_the_cluster():
    command = read(f"NPROC_PER_NODE=4 {SWIFT}")
    each = command.scenario["workload"]["global_batch"] // 4
    found = completed(command, {"cluster": "8x h100-sxm-80gb"})
    assert found.scenario["workload"]["global_batch"] == 8 * each
    assert any("another number of devices" in said for said in found.without_counterpart)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"mcore_bert": True}, "an encoder of NeMo"),
        ({"retro": {"retro_project_dir": "x"}}, "retrieval of NeMo"),
        ({"optim": {"name": "novograd"}}, r"model\.optim\.name is 'novograd'"),
        ({"micro_batch_size": "many"}, r"model\.micro_batch_size is 'many'"),
    ],
)
def test_other_models_of_nemo_are_refused(model, said):
    with pytest.raises(InputError, match=said):
        read(yaml.safe_dump({"trainer": {"devices": 8}, "exp_manager": {}, "model": model}))


@pytest.mark.parametrize("stated", [FACTORY, AXOLOTL])
def test_a_key_that_nobody_knows_is_named(stated):
    said, *_ = read(yaml.safe_dump({**stated, "foreign_key": 3})).without_counterpart
    assert "foreign_key" in said


def fine_tuned(**plan):
    """Return a fine-tuning of a model that has a repository, on a node."""
    plan = {"framework": "transformers", "micro_batch": 2, "state_dtype": "bf16", **plan}
    plan = {key: value for key, value in plan.items() if value is not None}
    return asked(plan, "qwen3-8b", task="finetune", sequence_length=2048, total_tokens=1e8)


def written(tool, **plan):
    """Return the file that a tool is given for a plan."""
    return yaml.safe_load(write(fine_tuned(**plan), tool).files["train.yaml"])


def test_tools_are_given_their_own_words():
    plan = {"adapter": {"kind": "qlora", "rank": 16, "targets": ["query", "value"]}, "state_dtype": "fp32"}
    stated = written("llama-factory", **plan)
    assert (stated["model_name_or_path"], stated["cutoff_len"], stated["max_steps"]) == ("Qwen/Qwen3-8B", 2048, 763)
    assert (stated["quantization_bit"], stated["lora_rank"], stated["lora_target"]) == (4, 16, "q_proj,v_proj")
    stated = written("axolotl", **plan)
    assert (stated["base_model"], stated["adapter"], stated["load_in_4bit"]) == ("Qwen/Qwen3-8B", "qlora", True)
    assert (stated["lora_target_modules"], stated["pad_to_sequence_len"]) == (["q_proj", "v_proj"], True)
    stated = written("ms-swift", **plan)
    assert (stated["tuner_type"], stated["quant_bits"], stated["target_modules"]) == ("lora", 4, ["q_proj", "v_proj"])


@pytest.mark.parametrize(
    ("tool", "command", "own"),
    [
        ("llama-factory", "llamafactory-cli train", {"stage": "dpo", "pref_loss": "simpo"}),
        ("axolotl", "axolotl train", {"rl": "simpo"}),
        ("ms-swift", "swift rlhf", {"rlhf_type": "simpo"}),
    ],
)
def test_preference_training_is_written(tool, command, own):
    work = {"task": "finetune", "sequence_length": 2048, "total_tokens": 1e8, "preference": "simpo"}
    plan = {"framework": "transformers", "micro_batch": 2, "state_dtype": "fp32" if tool == "axolotl" else "bf16"}
    if tool == "axolotl":
        plan["adapter"] = {"kind": "qlora"}
    launch = write(asked(plan, "qwen3-8b", **work), tool)
    stated = yaml.safe_load(launch.files["train.yaml"])
    assert f"{command} train.yaml" in launch.command
    assert own.items() <= stated.items()
    assert not {"packing", "sample_packing"} & stated.keys()
    found = completed(read(launch.files["train.yaml"]), {"cluster": "8x h100-sxm-80gb"}).scenario["workload"]
    assert found["preference"] == "simpo"
    assert (
        found["samples"] * 2 * 2048
        == stated["max_steps"] * found["global_batch"] * 2 * 2048
        == pytest.approx(1e8, rel=0.01)
    )


def described(tool, name, **plan):
    """Return what is written for a plan of a framework that is a tool itself, with its command as ``$``."""
    work = {"task": "finetune" if tool == "torchtune" else "pretrain", "total_tokens": 1e8, "sequence_length": 4096}
    scenario = asked({"framework": tool, **plan}, name, **work)
    launch = write(scenario)
    file = yaml.safe_load(launch.files["train.yaml"])
    back = completed(read(yaml.safe_dump(file)), {"cluster": "8x h100-sxm-80gb"}).scenario
    return {**file, "$": launch.command}, back


def test_norms_in_fp32_are_written_where_a_tool_has_a_key():
    adapter = {"kind": "qlora", "rank": 16, "upcast": True}
    assert written("llama-factory", adapter=adapter, state_dtype="fp32")["upcast_layernorm"] is True
    with pytest.raises(InputError) as refusal:
        written("axolotl", adapter=adapter, state_dtype="fp32")
    assert [said.partition(" is true")[0] for said in refusal.value.problems] == ["plan.adapter.upcast"]


def test_maxtext_is_given_a_mesh():
    plan = {"tensor_parallel": 2, "zero_stage": 3, "data_parallel_shard": 2, "recompute": ["layernorm", "activation"]}
    file, back = described("maxtext", "llama-3.1-8b", **plan)
    mesh = {axis: file[f"ici_{axis}_parallelism"] for axis in ("tensor", "fsdp", "data", "pipeline")}
    assert mesh == {"tensor": 2, "fsdp": 2, "data": 2, "pipeline": 1}
    assert (file["model_name"], file["remat_policy"]) == ("llama3.1-8b", "minimal_with_context")
    assert (file["per_device_batch_size"], file["gradient_accumulation_steps"], file["steps"]) == (0.5, 16, 382)
    assert "maxtext.trainers.pre_train.train train.yaml" in file["$"]
    assert (back["model"], back["plan"]["data_parallel_shard"], back["workload"]["global_batch"]) == (
        *("llama-3.1-8b", 2),
        64,
    )


def test_maxtext_is_given_stages_and_experts():
    plan = {"pipeline_parallel": 2, "virtual_stages": 4, "schedule": "interleaved", "expert_parallel": 2}
    file, back = described("maxtext", "qwen3-30b-a3b", **plan)
    pipeline = ("num_pipeline_microbatches", "num_pipeline_repeats", "num_layers_per_pipeline_stage")
    assert [file[key] for key in pipeline] == [16, 4, 6]
    assert (file["ici_expert_parallelism"], file["ici_fsdp_parallelism"], file["per_device_batch_size"]) == (2, 2, 8)
    assert {key: back["plan"][key] for key in plan} == plan
    file, back = described("maxtext", "mixtral-8x7b", expert_capacity=1.25)
    assert (file["capacity_factor"], file["sparse_matmul"], back["plan"]["expert_capacity"]) == (1.25, False, 1.25)


def test_a_capacity_of_maxtext_counts_without_sparse_products():
    mixture = MAXTEXT.replace("llama3.1-8b", "mixtral-8x7b") + " capacity_factor=1.25"
    assert "expert_capacity" not in read(mixture).scenario["plan"]
    assert read(f"{mixture} sparse_matmul=false").scenario["plan"]["expert_capacity"] == 1.25
    with pytest.raises(InputError, match="capacity_factor -1"):
        read(f"{mixture}  sparse_matmul=false capacity_factor=-1")


def test_torchtune_is_given_builders_and_recipes():
    adapter = {"kind": "qlora", "rank": 16, "targets": ["query", "value", "gate", "up", "down"]}
    file, _ = described("torchtune", "llama-3.1-8b", adapter=adapter)
    assert file["model"]["_component_"] == "torchtune.models.llama3_1.qlora_llama3_1_8b"
    assert (file["model"]["lora_attn_modules"], file["model"]["apply_lora_to_mlp"]) == (["q_proj", "v_proj"], True)
    assert (file["max_steps_per_epoch"], file["optimizer"]["fused"]) == (382, True)
    assert "tune run --nproc_per_node=8 lora_finetune_distributed --config train.yaml" in file["$"]
    plan = {"tensor_parallel": 2, "sequence_parallel": True, "zero_stage": 2, "data_parallel_shard": 2}
    file, back = described("torchtune", "llama-3.1-8b", **plan)
    shards = [file[f"data_parallel_{part}_dim"] for part in ("replicate", "shard")]
    assert (shards, file["fsdp_reshard_after_forward"]) == ([2, 2], False)
    assert {key: back["plan"][key] for key in plan} == plan
    one = write(asked({"framework": "torchtune", "zero_stage": 0}, "qwen3-8b", "1x h100-sxm-80gb", task="finetune"))
    assert "tune run full_finetune_single_device --config train.yaml" in one.command


@pytest.mark.parametrize("tool", ["torchtune", "MaxText"])
def test_models_are_read_by_the_names_that_are_written(tool):
    (stack,) = (stack for stack in stacks() if stack.name == tool)
    for name, keys in stack.written.items():
        said = {**stack.defaults, **keys, "model.name": ""}
        derived = DERIVED[tool](said, stack.models)
        assert derived.get("model.name", derived.get("model_name")) == name


@pytest.mark.parametrize(
    ("tool", "name", "plan", "said"),
    [
        (
            "maxtext",
            "llama-3.1-8b",
            {"sequence_parallel": False, "tensor_parallel": 2},
            r"plan\.sequence_parallel is false",
        ),
        ("maxtext", "llama-3.1-8b", {"pipeline_parallel": 2}, r"plan\.schedule is 1f1b"),
        ("maxtext", "llama-3.1-8b", {"gradient_reduce_dtype": "fp32"}, r"plan\.gradient_reduce_dtype is fp32"),
        ("maxtext", "qwen3-30b-a3b", {"tensor_parallel": 2}, r"plan\.expert_tensor_parallel is 1"),
        ("maxtext", "llama-4-scout-17b-16e", {"expert_capacity": 1.25}, r"plan\.expert_capacity is 1.25"),
        ("maxtext", "bloom-3b", {}, "model is bloom-3b"),
        ("torchtune", "qwen3-8b", {"tensor_parallel": 2, "sequence_parallel": True}, "for Llama 3 without adapters"),
        ("torchtune", "llama-3.1-8b", {"zero_stage": 0}, r"plan\.zero_stage is 0 on 8 devices"),
        ("torchtune", "llama-3.1-8b", {"offload": ["activations"]}, r"plan\.recompute full"),
        ("torchtune", "mixtral-8x7b", {}, "model is mixtral-8x7b"),
    ],
)
def test_what_a_framework_of_its_own_has_no_key_for_is_not_written(tool, name, plan, said):
    with pytest.raises(InputError, match=said):
        described(tool, name, **plan)


@pytest.mark.parametrize(
    ("plan", "keys"),
    [
        ({"recompute": "full"}, {"recompute_granularity": "full", "recompute_method": "uniform"}),
        (
            {"tensor_parallel": 2, "sequence_parallel": True},
            {"tensor_model_parallel_size": 2, "sequence_parallel": True},
        ),
        (
            {"pipeline_parallel": 2, "virtual_stages": 3, "schedule": "interleaved"},
            {"pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 3},
        ),
        ({"zero_stage": 3}, {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": "optim_grads_params"}),
        ({"dtype": "fp8", "fp8_recipe": "blockwise"}, {"fp8_recipe": "blockwise"}),
        ({"dtype": "fp8", "fp8_parameter_gather": False}, {"fp8_format": "hybrid", "fp8_param_gather": None}),
        (
            {"adapter": {"kind": "lora", "rank": 16, "targets": ["qkv", "gate", "up"], "also_trained": ["head"]}},
            {"lora_rank": 16, "target_modules": ["linear_qkv", "linear_fc1"], "modules_to_save": ["output_layer"]},
        ),
        ({"attention_kernel": "cudnn"}, {"attention_backend": "fused"}),
    ],
)
def test_megatron_swift_is_given_its_own_words(plan, keys):
    scenario = asked({"framework": "megatron", "zero_stage": 1, **plan}, "qwen3-8b", task="finetune")
    launch = write(scenario, "megatron-swift")
    file = yaml.safe_load(launch.files["train.yaml"])
    assert {key: file.get(key) for key in keys} == keys
    assert launch.command == "NPROC_PER_NODE=8 megatron sft train.yaml"
    back = completed(read(launch.files["train.yaml"]), {"cluster": "8x h100-sxm-80gb"}).scenario["plan"]
    assert back["zero_stage"] == plan.get("zero_stage", 1)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"adapter": {"kind": "lora", "targets": ["query"]}}, r"plan\.adapter\.targets is"),
        ({"recompute": ["layernorm"]}, "Megatron-SWIFT would train with selective"),
        ({"stage_layers": [20, 16], "pipeline_parallel": 2}, r"plan\.stage_layers"),
        ({"gradient_reduce_dtype": "bf16"}, "Megatron-SWIFT would train with fp32"),
    ],
)
def test_what_megatron_swift_has_no_key_for_is_not_written(plan, said):
    scenario = asked({"framework": "megatron", "zero_stage": 1, **plan}, "qwen3-8b", task="finetune")
    with pytest.raises(InputError, match=said):
        write(scenario, "megatron-swift")


def test_what_shards_stands_beside_the_file():
    launch = write(fine_tuned(framework="deepspeed", zero_stage=3, state_dtype=None), "ms-swift")
    assert json.loads(launch.files["ds_config.json"])["zero_optimization"]["stage"] == 3
    assert "NPROC_PER_NODE=8 swift sft train.yaml" in launch.command
    stated = written("axolotl", framework="fsdp", zero_stage=2, state_dtype="fp32")
    assert (stated["fsdp_version"], stated["fsdp_config"]["reshard_after_forward"]) == (2, False)


@pytest.mark.parametrize(
    ("tool", "plan", "said"),
    [
        ("axolotl", {"state_dtype": "fp32"}, r"plan\.state_dtype is fp32: axolotl would train with bf16"),
        (
            "ms-swift",
            {"framework": "megatron", "state_dtype": None},
            r"plan\.framework is megatron",
        ),
        ("llama_factory", {}, "did you mean 'llama-factory'"),
    ],
)
def test_what_a_tool_has_no_key_for_is_not_written(tool, plan, said):
    with pytest.raises(InputError, match=said):
        written(tool, **plan)


def test_a_file_of_another_tool_is_not_taken_for_swifts():
    keys = {"model_name_or_path": "Qwen/Qwen3-8B", "torch_dtype": "bfloat16", "max_length": 2048, "bf16": True}
    found = read(yaml.safe_dump({**keys, "per_device_train_batch_size": 4, "dataset_num_proc": 8}))
    assert (found.framework, found.scenario["model"], found.scenario["plan"].get("adapter")) == (
        *("transformers", "qwen3-8b"),
        None,
    )


def test_swift_pretrains_whole_models_with_a_command_of_its_own():
    assert read(f"{SWIFT.replace('swift sft', 'swift pt')}").scenario["workload"]["task"] == "finetune"
    whole = SWIFT.replace("swift sft", "swift pt").replace("--train_type lora --quant_bits 4", "--train_type full")
    assert read(whole).scenario["workload"]["task"] == "pretrain"


@pytest.mark.parametrize(("stated", "is_asked"), [({"quantization_bit": None}, True), ({}, False)])
def test_a_model_called_after_the_format_of_its_weights_is_asked_for_it(stated, is_asked):
    found = read(yaml.safe_dump({**FACTORY, "model_name_or_path": "ours/Model-8B-GPTQ", **stated}))
    assert ("plan.quantization" in found.missing) == is_asked
