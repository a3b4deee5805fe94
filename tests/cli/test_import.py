import json

import pytest

from sightline.cli import output

VLLM = "vllm serve Qwen/Qwen3-32B -tp 4 --cpu-offload-gb 4"
CLUSTER = ("--cluster", "4x h100-sxm-80gb")


def test_a_command_becomes_a_scenario_that_predicts(run):
    imported = run("import", VLLM, *CLUSTER)
    assert imported.returncode == 0
    assert "--cpu-offload-gb" in imported.stderr
    predicted = run("predict", "-", "--json", stdin=imported.stdout)
    assert predicted.returncode == 0, predicted.stderr
    assert json.loads(predicted.stdout)["scenario"]["plan"]["tensor_parallel"] == 4


def test_words_of_a_command_and_standard_input_are_the_same(run):
    by_words = run("import", *CLUSTER, "--", *VLLM.split())
    by_input = run("import", "-", *CLUSTER, stdin=VLLM)
    assert by_words.stdout == by_input.stdout == run("import", VLLM, *CLUSTER).stdout


def test_what_is_missing_is_said_with_its_option(in_process):
    code, out, err = in_process("import", VLLM)
    assert code == 0
    assert "# cluster is missing" in out
    assert "--cluster" in err
    assert "assumed: workload.batch 16" in err


def test_a_server_with_a_rate_is_a_load(in_process):
    code, out, _ = in_process("import", VLLM, "--rate", "4", "--json", *CLUSTER)
    workload = json.loads(out)["scenario"]["workload"]
    assert (code, workload["task"], workload["arrival"]) == (0, "serve", {"process": "poisson", "rate": 4.0})


def test_json_is_one_document(in_process):
    code, out, err = in_process("import", VLLM, "--json", *CLUSTER)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["framework"] == "vllm"
    assert document["scenario"]["cluster"] == "4x h100-sxm-80gb"
    assert document["missing"] == {}
    assert "workload.batch" in document["assumed"]


def test_a_file_is_written_and_the_next_command_named(in_process, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "is_watched", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    path = tmp_path / "scenario.yaml"
    code, out, err = in_process("import", VLLM, *CLUSTER, "--out", path)
    assert (code, out) == (0, "")
    assert err.endswith(f"sightline: wrote {path}\n\ntry next: sightline predict {path}\n")
    assert in_process("predict", path)[0] == 0


def test_settings_replace_what_was_read(in_process):
    out = in_process("import", VLLM, *CLUSTER, "--set", "plan.memory_fraction=0.7", "--model", "qwen3-8b")[1]
    assert "memory_fraction: 0.7" in out
    assert "model: qwen3-8b" in out


def test_wrong_requests_are_sentences(in_process, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"name": "else"}')
    for arguments, sentence in (
        (("nowhere.sh",), "nowhere.sh"),
        (("",), "the command is empty"),
        ((other,), "of no framework that can be read back"),
        ((VLLM + " -tp 2",), "--tensor-parallel-size is given twice, as '4' and as '2'"),
        ((VLLM, *CLUSTER, "--model", "qwen3-33b"), "did you mean 'qwen3-32b'"),
        ((VLLM, "--out", "scenario.txt"), "must end in .yaml or .yml"),
        ((VLLM, "--set", "batch"), "is not KEY=VALUE"),
    ):
        code, out, err = in_process("import", *arguments)
        assert (code, out) == (2, ""), arguments
        assert sentence in err
        assert "Traceback" not in err


SOURCES = {
    "deepspeed.json": (
        (
            '{"train_batch_size": 128, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}, '
            '"zero_optimization": {"stage": 3}}'
        ),
        ("--model", "llama-2-7b", "--set", "workload.sequence_length=2048"),
        "deepspeed",
    ),
    "accelerate.yaml": (
        (
            "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
            "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_activation_checkpointing: true\n"
        ),
        ("--model", "llama-2-7b", "--set", "workload.sequence_length=2048", "--set", "workload.global_batch=64"),
        "fsdp",
    ),
    "titan.toml": (
        (
            '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 4096\nsteps = 10\n'
            "[parallelism]\ntensor_parallel_degree = 2\n"
        ),
        ("--model", "llama-3-8b", "--set", "workload.global_batch=64"),
        "torchtitan",
    ),
    "megatron.sh": (
        (
            "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4 --num-layers 32 "
            "--hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --vocab-size "
            "32000 \\\n  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer\n"
        ),
        (),
        "megatron",
    ),
    "vllm.sh": ("#!/bin/bash\nexec vllm serve Qwen/Qwen3-32B -tp 8\n", (), "vllm"),
    "sglang.sh": ("python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 8\n", (), "sglang"),
}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_framework_is_imported_and_predicted(name, in_process, tmp_path):
    text, options, framework = SOURCES[name]
    source, scenario = tmp_path / name, tmp_path / "scenario.yaml"
    source.write_text(text)
    code, _, err = in_process("import", source, "--cluster", "8x h100-sxm-80gb", *options, "--out", scenario)
    assert code == 0, err
    code, out, err = in_process("predict", scenario, "--json")
    assert code == 0, err
    assert json.loads(out)["scenario"]["plan"]["framework"] == framework
