"""vLLM: ``vllm serve`` with the engine arguments of release 0.32.

A plan's ``data_parallel`` is the engine's own data parallelism, whose ranks share the experts; ``replicas`` are servers
of their own. Prefill and decode apart are servers that hand keys and values over by NIXL.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sightline.launching.engines import dialect
from sightline.launching.engines.dialect import Dialect
from sightline.launching.engines.requests import (
    DTYPES,
    READ_DTYPES,
    block_tokens,
    budget,
    budget_notes,
    host_bytes,
    longest,
    model_argument,
    pools,
    quantization,
    requested_formats,
    sequences,
    storage_notes,
)
from sightline.launching.engines.servers import LOCAL, Arguments, Command, Server, largest_node, launch, tier_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.scenario import GenerationPlan, GenerationScenario

PORT = 8000
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
"""Our word by the engine's; empty where the checkpoint says the format."""
CACHES: Mapping[str, str] = {"kv-fp8": "fp8", "kv-int8": "int8_per_token_head"}
READ_CACHES: Mapping[str, str] = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "fp8_per_token_head"), "kv-fp8"),
    "int8_per_token_head": "kv-int8",
    **dict.fromkeys(("auto", "bfloat16", "float16"), ""),
}
OFFLOADING = "OffloadingConnector"
"""What keeps evicted keys and values in other memories."""
ROLES: Mapping[str, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several.

    Raises:
        InputError: The plan has degrees that the engine cannot have.
    """
    refuse(list(_problems(scenario)))
    model, unknown = model_argument(scenario)
    formats = requested_formats(scenario, WEIGHTS)
    commands = {
        role: Command(
            words=("vllm", "serve", model),
            arguments=_arguments(scenario, role, plan),
            of_node=partial(_of_node, plan),
            environment=_environment,
        )
        for role, plan in pools(scenario).items()
    }
    notes = [*unknown, *formats.notes, *_notes(scenario)]
    return launch(scenario, commands, port=PORT, router=_router, router_package="vllm-router", notes=notes)


def _problems(scenario: GenerationScenario) -> Iterator[str]:
    """What the engine cannot launch."""
    yield from tier_problems(scenario)
    for role, plan in pools(scenario).items():
        key, ranks = f"plan.disaggregate.{role}" if role else "plan", int(plan.tensor_parallel * plan.data_parallel)
        if plan.expert_parallel not in (1, ranks):
            yield (
                f"{key}.expert_parallel is {plan.expert_parallel}; vLLM spreads experts over all ranks of tensor x "
                f"data parallel or splits each over them: allowed are 1 and {ranks}"
            )
        of_rank = plan.tensor_parallel * plan.pipeline_parallel
        if plan.data_parallel > 1 and of_rank > largest_node(scenario.cluster):
            yield (
                f"{key}.data_parallel is {plan.data_parallel} with ranks of {of_rank} devices; allowed: ranks that fit "
                f"on a node of {largest_node(scenario.cluster)}"
            )


def _arguments(scenario: GenerationScenario, role: str, plan: GenerationPlan) -> Arguments:
    """The options that every server of a role has."""
    formats = requested_formats(scenario, WEIGHTS)
    stated = {
        "--tensor-parallel-size": plan.tensor_parallel,
        "--pipeline-parallel-size": plan.pipeline_parallel if plan.pipeline_parallel > 1 else None,
        "--data-parallel-size": plan.data_parallel if plan.data_parallel > 1 else None,
        "--enable-expert-parallel": (plan.expert_parallel > 1) or None,
        "--dtype": DTYPES.get(plan.dtype),
        "--quantization": formats.weights or None,
        "--kv-cache-dtype": CACHES.get(formats.cache),
        "--max-model-len": longest(scenario),
        "--max-num-seqs": _sequences(scenario, role, plan),
        "--max-num-batched-tokens": budget(scenario, plan),
        **_switch("chunked-prefill", on=plan.chunked_prefill),
        "--gpu-memory-utilization": plan.memory_fraction,
        "--block-size": block_tokens(plan),
        **_switch("prefix-caching", on=plan.prefix_cache),
        "--enforce-eager": None if plan.cuda_graphs else True,
        "--speculative-config": _speculative(scenario),
        "--kv-transfer-config": _transfer(scenario, role),
    }
    return without_none(stated)


def _sequences(scenario: GenerationScenario, role: str, plan: GenerationPlan) -> int:
    """Sequences that a rank runs at a time: the engine refuses more than tokens of an iteration."""
    asked_for, tokens = sequences(scenario, role, plan), budget(scenario, plan)
    return asked_for if tokens is None else min(asked_for, tokens)


def _switch(name: str, *, on: bool) -> Arguments:
    return {f"--enable-{name}" if on else f"--no-enable-{name}": True}


def _speculative(scenario: GenerationScenario) -> str | None:
    """The draft of the model's own layer, or of the prompt's n-grams, which cost nothing."""
    asked_for = scenario.plan.speculative
    if asked_for is None:
        return None
    method = {"method": "mtp"} if scenario.model.prediction_layers else {"method": "ngram", "prompt_lookup_max": 4}
    return json.dumps({**method, "num_speculative_tokens": int(asked_for.tokens)})


def _transfer(scenario: GenerationScenario, role: str) -> str | None:
    """How keys and values leave the device: by NIXL to another server, or to the memories behind it.

    ``cpu_bytes_to_use`` counts for all workers of an engine, of which each data-parallel rank is one; evicted blocks of
    answers are kept too, as the plan means it (vLLM, docs/features/kv_offloading_usage.md).
    """
    if role:
        return json.dumps({"kv_connector": "NixlConnector", "kv_role": ROLES[role]})
    if not scenario.plan.kv_tiers:
        return None
    extra: dict[str, object] = {
        "cpu_bytes_to_use": int(host_bytes(scenario) // scenario.plan.data_parallel),
        "offload_prompt_only": False,
    }
    if folders := _storage(scenario):
        secondary = [{"type": "fs", "root_dir": folder} for folder in folders]
        extra |= {"spec_name": "TieringOffloadingSpec", "secondary_tiers": secondary}
    return json.dumps({"kv_connector": OFFLOADING, "kv_role": "kv_both", "kv_connector_extra_config": extra})


def _storage(scenario: GenerationScenario) -> list[str]:
    """Folders of the memories behind the host's."""
    return [f"kv-tier-{place}" for place in range(1, len(scenario.plan.kv_tiers))]


def _of_node(plan: GenerationPlan, server: Server, rank: int, address: str) -> Arguments:
    """How the nodes of a server find each other: by ranks of data parallelism, or as nodes of one rank."""
    if server.nodes == 1:
        return {}
    joins: Arguments = {"--headless": True} if rank else {}
    if plan.data_parallel == 1:
        return {"--nnodes": server.nodes, "--node-rank": rank, "--master-addr": address, **joins}
    local = int(plan.data_parallel) // server.nodes
    return {
        "--data-parallel-size-local": local,
        "--data-parallel-start-rank": local * rank,
        "--data-parallel-address": address,
        "--data-parallel-rpc-port": RPC_PORT + server.number,
        **joins,
    }


def _environment(server: Server, address: str) -> Mapping[str, object]:
    """Where servers for prefill and for decode shake hands for NIXL."""
    if not server.role:
        return {}
    where = {} if address == LOCAL else {"VLLM_NIXL_SIDE_CHANNEL_HOST": f'"{address}"'}
    return {**where, "VLLM_NIXL_SIDE_CHANNEL_PORT": SIDE_CHANNEL_PORT + server.number}


def _router(servers: Sequence[tuple[Server, str]]) -> str:
    """What shares requests among servers: the project's own router."""
    if not servers[0][0].role:
        urls = " ".join(f'"{url}"' for _, url in servers)
        return f"vllm-router --policy round_robin --worker-urls {urls}"
    urls = " ".join(f'--{server.role} "{url}"' for server, url in servers)
    return f"vllm-router --policy round_robin --vllm-pd-disaggregation {urls}"


def _notes(scenario: GenerationScenario) -> Iterator[str]:
    plan = scenario.plan
    yield from budget_notes(scenario)
    yield from storage_notes(scenario, *_storage(scenario))
    for role, pool in pools(scenario).items():
        if (most := _sequences(scenario, role, pool)) < sequences(scenario, role, pool):
            yield f"workload.batch: vLLM runs at most as many sequences of a rank as tokens, {most}; the others wait"
    if plan.speculative is not None and not scenario.model.prediction_layers:
        yield "plan.speculative: drafts come from the prompt's n-grams; name a draft model in --speculative-config"
    line = tuple(int(part) for part in plan.engine.version.split(".")[:2] if part.isdigit())
    if line and line < (0, 8):
        yield f"plan.framework_version {plan.engine.version}: the options are those of current releases"


def _role(options: Options) -> str:
    """Whether a server does prefill or decode alone."""
    stated = options.mapping("kv-transfer-config").get("kv_role")
    return next((role for role, theirs in ROLES.items() if theirs == stated), "")


def _has_tiers(options: Options) -> bool:
    """Whether a server keeps evicted keys and values in other memories."""
    size = options.decimal("kv-offloading-size")
    return bool(size) or options.mapping("kv-transfer-config").get("kv_connector") == OFFLOADING


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options say."""
    tensor = options.number("tensor-parallel-size")
    data = options.number("data-parallel-size")
    experts = options.flag("enable-expert-parallel")
    eager, graphs = options.flag("enforce-eager"), options.text("optimization-level")
    formats = quantization(
        options.word("quantization", READ_WEIGHTS), options.word("kv-cache-dtype", READ_CACHES), model
    )
    draft = options.mapping("speculative-config").get("num_speculative_tokens") or options.number("spec-tokens")
    plan = {
        "tensor_parallel": tensor or 1,
        "pipeline_parallel": options.number("pipeline-parallel-size"),
        "data_parallel": data,
        "expert_parallel": (tensor or 1) * (data or 1) if experts else None,
        "dtype": options.word("dtype", READ_DTYPES) or None,
        "quantization": formats or None,
        "max_sequences": options.number("max-num-seqs"),
        "max_batched_tokens": options.number("max-num-batched-tokens"),
        "chunked_prefill": options.flag("enable-chunked-prefill"),
        "memory_fraction": options.share("gpu-memory-utilization"),
        "kv_block_tokens": options.number("block-size"),
        "prefix_cache": options.flag("enable-prefix-caching"),
        "cuda_graphs": False if eager or graphs == "0" else None if eager is None else True,
        "speculative": {"tokens": draft, "acceptance": dialect.ACCEPTANCE} if draft else None,
    }
    return without_none(plan)


DIALECT = Dialect(
    engine="vllm",
    programs=(("vllm", "serve"), ("vllm.entrypoints.openai.api_server",), ("vllm.entrypoints.api_server",)),
    image="vllm-openai",
    plan=_plan,
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
        "device-memory-utilization": "gpu-memory-utilization",
    },
    flags={
        *("enable-expert-parallel", "enable-chunked-prefill", "enable-prefix-caching", "enforce-eager", "headless"),
        *("trust-remote-code", "disable-log-requests", "disable-log-stats", "enable-auto-tool-choice"),
    },
    role=_role,
    tiers=_has_tiers,
    later_node=lambda options: bool(options.flag("headless")) or (options.number("node-rank", least=0) or 0) > 0,
    longest="max-model-len",
    files=("config",),
    quiet={
        *("data-parallel-size-local", "data-parallel-start-rank", "data-parallel-address", "data-parallel-rpc-port"),
        *("master-addr", "master-port", "api-server-count", "kv-transfer-config", "kv-offloading-backend"),
    },
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the engine's server, and the scenario that its servers make up."""
