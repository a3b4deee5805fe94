"""LightLLM: ``lightllm.server.api_server`` of 2026, ranks of tensor parallelism on the devices of a node."""

from collections.abc import Iterator, Mapping, Sequence

from sightline.launching.engines.dialect import (
    Dialect,
    Row,
    compute_dtype,
    formats,
    memory_share,
    number,
    reachable,
    switch_on,
    without,
)
from sightline.launching.engines.requests import Request, budget_notes
from sightline.launching.engines.servers import Arguments, Server
from sightline.launching.options import Options
from sightline.launching.table import Option

RANKS_PORT = 28765
"""First port of the exchange among a server's ranks."""
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
READ_CACHES: Mapping[str, str] = {
    "ppl_int8kv": "kv-int8",
    **dict.fromkeys(("ppl_fp16", "triton_flashdecoding", "triton_gqa_attention", "triton_gqa_flashdecoding"), ""),
}


def _tokens(options: Options) -> int | None:
    tokens, chunk = options.number("batch-max-tokens"), options.number("chunked-prefill-size")
    return tokens or chunk


def _is_chunked(options: Options) -> bool | None:
    whole = options.flag("disable-chunked-prefill")
    return None if whole is None and options.number("chunked-prefill-size") is None else not whole


OPTIONS: Sequence[Row] = (
    number("--tp", "tensor_parallel"),
    compute_dtype("--data_type"),
    *formats("--quant_type", READ_WEIGHTS, "--mode", "lightllm", READ_CACHES),
    Option("--max_req_total_len", write=lambda request: request.longest),
    number("--running_max_req_size", "max_sequences", lambda request: request.sequences),
    Option("--batch_max_tokens", "max_batched_tokens", lambda request: request.budget, _tokens),
    Option(
        "--chunked_prefill_size",
        "chunked_prefill",
        lambda request: request.budget if request.plan.chunked_prefill else None,
        _is_chunked,
    ),
    Option("--disable_chunked_prefill", write=lambda request: None if request.plan.chunked_prefill else True),
    switch_on("--use_dynamic_prompt_cache", "prefix_cache"),
    memory_share("--mem_fraction"),
    without("--disable_cudagraph", "cuda_graphs"),
)


def _of_node(request: Request, server: Server, rank: int, address: str) -> Arguments:
    """What servers on one node have of their own, and what lets other nodes reach them."""
    return {"--nccl_port": RANKS_PORT + server.number, **reachable(request, server, rank, address)}


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    yield from budget_notes(requests[-1])


DIALECT = Dialect(
    engine="lightllm",
    options=OPTIONS,
    programs=(("lightllm.server.api_server",), ("lightllm", "server")),
    image="lightllm",
    words=lambda _, model: ("python", "-m", "lightllm.server.api_server", "--model_dir", model),
    port=8000,
    weights=WEIGHTS,
    notes=_notes,
    of_node=_of_node,
    models=("model-dir",),
    flags={
        *("disable-chunked-prefill", "use-dynamic-prompt-cache", "disable-cudagraph", "trust-remote-code"),
        *("disable-log-stats", "enable-custom-allreduce", "enable-custom-allgather"),
    },
    longest="max-req-total-len",
)
claims, read, write = DIALECT.claims, DIALECT.read, DIALECT.write
