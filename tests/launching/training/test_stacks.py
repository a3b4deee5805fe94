"""LLaMA-Factory, axolotl and ms-swift are read in their own words; other tools are refused by name."""

import pytest
import yaml

from sightline.errors import InputError
from sightline.launching.launch import completed
from sightline.launching.registry import read

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
    assert found.without_counterpart == []


def test_what_a_tool_does_by_default_is_read():
    plan = read(yaml.safe_dump({"stage": "sft", "cutoff_len": 1024, "model_name_or_path": "x"})).scenario["plan"]
    assert (plan["adapter"]["rank"], plan["adapter"]["kind"], plan["micro_batch"]) == (8, "lora", 8)
    assert (plan["recompute"], plan["dtype"]) == ("full", "fp32")


@pytest.mark.parametrize(
    ("named", "stage", "offload"), [("ds_z3_config.json", 3, None), ("zero2_offload", 2, ["optimizer"])]
)
def test_configurations_that_are_not_there_are_read_by_their_names(named, stage, offload):
    found = read(yaml.safe_dump({**FACTORY, "deepspeed": f"examples/{named}"}))
    plan = found.scenario["plan"]
    assert (plan["framework"], plan["zero_stage"], plan.get("offload")) == ("deepspeed", stage, offload)
    assert named in found.without_counterpart[0]


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
        (yaml.safe_dump({**FACTORY, "cutoff_len": "long"}), "cutoff_len is 'long'"),
        (yaml.safe_dump({"actor_rollout_ref": {}, "algorithm": {}}), "is of verl, which is not read"),
        (yaml.safe_dump({"parallelism": {"dp": 2}, "tokens": {}, "general": {}}), "is of nanotron"),
        ("tune run --nproc_per_node 2 lora_finetune_distributed --config llama3/8B_lora", "is of torchtune"),
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
    assert found.without_counterpart == []


@pytest.mark.parametrize("stated", [FACTORY, AXOLOTL])
def test_a_key_that_nobody_knows_is_named(stated):
    (said,) = read(yaml.safe_dump({**stated, "foreign_key": 3})).without_counterpart
    assert "foreign_key" in said
