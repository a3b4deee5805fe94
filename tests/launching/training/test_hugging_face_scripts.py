"""Plans of DeepSpeed, of FSDP by accelerate and of the Trainer, as files and commands, and read back."""

import json
import os
import subprocess
import sys
import tempfile

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from launching.launched import asked, launched, plans, possible, read_back
from waiting import PATIENCE_S

from sightline.errors import InputError
from sightline.launching import read, save, write

ADAPTERS = [
    "none",
    {"kind": "lora", "rank": 16, "alpha": 32, "targets": ["query", "value"]},
    {"kind": "lora", "rank": 8, "also_trained": ["head"]},
    {"kind": "qlora", "rank": 64},
    {"kind": "qlora", "rank": 8, "upcast": True},
]
COMMON = {
    "micro_batch": [1, 2, 4],
    "recompute": ["none", "full"],
    "attention": ["flash", "eager"],
    "attention_kernel": ["flash-2", "flash-3"],
    "compile": [True, False],
    "adapter": ADAPTERS,
    "quantization": ["none", "nf4", "int8"],
}
WAYS = {
    "deepspeed": plans(
        "deepspeed",
        **COMMON,
        zero_stage=[0, 1, 2, 3],
        offload=["none", "optimizer", "parameters", ["optimizer", "parameters"], "activations"],
        dtype=["bf16", "fp16", "fp32"],
        optimizer=["adamw", "adamw-unfused", "adamw-8bit", "muon", "sgd"],
        overlap_gradient_reduce=[True, False],
        overlap_parameter_gather=[True, False],
        gradient_reduce_dtype=["fp32", "bf16", "fp16"],
    ),
    "fsdp": plans(
        "fsdp",
        **COMMON,
        zero_stage=[0, 2, 3],
        offload=["none", ["optimizer", "parameters"], "activations"],
        dtype=["bf16", "fp16", "fp32", "tf32", "fp8"],
        fp8_recipe=["delayed", "current"],
        optimizer=["adamw", "adamw-8bit", "sgd-momentum"],
        data_parallel_shard=[2, 8],
        gradient_reduce_dtype=["fp32", "bf16"],
    ),
    "transformers": plans(
        "transformers",
        **COMMON,
        dtype=["bf16", "fp16", "fp32", "tf32"],
        optimizer=["adamw", "adamw-unfused", "adamw-8bit", "sgd"],
        state_dtype=["fp32", "bf16"],
    ),
}


def _of(framework, data):
    scenario = possible(data.draw(WAYS[framework]), task="finetune")
    assume(scenario is not None)
    launch = launched(scenario)
    assume(launch is not None)
    return scenario, launch


@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_accelerate_takes_its_configuration(data):
    pytest.importorskip("accelerate")
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    scenario, launch = _of("fsdp", data)
    with tempfile.TemporaryDirectory() as folder:
        save(launch, folder)
        path = f"{folder}/accelerate.yaml"
        assert ClusterConfig.from_yaml_file(path).num_processes == 8
        arguments = launch_command_parser().parse_args(["--config_file", path, "train.py"])
        taken, _, _ = _validate_launch_command(arguments)
    assert taken.use_fsdp is (scenario.plan.zero_stage > 0)
    if scenario.plan.zero_stage > 0:
        assert str(taken.fsdp_reshard_after_forward).lower() == str(scenario.plan.zero_stage == 3).lower()


@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore")
def test_the_trainer_takes_its_arguments(data):
    transformers = pytest.importorskip("transformers")
    scenario, launch = _of("transformers", data)
    stated = {**json.loads(launch.files["training_arguments.json"]), "use_cpu": True}
    # This machine may have none of the formats.
    stated |= {"fp16": False, "tf32": None, "optim": stated["optim"]}
    (taken,) = transformers.HfArgumentParser(transformers.TrainingArguments).parse_dict(stated)
    assert taken.per_device_train_batch_size * taken.gradient_accumulation_steps * 8 == scenario.workload.global_batch


@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore")
def test_deepspeed_takes_its_configuration(data):
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    from deepspeed.runtime.config import DeepSpeedConfig

    scenario, launch = _of("deepspeed", data)
    # Its batch sizes are checked against the ranks, of which there is one here.
    stated = json.loads(launch.files["ds_config.json"])
    taken = DeepSpeedConfig({**stated, "train_batch_size": stated["train_batch_size"] // 8})
    assert taken.zero_config.stage == scenario.plan.zero_stage
    assert taken.gradient_accumulation_steps * scenario.plan.micro_batch * 8 == scenario.workload.global_batch


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"framework": "deepspeed", "context_parallel": 2}, r"plan\.context_parallel is 2"),
        ({"framework": "deepspeed", "pipeline_parallel": 2}, r"plan\.pipeline_parallel is 2"),
        ({"framework": "deepspeed", "zero_stage": 3, "data_parallel_shard": 4}, r"plan\.data_parallel_shard is 4"),
        ({"framework": "transformers", "dtype": "fp8"}, r"plan\.dtype is fp8: the Trainer has no argument"),
        ({"framework": "fsdp", "zero_stage": 0, "data_parallel_shard": 4}, r"replicas shard nothing"),
        ({"framework": "fsdp", "dtype": "fp16", "state_dtype": "bf16"}, r"unscales only gradients of fp32 weights"),
        ({"framework": "transformers", "dtype": "fp16", "state_dtype": "bf16"}, r"plan\.state_dtype is bf16"),
        (
            {"framework": "transformers", "state_dtype": "bf16", "gradient_reduce_dtype": "fp32"},
            r"sum gradients in the dtype of the weights",
        ),
    ],
)
def test_what_has_no_launch_is_refused(plan, sentence):
    scenario = possible(plan)
    if scenario is None:
        pytest.skip("the rules refuse it already")
    with pytest.raises(InputError, match=sentence):
        write(scenario)


def test_replicas_recompute_by_the_script(tmp_path):
    scenario = asked({"framework": "fsdp", "zero_stage": 0, "recompute": "full"}, task="finetune")
    saved = save(write(scenario), tmp_path)
    assert json.loads((tmp_path / "training.json").read_text())["recompute"] is True
    assert read_back(saved[0]).plan.recompute == "full"


def test_a_usual_deepspeed_file_is_read(tmp_path):
    path = tmp_path / "ds_config.json"
    stated = {
        "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "reduce_bucket_size": "auto"},
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
    }
    path.write_text(json.dumps(stated))
    reading = read(path)
    assert reading.scenario["plan"] == {"framework": "deepspeed", "zero_stage": 3, "offload": ["optimizer"]}
    assert set(reading.missing) == {"model", "cluster", "workload.sequence_length", "workload.global_batch"}
    assert reading.without_counterpart == []


def test_accelerate_may_start_deepspeed_or_megatron(tmp_path):
    path = tmp_path / "config.yaml"
    keys = {"zero_stage": 2, "offload_optimizer_device": "cpu", "offload_param_device": "none"}
    path.write_text(yaml.safe_dump({"distributed_type": "DEEPSPEED", "deepspeed_config": keys, "num_processes": 4}))
    reading = read(path)
    assert (reading.framework, reading.scenario["plan"]["zero_stage"]) == ("deepspeed", 2)
    assert reading.scenario["plan"]["offload"] == ["optimizer"]
    assert reading.missing["cluster"].startswith("'4x")
    keys = {"megatron_lm_tp_degree": 2, "megatron_lm_pp_degree": 4}
    path.write_text(yaml.safe_dump({"distributed_type": "MEGATRON_LM", "megatron_lm_config": keys}))
    reading = read(path)
    assert (reading.framework, reading.scenario["plan"]["pipeline_parallel"]) == ("megatron", 4)


def test_a_command_of_the_trainer_is_read():
    reading = read(
        "torchrun --nproc_per_node 8 run_clm.py --per_device_train_batch_size 2 --gradient_accumulation_steps 4 "
        "--bf16 True --gradient_checkpointing --optim adamw_bnb_8bit --output_dir out"
    )
    assert reading.scenario["workload"]["global_batch"] == 64
    expected = {"micro_batch": 2, "dtype": "bf16", "recompute": "full", "optimizer": "adamw-8bit"}
    assert reading.scenario["plan"] | expected == reading.scenario["plan"]


def test_ligers_kernels_are_fused_and_their_loss_stays_unread():
    command = "torchrun --nproc_per_node 8 run_clm.py --per_device_train_batch_size 2 --bf16 True"
    plain, liger = (read(f"{command}{stated}").scenario for stated in ("", " --use_liger_kernel True"))
    fused = {"fused_norm": True, "fused_rope": True, "fused_activation": True}
    assert liger["plan"] == plain["plan"] | fused
    assert liger["unread"] == ["use_liger_kernel"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "work"),
    [
        ({"framework": "fsdp", "zero_stage": 0, "recompute": "full"}, {}),
        ({"framework": "transformers", "micro_batch": 2}, {"lengths": [5, 300, 900]}),
        ({"framework": "fsdp", "zero_stage": 0, "attention": "eager"}, {"lengths": [5, 300], "packing": True}),
        ({"framework": "transformers", "adapter": {"kind": "lora", "rank": 4, "targets": ["query", "value"]}}, {}),
    ],
)
def test_the_script_trains_a_step(plan, work, tmp_path):
    pytest.importorskip("accelerate")
    adapted = "adapter" in plan
    asked_for = {"dtype": "fp32", **plan}
    scenario = asked(asked_for, cluster="1x h100-sxm-80gb", batch=2, task="finetune" if adapted else "pretrain", **work)
    save(write(scenario), tmp_path)
    arguments = tmp_path / "training_arguments.json"
    if arguments.exists():
        arguments.write_text(json.dumps({**json.loads(arguments.read_text()), "use_cpu": True}))
    ran = subprocess.run(
        [sys.executable, "train.py", "--steps", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "loss" in ran.stdout


def test_prefetching_of_fsdp_is_accepted_and_a_mistyped_key_is_not():
    config = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 1\n"
    assert not read(f"{config}  fsdp_forward_prefetch: true\n").without_counterpart
    assert read(f"{config}  fsdp_forward_prefetched: true\n").without_counterpart


def test_deepspeed_on_several_nodes_has_the_file_of_hosts_that_it_names():
    launch = write(asked({"framework": "deepspeed", "zero_stage": 2}, cluster="16x h100-sxm-80gb"))
    assert "--hostfile hostfile" in launch.command
    assert [line.split()[1] for line in launch.files["hostfile"].splitlines()] == ["slots=8", "slots=8"]
    assert "hostfile" not in write(asked({"framework": "deepspeed", "zero_stage": 2})).files


RECIPE = {"model_name_or_path": "Qwen/Qwen3-8B", "dataset_mixture": {"datasets": []}, "max_length": 2048, "bf16": True}


def test_a_recipe_of_trl_is_read_with_what_trl_does_by_default():
    found = read(yaml.safe_dump({**RECIPE, "per_device_train_batch_size": 4}))
    assert (found.scenario["model"], found.scenario["workload"]["sequence_length"]) == ("qwen3-8b", 2048)
    assert (found.scenario["plan"]["recompute"], found.scenario["plan"]["dtype"]) == ("full", "bf16")
    assert any("gradient_checkpointing is not stated" in said for said in found.without_counterpart)
    plain = read("python ours.py --per_device_train_batch_size 4 --bf16 True").scenario["plan"]
    assert (plain["recompute"], plain["dtype"]) == ("none", "bf16")


@pytest.mark.parametrize("key", ["beta", "num_generations", "max_source_length", "optim_target_modules"])
def test_arguments_of_another_training_are_refused(key):
    with pytest.raises(InputError, match=f"{key} is 1"):
        read(yaml.safe_dump({**RECIPE, "per_device_train_batch_size": 4, key: 1}))


@pytest.mark.parametrize("option", ["--lora_r 8", "--use_lora True", "--bits 4", "--lora_enable True"])
def test_an_adapter_by_arguments_of_a_scripts_own_is_missing(option):
    found = read(f"torchrun ours.py --per_device_train_batch_size 2 {option}")
    assert ("plan.adapter" in found.missing, "adapter" in found.scenario["plan"]) == (True, False)


def test_a_configuration_of_deepspeed_is_found_above_the_script_or_missing(tmp_path):
    (tmp_path / "zero2.json").write_text(
        '{"zero_optimization": {"stage": 2}, "activation_checkpointing": {"profile": true}}'
    )
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "train.sh"
    script.write_text("deepspeed --num_gpus 8 a.py --deepspeed ./zero2.json --per_device_train_batch_size 2")
    found = read(script)
    assert found.scenario["plan"]["zero_stage"] == 2
    assert any("read as recomputation of all layers" in said for said in found.without_counterpart)
    script.write_text("torchrun a.py --per_device_train_batch_size 2 --deepspeed=$CONFIG")
    assert "plan.zero_stage" in read(script).missing


def test_sharding_over_some_devices_is_named():
    assert "fsdp" in read("torchrun a.py --per_device_train_batch_size 2 --fsdp 'hybrid_shard auto_wrap'").unread
    for strategy in ("HYBRID_SHARD", "HYBRID_SHARD_ZERO2"):
        keys = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": strategy}}
        assert "fsdp_config.fsdp_sharding_strategy" in read(yaml.safe_dump(keys)).unread


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"zero_optimization": {"stage": 1}, "optimizer": {"type": "Lamb"}}', "optimizer.type is 'Lamb'"),
        ("distributed_type: TPU\nnum_processes: 8\n", "distributed_type is 'TPU'"),
    ],
)
def test_what_is_not_predicted_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        read(text)
