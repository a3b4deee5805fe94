"""No key of a launch is dropped in silence: it is read, on a list with its reason, said, or refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InputError
from sightline.launching import completed, read, scenario_text
from sightline.launching.readers import reader
from sightline.loading import load

READERS = Path(sl.__file__).parent / "launching/readers"
TOOLS = [path.stem for path in READERS.glob("*.yaml") if path.stem[0] != "_"]
COMMANDS = {
    "vllm": "vllm serve Qwen/Qwen3-32B",
    "sglang": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B",
    "tensorrt-llm": "trtllm-serve Qwen/Qwen3-32B",
    "tgi": "text-generation-launcher --model-id Qwen/Qwen3-32B",
    "lightllm": "python -m lightllm.server.api_server --model_dir Qwen/Qwen3-32B",
    "llama.cpp": "llama-server -m qwen3-32b.gguf",
    "transformers": "transformers serve Qwen/Qwen3-32B",
    "megatron": "torchrun pretrain_gpt.py --num-layers 32 --micro-batch-size 1",
    "trainer": "torchrun train.py --per_device_train_batch_size 2",
    "llama-factory": "llamafactory-cli train --stage sft --cutoff_len 512",
}
FILES = {
    "deepspeed": {"train_batch_size": 8},
    "accelerate": {"distributed_type": "FSDP"},
    "torchtitan": {"training": {}, "parallelism": {}},
    "trainer": {"per_device_train_batch_size": 2},
    "llama-factory": {"stage": "sft", "cutoff_len": 512},
    "axolotl": {"base_model": "Qwen/Qwen3-8B", "sequence_len": 512},
}
FOREIGN = ("quux_layers", "quux_experts", "quux")


def said(reading):
    return " ".join(reading.without_counterpart)


@pytest.mark.parametrize("tool", COMMANDS)
def test_foreign_options_are_all_said(tool):
    words = " ".join(f"--{name.replace('_', '-')} 4" for name in FOREIGN)
    reading = read(f"{COMMANDS[tool]} {words}")
    for name in FOREIGN:
        assert name.replace("_", "-") in said(reading).replace("_", "-")
    assert len(reading.scenario["unread"]) == len(FOREIGN)


@pytest.mark.parametrize("tool", FILES)
def test_foreign_keys_are_all_said(tool):
    foreign = {**dict.fromkeys(FOREIGN, 4), "quux_group": {"inner": {"innermost": 1}}}
    reading = read(json.dumps({**FILES[tool], **foreign}))
    for name in (*FOREIGN, "quux_group"):
        assert name in said(reading)
    assert len(reading.scenario["unread"]) == len(FOREIGN) + 1


@pytest.mark.parametrize("group", ["zero_optimization", "bf16", "activation_checkpointing", "optimizer"])
def test_foreign_keys_within_a_group_are_said(group):
    reading = read(json.dumps({"train_batch_size": 8, group: {"quux": 1}}))
    assert f"{group}.quux" in said(reading)


@pytest.mark.parametrize(
    "option", ["--speculative-config", "--kv-transfer-config"], ids=lambda option: option.removeprefix("--")
)
@pytest.mark.parametrize("form", ["{} '{{\"quux\": 1}}'", "{}.quux 1"])
def test_foreign_keys_within_an_object_are_said(option, form):
    assert f"{option}.quux" in said(read(f"vllm serve Qwen/Qwen3-32B {form.format(option)}"))


KNOWN = {
    "vllm": ["--tensor-parallel-size 2", "--max-num-seqs 8", "--kv-cache-dtype fp8", "--enable-expert-parallel"],
    "sglang": ["--tp-size 2", "--page-size 16", "--chunked-prefill-size 4096", "--quantization fp8"],
    "tensorrt-llm": ["--tp_size 2", "--max_batch_size 8", "--max_num_tokens 4096"],
    "tgi": ["--num-shard 2", "--quantize fp8", "--max-batch-prefill-tokens 4096"],
    "llama.cpp": ["--tensor-split 1,1", "--ubatch-size 512", "--parallel 4"],
    "megatron": ["--tensor-model-parallel-size 2", "--seq-length 4096", "--bf16", "--recompute-granularity full"],
    "trainer": ["--gradient_checkpointing true", "--optim sgd", "--bf16 true"],
}


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_known_option_under_another_name_is_said(data):
    tool = data.draw(st.sampled_from([*KNOWN]))
    name, *value = data.draw(st.sampled_from(KNOWN[tool])).split()
    cut = data.draw(st.integers(4, len(name) - 1))
    renamed = f"{name[:cut]}zq{name[cut:]}"
    reading = read(f"{COMMANDS[tool]} {' '.join([renamed, *value])}")
    assert renamed.lstrip("-").replace("_", "-") in said(reading).replace("_", "-")
    assert reading.scenario["unread"]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_list_has_reasons_and_no_key_twice(tool):
    lists = reader(tool)
    assert lists.tool
    assert lists.release
    assert not lists.reasons.keys() & lists.effects.keys()
    assert all(why.strip() and keys.split() for why, keys in {**lists.harmless, **lists.changes}.items())
    assert lists.matters(dict.fromkeys(lists.reasons, "word")) == []
    assert lists.matters(dict.fromkeys(lists.effects, "quux")) == [*lists.effects]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("vllm serve Qwen/Qwen3-32B --runner pooling", "embeddings"),
        ("vllm serve Qwen/Qwen3-32B --task=embed", "embeddings"),
        ("""vllm serve Qwen/Qwen3-32B --hf-overrides '{"num_hidden_layers": 4}'""", "num_hidden_layers"),
        ("python -m sglang.launch_server --model-path x/y --is-embedding", "embeddings"),
        ("llama-server -m x.gguf --embedding", "embeddings"),
        ("trtllm-serve x/y --backend tensorrt", "TensorRT"),
        (f"{COMMANDS['megatron']} --moe-latent-size 512", "another width"),
        (f"{COMMANDS['megatron']} --linear-attention-freq 4", "linear attention"),
        ('{"train_batch_size": 8, "sparse_attention": {"mode": "fixed"}}', "sparse attention"),
    ],
)
def test_another_principle_is_refused_by_name(source, what):
    with pytest.raises(InputError, match=what):
        read(source)


@pytest.mark.parametrize(
    "source",
    [
        "vllm serve Qwen/Qwen3-32B --runner generate --port 8000 --no-enable-log-requests --disable_log_stats",
        """vllm serve Qwen/Qwen3-32B --hf-overrides '{"rope_scaling": {"factor": 4}}'""",
        """vllm serve Qwen/Qwen3-32B --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'""",
        '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}}',
        '{"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}}}',
        f"{COMMANDS['megatron']} --no-load-optim --lr 1e-4 --eval-iters 0 --no-one-logger",
    ],
)
def test_what_is_harmless_is_not_said(source):
    reading = read(source)
    assert "no key of a scenario" not in said(reading)
    assert "unread" not in reading.scenario


def test_what_was_not_read_lowers_the_evidence_and_widens_the_interval():
    sure, unsure = (
        completed(read(f"vllm serve Qwen/Qwen3-32B -tp 4 {more}"), {"cluster": "4x h100-sxm-80gb"})
        for more in ("", "--cpu-offload-gb 8")
    )
    one, other = (sl.predict(load(scenario_text(reading))) for reading in (sure, unsure))
    (low, high), (lower, higher) = one.interval["tpot_s"], other.interval["tpot_s"]
    assert lower < low < high < higher
    assert (one.evidence["framework"], other.evidence["framework"]) == ("extrapolated", "estimated")
    assert any("--cpu-offload-gb" in warning for warning in other.warnings)
    assert sl.load(other.to_dict()["scenario"]).unread == ("--cpu-offload-gb",)


def test_what_was_not_read_widens_the_interval_of_a_training_step():
    known = {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb", "workload.sequence_length": 2048}
    sure, unsure = (
        completed(read(json.dumps({"train_batch_size": 16, "bf16": {"enabled": True}, **more})), known)
        for more in ({}, {"torch_autocast": {"enabled": True}})
    )
    one, other = (sl.predict(load(dict(reading.scenario))) for reading in (sure, unsure))
    (low, high), (lower, higher) = one.interval["step_time_s"], other.interval["step_time_s"]
    assert lower < low < high < higher
    assert other.evidence["framework"] == "estimated"


def test_options_of_a_torchtitan_command_win_over_its_file(tmp_path):
    (tmp_path / "train.toml").write_text("[training]\nseq_len = 2048\n[parallelism]\ntensor_parallel_degree = 1\n")
    script = tmp_path / "launch.sh"
    script.write_text(
        "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file train.toml --training.seq_len 4096 "
        "--parallelism.tensor_parallel_degree=2 --parallelism.quux 2\n"
    )
    reading = read(script)
    assert reading.scenario["workload"]["sequence_length"] == 4096
    assert reading.scenario["plan"]["tensor_parallel"] == 2
    assert reading.scenario["unread"] == ["parallelism.quux"]


def test_options_of_accelerate_launch_win_over_its_file(tmp_path):
    (tmp_path / "fsdp.yaml").write_text("distributed_type: FSDP\nnum_processes: 4\nmixed_precision: 'no'\n")
    script = tmp_path / "launch.sh"
    script.write_text(
        "accelerate launch --config_file fsdp.yaml --num_processes 8 --mixed_precision bf16 --quux 1 train.py "
        "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --max_length 1024 --corge 1\n"
    )
    reading = read(script)
    assert "8x" in reading.missing["cluster"]
    assert reading.scenario["plan"]["dtype"] == "bf16"
    assert reading.scenario["plan"]["micro_batch"] == 2
    assert reading.scenario["workload"] == {"task": "finetune", "sequence_length": 1024, "global_batch": 64}
    assert reading.scenario["unread"] == ["corge", "--quux"]


def test_the_arguments_of_a_script_stand_where_deepspeed_leaves_them_open(tmp_path):
    (tmp_path / "ds.json").write_text(
        '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}'
    )
    script = tmp_path / "launch.sh"
    script.write_text(
        "deepspeed --num_gpus 8 train.py --deepspeed ds.json --per_device_train_batch_size 2 --bf16 true "
        "--model_max_length 2048 --gradient_checkpointing true --model_name_or_path meta-llama/Llama-2-7b-hf\n"
    )
    scenario = read(script).scenario
    assert scenario["model"] == "llama-2-7b"
    assert scenario["workload"]["sequence_length"] == 2048
    plan = {"framework": "deepspeed", "micro_batch": 2, "dtype": "bf16", "recompute": "full", "zero_stage": 3}
    assert scenario["plan"].items() >= plan.items()


@pytest.mark.parametrize(
    ("script", "plan", "unread"),
    [
        ("export QUANTIZE=fp8 NUM_SHARD=2\n{tgi}", {"quantization": ["fp8"], "tensor_parallel": 2}, []),
        ("QUANTIZE=fp8 {tgi} --quantize eetq", {"quantization": ["w8a16"]}, []),
        ("docker run -e CUDA_GRAPHS=0 ghcr.io/huggingface/text-generation-inference:3.3", {"cuda_graphs": False}, []),
        ("LLAMA_ARG_CACHE_TYPE_K=q8_0 LLAMA_ARG_QUUX=1 {llama.cpp}", {"quantization": ["kv-int8"]}, ["--quux"]),
        ("VLLM_USE_V1=1 VLLM_QUUX=1 QUUX=1 {vllm} -O0", {"cuda_graphs": False}, ["VLLM_QUUX"]),
        ("export SGLANG_QUUX=1\n{sglang}", {}, ["SGLANG_QUUX"]),
    ],
)
def test_variables_of_the_environment_are_options(script, plan, unread):
    for tool, command in COMMANDS.items():
        script = script.replace(f"{{{tool}}}", command)
    scenario = read(f"{script}\n").scenario
    assert scenario["plan"].items() >= plan.items()
    assert scenario.get("unread", []) == unread


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        ("'full_shard auto_wrap'", {"framework": "fsdp", "zero_stage": 3}),
        ("'shard_grad_op offload'", {"framework": "fsdp", "zero_stage": 2, "offload": ["optimizer", "parameters"]}),
        ("''", {"framework": "transformers"}),
    ],
)
def test_the_trainer_shards_by_the_words_of_fsdp(words, plan):
    assert read(f"{COMMANDS['trainer']} --fsdp {words}").scenario["plan"].items() >= plan.items()


def test_a_file_of_deepspeed_that_a_trainer_names_is_said():
    assert read('{"per_device_train_batch_size": 2, "deepspeed": "ds.json"}').scenario["unread"] == ["deepspeed"]


@pytest.mark.parametrize(
    "kind", ["fsdp_config: {fsdp_version: 2}\ndistributed_type: FSDP", "distributed_type: DEEPSPEED"]
)
def test_a_script_s_file_of_arguments_is_read_where_accelerate_leaves_them_open(tmp_path, kind):
    (tmp_path / "accelerate.yaml").write_text(f"{kind}\nmixed_precision: 'no'\nnum_processes: 8\n")
    (tmp_path / "sft.yaml").write_text(
        "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 2\nbf16: true\n"
        "max_length: 4096\ngradient_checkpointing: true\nuse_peft: true\nlora_r: 8\nload_in_4bit: true\nquux: 1\n"
    )
    (tmp_path / "launch.sh").write_text(
        "accelerate launch --config_file accelerate.yaml sft.py --config sft.yaml --lora_target_modules q_proj v_proj\n"
    )
    scenario = read(tmp_path / "launch.sh").scenario
    assert scenario["model"] == "qwen3-8b"
    assert scenario["workload"] == {"task": "finetune", "sequence_length": 4096, "global_batch": 32}
    plan = {"micro_batch": 2, "dtype": "bf16", "recompute": "full", "quantization": "nf4"}
    assert scenario["plan"].items() >= plan.items()
    assert scenario["plan"]["adapter"] == {"kind": "qlora", "rank": 8, "targets": ["query", "value"]}
    assert scenario["unread"] == ["quux"]


def test_a_script_s_file_of_arguments_that_is_not_there_is_said():
    reading = read("torchrun --nproc_per_node 4 sft.py --config sft.yaml --per_device_train_batch_size 2 --bf16 true")
    assert reading.scenario["unread"] == ["config"]


@pytest.mark.parametrize(("option", "devices"), [("--include localhost:0,1,2,3", 4), ("-i worker-0:5", 1)])
def test_devices_that_deepspeed_is_told_are_counted(option, devices):
    reading = read(f"deepspeed {option} train.py --per_device_train_batch_size 2")
    assert reading.scenario["workload"]["global_batch"] == 2 * devices


def test_samples_of_a_device_become_the_batch_of_a_cluster_that_is_named_later():
    reading = read(f"{COMMANDS['trainer']} --gradient_accumulation_steps 4 --max_length 512 --model_name_or_path gpt2")
    known = {"cluster": "8x a100-sxm-80gb", "model": "llama-2-7b"}
    assert completed(reading, known).scenario["workload"]["global_batch"] == 64
