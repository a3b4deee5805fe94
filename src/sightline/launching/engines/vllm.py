"""vLLM: ``vllm serve`` with the engine arguments of release 0.32.

A plan's ``data_parallel`` is the engine's own data parallelism, whose ranks share the experts; ``replicas`` are servers
of their own. Prefill and decode apart are servers that hand keys and values over by NIXL.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from sightline.launching.engines.dialect import (
    Dialect,
    Row,
    compute_dtype,
    degree,
    drafts,
    formats,
    memory_share,
    number,
    publishing,
    sampling,
    switch,
)
from sightline.launching.engines.requests import Request, budget_notes, host_bytes, storage_folders, storage_notes
from sightline.launching.engines.servers import LOCAL, Arguments, Server
from sightline.launching.options import Options
from sightline.launching.table import Option

RPC_PORT, SIDE_CHANNEL_PORT = 13345, 5600
"""First ports of the data-parallel ranks' exchange and of NIXL's handshake."""
WEIGHTS: Mapping[str, str] = {
    "fp8": "fp8",
    "fp8-block": "fp8_per_block",
    "w8a16": "int8_per_channel_weight_only",
    "int8": "int8_per_channel_weight_only",
    "nvfp4": "nvfp4_per_token",
}
"""Formats that the engine converts 16-bit weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in WEIGHTS.items() if ours != "int8"},
    **dict.fromkeys(("fp8_per_tensor", "fp8_per_channel", "fbgemm_fp8", "ptpc_fp8", "modelopt"), "fp8"),
    **dict.fromkeys(("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin", "moe_wna16"), "w4a16"),
    "experts_int8": "w8a16",
    "bitsandbytes": "nf4",
    "modelopt_fp4": "nvfp4",
    "deepseek_v4_fp8": "fp8-block",
    "mxfp4": "mxfp4",
    "gpt_oss_mxfp4": "mxfp4",
    "None": "",
    **dict.fromkeys(("compressed-tensors", "quark", "torchao", "gguf", "inc", "online", "modelopt_mixed"), ""),
}
READ_CACHES: Mapping[str, str] = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "fp8_per_token_head"), "kv-fp8"),
    **dict.fromkeys(("auto", "bfloat16", "float16"), ""),
}
OFFLOADING = "OffloadingConnector"
"""What keeps evicted keys and values in other memories."""
COPIES = "num_redundant_experts"
SCHEDULE = "num_speculative_tokens_per_batch_size"
ORDERS: Mapping[str, str] = {"fcfs": "fcfs", "priority": "priority"}
ROLES: Mapping[str, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}


def _experts(options: Options) -> int | None:
    """Ranks that share the experts: all of them, or none."""
    if not options.flag("enable-expert-parallel"):
        return None
    ranks = [options.number(f"{name}-parallel-size") or 1 for name in ("tensor", "data")]
    return ranks[0] * ranks[1]


def _copies(options: Options) -> int | None:
    """Copies of busy experts, under the name of 0.9 too."""
    if not options.flag("enable-eplb"):
        return None
    return options.mapping("eplb-config").get(COPIES) or options.number("num-redundant-experts", least=0) or 0


def _eplb(request: Request) -> str | None:
    copies = request.plan.redundant_experts
    return json.dumps({COPIES: int(copies)}) if copies else None


def _graphs(options: Options) -> bool | None:
    eager, level = options.flag("enforce-eager"), options.text("optimization-level")
    return False if eager or level == "0" else None if eager is None else True


def _speculative(request: Request) -> str | None:
    """The draft of the model's own layer, or of the prompt's n-grams, which cost nothing."""
    if request.drafts is None:
        return None
    own = bool(request.scenario.model.prediction_layers)
    method = {"method": "mtp"} if own else {"method": "ngram", "prompt_lookup_max": 4}
    return json.dumps({**method, "num_speculative_tokens": request.drafts, **_schedule(request)})


def _schedule(request: Request) -> dict[str, object]:
    """Drafted tokens by sequences, from one number of them to another (``spec_decode/dynamic/utils.py`` of 0.27.1)."""
    most, all_sequences = request.most_with_drafts, int(request.sequences or 0)
    if most is None or most >= all_sequences:
        return {}
    return {SCHEDULE: [[1, most, request.drafts], [most + 1, all_sequences, 0]]}


def _most_with_drafts(options: Options) -> int | None:
    """Sequences above which nothing is drafted: V0 calls them so, later releases state each number's drafts."""
    stated = options.mapping("speculative-config")
    schedule = stated.get(SCHEDULE) or []
    if any(tokens not in (0, stated.get("num_speculative_tokens")) for _, _, tokens in schedule):
        options.problems.append(f"--speculative-config.{SCHEDULE} has several numbers of drafts; allowed: one, then 0")
    above: int | None = next((first - 1 for first, _, tokens in schedule if tokens == 0), None)
    return above or stated.get("disable_by_batch_size")


def _drafted(options: Options) -> int | None:
    tokens: int | None = options.mapping("speculative-config").get("num_speculative_tokens")
    return tokens or options.number("spec-tokens")


def _transfer(request: Request, server: int | None = None) -> str | None:
    """How keys and values leave the device: by NIXL to another server, or to the memories behind it.

    ``cpu_bytes_to_use`` counts for all workers of an engine, of which each data-parallel rank is one; evicted blocks of
    answers are kept too, as the plan means it (vLLM, docs/features/kv_offloading_usage.md). Several servers each state
    the folders that they keep files in.
    """
    scenario = request.scenario
    if request.role:
        return json.dumps({"kv_connector": "NixlConnector", "kv_role": ROLES[request.role]})
    folders = storage_folders(scenario, server)
    if not scenario.plan.kv_tiers or (folders and server is None and scenario.plan.replicas > 1):
        return None
    extra: dict[str, object] = {
        "cpu_bytes_to_use": int(host_bytes(scenario) // scenario.plan.data_parallel),
        "offload_prompt_only": False,
    }
    if folders:
        secondary = [{"type": "fs", "root_dir": folder} for folder in folders]
        extra |= {"spec_name": "TieringOffloadingSpec", "secondary_tiers": secondary}
    return json.dumps({"kv_connector": OFFLOADING, "kv_role": "kv_both", "kv_connector_extra_config": extra})


def _ahead(request: Request) -> bool | None:
    """Where it is not what the release does anyway."""
    ahead = request.plan.async_scheduling
    return None if ahead == request.plan.engine.defaults["async_scheduling"] else ahead


def _order(request: Request) -> str | None:
    return "priority" if request.scenario.plan.scheduler == "priority" else None


def _held(request: Request) -> int | None:
    each = request.plan.max_concurrent_requests
    return None if each is None else int(each * request.plan.data_parallel)


def _in_flight(options: Options) -> int | None:
    """Requests in flight of each rank; the option says those of all."""
    requests = options.number("max-num-queued-reqs")
    return requests and max(1, requests // (options.number("data-parallel-size") or 1))


OPTIONS: Sequence[Row] = (
    degree("--tensor-parallel-size", "tensor_parallel", always=True),
    degree("--pipeline-parallel-size", "pipeline_parallel"),
    degree("--data-parallel-size", "data_parallel"),
    Option("--enable-expert-parallel", "expert_parallel", lambda r: r.plan.expert_parallel > 1 or None, _experts),
    Option("--enable-eplb", "redundant_experts", lambda r: r.plan.redundant_experts is not None or None, _copies),
    Option("--eplb-config", write=_eplb),
    compute_dtype("--dtype"),
    *formats("--quantization", READ_WEIGHTS, "--kv-cache-dtype", "vllm", READ_CACHES),
    Option("--max-model-len", write=lambda request: request.longest),
    number("--max-num-seqs", "max_sequences", lambda request: request.sequences),
    number("--max-num-batched-tokens", "max_batched_tokens", lambda request: request.budget),
    switch("--enable-chunked-prefill", "chunked_prefill"),
    memory_share("--gpu-memory-utilization"),
    number("--block-size", "kv_block_tokens", lambda request: request.block_tokens),
    number("--num-gpu-blocks-override", "kv_cache_blocks"),
    Option("--max-num-queued-reqs", "max_concurrent_requests", _held, _in_flight),
    Option("--scheduling-policy", "scheduler", _order, lambda of: of.word("scheduling-policy", ORDERS) or None),
    switch("--enable-prefix-caching", "prefix_cache"),
    Option("--enforce-eager", "cuda_graphs", lambda request: None if request.plan.cuda_graphs else True, _graphs),
    Option("--async-scheduling", "async_scheduling", _ahead, lambda options: options.flag("async-scheduling")),
    drafts("--speculative-config", _speculative, _drafted, _most_with_drafts),
    sampling("--override-generation-config"),
    Option("--kv-transfer-config", write=_transfer),
)


def _of_node(request: Request, server: Server, rank: int, address: str) -> Arguments:
    """Its own files and events, and how its nodes find each other: by data-parallel ranks, or as nodes of one."""
    own = publishing(request, server, enable_kv_cache_events=True)
    if len(request.scenario.plan.kv_tiers) > 1:
        own["--kv-transfer-config"] = _transfer(request, server.number)
    return own | _nodes(request, server, rank, address)


def _nodes(request: Request, server: Server, rank: int, address: str) -> dict[str, object]:
    if server.nodes == 1:
        return {}
    joins = {"--headless": True} if rank else {}
    if request.plan.data_parallel == 1:
        return {"--nnodes": server.nodes, "--node-rank": rank, "--master-addr": address, **joins}
    local = int(request.plan.data_parallel) // server.nodes
    return {
        "--data-parallel-size-local": local,
        "--data-parallel-start-rank": local * rank,
        "--data-parallel-address": address,
        "--data-parallel-rpc-port": RPC_PORT + server.number,
        **joins,
    }


def _environment(request: Request, server: Server, address: str) -> Mapping[str, object]:
    """Where servers for prefill and for decode shake hands for NIXL; a seed, for all to name a block alike."""
    if not server.role:
        named_alike = request.publishes or any(tier.shared != "rank" for tier in request.scenario.plan.kv_tiers[1:])
        return {"PYTHONHASHSEED": 0} if named_alike else {}
    where = {} if address == LOCAL else {"VLLM_NIXL_SIDE_CHANNEL_HOST": f'"{address}"'}
    return {**where, "VLLM_NIXL_SIDE_CHANNEL_PORT": SIDE_CHANNEL_PORT + server.number}


def _router(servers: Sequence[tuple[Server, str]], policy: str) -> str:
    """What shares requests among servers: the project's own router."""
    if not servers[0][0].role:
        urls = " ".join(f'"{url}"' for _, url in servers)
        return f"vllm-router --policy {policy} --worker-urls {urls}"
    urls = " ".join(f'--{server.role} "{url}"' for server, url in servers)
    return f"vllm-router --policy {policy} --vllm-pd-disaggregation {urls}"


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    scenario, plan = requests[-1].scenario, requests[-1].plan
    yield from budget_notes(requests[-1])
    yield from storage_notes(scenario, *storage_folders(scenario))
    if plan.speculative is not None and not scenario.model.prediction_layers:
        yield "plan.speculative: drafts come from the prompt's n-grams; name a draft model in --speculative-config"
    line = tuple(int(part) for part in plan.engine.version.split(".")[:2] if part.isdigit())
    if line and line < (0, 8):
        yield f"plan.framework_version {plan.engine.version}: the options are those of current releases"


def _role(options: Options) -> str:
    """Whether a server does prefill or decode alone."""
    stated = options.mapping("kv-transfer-config").get("kv_role")
    mode = options.text("disaggregation-mode")
    for role in ROLES:
        if options.flag(f"is-{role}-worker") or mode == role:
            return role
    return next((role for role, theirs in ROLES.items() if theirs == stated), "")


def _has_tiers(options: Options) -> bool:
    """Whether a server keeps evicted keys and values in other memories."""
    size = options.decimal("kv-offloading-size")
    return bool(size) or options.mapping("kv-transfer-config").get("kv_connector") == OFFLOADING


DIALECT = Dialect(
    engine="vllm",
    options=OPTIONS,
    programs=(
        ("vllm", "serve"),
        ("vllm.entrypoints.openai.api_server",),
        ("vllm.entrypoints.api_server",),
        ("dynamo.vllm",),
    ),
    image="vllm-openai",
    words=lambda r, model: (
        ("python", "-m", "dynamo.vllm", "--model", model) if r.publishes else ("vllm", "serve", model)
    ),
    port=8000,
    router=_router,
    router_package="vllm-router",
    weights=WEIGHTS,
    notes=_notes,
    of_node=_of_node,
    environment=_environment,
    models=("model", "model-tag"),
    positional=True,
    aliases={
        "tp": "tensor-parallel-size",
        "pp": "pipeline-parallel-size",
        "dp": "data-parallel-size",
        "q": "quantization",
        "ep": "enable-expert-parallel",
        "O": "optimization-level",
        "sc": "speculative-config",
        "n": "nnodes",
        "r": "node-rank",
        "dcp": "decode-context-parallel-size",
        "pcp": "prefill-context-parallel-size",
        "dpn": "data-parallel-rank",
        "dpr": "data-parallel-start-rank",
        "dpl": "data-parallel-size-local",
        "dpa": "data-parallel-address",
        "dpp": "data-parallel-rpc-port",
        "dpb": "data-parallel-backend",
        "cc": "compilation-config",
        "ac": "attention-config",
        "dc": "diffusion-config",
        "device-memory-utilization": "gpu-memory-utilization",
    },
    flags={
        *("enable-expert-parallel", "enable-chunked-prefill", "enable-prefix-caching", "enforce-eager", "headless"),
        *("enable-eplb", "enable-auto-tool-choice", "is-prefill-worker", "is-decode-worker", "trust-remote-code"),
        *("disable-log-requests", "disable-log-stats"),
    },
    role=_role,
    tiers=_has_tiers,
    later_node=lambda options: bool(options.flag("headless")) or (options.number("node-rank", least=0) or 0) > 0,
    longest="max-model-len",
    sampling="override-generation-config",
    files=("config",),
    prefix="VLLM_",
)
claims, read, write = DIALECT.claims, DIALECT.read, DIALECT.write
