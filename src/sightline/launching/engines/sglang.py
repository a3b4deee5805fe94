"""SGLang: ``python -m sglang.launch_server`` with the server arguments of release 0.5.23.

Its ``--tp-size`` counts all ranks that share the experts, which data-parallel attention (``--attn-dp-size``) divides
into groups. Of a model without experts data-parallel ranks share nothing, which is ``--dp-size``.
"""

from collections.abc import Iterator, Mapping, Sequence

from sightline.launching.engines.dialect import (
    Dialect,
    Row,
    cache_tokens,
    compute_dtype,
    degree,
    drafts,
    formats,
    memory_share,
    named,
    number,
    publishing,
    sampling,
    without,
)
from sightline.launching.engines.requests import Request, device_host_bytes, storage_folders, storage_notes
from sightline.launching.engines.servers import Arguments, Server
from sightline.launching.options import Options
from sightline.launching.table import Option

ROUTER_PORT, NODES_PORT, BOOTSTRAP_PORT = 8000, 20000, 8998
"""Ports of the router, and first ones of the nodes' exchange and of the handshake of prefill servers."""
FILES, TIMEOUT = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", "SGLANG_REQ_WAITING_TIMEOUT"
"""Variables with the folder of files behind host memory, and with the seconds that requests wait at most."""
WEIGHTS: Mapping[str, str] = {"fp8": "fp8", "nvfp4": "nvfp4_online"}
"""Formats that the engine converts 16-bit weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {
    **dict.fromkeys(("fp8", "modelopt", "modelopt_fp8", "w8a8_fp8"), "fp8"),
    **dict.fromkeys(("awq", "awq_marlin", "gptq", "gptq_marlin", "moe_wna16"), "w4a16"),
    **dict.fromkeys(("nvfp4_online", "modelopt_fp4", "petit_nvfp4"), "nvfp4"),
    "w8a8_int8": "w8a8",
    "bitsandbytes": "nf4",
    "mxfp4": "mxfp4",
    **dict.fromkeys(("compressed-tensors", "gguf", "quark", "auto-round", "modelopt_mixed", "unquant"), ""),
}
READ_CACHES: Mapping[str, str] = {
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2"), "kv-fp8"),
    **dict.fromkeys(("auto", "bf16", "bfloat16"), ""),
}


def _groups(request: Request) -> int:
    """Groups of data-parallel attention."""
    return int(request.plan.data_parallel) if request.scenario.model.experts is not None else 1


def _sequences(request: Request) -> int | None:
    """Sequences of all groups, which divide them."""
    return None if request.sequences is None else request.sequences * _groups(request)


def _copies(options: Options) -> int | None:
    """Copies of busy experts, where experts are placed by their load."""
    return (options.number("ep-num-redundant-experts", least=0) or 0) if options.flag("enable-eplb") else None


def _above_one(value: int) -> int | None:
    return value if value > 1 else None


def _data_parallel(request: Request) -> object:
    """Data-parallel ranks that share nothing."""
    ranks = request.plan.data_parallel
    return ranks if ranks > _groups(request) else None


def _stated_groups(options: Options) -> int:
    """Groups of data-parallel attention."""
    groups = options.number("attn-dp-size") or 1
    return options.number("dp-size") or 1 if options.flag("enable-dp-attention") and groups == 1 else groups


def _stated_tensor(options: Options) -> int:
    """Ranks of a group: all that share the experts are those of ``--tp-size``."""
    ranks, groups = options.number("tp-size") or 1, _stated_groups(options)
    if ranks % groups and "tp-size" not in options.unknown:
        options.problems.append(f"--attn-dp-size is {groups}; allowed: a divisor of --tp-size {ranks}")
    return ranks // groups


def _stated_experts(options: Options) -> int | None:
    """Ranks that share the experts: all, where tokens travel to them (``server_args.py``)."""
    sent = options.text("moe-a2a-backend").removeprefix("none")
    return options.number("tp-size") if sent else options.number("ep-size")


def _stated_data(options: Options) -> int | None:
    """All data-parallel ranks: those that share nothing, of as many groups each."""
    return _above_one((options.number("dp-size") or 1) * (options.number("attn-dp-size") or 1))


def _stated_sequences(options: Options) -> int | None:
    running = options.number("max-running-requests")
    return None if running is None else max(1, running // _stated_groups(options))


def _chunk(options: Options) -> int | None:
    return options.number("chunked-prefill-size", least=-1)


def _budget(options: Options) -> int | None:
    chunk = _chunk(options)
    if chunk == -1:
        return options.number("max-prefill-tokens")
    return chunk and max(1, chunk // _stated_groups(options))


def _stated_chunk(request: Request) -> int | None:
    """Tokens of an iteration of all groups, which divide them; -1 for whole prompts."""
    if not request.plan.chunked_prefill:
        return -1
    budget = request.plan.max_batched_tokens
    return None if budget is None else int(budget) * _groups(request)


def _is_chunked(options: Options) -> bool | None:
    chunk = _chunk(options)
    return None if chunk is None else chunk != -1


def _graphs(options: Options) -> bool | None:
    eager = options.flag("disable-cuda-graph") or options.text("cuda-graph-backend-decode") == "disabled"
    return False if eager or options.flag("disable-decode-cuda-graph") else None


def _eager(request: Request) -> str | None:
    return None if request.plan.cuda_graphs else "disabled"


def _algorithm(request: Request) -> str | None:
    """The draft of the model's own layer, or of the prompt's n-grams, which cost nothing."""
    if request.drafts is None:
        return None
    return "NEXTN" if request.scenario.model.prediction_layers else "NGRAM"


def _steps(request: Request) -> int | None:
    return request.drafts if request.scenario.model.prediction_layers else None


def _drafted(options: Options) -> int | None:
    steps, verified = options.number("speculative-num-steps"), options.number("speculative-num-draft-tokens", least=2)
    if not options.text("speculative-algorithm") or (steps is None and verified is None):
        return None
    return steps or (verified or 2) - 1


def _host_gb(request: Request) -> int | None:
    """Whole GB (1e9 bytes) of host memory for each device (SGLang, pages on HiCache's design and best practices)."""
    scenario = request.scenario
    return max(int(device_host_bytes(scenario) / 1e9), 1) if scenario.plan.kv_tiers else None


def _waits(options: Options) -> float | None:
    """Seconds that requests wait at most; none without an end."""
    return max(options.decimal(named(TIMEOUT)) or 0.0, 0.0) or None


def _by_priority(request: Request) -> bool | None:
    """Whether smaller priorities go first; no request that runs makes room for another."""
    return request.scenario.plan.scheduler == "priority" or None


def _stated_order(options: Options) -> str | None:
    return "priority" if options.flag("enable-priority-scheduling") else None


def _write_policy(request: Request) -> str | None:
    tiers = request.scenario.plan.kv_tiers
    return f"write_{tiers[0].write or 'through'}" if tiers else None


OPTIONS: Sequence[Row] = (
    Option("--tp-size", "tensor_parallel", lambda r: r.plan.tensor_parallel * _groups(r), _stated_tensor),
    degree("--pp-size", "pipeline_parallel"),
    Option("--dp-size", "data_parallel", _data_parallel, _stated_data),
    Option("--attn-dp-size", write=lambda request: _above_one(_groups(request))),
    degree("--ep-size", "expert_parallel", _stated_experts),
    Option("--moe-dense-tp-size", write=lambda r: 1 if _groups(r) > 1 and r.plan.tensor_parallel == 1 else None),
    Option("--enable-eplb", "redundant_experts", lambda r: r.plan.redundant_experts is not None or None, _copies),
    Option("--ep-num-redundant-experts", write=lambda r: r.plan.redundant_experts or None),
    compute_dtype("--dtype"),
    *formats("--quantization", READ_WEIGHTS, "--kv-cache-dtype", "sglang", READ_CACHES),
    Option("--context-length", write=lambda request: request.longest),
    Option("--max-running-requests", "max_sequences", _sequences, _stated_sequences),
    Option("--chunked-prefill-size", "max_batched_tokens", _stated_chunk, _budget),
    Option(
        "--max-prefill-tokens",
        "chunked_prefill",
        lambda request: None if request.plan.chunked_prefill else request.plan.max_batched_tokens,
        _is_chunked,
    ),
    memory_share("--mem-fraction-static"),
    number("--page-size", "kv_block_tokens", lambda request: request.block_tokens),
    cache_tokens("--max-total-tokens", "--page-size", 1),
    number("--max-queued-requests", "max_queued_requests"),
    Option("--enable-priority-scheduling", "scheduler", _by_priority, _stated_order),
    Option("--schedule-low-priority-values-first", write=_by_priority),
    Option("--disable-priority-preemption", write=_by_priority),
    Option("", "queue_timeout", read=_waits),
    without("--disable-radix-cache", "prefix_cache"),
    Option("--cuda-graph-backend-decode", "cuda_graphs", _eager, _graphs),
    Option("--cuda-graph-backend-prefill", write=_eager),
    without("--disable-overlap-schedule", "async_scheduling"),
    drafts("--speculative-algorithm", _algorithm, _drafted),
    sampling("--preferred-sampling-params"),
    Option("--speculative-num-steps", write=_steps),
    Option("--speculative-eagle-topk", write=lambda request: None if _steps(request) is None else 1),
    Option("--speculative-num-draft-tokens", write=lambda r: None if r.drafts is None else r.drafts + 1),
    Option("--enable-hierarchical-cache", write=lambda request: bool(request.scenario.plan.kv_tiers) or None),
    Option("--hicache-size", write=_host_gb),
    Option("--hicache-write-policy", write=_write_policy),
    Option("--hicache-storage-backend", write=lambda r: "file" if len(r.scenario.plan.kv_tiers) > 1 else None),
    Option(
        "--hicache-storage-prefetch-policy",
        write=lambda r: "wait_complete" if len(r.scenario.plan.kv_tiers) > 1 else None,
    ),
    Option("--disaggregation-mode", write=lambda request: request.role or None),
)


def _of_node(request: Request, server: Server, rank: int, address: str) -> Arguments:
    """How nodes and other servers reach a server."""
    reached: Arguments = {} if request.scenario.cluster.nodes == 1 else {"--host": "0.0.0.0"}  # noqa: S104
    meets: Arguments = {}
    if server.nodes > 1:
        there = f"{address}:{NODES_PORT + server.number}"
        meets = {"--nnodes": server.nodes, "--node-rank": rank, "--dist-init-addr": there}
    shakes = {"--disaggregation-bootstrap-port": _bootstrap(server)} if server.role == "prefill" else {}
    return {**meets, **shakes, **reached, **publishing(request, server)}


def _environment(request: Request, server: Server, _address: str) -> Mapping[str, object]:
    """Where a server keeps files, where several do."""
    folders = storage_folders(request.scenario, server.number)
    return {FILES: f'"$PWD/{folders[0]}"'} if folders else {}


def _words(request: Request, model: str) -> tuple[str, ...]:
    """The server's program; how long requests wait is no option (``_abort_on_waiting_timeout``, scheduler.py)."""
    waits = request.scenario.plan.queue_timeout
    program = "dynamo.sglang" if request.publishes else "sglang.launch_server"
    return (*(() if waits is None else ("env", f"{TIMEOUT}={waits:g}")), "python", "-m", program, "--model-path", model)


def _bootstrap(server: Server) -> int:
    return BOOTSTRAP_PORT + server.number


def _router(servers: Sequence[tuple[Server, str]], policy: str) -> str:
    """What shares requests among servers: the project's own router."""
    begin = f"python -m sglang_router.launch_router --policy {policy} --port {ROUTER_PORT}"
    if not servers[0][0].role:
        urls = " ".join(f'"{url}"' for _, url in servers)
        return f"{begin} --worker-urls {urls}"
    prefill = [f'--prefill "{url}" {_bootstrap(server)}' for server, url in servers if server.role == "prefill"]
    decode = [f'--decode "{url}"' for server, url in servers if server.role == "decode"]
    return f"{begin} --pd-disaggregation {' '.join([*prefill, *decode])}"


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    request = requests[-1]
    plan, model = request.plan, request.scenario.model
    if plan.kv_tiers:
        yield (
            f"plan.kv_tiers[0] {plan.kv_tiers[0].name}: written as {_host_gb(request)} GB of host memory for each "
            "device; SGLang needs more there than the device's own cache has"
        )
        folders = storage_folders(request.scenario)
        if plan.replicas == 1 and folders:
            folders = [f"/tmp/hicache, or where {FILES} says"]  # noqa: S108 - its default
        yield from storage_notes(request.scenario, *folders)
    if model.experts is not None and any(one.plan.data_parallel > 1 for one in requests):
        yield "plan.data_parallel: releases before --attn-dp-size spell it --dp-size with --enable-dp-attention"
    if plan.speculative is not None and not model.prediction_layers:
        yield "plan.speculative: drafts come from the prompt's n-grams; name a draft model for others"


DIALECT = Dialect(
    engine="sglang",
    options=OPTIONS,
    programs=(("sglang.launch_server",), ("sglang", "serve"), ("dynamo.sglang",)),
    image="sglang",
    words=_words,
    port=30000,
    router=_router,
    router_package="sglang-router",
    weights=WEIGHTS,
    notes=_notes,
    of_node=_of_node,
    environment=_environment,
    models=("model-path", "model"),
    aliases={
        **dict.fromkeys(("tensor-parallel-size", "tp"), "tp-size"),
        **dict.fromkeys(("pipeline-parallel-size", "pp"), "pp-size"),
        **dict.fromkeys(("data-parallel-size", "dp"), "dp-size"),
        **dict.fromkeys(("expert-parallel-size", "ep"), "ep-size"),
        "attention-data-parallel-size": "attn-dp-size",
    },
    flags={
        *("enable-dp-attention", "disable-cuda-graph", "disable-decode-cuda-graph", "disable-prefill-cuda-graph"),
        *("disable-radix-cache", "trust-remote-code", "enable-mixed-chunk", "enable-metrics"),
        *("enable-hierarchical-cache", "enable-eplb", "enable-priority-scheduling"),
        *("schedule-low-priority-values-first", "disable-priority-preemption"),
    },
    role=lambda options: options.text("disaggregation-mode").removeprefix("null"),
    tiers=lambda options: bool(options.flag("enable-hierarchical-cache")),
    later_node=lambda options: (options.number("node-rank", least=0) or 0) > 0,
    longest="context-length",
    sampling="preferred-sampling-params",
    files=("config",),
    prefix="SGL",
)
claims, read, write = DIALECT.claims, DIALECT.read, DIALECT.write
