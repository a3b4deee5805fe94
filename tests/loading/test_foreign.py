"""Files of others in place of a scenario are recognized in one sentence that names what takes them."""

import json
from pathlib import Path

import pytest

from sightline.errors import InputError
from sightline.loading import load
from sightline.loading.foreign import read_known
from sightline.loading.question import question

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {
    "config.json": ('{"model_type": "llama", "hidden_size": 4096}', "--model {file}"),
    "ds_config.json": ('{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}', "sightline import {file}"),
    "accelerate.yaml": ("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n", "sightline import {file}"),
    "sft.yaml": ("model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\n", "LLaMA-Factory"),
    "tune.yaml": ("base_model: Qwen/Qwen3-8B\nsequence_len: 2048\n", "axolotl"),
    "k8s.yaml": ("apiVersion: apps/v1\nkind: Deployment\n", "sightline import {file}"),
    "run.sh": ("#!/bin/bash\ntorchrun --nproc-per-node 8 train.py\n", "sightline import {file}"),
    "launch.txt": ("torchrun --nproc-per-node 8 train.py\n", "sightline import {file}"),
    "train.toml": ('[model]\nname = "llama3"\n', "sightline import {file}"),
    "trace.json": ('{"traceEvents": []}', "sightline explain {file}"),
    "trace.json.gz": ("\x1f\x8b", "sightline explain {file}"),
    "azure.csv": ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n", "workload.trace={file}"),
    "adapter_config.json": ('{"peft_type": "LORA"}', "plan.adapter=lora"),
    "model.safetensors": ("\x08", "--model"),
    "own.csv": ("arrival_s,prompt_tokens,output_tokens\n0,3,4\n", "workload.trace={file}"),
    "mooncake.jsonl": (
        '{"timestamp": 0, "input_length": 3, "output_length": 4, "hash_ids": [1]}\n' * 2,
        "workload.trace={file}",
    ),
    "bench.json": ('{"request_throughput": 2.0, "input_lens": [1]}', "workload.trace={file}"),
    "aiperf.json": ('{"input_config": {}, "time_to_first_token": {"avg": 3.0}}', "--anchor {file}@SCENARIO"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_others_is_named_with_what_takes_it(tmp_path, name):
    content, said = FILES[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        load(tmp_path / name)
    (sentence,) = caught.value.problems
    assert said.format(file=tmp_path / name) in sentence


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"config.json"}))
def test_a_file_of_others_is_no_model(tmp_path, name):
    (tmp_path / name).write_text(FILES[name][0])
    with pytest.raises(InputError) as caught:
        question({"model": str(tmp_path / name)})
    (sentence,) = caught.value.problems
    assert FILES[name][1].format(file=tmp_path / name) in sentence
    assert "not a model" in sentence


@pytest.mark.parametrize(
    ("file", "use"), [("launch.sh", "sightline import {folder}"), ("run.json", "sightline predict {folder}/run.json")]
)
def test_a_folder_of_others_is_named_with_what_takes_it(tmp_path, file, use):
    (tmp_path / file).write_text("{}")
    for read in (load, lambda folder: question({"model": str(folder)})):
        with pytest.raises(InputError, match=use.format(folder=tmp_path)):
            read(tmp_path)


def test_a_row_with_too_many_cells_is_named(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("model,plan.framework\nllama-2-7b,deepspeed\nllama-2-7b,deepspeed,4\n")
    with pytest.raises(InputError) as caught:
        load(table)
    assert caught.value.problems == (f"{table}, row 2: 3 cells for 2 columns",)


def test_a_model_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for word in ("llama-3.1-8b", "Llama-3.1-8B", tmp_path):
        with pytest.raises(InputError, match=f"use --model {word}"):
            load(word)


def test_scenarios_and_results_are_none_of_others(tmp_path):
    for path in EXAMPLES.glob("*.yaml"):
        assert read_known(path).documents
    (tmp_path / "typo.yaml").write_text(json.dumps({"modl": "llama-2-7b", "cluster": "8x h100"}))
    with pytest.raises(InputError, match="modl"):
        load(tmp_path / "typo.yaml")
