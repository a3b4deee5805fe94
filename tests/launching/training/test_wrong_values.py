"""Wrong values in the configurations of training frameworks are refused, never taken for a default."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.launching import read
from sightline.launching.options import Options
from sightline.quantities import show

MEGATRON = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "


def problems_of(source: str) -> list[str]:
    with pytest.raises(InputError) as raised:
        read(source)
    return list(raised.value.problems)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="$`"), min_size=1))
def test_an_option_is_a_number_or_a_problem(text):
    options = Options([f"--size={text}"])
    number = options.number("size", 7)
    try:
        expected = int(text)
    except ValueError:
        expected = 0
    if number == expected:
        assert not options.problems
    else:
        assert number == 7
        assert options.problems == [f"--size is {show(text)}; allowed: a whole number of 1 or more"]


def test_every_wrong_number_of_a_command_is_refused_together():
    found = problems_of(MEGATRON + "--tensor-model-parallel-size 4x --micro-batch-size two --seq-length")
    assert set(found) == {
        "--tensor-model-parallel-size is '4x'; allowed: a whole number of 1 or more",
        "--micro-batch-size is 'two'; allowed: a whole number of 1 or more",
        "--seq-length needs a value",
    }


@pytest.mark.parametrize("size", ["0", "-1", "1.5", ""])
def test_degrees_are_whole(size):
    (said,) = problems_of(MEGATRON + f"--micro-batch-size 1 --context-parallel-size='{size}'")
    assert said.startswith(f"--context-parallel-size is '{size}'")


def test_a_dropout_is_a_number():
    (said,) = problems_of(MEGATRON + "--micro-batch-size 1 --hidden-dropout little")
    assert said == "--hidden-dropout is 'little'; allowed: a number"


def test_variables_and_counts_that_torchrun_finds_out_stay_open():
    command = MEGATRON.replace("node 8", "node gpu") + "--micro-batch-size $MBS --tensor-model-parallel-size 2"
    reading = read(command)
    assert "micro_batch" not in reading.scenario["plan"]
    assert "$MBS" in reading.missing["plan.micro_batch"]
    assert reading.missing["cluster"].startswith("'<device>'")


def test_processes_of_a_launcher_are_a_number():
    assert problems_of(MEGATRON.replace("node 8", "node 8x") + "--micro-batch-size 1") == [
        "--nproc-per-node is '8x'; allowed: a whole number of 1 or more"
    ]


def test_wrong_values_of_deepspeed_are_refused_together():
    stated = {"train_micro_batch_size_per_gpu": "two", "zero_optimization": {"stage": "x"}, "bf16": {"enabled": "yes"}}
    assert problems_of(json.dumps(stated)) == [
        "train_micro_batch_size_per_gpu is 'two'; allowed: a whole number of 1 or more, or auto",
        "zero_optimization.stage is 'x'; allowed: 0, 1, 2, 3, auto",
        "bf16.enabled is 'yes'; allowed: true, false, auto",
    ]


@pytest.mark.parametrize(
    ("zero", "others", "said"),
    [
        ({}, {"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16.enabled and bf16.enabled are both true"),
        ({"offload_param": {"device": "disk"}, "stage": 3}, {}, "offload_param.device is 'disk'; allowed: none, cpu"),
        ({"offload_optimizer": {"device": "cpu", "ratio": 2}, "stage": 3}, {}, "ratio is 2; allowed: a number from 0"),
        ({"offload_optimizer": {"device": "cpu", "ratio": 0.5}, "stage": 1}, {}, "a part at stage 3 alone"),
        ({}, {"train_batch_size": 65, "gradient_accumulation_steps": 2}, "train_batch_size is 65; allowed: a multiple"),
    ],
)
def test_what_deepspeed_itself_refuses_is_refused(zero, others, said):
    stated = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": zero, **others}
    (problem,) = problems_of(json.dumps(stated))
    assert said in problem


def test_batch_sizes_of_deepspeed_agree_with_the_devices_that_are_started(tmp_path):
    stated = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}
    (tmp_path / "ds.json").write_text(json.dumps(stated))
    run = tmp_path / "run.sh"
    run.write_text("deepspeed --num_gpus 8 --num_nodes 2 train.py --deepspeed_config ds.json")
    with pytest.raises(InputError, match=r"x 16 devices = 32"):
        read(run)
    run.write_text("deepspeed --num_gpus 8 --num_nodes 4 train.py --deepspeed_config ds.json")
    assert read(run).missing["cluster"].startswith("'32x ")
    assert read(tmp_path / "ds.json").missing["cluster"].startswith("'32x ")


@pytest.mark.parametrize(
    ("stage", "key", "stated", "offloaded", "said"),
    [
        (3, "offload_optimizer", {"device": "nvme"}, ["optimizer"], "device is nvme, which is not predicted"),
        (3, "offload_optimizer", {"device": "cpu", "ratio": 0.5}, ["optimizer"], "ratio is 0.5, which is not"),
        (2, "offload_param", {"device": "cpu"}, "none", "offloads parameters from zero_optimization.stage 3 on"),
        (3, "offload_param", {"device": "cpu"}, ["parameters"], ""),
        (3, "offload_param", {"device": "none"}, "none", ""),
    ],
)
def test_offloading_that_no_scenario_states_is_said(stage, key, stated, offloaded, said):
    reading = read(json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": stage, key: stated}}))
    assert reading.scenario["plan"]["offload"] == offloaded
    assert said in " ".join(reading.without_counterpart)
    assert bool(said) == bool(reading.without_counterpart)


@pytest.mark.parametrize("stage", [True, 4, -1, "3"])
def test_stages_of_deepspeed_are_numbers(stage):
    (said,) = problems_of(json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": stage}}))
    assert said.startswith("zero_optimization.stage is ")


@pytest.mark.parametrize("key", ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"])
def test_auto_of_deepspeed_is_allowed(key):
    stated: dict[str, Any] = {"zero_optimization": {"stage": 2, "overlap_comm": "auto"}, "fp16": {"enabled": "auto"}}
    assert read(json.dumps(stated | {key: "auto"})).scenario["plan"]["zero_stage"] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("distributed_type: FSDP\nnum_processes: eight\n", "num_processes is 'eight'"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 5\n", "deepspeed_config.zero_stage is 5"),
        ('[training]\nseq_len = 1\n[parallelism]\ntensor_parallel_degree = "x"\n', "tensor_parallel_degree is 'x'"),
        ("[training]\nseq_len = 0\n[parallelism]\ntensor_parallel_degree = 2\n", "training.seq_len is 0"),
        ("torchrun --nproc_per_node 2 a.py --per_device_train_batch_size two", "per_device_train_batch_size is 'two'"),
    ],
)
def test_other_frameworks_refuse_too(text, said):
    (problem,) = problems_of(text)
    assert said in problem
    assert "allowed" in problem
