"""Plans as commands of Megatron-LM, and commands read back."""

import importlib
import os
import re
import sys
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from launching.launched import MIXTURE, asked, launched, plans, possible, read_back

from sightline.errors import InputError
from sightline.launching import read, save, write
from sightline.launching.shell import launch_words
from sightline.launching.training.rules import refusals
from sightline.prediction import predict

PLANS = plans(
    "megatron",
    tensor_parallel=[1, 2, 4],
    pipeline_parallel=[1, 2, 4, 8],
    context_parallel=[1, 2],
    context_exchange=["ring", "all-gather", "all-to-all"],
    sequence_parallel=[True, False],
    virtual_stages=[1, 2],
    zero_stage=[0, 1, 3],
    recompute=[
        "none",
        "selective",
        "full",
        {"modules": "full", "layers": 2},
        {"modules": "full", "together": 2},
        {"modules": ["mlp", "layernorm"]},
    ],
    offload=["none", "optimizer", "activations"],
    attention=["flash", "eager"],
    attention_kernel=["cudnn"],
    dtype=["fp32", "fp16", "bf16", "fp8", "mxfp8"],
    fp8_recipe=["delayed", "current", "blockwise"],
    bf16_layers=[0, 2],
    micro_batch=[1, 2, 4],
    optimizer=["adamw", "sgd-momentum"],
    overlap_gradient_reduce=[True, False],
    overlap_parameter_gather=[True, False],
    gradient_reduce_dtype=["fp32", "bf16"],
    fused_loss=[True, False],
    fused_rope=[True, False],
    fused_activation=[True, False],
)
MIXED = plans(
    "megatron",
    tensor_parallel=[1, 2],
    expert_parallel=[1, 2, 4, 8],
    expert_tensor_parallel=[1, 2],
    expert_dispatch=["all-to-all", "deduplicated"],
    expert_capacity=[0.0, 1.5],
    zero_stage=[0, 1],
    pipeline_parallel=[1, 2],
)


@pytest.mark.parametrize(
    "name", ["gpt-3-175b", "llama-3.1-405b", "llama-2-7b", "deepseek-v3", "mixtral-8x7b", "qwen3-30b-a3b", "qwen3-8b"]
)
def test_a_model_is_read_back(name):
    scenario = asked({"framework": "megatron"}, model=name, cluster="64x h100-sxm-80gb")
    back = read_back(write(scenario).command, "64x h100-sxm-80gb").model
    assert back.parameters == scenario.model.parameters
    if scenario.model.positions == "rotary":
        assert (back.rope_theta, back.norm_eps) == (scenario.model.rope_theta, scenario.model.norm_eps)
    assert back.active_parameters == scenario.model.active_parameters


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"recompute": {"modules": "full", "every": 2}}, "every"),
        ({"pipeline_parallel": 2, "schedule": "gpipe"}, r"plan\.schedule is gpipe"),
        ({"overlap_gradient_reduce": False, "zero_stage": 1}, r"plan\.overlap_parameter_gather is true"),
        ({"offload": "optimizer"}, "needs the distributed optimizer"),
        ({"tensor_parallel": 2, "tensor_overlap": "all"}, r"needs plan\.sequence_parallel"),
        ({"offload": "activations", "recompute": "full"}, r"needs plan\.pipeline_parallel 1"),
        ({"offload": "activations", "pipeline_parallel": 2}, r"needs plan\.pipeline_parallel 1"),
        ({"gradient_reduce_dtype": "fp16"}, r"allowed: fp32, bf16"),
    ],
)
def test_what_megatron_has_not_is_refused(plan, sentence):
    scenario = possible({"framework": "megatron", **plan})
    if scenario is None:
        pytest.skip("the rules refuse it already")
    with pytest.raises(InputError, match=sentence):
        write(scenario)


@pytest.mark.parametrize(
    ("stages", "layers", "said"),
    [(1, 32, False), (1, 33, True), (2, 16, False), (2, 20, True)],
)
def test_recomputing_more_layers_than_a_stage_has_is_said(stages, layers, said):
    plan = {"pipeline_parallel": stages, "recompute": {"modules": "full", "layers": layers}}
    scenario = asked({"framework": "megatron", **plan}, model="llama-3.1-8b")
    sentences = [one for one in write(scenario).without_counterpart if one.startswith("plan.recompute is of")]
    assert bool(sentences) is said
    assert all(f"of {layers} layers" in one and f"has {32 // stages}" in one for one in sentences)


def test_layers_that_predict_further_tokens_are_recomputed_one_by_one():
    plan = {"framework": "megatron", "prediction_layers": 1, "recompute": {"modules": "full", "together": 4}}
    scenario = asked(plan, model="deepseek-v3", cluster="512x h100-sxm-80gb", batch=2048)
    with pytest.raises(InputError, match=r"allowed with plan\.prediction_layers 1: together 1"):
        write(scenario)


def test_models_without_arguments_are_refused():
    with pytest.raises(InputError, match=r"bloom-176b has alibi positions, for which pretrain_gpt\.py has no argument"):
        write(asked({"framework": "megatron"}, model="bloom-176b", cluster="64x h100-sxm-80gb"))


@pytest.mark.parametrize("layers", [(5, 3), (2, 2, 3, 1)])
def test_layers_of_stages_are_read_back(layers):
    plan = {"framework": "megatron", "pipeline_parallel": len(layers), "stage_layers": list(layers)}
    assert read_back(write(asked(plan)).command).plan.stage_layers == layers


def test_a_layout_with_factors_is_read():
    reading = read(
        "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 "
        "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et|(tt|)*2t*3L'"
    )
    assert reading.scenario["plan"]["stage_layers"] == [1, 2, 2, 3]


def test_unlike_devices_are_refused():
    cluster = {"devices": ["8x a100-sxm-80gb", "8x h100-sxm-80gb"], "network": "infiniband-hdr"}
    with pytest.raises(InputError, match="launches are written for equal devices"):
        write(asked({"framework": "megatron"}, cluster=cluster))


def test_a_published_script_is_read():
    reading = read(
        """#!/bin/bash
        export CUDA_DEVICE_MAX_CONNECTIONS=1
        GPUS_PER_NODE=8
        NUM_NODES=16
        DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES --master_addr $MASTER_ADDR)
        GPT_MODEL_ARGS=(
            --num-layers 96
            --hidden-size 12288
            --num-attention-heads 96
            --seq-length 2048
            --max-position-embeddings 2048
            --attention-backend auto # Can use (flash/fused/unfused/local)
        )
        TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 1536 --train-iters 500000 --fp16 --lr 6.0e-5)
        MODEL_PARALLEL_ARGS=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16)
        torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
            ${GPT_MODEL_ARGS[@]} \\
            ${TRAINING_ARGS[@]} \\
            ${MODEL_PARALLEL_ARGS[@]} \\
            --vocab-file $1 --tokenizer-type GPT2BPETokenizer --unheard-of 3
        """
    )
    assert reading.framework == "megatron"
    assert reading.scenario["model"]["num_hidden_layers"] == 96
    assert reading.scenario["model"]["vocab_size"] == 50257
    assert reading.scenario["plan"] | {"tensor_parallel": 8, "pipeline_parallel": 16} == reading.scenario["plan"]
    assert reading.missing["cluster"].startswith("'128x <device>'")
    assert any("--unheard-of" in sentence for sentence in reading.without_counterpart)
    assert not any("$MASTER_ADDR" in sentence for sentence in reading.without_counterpart)


@pytest.mark.parametrize(("tokens", "steps"), [(None, None), (64 * 512 * 7, 7)])
@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed", "fsdp", "transformers"])
def test_a_run_has_the_length_that_is_stated_or_none(framework, tokens, steps, tmp_path):
    scenario = asked({"framework": framework}, model="llama-2-7b", total_tokens=tokens)
    save(write(scenario), tmp_path)
    assert predict(read_back(tmp_path)).to_dict().get("steps") == steps


def test_what_a_command_leaves_open_is_asked_for():
    reading = read("torchrun pretrain_gpt.py --tensor-model-parallel-size 2 --micro-batch-size $MBS")
    assert set(reading.missing) == {
        *("cluster", "model", "workload.sequence_length", "workload.global_batch", "plan.micro_batch")
    }
    assert "micro_batch" not in reading.scenario["plan"]


@pytest.fixture(scope="module")
def megatron_parser():
    pytest.importorskip("megatron.training", reason="Megatron-LM is not on the path")
    return importlib.import_module("megatron.training.arguments")


@given(plan=PLANS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_megatron_accepts_it(megatron_parser, plan):
    scenario = possible(plan)
    assume(scenario is not None)
    _accepted(megatron_parser, scenario)


@given(plan=MIXED)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_megatron_accepts_experts(megatron_parser, plan):
    scenario = possible(plan, model=MIXTURE)
    assume(scenario is not None)
    _accepted(megatron_parser, scenario)


@pytest.mark.parametrize("name", ["gpt-3-175b", "llama-3.1-405b", "deepseek-v3", "qwen3-30b-a3b"])
@pytest.mark.parametrize("plan", [{}, {"pipeline_parallel": 16}, {"pipeline_parallel": 4, "virtual_stages": 2}])
def test_megatron_accepts_a_model(megatron_parser, name, plan):
    _accepted(megatron_parser, asked({"framework": "megatron", **plan}, model=name, cluster="64x h100-sxm-80gb"))


def _accepted(parser, scenario):
    """Megatron's own parser takes the command, and its checks pass it with our degrees."""
    launch = launched(scenario)
    assume(launch is not None)
    words = launch_words(launch.command)
    start = next(i for i, word in enumerate(words) if word.endswith("pretrain_gpt.py"))
    environment = dict(re.findall(r"\b((?:CUDA|NVTE)_\w+)=(\S+)", launch.command))
    environment["WORLD_SIZE"] = str(scenario.cluster.devices)
    with (
        mock.patch.object(sys, "argv", list(words[start:])),
        mock.patch.dict(os.environ, environment),
        mock.patch("torch.cuda.get_device_capability", return_value=(9, 0)),
        mock.patch.object(parser, "is_te_min_version", return_value=True),
        mock.patch.object(parser, "get_device_arch_version", return_value=9),
    ):
        taken = parser.validate_args(parser.parse_args())
    plan = scenario.plan
    assert taken.data_parallel_size == plan.data_parallel
    assert (taken.virtual_pipeline_model_parallel_size or 1) == (
        plan.virtual_stages if plan.pipeline_parallel > 1 else 1
    )


@pytest.mark.parametrize("layout", ["t*99999999", "((t*99)*99)*99", f"t*{'9' * 5000}", f"({'t' * 900})*99999|L"])
def test_a_layout_that_stands_for_more_layers_than_any_model_has_is_refused(layout):
    with pytest.raises(InputError, match="pipeline-model-parallel-layout"):
        read(f"torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 "
             f"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout '{layout}'")  # fmt: skip


@pytest.mark.parametrize("frequency", ["0", "9" * 5000])
def test_an_impossible_frequency_of_experts_is_a_sentence(frequency):
    command = (
        "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 --num-experts 8 "
        f"--moe-layer-freq '{frequency}'"
    )
    with pytest.raises(InputError, match="moe-layer-freq"):
        read(command)


def test_a_hybrid_pattern_says_what_each_layer_is():
    command = (
        'torchrun --nproc-per-node 8 pretrain_mamba.py --hybrid-layer-pattern "M-M*|M-E/M" --hidden-size 64 '
        "--num-attention-heads 4 --mamba-head-dim 16 --mamba-state-dim 32 --mamba-num-groups 2 --num-experts 4 "
        "--seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 --vocab-size 512"
    )
    model = read(command).scenario["model"]
    counted = {(kind["mixer"], kind["mlp"]): kind["count"] for kind in model["layer_kinds"]}
    assert counted == {
        ("state-space", "none"): 3,
        ("none", "dense"): 2,
        ("attention", "none"): 1,
        ("none", "experts"): 1,
    }
    assert model["num_hidden_layers"] == 7
    assert model["state_space"] == {"heads": 8, "head_dim": 16, "groups": 2, "state": 32, "conv_width": 4}


def test_a_letter_of_a_hybrid_that_is_not_read_is_refused():
    command = "torchrun pretrain_mamba.py --hybrid-layer-pattern MQ --hidden-size 64 --num-attention-heads 4"
    with pytest.raises(InputError, match="layer Q"):
        read(command)


SHORT = (
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --vocab-size 1024 --seq-length 512 --micro-batch-size 1"
)


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("pretrain_bert.py", "an encoder"),
        ("pretrain_t5.py", "an encoder and a decoder"),
        ("examples/multimodal/train.py", "a model with images"),
        ("tools/run_text_generation_server.py", "generation"),
        ("tasks/main.py", "a task"),
        ("train_rl.py", "reinforcement learning"),
    ],
)
def test_scripts_of_other_models_are_refused(script, what):
    with pytest.raises(InputError, match=what):
        read(f"torchrun {script} {SHORT}")


@pytest.mark.parametrize(
    ("options", "part", "key", "value"),
    [
        ("--position-embedding-type alibi", "model", "positions", "alibi"),
        ("--position-embedding-type yarn", "model", "positions", "rotary"),
        ("--transformer-impl local", "plan", "attention", "eager"),
        ("--transformer-impl local --use-flash-attn", "plan", "attention", "flash"),
        ("--optimizer dist_muon", "plan", "optimizer", "muon"),
    ],
)
def test_an_option_means_what_megatron_does_with_it(options, part, key, value):
    reading = read(f"torchrun pretrain_gpt.py {SHORT} {options}")
    assert reading.scenario[part][key] == value
    assert reading.unread == []


@pytest.mark.parametrize(
    ("script", "options", "name"),
    [
        ("ours/pretrain_llama.py", "", "ours/pretrain_llama.py"),
        ("pretrain_gpt.py", "--position-embedding-type none", "--position-embedding-type"),
        ("pretrain_gpt.py", "--data-impl mmap", "--data-impl"),
        ("pretrain_gpt.py", "$MORE_ARGS", "$MORE_ARGS"),
    ],
)
def test_what_may_change_a_step_is_unread(script, options, name):
    assert name in read(f"torchrun {script} {SHORT} {options}").unread


@pytest.mark.parametrize(
    ("layers", "offload", "is_read"), [(0, "none", True), (7, ["activations"], True), (3, "none", False)]
)
def test_activations_of_all_layers_or_none_are_offloaded(layers, offload, is_read):
    found = read(f"torchrun pretrain_gpt.py --num-layers 8 --hidden-size 256 --cpu-offloading-num-layers {layers}")
    assert found.scenario["plan"]["offload"] == offload
    assert ("--cpu-offloading-num-layers" not in found.unread) is is_read


def test_an_optimizer_that_is_not_predicted_is_refused():
    with pytest.raises(InputError, match="--optimizer is 'lion'"):
        read(f"torchrun pretrain_gpt.py {SHORT} --optimizer lion")


def test_switches_that_only_some_branches_set_are_missing():
    script = 'if [ "$1" = a ]; then P=" --bf16"; S=" --sequence-parallel"; else P=" --fp16"; S=; fi\n'
    reading = read(f"{script}torchrun pretrain_gpt.py {SHORT} $P $S")
    assert {"plan.dtype", "plan.sequence_parallel"} <= {*reading.missing}
    assert not {"dtype", "sequence_parallel"} & {*reading.scenario["plan"]}
    known = read(f"{script.replace('$1', 'a')}torchrun pretrain_gpt.py {SHORT} $P $S").scenario["plan"]
    assert (known["dtype"], known["sequence_parallel"]) == ("bf16", True)


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        ({"expert_parallel": 1}, "plan.expert_parallel above 1"),
        ({"pipeline_parallel": 4}, "plan.virtual_stages"),
        ({"recompute": "full"}, "plan.recompute"),
        ({"recompute": {"modules": ["moe"]}}, "plan.recompute"),
        ({"dtype": "fp32"}, "plan.dtype"),
        ({"recompute": "selective"}, None),
        ({"pipeline_parallel": 4, "virtual_stages": 2}, None),
    ],
)
def test_an_exchange_of_experts_is_overlapped_where_megatron_can(plan, key):
    plan = {"framework": "megatron", "expert_parallel": 8, "expert_overlap": True, **plan}
    refused = [str(one) for one in refusals(asked(plan, model="mixtral-8x7b", cluster="64x h100-sxm-80gb"))]
    assert [one for one in refused if "expert_overlap" in one and (key or "") in one] == refused
    assert len(refused) == (key is not None)


@pytest.mark.parametrize(("name", "runs"), [("megatron", False), ("fsdp", False), ("maxtext", True)])
def test_maxtext_alone_runs_on_tpus(name, runs):
    plan = {"framework": name, "zero_stage": 3}
    scenario = asked(plan, model="llama-3.1-8b", cluster="64x tpu-v5p")
    said = f"plan.framework {name} does not run on tpu-v5p; allowed: maxtext"
    assert (said in refusals(scenario)) is (said in scenario.warnings) is not runs
