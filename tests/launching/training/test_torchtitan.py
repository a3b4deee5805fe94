"""Plans as TOML files of torchtitan, and such files read back."""

import json
import runpy
import sys
import tempfile
import tomllib
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from launching.launched import MIXTURE, SMALL, asked, launched, plans, possible

from sightline.errors import InputError
from sightline.launching import read, save, write
from sightline.launching.training.torchtitan import toml_text

PLANS = plans(
    "torchtitan",
    tensor_parallel=[1, 2, 4],
    pipeline_parallel=[1, 2, 4],
    context_parallel=[1, 2],
    context_exchange=["all-gather", "ring"],
    sequence_parallel=[True, False],
    virtual_stages=[1, 2],
    schedule=["1f1b", "gpipe", "zero-bubble"],
    zero_stage=[0, 2, 3],
    data_parallel_shard=[1, 2],
    recompute=["none", "selective", "full", {"modules": "full", "every": 2}],
    offload=["none", ["optimizer", "parameters"]],
    dtype=["fp32", "bf16", "fp8", "mxfp8"],
    micro_batch=[1, 2],
    optimizer=["adamw", "adamw-unfused"],
    compile=[True, False],
    state_dtype=["fp32", "bf16"],
    tensor_overlap=["none", "all"],
)
CLUSTER = "16x b200-sxm-180gb"


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"zero_stage": 0, "tensor_parallel": 2}, "replicates weights only without"),
        ({"gradient_reduce_dtype": "bf16"}, r"reduces in fp32"),
        ({"tensor_parallel": 2, "tensor_overlap": "all", "compile": False}, "compiles its asynchronous one"),
        ({"tensor_parallel": 2, "sequence_parallel": False}, r"plan\.sequence_parallel is false.*allowed: true"),
        ({"pipeline_parallel": 2, "schedule": "zero-bubble"}, r"plan\.schedule is zero-bubble"),
    ],
)
def test_what_torchtitan_has_not_is_refused(plan, sentence):
    scenario = asked({"framework": "torchtitan", **plan}, model="llama-3.1-8b", cluster=CLUSTER)
    with pytest.raises(InputError, match=sentence):
        write(scenario)


def test_models_without_a_class_are_refused():
    with pytest.raises(InputError, match="gpt-3-175b has layers that no model of torchtitan has"):
        write(asked({"framework": "torchtitan"}, model="gpt-3-175b", cluster="64x h100-sxm-80gb"))


QWEN = {**MIXTURE, "model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 128, "head_dim": 32}


@pytest.mark.parametrize("model", [SMALL, {k: v for k, v in QWEN.items() if k != "num_local_experts"}])
def test_a_model_of_its_own_is_added(model, tmp_path, monkeypatch):
    scenario = asked({"framework": "torchtitan"}, model=model)
    save(write(scenario), tmp_path)
    stated = tomllib.loads((tmp_path / "train.toml").read_text())
    assert stated["experimental"]["custom_import"] == "model_shape"
    added = _run(tmp_path / "model_shape.py", monkeypatch)
    shape = added[stated["model"]["name"]][stated["model"]["flavor"]]
    assert (shape["n_layers"], shape["dim"], shape["n_kv_heads"]) == (8, 256, 8)
    if stated["model"]["name"] == "llama3":
        # As torchtitan's feed-forward layer computes its width.
        wide = int(shape["ffn_dim_multiplier"] * int(2 * 4 * shape["dim"] / 3))
        assert -(-wide // shape["multiple_of"]) * shape["multiple_of"] == scenario.model.intermediate_size


def test_a_fine_tuning_starts_from_weights(tmp_path):
    scenario = asked({"framework": "torchtitan"}, model="llama-3.1-8b", task="finetune")
    launch = write(scenario)
    save(launch, tmp_path)
    stated = tomllib.loads((tmp_path / "train.toml").read_text())
    assert stated["checkpoint"] == {"enable": True, "initial_load_in_hf": True}
    assert '--checkpoint.initial-load-path "${WEIGHTS:?}"' in launch.command
    reading = read(tmp_path)
    assert reading.scenario["workload"]["task"] == "finetune"
    assert reading.without_counterpart == []


@pytest.mark.parametrize(
    ("checkpoint", "option", "task"),
    [
        ({"enable": True, "initial_load_path": "weights"}, "", "finetune"),
        ({"enable": True}, "--checkpoint.initial_load_path weights", "finetune"),
        ({"enable": True, "initial_load_path": "run", "initial_load_model_only": False}, "", "pretrain"),
        ({"initial_load_path": "weights"}, "", "pretrain"),
        ({"enable": True}, "", "pretrain"),
    ],
)
def test_a_run_that_loads_no_weights_is_a_pretraining(checkpoint, option, task, tmp_path):
    tables = {"model": {"name": "llama3", "flavor": "8B"}, "training": {"steps": 5}, "checkpoint": checkpoint}
    (tmp_path / "train.toml").write_text(toml_text(tables))
    command = f"torchrun --nproc-per-node 8 -m torchtitan.train --job.config_file train.toml {option}"
    (tmp_path / "launch.sh").write_text(command)
    assert read(tmp_path).scenario["workload"]["task"] == task


def _run(path: Path, monkeypatch):
    """The module run next to stand-ins of torchtitan's classes, which keep their arguments."""
    added = {"llama3": {}, "qwen3": {}}
    classes = {
        "torchtitan.models.llama3": {"TransformerModelArgs": dict, "llama3_args": added["llama3"]},
        "torchtitan.models.qwen3": {"Qwen3ModelArgs": dict, "qwen3_args": added["qwen3"]},
        "torchtitan.models.moe": {"MoEArgs": dict},
        "torchtitan": {},
        "torchtitan.models": {},
    }
    for name, members in classes.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    runpy.run_path(str(path))
    return added


def test_a_published_file_is_read():
    reading = read(
        """
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
steps = 1000
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
[quantize.linear.float8]
enable_fsdp_float8_all_gather = false
[fault_tolerance]
enable = false
"""
    )
    assert reading.framework == "torchtitan"
    assert reading.scenario["model"] == "llama-3.1-70b"
    expected = {"tensor_parallel": 8, "zero_stage": 3, "micro_batch": 8, "recompute": "full", "sequence_parallel": True}
    assert reading.scenario["plan"] | expected == reading.scenario["plan"]
    assert set(reading.missing) == {"cluster", "workload.global_batch"}
    assert reading.without_counterpart == []


def test_tables_come_back():
    tables = {"a": {"x": 1, "y": [True, "q\"'\n"], "deep": {"er": {"z": 1e-05}}}, "b": {"s": ""}}
    assert tomllib.loads(toml_text(tables)) == tables


@given(plan=PLANS)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_torchtitan_takes_it(plan):
    pytest.importorskip("torchtitan.config.job_config", reason="torchtitan 0.2 is not on the path")
    from torchtitan.config import ConfigManager
    from torchtitan.distributed.parallel_dims import ParallelDims

    scenario = possible(plan, model="llama-3.1-8b", cluster=CLUSTER)
    assume(scenario is not None)
    launch = launched(scenario)
    assume(launch is not None)
    with tempfile.TemporaryDirectory() as folder:
        save(launch, folder)
        taken = ConfigManager().parse_args(["--job.config_file", f"{folder}/train.toml"])
    of = taken.parallelism
    dims = ParallelDims(
        dp_replicate=of.data_parallel_replicate_degree,
        dp_shard=of.data_parallel_shard_degree,
        cp=of.context_parallel_degree,
        tp=of.tensor_parallel_degree,
        pp=of.pipeline_parallel_degree,
        ep=of.expert_parallel_degree,
        etp=of.expert_tensor_parallel_degree,
        world_size=16,
    )
    assert dims.dp_replicate * dims.dp_shard == scenario.plan.data_parallel
    assert taken.training.global_batch_size % (taken.training.local_batch_size * scenario.plan.data_parallel) == 0


TABLES = {"model": {"name": "llama3", "flavor": "8B"}, "training": {"seq_len": 2048}, "parallelism": {}}


@pytest.mark.parametrize(
    ("table", "stated", "key", "value"),
    [
        ("compile", {"enable": True, "components": ["loss"]}, "compile", False),
        ("compile", {"enable": True}, "compile", True),
        ("training", {"compile": True}, "compile", True),
        ("parallelism", {"tensor_parallel_degree": 2}, "sequence_parallel", True),
        (
            "parallelism",
            {"tensor_parallel_degree": 2, "enable_sequence_parallel": False},
            "sequence_parallel",
            False,
        ),
    ],
)
def test_a_key_means_what_its_release_does_with_it(table, stated, key, value):
    reading = read(json.dumps({**TABLES, table: {**TABLES.get(table, {}), **stated}}))
    assert reading.scenario["plan"][key] is value
    assert reading.unread == []


def test_gradients_reduced_in_bf16_are_named():
    tables = {**TABLES, "training": {"mixed_precision_reduce": "bfloat16"}}
    assert read(json.dumps(tables)).unread == ["training.mixed_precision_reduce"]


@pytest.mark.parametrize(
    ("table", "key", "value"), [("optimizer", "name", "Muon"), ("activation_checkpoint", "mode", "x")]
)
def test_values_that_are_not_predicted_are_refused(table, key, value):
    with pytest.raises(InputError, match=f"{table}.{key} is"):
        read(json.dumps({**TABLES, table: {key: value}}))
