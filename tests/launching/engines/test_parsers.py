"""What is written passes the engines' own parsers, where the engines are installed."""

import argparse
import shlex
from collections.abc import Iterator

import pytest
from generation_scenarios import generation

from sightline.errors import InputError
from sightline.launching import Launch, write
from sightline.launching.shell import commands_of

PLANS = {
    "plain": ("llama-3.1-8b", "1x h100-sxm-80gb", {}),
    "replicas": ("qwen3-32b", "16x h100-sxm-80gb", {"tensor_parallel": 4}),
    "every option": (
        "qwen3-32b",
        "8x h100-sxm-80gb",
        {
            "tensor_parallel": 4,
            "pipeline_parallel": 2,
            "quantization": ["fp8", "kv-fp8"],
            "dtype": "fp16",
            "chunked_prefill": False,
            "prefix_cache": False,
            "cuda_graphs": False,
            "kv_block_tokens": 32,
            "max_batched_tokens": 4096,
            "memory_fraction": 0.8,
            "speculative": {"tokens": 3, "acceptance": 0.6},
        },
    ),
    "8-bit weights": ("qwen3-32b", "1x h100-sxm-80gb", {"quantization": "int8"}),
    "weights in blocks": ("qwen3-32b", "1x h100-sxm-80gb", {"quantization": ["fp8-block", "kv-fp8"]}),
    "experts": ("deepseek-v3", "32x h100-sxm-80gb", {"data_parallel": 32, "expert_parallel": 32}),
    "experts on two nodes": ("deepseek-v3", "16x h100-sxm-80gb", {"tensor_parallel": 16}),
    "drafts": ("deepseek-v3", "8x h100-sxm-80gb", {"speculative": {"tokens": 1, "acceptance": 0.8}}),
    "apart": (
        "llama-3.1-70b",
        "16x h100-sxm-80gb",
        {"disaggregate": {"prefill": {"tensor_parallel": 4, "replicas": 2}, "decode": {"tensor_parallel": 8}}},
    ),
}


def launched(engine: str, name: str) -> Launch:
    model, cluster, plan = PLANS[name]
    return write(generation(model=model, cluster=cluster, batch=64, plan={"framework": engine, **plan}))


def servers(launch: Launch, *program: str) -> Iterator[list[str]]:
    """What follows the program in each command that starts a server, as the shell passes it."""
    for words in commands_of(launch.files.get("servers.sh", launch.command)):
        for at in range(len(words)):
            if words[at : at + len(program)] == list(program):
                yield words[at + len(program) :]


@pytest.mark.parametrize("name", sorted(PLANS))
def test_vllm_takes_the_commands(name):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    launch = launched("vllm", name)
    found = list(servers(launch, "vllm", "serve"))
    assert found
    for words in found:
        taken = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
        assert taken.model_tag == words[0]
        assert taken.tensor_parallel_size * taken.pipeline_parallel_size * taken.data_parallel_size > 0


@pytest.mark.parametrize("name", sorted(PLANS))
def test_sglang_takes_the_commands(name):
    pytest.importorskip("sglang.srt.server_args", reason="SGLang is not installed")
    from sglang.srt.server_args import ServerArgs

    found = list(servers(launched("sglang", name), "python", "-m", "sglang.launch_server"))
    assert found
    for words in found:
        parser = argparse.ArgumentParser()
        ServerArgs.add_cli_args(parser)
        assert parser.parse_args(words).model_path == words[1]


@pytest.mark.parametrize("name", sorted(PLANS))
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_commands_are_whole_words_of_a_shell(engine, name):
    launch = launched(engine, name)
    for text in (launch.command, *launch.files.values()):
        assert shlex.split(text, comments=True)


def test_vllm_gets_no_more_sequences_than_tokens():
    plan = {"framework": "vllm", "max_batched_tokens": 256}
    with pytest.raises(InputError, match=r"plan\.max_batched_tokens is 256; .* 1000$"):
        write(generation(cluster="1x h100-sxm-80gb", batch=1000, plan=plan))
