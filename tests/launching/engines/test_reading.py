"""Commands of engines as people write them."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import load
from sightline.errors import InputError
from sightline.launching import Reading, completed, read, scenario_text

VLLM = (
    "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 4 --max-num-seqs=64 --gpu-memory-utilization .85 "
    "--kv-cache-dtype fp8 --max_num_batched_tokens 16K --enforce-eager --host 0.0.0.0 --api-key secret --cpu-offload-gb 4"
)


def test_a_vllm_command_is_a_plan():
    reading = read(VLLM)
    assert reading.framework == "vllm"
    assert reading.scenario["model"] == "llama-3.1-70b"
    assert reading.scenario["plan"] == {
        "framework": "vllm",
        "tensor_parallel": 4,
        "quantization": ["kv-fp8"],
        "max_sequences": 64,
        "max_batched_tokens": 16384,
        "memory_fraction": 0.85,
        "cuda_graphs": False,
        "replicas": 1,
    }
    assert "4x h100-sxm-80gb" in reading.missing["cluster"]


@pytest.mark.parametrize(
    "command",
    ["vllm serve a/b --override-generation-config", "sglang serve --model-path a/b --preferred-sampling-params"],
)
def test_how_a_server_draws_is_part_of_the_workload(command):
    reading = read(f"""{command} '{{"temperature": 0.6, "top_k": -1, "top_p": 0.95, "presence_penalty": 1.5}}'""")
    assert reading.scenario["workload"]["sampling"] == {"temperature": 0.6, "top_p": 0.95, "penalties": True}
    assert not reading.unread


@pytest.mark.parametrize(
    ("command", "missing", "plan"),
    [
        (
            "vllm serve a/b -tp 2 --enable-expert-parallel --data-parallel-size $((A * B))",
            {"data_parallel", "expert_parallel"},
            {"tensor_parallel": 2},
        ),
        ("vllm serve a/b -tp 2 --data-parallel-size $((A * B))", {"data_parallel"}, {"tensor_parallel": 2}),
        (
            "python -m sglang.launch_server --model-path a/b --tp $TP --dp 8 --enable-dp-attention --ep 8",
            {"tensor_parallel"},
            {"data_parallel": 8, "expert_parallel": 8},
        ),
        ("python -m sglang.launch_server --model-path a/b --tp 8 --dp $DP", {"data_parallel"}, {"tensor_parallel": 8}),
        (
            "python -m sglang.launch_server --model-path a/b --tp 8 --dp $DP --enable-dp-attention",
            {"tensor_parallel", "data_parallel"},
            {},
        ),
        ("trtllm-serve a/b --tp_size $TP --ep_size 2", {"tensor_parallel"}, {"expert_parallel": 2}),
        ("trtllm-serve a/b --tp_size $TP --enable_attention_dp", {"tensor_parallel", "data_parallel"}, {}),
    ],
)
def test_every_degree_that_an_open_option_decides_is_missing(command, missing, plan):
    reading = read(command)
    degrees = {key.removeprefix("plan.") for key in reading.missing if key.endswith("_parallel")}
    assert degrees == missing
    assert {key: value for key, value in reading.scenario["plan"].items() if key.endswith("_parallel")} == plan


def test_what_no_key_stands_for_is_said_without_its_value():
    said = " ".join(read(VLLM).without_counterpart)
    assert "no scenario key corresponds to --cpu-offload-gb" in said
    assert "secret" not in said
    assert "--host" not in said


@pytest.mark.parametrize(
    ("command", "engine", "plan"),
    [
        (
            (
                "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-32B --tensor-parallel-size 2 "
                "--enable-expert-parallel --data-parallel-size 4"
            ),
            "vllm",
            {"tensor_parallel": 2, "data_parallel": 4, "expert_parallel": 8},
        ),
        (
            (
                "docker run --gpus all -v ~/.cache/vllm:/root --ipc=host vllm/vllm-openai:latest --model Qwen/Qwen3-32B "
                "--quantization fp8 --no-enable-prefix-caching"
            ),
            "vllm",
            {"tensor_parallel": 1, "quantization": ["fp8"], "prefix_cache": False},
        ),
        (
            """vllm serve Qwen/Qwen3-32B --speculative-config '{"method": "ngram", "num_speculative_tokens": 4}'""",
            "vllm",
            {"tensor_parallel": 1, "speculative": {"tokens": 4, "acceptance": 0.7}},
        ),
        (
            "vllm serve Qwen/Qwen3-32B --speculative-config.num_speculative_tokens 2",
            "vllm",
            {"tensor_parallel": 1, "speculative": {"tokens": 2, "acceptance": 0.7}},
        ),
        (
            (
                "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention "
                "--ep 8 --mem-fraction-static 0.8 --disable-radix-cache --chunked-prefill-size -1"
            ),
            "sglang",
            {
                "tensor_parallel": 1,
                "data_parallel": 8,
                "expert_parallel": 8,
                "chunked_prefill": False,
                "memory_fraction": 0.8,
                "prefix_cache": False,
            },
        ),
        (
            "sglang serve --model-path deepseek-ai/DeepSeek-V3 --tp 8 --attn-dp-size 4 --chunked-prefill-size 16384",
            "sglang",
            {"tensor_parallel": 2, "data_parallel": 4, "max_batched_tokens": 4096, "chunked_prefill": True},
        ),
        (
            "sglang serve --model-path Qwen/Qwen3-32B --tp-size 4 --dp-size 2 --disable-cuda-graph",
            "sglang",
            {"tensor_parallel": 4, "data_parallel": 2, "cuda_graphs": False},
        ),
        (
            "trtllm-serve Qwen/Qwen3-30B-A3B --tp_size 4 --ep_size 4 --max_batch_size 128 --enable_chunked_prefill",
            "tensorrt-llm",
            {"tensor_parallel": 4, "expert_parallel": 4, "max_sequences": 128, "chunked_prefill": True},
        ),
        (
            (
                "docker run --gpus all -e NUM_SHARD=2 ghcr.io/huggingface/text-generation-inference:3.3.5 "
                "--model-id Qwen/Qwen3-32B --quantize eetq"
            ),
            "tgi",
            {"tensor_parallel": 2, "quantization": ["w8a16"]},
        ),
        (
            "./build/bin/llama-server -hf ggml-org/Qwen3-32B-GGUF:Q4_K_M -ngl 99 -c 8192 -np 4 -ub 1024 -ctk q8_0",
            "llama.cpp",
            {
                "quantization": ["q4_k_m", "kv-int8"],
                "max_sequences": 4,
                "max_batched_tokens": 1024,
            },
        ),
        (
            (
                "python -m lightllm.server.api_server --model_dir Qwen/Qwen3-32B --tp 4 --batch_max_tokens 4096 "
                "--disable_chunked_prefill --running_max_req_size 512 --quant_type vllm-fp8w8a8 --mem_fraction 0.8"
            ),
            "lightllm",
            {
                "tensor_parallel": 4,
                "quantization": ["fp8"],
                "max_sequences": 512,
                "max_batched_tokens": 4096,
                "chunked_prefill": False,
                "memory_fraction": 0.8,
            },
        ),
        (
            "transformers serve Qwen/Qwen3-32B --continuous-batching --dtype bfloat16 --cb-max-batch-tokens 512",
            "transformers",
            {"dtype": "bf16", "max_batched_tokens": 512, "prefix_cache": True},
        ),
    ],
)
def test_commands_of_every_engine(command, engine, plan):
    reading = read(command)
    assert reading.scenario["plan"] == {"framework": engine, **plan, "replicas": 1}
    assert not [said for said in reading.without_counterpart if said.startswith("no key")]


def test_a_script_with_variables_and_several_servers(tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(
        "#!/bin/bash\nMODEL=Qwen/Qwen3-32B\nTP=${TP:-2}\nfor i in 0 1; do echo $i; done\n"
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve $MODEL --tensor-parallel-size $TP --port 8000 &\n"
        "CUDA_VISIBLE_DEVICES=2,3 vllm serve $MODEL --tensor-parallel-size $TP --port 8001 &\nwait\n"
    )
    reading = read(script)
    assert reading.scenario["plan"] == {"framework": "vllm", "tensor_parallel": 2, "replicas": 2}
    assert "takes 4" in reading.missing["cluster"]


def test_what_only_running_would_tell_is_said():
    reading = read("vllm serve $MODEL --tensor-parallel-size $TP")
    assert "model" in reading.missing
    assert reading.missing["cluster"] == "the devices"
    assert "$TP" in reading.missing["plan.tensor_parallel"]
    assert not reading.without_counterpart


@pytest.mark.parametrize("size", ["$TP", "$((9**9**9**9))", "${X:-$Y}"])
@pytest.mark.parametrize(
    "command", ["vllm serve {} --tensor-parallel-size ", "python -m sglang.launch_server --model-path {} --tp-size "]
)
def test_a_key_that_only_running_would_tell_is_left_out_and_named_in_the_file(command, size):
    reading = read(command.format("Qwen/Qwen3-8B") + size)
    assert "tensor_parallel" not in reading.scenario["plan"]
    head = [line for line in scenario_text(reading).splitlines() if line.startswith("#")]
    assert any(line.startswith("# plan.tensor_parallel is missing") for line in head)
    known = completed(reading, {"cluster": "2x h100-sxm-80gb", "plan.tensor_parallel": 2})
    assert (known.missing, known.scenario["plan"]["tensor_parallel"]) == ({}, 2)


def test_a_text_that_a_script_prints_is_no_command():
    printed = "usage() {\n  cat <<EOF\nvllm serve other/model --tensor-parallel-size 8 --dtype half\nEOF\n}\n"
    reading = read(f"{printed}vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2\n")
    assert (reading.scenario["model"], reading.scenario["plan"]["tensor_parallel"]) == ("qwen3-8b", 2)


def test_options_in_a_file_are_read(tmp_path):
    (tmp_path / "options.yaml").write_text("kv_cache_config: {dtype: fp8, enable_block_reuse: true}\n")
    (tmp_path / "run.sh").write_text("trtllm-serve Qwen/Qwen3-32B-FP8 --extra_llm_api_options options.yaml\n")
    plan = read(tmp_path / "run.sh").scenario["plan"]
    assert plan["quantization"] == ["fp8-block", "kv-fp8"]
    assert plan["prefix_cache"] is True
    (tmp_path / "vllm.yaml").write_text("no-enable-prefix-caching: true\ntensor-parallel-size: 2\n")
    (tmp_path / "run.sh").write_text("vllm serve Qwen/Qwen3-32B --config vllm.yaml\n")
    plan = read(tmp_path / "run.sh").scenario["plan"]
    assert (plan["prefix_cache"], plan["tensor_parallel"]) == (False, 2)


def test_a_file_that_the_script_writes_itself_is_read_and_wins():
    reading = read(
        "#!/bin/bash\nset -x\ncat > ./config.yml << EOF\nenable_attention_dp: true\nkv_cache_config:\n"
        "    dtype: fp8\n    free_gpu_memory_fraction: 0.8\nstream_interval: 10\nEOF\n"
        "mpirun -n 1 trtllm-serve deepseek-ai/DeepSeek-V3 --port=$PORT --tp_size=8 --ep_size=8 "
        "--kv_cache_free_gpu_memory_fraction 0.9 --extra_llm_api_options=config.yml > $LOG 2>&1 &\n"
    )
    plan = reading.scenario["plan"]
    assert (plan["data_parallel"], plan["expert_parallel"], plan["memory_fraction"]) == (8, 8, 0.8)
    assert plan["quantization"] == ["fp8-block", "kv-fp8"]
    assert reading.without_counterpart == ["no scenario key corresponds to --stream-interval (scheduling)"]


def test_all_ranks_share_the_experts_that_sglang_sends_tokens_to():
    reading = read("sglang serve --model deepseek-ai/DeepSeek-V3 --tp 8 --moe-a2a-backend deepep")
    assert (reading.scenario["plan"]["expert_parallel"], reading.unread) == (8, [])


def test_half_a_server_is_kept_as_unread():
    reading = read("sglang serve --model Qwen/Qwen3-32B --tp 4 --disaggregation-mode prefill")
    assert reading.scenario["unread"] == ["servers for prefill alone"]


@pytest.mark.parametrize(
    ("repository", "model", "formats"),
    [
        ("nvidia/DeepSeek-R1-0528-FP4", "deepseek-r1-nvfp4", None),
        ("TheBloke/Llama-2-7B-Chat-AWQ", "llama-2-7b", ["w4a16"]),
    ],
)
def test_a_repository_called_after_a_format_is_a_model_of_the_catalog(repository, model, formats):
    scenario = read(f"vllm serve {repository}").scenario
    assert (scenario["model"], scenario["plan"].get("quantization")) == (model, formats)


def test_an_unknown_model_stays_as_it_is_written():
    assert read("vllm serve somebody/their-model -tp 2").scenario["model"] == "somebody/their-model"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--tensor-parallel-size four", "--tensor-parallel-size is 'four'; allowed: a whole number of 1 or more"),
        ("-tp 2 --tensor-parallel-size 4", "--tensor-parallel-size is given twice, as '2' and as '4'"),
        ("--enable-prefix-caching --no-enable-prefix-caching", "--enable-prefix-caching is given twice, as on and as"),
        ("--gpu-memory-utilization 90", "--gpu-memory-utilization is '90'; allowed: a number above 0, up to 1"),
        ("--quantization awk", "--quantization is 'awk' - did you mean 'awq'?"),
        ("--speculative-config {tokens", "--speculative-config is not valid JSON"),
        ("--tensor-parallel-size", "--tensor-parallel-size needs a value"),
    ],
)
def test_wrong_values_are_refused(options, problem):
    with pytest.raises(InputError) as error:
        read(f"vllm serve Qwen/Qwen3-32B {options}")
    assert error.value.problems[0].startswith(problem)


def test_llama_cpp_splits_layers_over_what_it_sees():
    reading = read("llama-server -m llama-2-7b.Q4_0.gguf -ngl 99")
    assert load({**reading.scenario, "cluster": "4x rtx-4090"}).plan.pipeline_parallel == 4
    alone = read("llama-server -m llama-2-7b.Q4_0.gguf -sm none")
    assert alone.scenario["plan"]["pipeline_parallel"] == 1


def test_servers_of_several_models_are_refused():
    with pytest.raises(InputError, match="name several models, Qwen/Qwen3-32B and Qwen/Qwen3-8B"):
        read("vllm serve Qwen/Qwen3-32B --port 1 &\nvllm serve Qwen/Qwen3-8B --port 2 &\n")


def test_what_is_read_loads_once_the_cluster_is_known():
    scenario = load({**read(VLLM).scenario, "cluster": "4x h200-sxm-141gb"})
    assert scenario.plan.tensor_parallel == 4


def test_assumed_requests_stay_within_the_longest_sequence():
    workload = read("vllm serve Qwen/Qwen3-32B --max-model-len 512 --max-num-seqs 4").scenario["workload"]
    assert workload["prompt_tokens"] + workload["output_tokens"] == 512
    assert workload["batch"] == 4


def test_what_is_assumed_is_told_apart():
    reading = read("vllm serve Qwen/Qwen3-32B --spec-tokens 2")
    assert reading.assumed == {
        "workload.batch": 16,
        "workload.prompt_tokens": 1024,
        "workload.output_tokens": 128,
        "plan.speculative.acceptance": 0.7,
    }


OPTIONS = st.sampled_from(
    [
        *("-tp", "--tp-size", "--dp", "--attn-dp-size", "--ep-size", "--tensor-parallel-size", "--data-parallel-size"),
        *("--max-model-len", "--max-num-seqs", "--gpu-memory-utilization", "--quantization", "--kv-cache-dtype"),
        *("--speculative-config", "--kv-transfer-config", "--max-num-batched-tokens", "--chunked-prefill-size", "-np"),
        *("--enable-expert-parallel", "--no-enable-prefix-caching", "--config", "-c", "--tensor-split", "--num-shard"),
        *(
            "--model",
            "--model-path",
            "--port",
            "--node-rank",
            "--disaggregation-mode",
            "--what",
            "-",
            "--",
            "-hf",
            "-m",
        ),
    ]
)
VALUES = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "1",
        "8",
        "8k",
        "1e9",
        "99999999999999",
        "fp8",
        "prefill",
        "{}",
        "[1]",
        "{",
        "$X",
        "1,1",
        "a/b",
        ".",
    ]
)
PROGRAMS = st.sampled_from(
    [
        "vllm serve m",
        "python -m sglang.launch_server",
        "trtllm-serve m",
        "text-generation-launcher",
        "llama-server",
        "docker run -e NUM_SHARD=x text-generation-inference",
    ]
)


def outcome(command: str) -> tuple[Reading | None, tuple[str, ...]]:
    """What a command says, or None and why not."""
    try:
        return read(command), ()
    except InputError as error:
        return None, error.problems


@given(PROGRAMS, st.lists(st.tuples(OPTIONS, VALUES), max_size=6), st.integers(1, 2))
def test_any_command_is_read_or_refused_with_a_sentence(program, options, times):
    words = " ".join(f"{option} {shlex.quote(value)}" for option, value in options)
    reading, problems = outcome("\n".join([f"{program} {words} &"] * times))
    assert (reading is None) == bool(problems)
    assert all(problem and "\n" not in problem for problem in problems)
    if reading is not None:
        assert reading.scenario["workload"]["batch"] >= 1
        assert scenario_text(reading)


def _plan(text):
    return read(text).scenario["plan"]


def test_branches_start_one_server():
    script = (
        "#!/bin/bash\nif [ $GPU = h100 ]; then\nvllm serve a -tp 2 --port 1\nelse\nvllm serve a -tp 4 --port 2\nfi\n"
    )
    found = read(script)
    assert (found.scenario["plan"]["tensor_parallel"], found.scenario["plan"]["replicas"]) == (2, 1)
    assert any("1 further command" in sentence for sentence in found.without_counterpart)


def test_branches_by_a_node_start_the_servers_of_each():
    sides = [f'vllm serve a --kv-transfer-config \'{{"kv_role": "kv_{role}"}}\'' for role in ("producer", "consumer")]
    script = "#!/bin/bash\nif [ $NODE_RANK = 0 ]; then\n{}\nelse\n{}\nfi\n".format(*sides)
    assert set(_plan(script)["disaggregate"]) == {"prefill", "decode"}


@pytest.mark.parametrize("between", ["", "--port 8000", "--port $PORT"])
def test_commands_for_one_port_start_one_server(between):
    script = f"#!/bin/bash\nvllm serve a {between} -tp 2\nvllm serve a {between} -tp 4\n"
    assert (_plan(script)["tensor_parallel"], _plan(script)["replicas"]) == (2, 1)


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve a --port 1\nvllm serve a --port 2\n",
        "CUDA_VISIBLE_DEVICES=0 vllm serve a\nCUDA_VISIBLE_DEVICES=1 vllm serve a\n",
        "docker run -p 1:8000 vllm/vllm-openai --model a\ndocker run -p 2:8000 vllm/vllm-openai --model a\n",
        "python -m dynamo.vllm --model a &\npython -m dynamo.vllm --model a &\n",
    ],
)
def test_commands_for_ports_devices_and_containers_of_their_own_are_servers(script):
    assert _plan(f"#!/bin/bash\n{script}")["replicas"] == 2


@pytest.mark.parametrize(
    "script",
    [
        "for i in 0 1 2; do\n  vllm serve a --port $((8000 + i)) &\ndone\n",
        "start() {\n  vllm serve a --port $1 &\n}\nstart 1\nstart 2\n",
    ],
)
def test_servers_of_a_loop_are_not_counted(script):
    found = read(f"#!/bin/bash\n{script}")
    assert "plan.replicas" in found.missing
    assert "replicas" not in found.scenario["plan"]


def test_a_function_that_is_called_once_starts_one_server():
    assert _plan("#!/bin/bash\nstart() {\n  vllm serve a\n}\nstart\n")["replicas"] == 1


@pytest.mark.parametrize("head", ['cat > "$FILE" <<EOF', "cat <<EOF > $FILE"])
def test_a_file_of_options_is_found_by_its_variable(head):
    script = f"#!/bin/bash\nFILE=more.yml\n{head}\nenable_attention_dp: $DP\nmax_num_tokens: 512\nEOF\n"
    found = read(f"{script}trtllm-serve a --tp_size 4 --extra_llm_api_options $FILE\n")
    assert found.scenario["plan"]["max_batched_tokens"] == 512
    assert "plan.data_parallel" in found.missing


def test_a_file_of_options_that_is_written_twice_is_left_out():
    script = "#!/bin/bash\ncat > a.yml <<EOF\nmax_num_tokens: 512\nEOF\ncat > a.yml <<EOF\nmax_num_tokens: 256\nEOF\n"
    found = read(f"{script}trtllm-serve a --config a.yml\n")
    assert "max_batched_tokens" not in found.scenario["plan"]
    assert "a.yml" in found.unread


def test_a_connector_for_both_roles_is_named():
    shared = """vllm serve a --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
    assert read(shared).unread == ["--kv-transfer-config.kv_role"]


def test_workers_of_dynamo_are_servers_of_tensorrt_llm():
    both = "".join(
        f"python3 -m dynamo.trtllm --model-path a --disaggregation-mode {role} &\n" for role in ("prefill", "decode")
    )
    plan = _plan(f"#!/bin/bash\n{both}")
    assert (plan["framework"], set(plan["disaggregate"])) == ("tensorrt-llm", {"prefill", "decode"})


@pytest.mark.parametrize("mode", ["row", "tensor"])
def test_rows_of_matrices_on_several_devices_are_refused(mode):
    with pytest.raises(InputError, match="split-mode"):
        read(f"llama-server -m a.gguf -sm {mode} -ts 1,1")


@pytest.mark.parametrize("passed_on", ["write_command out.txt", "printf '%q '", "log_and_run"])
def test_a_command_that_is_printed_too_starts_one_server(passed_on):
    script = f'#!/bin/bash\nRUN=(mpirun -n 1 trtllm-serve a --tp_size 4)\n{passed_on} "${{RUN[@]}}"\n"${{RUN[@]}}" &\n'
    found = read(script)
    assert (found.scenario["plan"]["tensor_parallel"], found.scenario["plan"]["replicas"]) == (4, 1)
    assert not any("further command" in sentence for sentence in found.without_counterpart)


def test_options_of_branches_with_an_equals_sign_do_not_conflict():
    script = (
        "#!/bin/bash\nif [ $DP = 1 ]; then\nA=(--tp-size=$TP --dp-size=1)\nelse\nA=(--tp-size=$TP --dp-size=2)\nfi\n"
    )
    found = read(f'{script}python -m sglang.launch_server --model-path a "${{A[@]}}" --mem-fraction-static=0.8\n')
    assert {"plan.tensor_parallel", "plan.data_parallel"} <= found.missing.keys()
    assert found.scenario["plan"]["memory_fraction"] == 0.8


@pytest.mark.parametrize("other", ["docker pull vllm/vllm-openai:latest", "docker build -t vllm-openai ."])
def test_an_image_that_is_fetched_or_built_is_no_server(other):
    script = f"#!/bin/bash\n{other}\ndocker run --gpus all vllm/vllm-openai:latest --model a --tensor-parallel-size 2\n"
    assert (_plan(script)["tensor_parallel"], _plan(script)["replicas"]) == (2, 1)


@pytest.mark.parametrize("how", ["-e VLLM_USE_DEEP_GEMM", "--env=VLLM_USE_DEEP_GEMM", "--env=VLLM_USE_DEEP_GEMM=1"])
def test_variables_that_are_named_for_a_container_are_its_own(how):
    script = f"export VLLM_USE_DEEP_GEMM=1 VLLM_KEPT=1\ndocker run {how} vllm/vllm-openai --model Qwen/Qwen3-32B\n"
    assert read(script).unread == ["VLLM_USE_DEEP_GEMM"]


def test_a_variable_that_is_unset_is_not_there():
    script = "export VLLM_USE_DEEP_GEMM=1\nunset VLLM_USE_DEEP_GEMM\nvllm serve Qwen/Qwen3-32B\n"
    assert not read(script).unread
