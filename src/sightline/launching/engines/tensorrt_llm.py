"""TensorRT-LLM: ``trtllm-serve`` of release 1.2 with its PyTorch backend, and the YAML file of its further options.

Data parallelism is that of attention, which spans all ranks that share the experts (``enable_attention_dp``). Prefill
and decode apart are servers behind ``trtllm-serve disaggregated``.
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
    budget,
    budget_notes,
    device_host_bytes,
    longest,
    model_argument,
    pools,
    quantization,
    requested_formats,
    sequences,
    size,
)
from sightline.launching.engines.servers import Arguments, Command, Server, largest_node, launch, tier_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.scenario import GenerationPlan, GenerationScenario

ROUTER_PORT, PORT = 8000, 8001
"""Of what shares requests among servers, and of the first server."""
CACHES: Mapping[str, str] = {"kv-fp8": "fp8", "kv-int8": "int8"}
READ_CACHES: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in CACHES.items()},
    **dict.fromkeys(("auto", "bfloat16", "float16"), ""),
}
READ_WEIGHTS: Mapping[str, str] = {
    "FP8": "fp8",
    "FP8_BLOCK_SCALES": "fp8-block",
    "W8A8_SQ_PER_CHANNEL": "w8a8",
    "W8A16": "w8a16",
    "W4A16": "w4a16",
    "W4A16_AWQ": "w4a16",
    "W4A16_GPTQ": "w4a16",
    "NVFP4": "nvfp4",
    "W4A16_MXFP4": "mxfp4",
}


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several, with the files of its options.

    Raises:
        InputError: The plan has degrees that the engine cannot have.
    """
    refuse(list(_problems(scenario)))
    model, unknown = model_argument(scenario)
    spans = any(size(plan) > largest_node(scenario.cluster) for plan in pools(scenario).values())
    program = ("trtllm-llmapi-launch", "trtllm-serve") if spans else ("trtllm-serve",)
    commands = {
        role: Command(
            words=(*program, model), arguments=_arguments(scenario, role, plan), of_node=partial(_of_node, scenario)
        )
        for role, plan in pools(scenario).items()
    }
    files = {_file(role): _yaml(_settings(scenario, role, plan)) for role, plan in pools(scenario).items()}
    router = None if scenario.plan.disaggregate is None else _router
    notes = [*unknown, *requested_formats(scenario, {}).notes, *_notes(scenario, spans=spans)]
    return launch(scenario, commands, port=PORT if router else ROUTER_PORT, router=router, files=files, notes=notes)


def _problems(scenario: GenerationScenario) -> Iterator[str]:
    """What the engine cannot launch."""
    yield from tier_problems(scenario, most=1)
    for role, plan in pools(scenario).items():
        key = f"plan.disaggregate.{role}" if role else "plan"
        if plan.data_parallel > 1 and scenario.model.experts is None:
            yield (
                f"{key}.data_parallel is {plan.data_parallel}; TensorRT-LLM has it for attention of models with "
                "experts; plan.replicas are servers of their own"
            )
        elif plan.data_parallel > 1 and plan.tensor_parallel > 1:
            yield (
                f"{key}.tensor_parallel is {plan.tensor_parallel} with data_parallel {plan.data_parallel}; "
                "TensorRT-LLM's data-parallel attention spans all ranks: allowed is tensor_parallel 1"
            )


def _arguments(scenario: GenerationScenario, role: str, plan: GenerationPlan) -> Arguments:
    """The options that every server of a role has."""
    stated = {
        "--backend": "pytorch",
        "--tp_size": plan.tensor_parallel * plan.data_parallel,
        "--pp_size": plan.pipeline_parallel if plan.pipeline_parallel > 1 else None,
        "--ep_size": plan.expert_parallel if plan.expert_parallel > 1 else None,
        "--max_batch_size": sequences(scenario, role, plan),
        "--max_num_tokens": budget(scenario, plan),
        "--max_seq_len": longest(scenario),
        "--kv_cache_free_gpu_memory_fraction": plan.memory_fraction,
        "--enable_chunked_prefill": True if plan.chunked_prefill else None,
        "--config": _file(role),
    }
    return without_none(stated)


def _file(role: str) -> str:
    return f"{role or 'llm'}_options.yaml"


def _settings(scenario: GenerationScenario, role: str, plan: GenerationPlan) -> dict[str, Any]:
    """What has no option of its own, under the keys of the engine's Python API.

    ``host_cache_size`` counts for each device (tensorrt_llm/_torch/pyexecutor/resource_manager.py).
    """
    cache, tokens = CACHES.get(requested_formats(scenario, {}).cache), block_tokens(plan)
    graphs = {"max_batch_size": sequences(scenario, role, plan), "enable_padding": True}
    drafts = scenario.plan.speculative
    settings = {
        "dtype": DTYPES.get(plan.dtype),
        "enable_attention_dp": True if plan.data_parallel > 1 else None,
        "kv_cache_config": {
            **({"dtype": cache} if cache else {}),
            **({"tokens_per_block": tokens} if tokens else {}),
            **({"host_cache_size": int(device_host_bytes(scenario))} if plan.kv_tiers else {}),
            "enable_block_reuse": plan.prefix_cache,
        },
        "speculative_config": None if drafts is None else _speculative(scenario, int(drafts.tokens)),
        "cache_transceiver_config": {"backend": "DEFAULT", "max_tokens_in_buffer": longest(scenario)} if role else None,
        "disable_overlap_scheduler": True if role == "prefill" else None,
    }
    return {**without_none(settings), "cuda_graph_config": graphs if plan.cuda_graphs else None}


def _speculative(scenario: GenerationScenario, tokens: int) -> dict[str, object]:
    """The draft of the model's own layer, or of the prompt's n-grams, which cost nothing."""
    if scenario.model.prediction_layers:
        return {"decoding_type": "MTP", "num_nextn_predict_layers": tokens}
    return {"decoding_type": "NGram", "max_draft_len": tokens, "max_matching_ngram_size": 4}


def _yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(settings, sort_keys=False)


def _of_node(scenario: GenerationScenario, _server: Server, _rank: int, _address: str) -> Arguments:
    """What lets other nodes reach a server."""
    return {} if scenario.cluster.nodes == 1 else {"--host": "0.0.0.0"}  # noqa: S104


def _router(servers: Sequence[tuple[Server, str]]) -> str:
    """What hands requests to prefill servers and then to decode servers, with its file."""
    lines = ["cat > disaggregated.yaml <<END", "hostname: 0.0.0.0", f"port: {ROUTER_PORT}", "backend: pytorch"]
    for role, group in (("prefill", "context_servers"), ("decode", "generation_servers")):
        urls = [url.removeprefix("http://") for server, url in servers if server.role == role]
        lines += [f"{group}:", f"  num_instances: {len(urls)}", "  urls:", *(f'    - "{url}"' for url in urls)]
    return "\n".join([*lines, "END", "trtllm-serve disaggregated -c disaggregated.yaml"])


def _notes(scenario: GenerationScenario, *, spans: bool) -> Iterator[str]:
    plan = scenario.plan
    yield from budget_notes(scenario)
    if requested_formats(scenario, {}).cache not in ("", *CACHES):
        yield "plan.quantization: TensorRT-LLM keeps no such cache"
    if spans:
        yield ("cluster: a server spans nodes, so start the script in one process per device, as srun --mpi=pmix does")
    yield f"plan.memory_fraction {plan.memory_fraction:g}: TensorRT-LLM counts it of the memory that weights leave free"
    if plan.speculative is not None and not scenario.model.prediction_layers:
        yield "plan.speculative: drafts come from the prompt's n-grams; name a draft model for others"


def _role(options: Options) -> str:
    """Whether a server does prefill or decode alone: only prefill runs without overlapped scheduling."""
    if not options.text("cache-transceiver-config.backend"):
        return ""
    return "prefill" if options.flag("disable-overlap-scheduler") else "decode"


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options and its file say."""
    ranks = options.number("tp-size") or 1
    apart = options.flag("enable-attention-dp")
    formats = quantization(
        options.word("quant-config.quant-algo", READ_WEIGHTS),
        options.word("kv-cache-config.dtype", READ_CACHES),
        model,
    )
    graphs = options.text("cuda-graph-config")
    draft = options.number("speculative-config.num-nextn-predict-layers")
    draft = draft or options.number("speculative-config.max-draft-len")
    options.text("speculative-config.decoding-type")
    plan = {
        "tensor_parallel": 1 if apart else ranks,
        "data_parallel": ranks if apart and ranks > 1 else None,
        "pipeline_parallel": options.number("pp-size"),
        "expert_parallel": options.number("ep-size"),
        "dtype": options.word("dtype", READ_DTYPES) or None,
        "quantization": formats or None,
        "max_sequences": options.number("max-batch-size"),
        "max_batched_tokens": options.number("max-num-tokens"),
        "chunked_prefill": options.flag("enable-chunked-prefill"),
        "memory_fraction": options.share("kv-cache-free-gpu-memory-fraction"),
        "kv_block_tokens": options.number("kv-cache-config.tokens-per-block"),
        "prefix_cache": options.flag("kv-cache-config.enable-block-reuse"),
        "cuda_graphs": False if graphs == "null" else None,
        "speculative": {"tokens": draft, "acceptance": dialect.ACCEPTANCE} if draft else None,
    }
    return without_none(plan)


DIALECT = Dialect(
    engine="tensorrt-llm",
    programs=(("trtllm-serve", "serve"), ("trtllm-serve",)),
    image="",
    plan=_plan,
    positional=True,
    aliases={
        **dict.fromkeys(("tensor-parallel-size",), "tp-size"),
        **dict.fromkeys(("pipeline-parallel-size",), "pp-size"),
        **dict.fromkeys(("moe-expert-parallel-size",), "ep-size"),
        **dict.fromkeys(
            ("free-gpu-memory-fraction", "kv-cache-config.free-gpu-memory-fraction"),
            "kv-cache-free-gpu-memory-fraction",
        ),
        **dict.fromkeys(("extra-llm-api-options",), "config"),
    },
    flags={"enable-chunked-prefill", "trust-remote-code"},
    role=_role,
    tiers=lambda options: bool(options.number("kv-cache-config.host-cache-size", least=0)),
    longest="max-seq-len",
    files=("config",),
    files_win=True,
    quiet={
        *("backend", "gpus-per-node", "cuda-graph-config.max-batch-size", "cuda-graph-config.enable-padding"),
        *("cache-transceiver-config.max-tokens-in-buffer", "speculative-config.max-matching-ngram-size"),
    },
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the engine's server, and the scenario that its servers make up."""
