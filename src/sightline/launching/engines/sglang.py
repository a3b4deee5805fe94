"""SGLang: ``python -m sglang.launch_server`` with the server arguments of release 0.5.23.

Its ``--tp-size`` counts all ranks that share the experts, which data-parallel attention (``--attn-dp-size``) divides
into groups. Of a model without experts data-parallel ranks share nothing, which is ``--dp-size``.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sightline.launching.engines import dialect
from sightline.launching.engines.dialect import Dialect
from sightline.launching.engines.requests import (
    DTYPES,
    READ_DTYPES,
    block_tokens,
    device_host_bytes,
    longest,
    model_argument,
    pools,
    quantization,
    requested_formats,
    sequences,
    storage_notes,
)
from sightline.launching.engines.servers import Arguments, Command, Server, launch, tier_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.scenario import GenerationPlan, GenerationScenario

PORT = 30000
ROUTER_PORT, NODES_PORT, BOOTSTRAP_PORT = 8000, 20000, 8998
"""Ports of the router, and first ones of the nodes' exchange and of the handshake of prefill servers."""
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
"""Our word by the engine's; empty where the checkpoint says the format."""
CACHES: Mapping[str, str] = {"kv-fp8": "fp8_e4m3"}
READ_CACHES: Mapping[str, str] = {
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2"), "kv-fp8"),
    **dict.fromkeys(("auto", "bf16", "bfloat16"), ""),
}


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several.

    Raises:
        InputError: The plan has more memories behind the device's than the engine.
    """
    refuse([*tier_problems(scenario, most=2)])
    model, unknown = model_argument(scenario)
    commands = {
        role: Command(
            words=("python", "-m", "sglang.launch_server", "--model-path", model),
            arguments=_arguments(scenario, role, plan),
            of_node=partial(_of_node, scenario),
        )
        for role, plan in pools(scenario).items()
    }
    notes = [*unknown, *requested_formats(scenario, WEIGHTS).notes, *_notes(scenario)]
    return launch(scenario, commands, port=PORT, router=_router, router_package="sglang-router", notes=notes)


def _arguments(scenario: GenerationScenario, role: str, plan: GenerationPlan) -> Arguments:
    """The options that every server of a role has."""
    formats, budget = requested_formats(scenario, WEIGHTS), plan.max_batched_tokens
    eager = None if plan.cuda_graphs else "disabled"
    groups = int(plan.data_parallel) if scenario.model.experts is not None else 1
    stated = {
        "--tp-size": plan.tensor_parallel * groups,
        "--pp-size": plan.pipeline_parallel if plan.pipeline_parallel > 1 else None,
        "--dp-size": plan.data_parallel if plan.data_parallel > groups else None,
        "--attn-dp-size": groups if groups > 1 else None,
        "--ep-size": plan.expert_parallel if plan.expert_parallel > 1 else None,
        "--moe-dense-tp-size": 1 if groups > 1 and plan.tensor_parallel == 1 else None,
        "--dtype": DTYPES.get(plan.dtype),
        "--quantization": formats.weights or None,
        "--kv-cache-dtype": CACHES.get(formats.cache),
        "--context-length": longest(scenario),
        "--max-running-requests": sequences(scenario, role, plan) * groups,
        "--chunked-prefill-size": budget if plan.chunked_prefill else -1,
        "--max-prefill-tokens": None if plan.chunked_prefill else budget,
        "--mem-fraction-static": plan.memory_fraction,
        "--page-size": block_tokens(plan),
        "--disable-radix-cache": None if plan.prefix_cache else True,
        "--cuda-graph-backend-decode": eager,
        "--cuda-graph-backend-prefill": eager,
        **_speculative(scenario),
        **_tiers(scenario),
        "--disaggregation-mode": role or None,
    }
    return without_none(stated)


def _speculative(scenario: GenerationScenario) -> Arguments:
    """The draft of the model's own layer, or of the prompt's n-grams, which cost nothing."""
    asked_for = scenario.plan.speculative
    if asked_for is None:
        return {}
    tokens = int(asked_for.tokens)
    verified = {"--speculative-num-draft-tokens": tokens + 1}
    if not scenario.model.prediction_layers:
        return {"--speculative-algorithm": "NGRAM", **verified}
    steps = {"--speculative-num-steps": tokens, "--speculative-eagle-topk": 1}
    return {"--speculative-algorithm": "NEXTN", **steps, **verified}


def _tiers(scenario: GenerationScenario) -> Arguments:
    """Memories behind the device's: whole GB (1e9 bytes) of the host's for each device, and storage behind it.

    Source: SGLang, pages on the design of HiCache and its best practices.
    """
    if not scenario.plan.kv_tiers:
        return {}
    storage = {"--hicache-storage-backend": "file"} if len(scenario.plan.kv_tiers) > 1 else {}
    return {"--enable-hierarchical-cache": True, "--hicache-size": _host_gb(scenario), **storage}


def _host_gb(scenario: GenerationScenario) -> int:
    return max(int(device_host_bytes(scenario) / 1e9), 1)


def _tier_notes(scenario: GenerationScenario) -> Iterator[str]:
    if not scenario.plan.kv_tiers:
        return
    first = scenario.plan.kv_tiers[0]
    yield (
        f"plan.kv_tiers[0] {first.name}: written as {_host_gb(scenario)} GB of host memory for each device; SGLang "
        "needs more there than the device's own cache has"
    )
    folder = "/tmp/hicache, or where SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR says"  # noqa: S108 - SGLang's default
    yield from storage_notes(scenario, *[folder][: len(scenario.plan.kv_tiers) - 1])


def _of_node(scenario: GenerationScenario, server: Server, rank: int, address: str) -> Arguments:
    """How nodes and other servers reach a server."""
    reached: Arguments = {} if scenario.cluster.nodes == 1 else {"--host": "0.0.0.0"}  # noqa: S104
    meets: Arguments = {}
    if server.nodes > 1:
        there = f"{address}:{NODES_PORT + server.number}"
        meets = {"--nnodes": server.nodes, "--node-rank": rank, "--dist-init-addr": there}
    shakes = {"--disaggregation-bootstrap-port": _bootstrap(server)} if server.role == "prefill" else {}
    return {**meets, **shakes, **reached}


def _bootstrap(server: Server) -> int:
    return BOOTSTRAP_PORT + server.number


def _router(servers: Sequence[tuple[Server, str]]) -> str:
    """What shares requests among servers: the project's own router."""
    begin = "python -m sglang_router.launch_router"
    if not servers[0][0].role:
        urls = " ".join(f'"{url}"' for _, url in servers)
        return f"{begin} --port {ROUTER_PORT} --worker-urls {urls}"
    prefill = [f'--prefill "{url}" {_bootstrap(server)}' for server, url in servers if server.role == "prefill"]
    decode = [f'--decode "{url}"' for server, url in servers if server.role == "decode"]
    return f"{begin} --port {ROUTER_PORT} --pd-disaggregation {' '.join([*prefill, *decode])}"


def _notes(scenario: GenerationScenario) -> Iterator[str]:
    plan, model = scenario.plan, scenario.model
    yield from _tier_notes(scenario)
    if model.experts is not None and any(pool.data_parallel > 1 for pool in pools(scenario).values()):
        yield "plan.data_parallel: releases before --attn-dp-size spell it --dp-size with --enable-dp-attention"
    if requested_formats(scenario, WEIGHTS).cache not in ("", *CACHES):
        yield "plan.quantization kv-int8: SGLang keeps no cache in int8"
    if plan.speculative is not None and not model.prediction_layers:
        yield "plan.speculative: drafts come from the prompt's n-grams; name a draft model for others"


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options say."""
    ranks, data, groups = (options.number(name) or 1 for name in ("tp-size", "dp-size", "attn-dp-size"))
    if options.flag("enable-dp-attention") and groups == 1:
        data, groups = 1, data
    if ranks % groups:
        options.problems.append(f"--attn-dp-size is {groups}; allowed: a divisor of --tp-size {ranks}")
    running, chunk = options.number("max-running-requests"), options.number("chunked-prefill-size", least=-1)
    budget = options.number("max-prefill-tokens") if chunk == -1 else chunk
    eager = options.flag("disable-cuda-graph") or options.text("cuda-graph-backend-decode") == "disabled"
    eager = bool(eager or options.flag("disable-decode-cuda-graph"))
    options.text("cuda-graph-backend-prefill")
    formats = quantization(
        options.word("quantization", READ_WEIGHTS), options.word("kv-cache-dtype", READ_CACHES), model
    )
    plan = {
        "tensor_parallel": ranks // groups,
        "pipeline_parallel": options.number("pp-size"),
        "data_parallel": data * groups if data * groups > 1 else None,
        "expert_parallel": options.number("ep-size"),
        "dtype": options.word("dtype", READ_DTYPES) or None,
        "quantization": formats or None,
        "max_sequences": None if running is None else max(1, running // groups),
        "max_batched_tokens": budget,
        "chunked_prefill": None if chunk is None else chunk != -1,
        "memory_fraction": options.share("mem-fraction-static"),
        "kv_block_tokens": options.number("page-size"),
        "prefix_cache": False if options.flag("disable-radix-cache") else None,
        "cuda_graphs": False if eager else None,
        "speculative": _drafted(options),
    }
    return without_none(plan)


def _drafted(options: Options) -> Mapping[str, Any] | None:
    steps, verified = options.number("speculative-num-steps"), options.number("speculative-num-draft-tokens", least=2)
    if not options.text("speculative-algorithm") or (steps is None and verified is None):
        return None
    return {"tokens": steps or (verified or 2) - 1, "acceptance": dialect.ACCEPTANCE}


DIALECT = Dialect(
    engine="sglang",
    programs=(("sglang.launch_server",), ("sglang", "serve")),
    image="sglang",
    plan=_plan,
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
        "enable-hierarchical-cache",
    },
    role=lambda options: options.text("disaggregation-mode").removeprefix("null"),
    tiers=lambda options: bool(options.flag("enable-hierarchical-cache")),
    later_node=lambda options: (options.number("node-rank", least=0) or 0) > 0,
    longest="context-length",
    files=("config",),
    quiet={
        *("dist-init-addr", "nccl-port", "moe-dense-tp-size", "speculative-eagle-topk", "enable-metrics"),
        *("disaggregation-bootstrap-port", "disaggregation-transfer-backend", "disaggregation-ib-device"),
        *("hicache-size", "hicache-ratio", "hicache-write-policy", "hicache-io-backend", "hicache-mem-layout"),
        *("hicache-storage-backend", "hicache-storage-prefetch-policy"),
    },
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the engine's server, and the scenario that its servers make up."""
