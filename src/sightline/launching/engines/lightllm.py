"""LightLLM: ``lightllm.server.api_server`` of 2026, ranks of tensor parallelism on the devices of a node."""

from collections.abc import Iterator, Mapping
from typing import Any

from sightline.launching.engines import dialect
from sightline.launching.engines.dialect import Dialect
from sightline.launching.engines.requests import (
    DTYPES,
    READ_DTYPES,
    budget,
    budget_notes,
    longest,
    model_argument,
    quantization,
    requested_formats,
    sequences,
    unwritten_notes,
)
from sightline.launching.engines.servers import LOCAL, Arguments, Command, Server, launch, one_node_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.scenario import GenerationScenario

PORT, RANKS_PORT = 8000, 28765
"""First ports of the servers, and of the exchange among a server's ranks."""
WEIGHTS: Mapping[str, str] = {
    "w8a8": "vllm-w8a8",
    "fp8": "vllm-fp8w8a8",
    "fp8-block": "vllm-fp8w8a8-b128",
    "w8a16": "ao-int8wo",
    "int8": "ao-int8wo",
    "w4a16": "ao-int4wo-128",
}
"""Formats that the engine converts 16-bit weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in WEIGHTS.items() if ours != "int8"},
    "ppl-w4a16-128": "w4a16",
    "triton-fp8w8a8-block128": "fp8-block",
    "none": "",
}
CACHES: Mapping[str, str] = {"kv-int8": "triton_int8kv", "kv-fp8": "triton_fp8kv"}
READ_CACHES: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in CACHES.items()},
    "ppl_int8kv": "kv-int8",
    **dict.fromkeys(("ppl_fp16", "triton_flashdecoding", "triton_gqa_attention", "triton_gqa_flashdecoding"), ""),
}


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several.

    Raises:
        InputError: The plan has degrees or pools that are not launched.
    """
    refuse([*one_node_problems(scenario, "pipeline_parallel", "data_parallel", "expert_parallel")])
    model, unknown = model_argument(scenario)
    command = Command(
        words=("python", "-m", "lightllm.server.api_server", "--model_dir", model),
        arguments=_arguments(scenario),
        of_node=_of_node,
    )
    notes = [*unknown, *requested_formats(scenario, WEIGHTS).notes, *_notes(scenario)]
    return launch(scenario, {"": command}, port=PORT, notes=notes)


def _arguments(scenario: GenerationScenario) -> Arguments:
    """The options that every server has."""
    plan, formats, tokens = scenario.plan, requested_formats(scenario, WEIGHTS), budget(scenario, scenario.plan)
    stated = {
        "--tp": plan.tensor_parallel,
        "--data_type": DTYPES.get(plan.dtype),
        "--quant_type": formats.weights or None,
        "--mode": CACHES.get(formats.cache),
        "--max_req_total_len": longest(scenario),
        "--running_max_req_size": sequences(scenario, "", plan),
        "--batch_max_tokens": tokens,
        "--chunked_prefill_size": tokens if plan.chunked_prefill else None,
        "--disable_chunked_prefill": None if plan.chunked_prefill else True,
        "--use_dynamic_prompt_cache": plan.prefix_cache or None,
        "--mem_fraction": plan.memory_fraction,
        "--disable_cudagraph": None if plan.cuda_graphs else True,
    }
    return without_none(stated)


def _of_node(server: Server, _rank: int, address: str) -> Arguments:
    """What servers on one node have of their own, and what lets other nodes reach them."""
    own: Arguments = {"--nccl_port": RANKS_PORT + server.number}
    return own if address == LOCAL else {**own, "--host": "0.0.0.0"}  # noqa: S104


def _notes(scenario: GenerationScenario) -> Iterator[str]:
    yield from budget_notes(scenario)
    if scenario.plan.speculative is not None:
        yield "plan.speculative: no option is written for it"
    yield from unwritten_notes(scenario, "kv_block_tokens")


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options say."""
    formats = quantization(options.word("quant-type", READ_WEIGHTS), options.word("mode", READ_CACHES), model)
    whole = options.flag("disable-chunked-prefill")
    chunk, tokens = options.number("chunked-prefill-size"), options.number("batch-max-tokens")
    plan = {
        "tensor_parallel": options.number("tp"),
        "dtype": options.word("data-type", READ_DTYPES) or None,
        "quantization": formats or None,
        "max_sequences": options.number("running-max-req-size"),
        "max_batched_tokens": tokens or chunk,
        "chunked_prefill": None if whole is None and chunk is None else not whole,
        "memory_fraction": options.share("mem-fraction"),
        "prefix_cache": options.flag("use-dynamic-prompt-cache"),
        "cuda_graphs": False if options.flag("disable-cudagraph") else None,
    }
    return without_none(plan)


DIALECT = Dialect(
    engine="lightllm",
    programs=(("lightllm.server.api_server",), ("lightllm", "server")),
    image="lightllm",
    plan=_plan,
    models=("model-dir",),
    flags={
        *("disable-chunked-prefill", "use-dynamic-prompt-cache", "disable-cudagraph", "trust-remote-code"),
        *("disable-log-stats", "enable-custom-allreduce", "enable-custom-allgather"),
    },
    longest="max-req-total-len",
    quiet={"nccl-port", "nccl-host", "zmq-mode", "httpserver-workers", "max-total-token-num", "router-token-ratio"},
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the engine's server, and the scenario that its servers make up."""
