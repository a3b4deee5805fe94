"""Options of commands: which are read, and what is said of the others."""

import json
from importlib import import_module

import pytest

from sightline.errors import InputError
from sightline.launching import read
from sightline.launching.training.megatron import EXPERT_KEYS, KEYS

MEGATRON = "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --micro-batch-size 1 "
TORCHRUN = "torchrun --nproc_per_node 8 "


def remarks(source: str) -> str:
    return "\n".join(read(source).without_counterpart)


@pytest.mark.parametrize(
    ("source", "written", "meant"),
    [
        ("vllm serve Qwen/Qwen3-32B --max-num-seq 8", "--max-num-seq", "--max-num-seqs"),
        ("vllm serve Qwen/Qwen3-32B --enable-expert-paralel", "--enable-expert-paralel", "--enable-expert-parallel"),
        ("python -m sglang.launch_server --model-path x/y --tp-sise 8", "--tp-sise", "--tp-size"),
        ("trtllm-serve x/y --max_num_token 8", "--max-num-token", "--max-num-tokens"),
        ("text-generation-launcher --model-id x/y --num-shards 2", "--num-shards", "--num-shard"),
        ("llama-server -m x.gguf --ubatch-sise 8", "--ubatch-sise", "--ubatch-size"),
        (TORCHRUN + MEGATRON + "--global-batchsize 8", "--global-batchsize", "--global-batch-size"),
        (
            TORCHRUN + "train.py --per_device_train_batch_size 2 --gradient_checkpoint true --optimm sgd",
            "optimm",
            "optim",
        ),
        (
            '{"train_batch_size": 8, "zero_optimisation": {"stage": 3}}',
            "zero_optimisation.stage",
            "zero_optimization.stage",
        ),
        (
            '{"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_com": true}}',
            "zero_optimization.overlap_com",
            "zero_optimization.overlap_comm",
        ),
        ("distributed_type: FSDP\nnum_procceses: 8\n", "num_procceses", "num_processes"),
        (
            "[training]\nseqlen = 1\n[parallelism]\ntensor_parallel_degre = 2\n",
            "parallelism.tensor_parallel_degre",
            "parallelism.tensor_parallel_degree",
        ),
    ],
)
def test_a_misspelled_name_is_said_with_what_may_be_meant(source, written, meant):
    assert f"{written} (did you mean {meant}?)" in remarks(source)


@pytest.mark.parametrize(
    "source",
    [
        "vllm serve Qwen/Qwen3-32B --enable-lora --max-loras 4 --cpu-offload-gb 4",
        TORCHRUN + MEGATRON + "--make-vocab-size-divisible-by 128 --moe-router-padding-for-fp8",
    ],
)
def test_another_option_is_no_misspelling(source):
    said = remarks(source)
    assert said.startswith("no scenario key corresponds to ")
    assert "did you mean" not in said


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (TORCHRUN + MEGATRON + "--seq-length 2048 --seq-length 4096", "--seq-length is given twice, as '2048' and"),
        ("torchrun --nproc_per_node 8 --nproc_per_node 4 " + MEGATRON, "--nproc-per-node is given twice, as '8' and"),
    ],
)
def test_an_option_has_one_value(source, said):
    with pytest.raises(InputError) as raised:
        read(source)
    (problem,) = raised.value.problems
    assert problem.startswith(said)


def test_what_changes_nothing_may_be_given_twice():
    command = f"docker run --env A=1 --env B=2 image {TORCHRUN}{MEGATRON}--seq-length 2048 --seq-length 2048"
    assert read(command).scenario["workload"]["sequence_length"] == 2048


def test_addresses_that_only_a_run_knows_are_no_remark():
    command = (
        "torchrun --nproc_per_node 8 --nnodes 2 --node_rank $SLURM_NODEID --master_addr $MASTER_ADDR "
        f'--rdzv_endpoint "$HEAD:$PORT" {MEGATRON}--load $CHECKPOINT --data-path $DATA'
    )
    assert not [said for said in read(command).without_counterpart if "$" in said]
    assert read(command).missing["cluster"].startswith("'16x <device>'")


@pytest.mark.parametrize(
    ("launcher", "option"),
    [
        ("torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES", "--nnodes is $SLURM_NNODES"),
        ("torchrun --nproc_per_node $GPUS --nnodes 2", "--nproc-per-node is $GPUS"),
    ],
)
def test_a_number_that_only_a_run_knows_is_named(launcher, option):
    reading = read(f"{launcher} --master_addr $HEAD {MEGATRON}")
    (said,) = [said for said in reading.without_counterpart if "$" in said]
    assert said.startswith(option)
    assert reading.missing["cluster"].startswith("'<device>'")


ENGINES = {
    "vllm": "vllm serve Qwen/Qwen3-32B ",
    "sglang": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B ",
    "tensorrt_llm": "trtllm-serve Qwen/Qwen3-32B ",
    "tgi": "text-generation-launcher --model-id Qwen/Qwen3-32B ",
    "lightllm": "python -m lightllm.server.api_server --model_dir Qwen/Qwen3-32B ",
}
VALUED = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size", "cp-comm-type"),
    *("num-layers-per-virtual-pipeline-stage", "pipeline-model-parallel-layout", "mtp-num-layers", "optimizer"),
    *("num-distributed-optimizer-instances", "recompute-granularity", "attention-backend", "moe-token-dispatcher-type"),
    *("expert-model-parallel-size", "expert-tensor-parallel-size", "moe-expert-capacity-factor"),
)
"""Arguments of Megatron-LM that take a value, by which a field of the plan is stated."""
NOT_OF_VALUES = (
    "speculative",
    "cuda_graphs",
    "chunked_prefill",
    "prefix_cache",
    "expert_parallel",
    "redundant_experts",
    "scheduler",
)
"""Said by switches without a value, or by several options together."""


@pytest.mark.parametrize(
    ("command", "option", "field"),
    [
        (command, option.name, option.field)
        for engine, command in ENGINES.items()
        for option in import_module(f"sightline.launching.engines.{engine}").DIALECT.options
        if option.name.startswith("--") and option.field and option.field not in NOT_OF_VALUES
    ]
    + [
        (f"{TORCHRUN}{MEGATRON}--num-experts 8 ", option.name, option.field)
        for option in (*KEYS, *EXPERT_KEYS)
        if option.name[2:] in VALUED
    ]
    + [
        (f"{TORCHRUN}{MEGATRON}", "--recompute-granularity full --recompute-method", "recompute"),
        (f"{TORCHRUN}train.py --per_device_train_batch_size 1 ", "--optim", "optimizer"),
        (f"{TORCHRUN}train.py --optim sgd ", "--per_device_train_batch_size", "micro_batch"),
        (f"{TORCHRUN}train.py --per_device_train_batch_size 1 ", "--bf16", "dtype"),
    ],
)
@pytest.mark.parametrize("value", ["$X", "${X}", "$((8 / X))"])
def test_what_only_a_run_knows_is_missing(command, option, field, value):
    reading = read(f'{command}{option} "{value}"')
    assert "X" in reading.missing[f"plan.{field}"]
    assert field not in reading.scenario["plan"]
    assert not [said for said in reading.without_counterpart if "X" in said]


def test_a_model_of_unknown_groups_is_missing():
    reading = read(f"{TORCHRUN}{MEGATRON}--group-query-attention --num-query-groups $G --vocab-size 32000")
    assert ("model" in reading.scenario, "$G" in reading.missing["model"]) == (False, True)


def test_options_in_a_variable_that_is_not_set_are_named():
    (said,) = read(f"{TORCHRUN}{MEGATRON}--bf16 ${{MOE_ARGS[@]}} --fp16").without_counterpart
    assert said.startswith("${MOE_ARGS[@]} is not set")


@pytest.mark.parametrize("option", ["--nodes=4", "-N 4", "--nodes 4  # half a rack"])
def test_slurm_sets_variables_by_the_head_of_a_script(option):
    script = f"#!/bin/bash\n#SBATCH {option}\n#SBATCH --gres=gpu:h100:8\nsrun torchrun --nnodes $SLURM_NNODES "
    reading = read(f"{script}--nproc_per_node $SLURM_GPUS_ON_NODE {MEGATRON}\n")
    assert reading.missing["cluster"].startswith("'32x <device>'")


@pytest.mark.parametrize(
    ("launcher", "devices"),
    [
        ("srun --nodes 4 --ntasks-per-node 8 python", 32),
        ("srun -N 4 --ntasks-per-node 1 torchrun --nnodes $SLURM_NNODES --nproc_per_node 8", 32),
        ("accelerate launch --num_processes 16", 16),
        ("deepspeed --num_gpus 8 --num_nodes 2", 16),
        ("python -m torch.distributed.run --nproc_per_node 4", 4),
        ("python /opt/torch/distributed/launch.py --nproc_per_node 4", 4),
    ],
)
def test_every_launcher_says_how_many_devices(launcher, devices):
    command = f"{launcher} train.py --per_device_train_batch_size 2"
    reading = read(command)
    assert reading.scenario["workload"]["global_batch"] == 2 * devices
    assert not reading.without_counterpart


@pytest.mark.parametrize("option", ["--max_length", "--max_seq_length", "--block_size"])
def test_a_script_of_transformers_names_its_model_and_length(option):
    script = f"sft.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 {option} 4096"
    reading = read(f"accelerate launch --num_processes 8 {script}")
    assert reading.scenario["model"] == "qwen3-8b"
    assert reading.scenario["workload"] == {"task": "finetune", "sequence_length": 4096, "global_batch": 16}
    assert set(reading.missing) == {"cluster"}
    with pytest.raises(InputError, match=r"allowed: a whole number of 1 or more"):
        read(f"accelerate launch --num_processes 8 {script.replace('4096', 'long')}")


def test_options_of_the_launcher_are_not_those_of_the_program(tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps({"train_batch_size": 8, "bf16": {"enabled": True}}))
    (tmp_path / "run.sh").write_text("srun --nodes 1 --gpus-per-node 8 deepspeed --num_gpus 8 a.py --deepspeed ds.json")
    assert not read(tmp_path / "run.sh").without_counterpart


@pytest.mark.parametrize("words", ["--enable-lora Qwen/Qwen3-8B -O0", "-O0 Qwen/Qwen3-8B --enable-lora"])
def test_a_model_behind_a_switch_and_a_level_without_a_space_are_read(words):
    scenario = read(f"vllm serve {words}").scenario
    assert scenario["model"] == "qwen3-8b"
    assert scenario["plan"]["cuda_graphs"] is False
