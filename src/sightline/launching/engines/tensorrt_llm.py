"""TensorRT-LLM: ``trtllm-serve`` of release 1.2 with its PyTorch backend, and the YAML file of its further options.

Data parallelism is that of attention, which spans all ranks that share the experts (``enable_attention_dp``). Prefill
and decode apart are servers behind ``trtllm-serve disaggregated``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.catalog import names
from sightline.launching.engines.dialect import (
    Dialect,
    Row,
    cache_tokens,
    compute_dtype,
    degree,
    drafts,
    file_settings,
    formats,
    memory_share,
    number,
    off,
    reachable,
    switch,
    switch_on,
)
from sightline.launching.engines.requests import Request, budget_notes, device_host_bytes, requests_of, size
from sightline.launching.engines.servers import Server, largest_node
from sightline.launching.launch import Launch
from sightline.launching.options import Options
from sightline.launching.table import Option
from sightline.loading.models import resolve_model
from sightline.scenario import GenerationScenario

ROUTER_PORT, PORT = 8000, 8001
"""Of what shares requests among servers, and of the first server."""
READ_CACHES: Mapping[str, str] = dict.fromkeys(("auto", "bfloat16", "float16"), "")
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
    files = {_file(request): _text(request) for request in requests_of(scenario, {})}
    if scenario.plan.disaggregate is not None:
        return DIALECT.write(scenario, files)
    return replace(DIALECT, router=None, port=ROUTER_PORT).write(scenario, files)


def _file(request: Request) -> str:
    return f"{request.role or 'llm'}_options.yaml"


def _text(request: Request) -> str:
    """The settings that have no option of their own, under the keys of the engine's Python API."""
    import yaml

    settings = file_settings(OPTIONS, request)
    # Without this key the engine takes graphs of its own choice.
    return yaml.safe_dump({**settings, "cuda_graph_config": settings.get("cuda_graph_config")}, sort_keys=False)


def _tensor(options: Options) -> int:
    return 1 if options.flag("enable-attention-dp") else options.number("tp-size") or 1


def _data(options: Options) -> int | None:
    ranks = options.number("tp-size") or 1 if options.flag("enable-attention-dp") else 1
    return ranks if ranks > 1 else None


def _speculative(request: Request) -> dict[str, object] | None:
    """The draft of the model's own layer, or of the prompt's n-grams, which cost nothing."""
    if request.drafts is None:
        return None
    limit = {"max_concurrency": request.most_with_drafts} if request.most_with_drafts else {}
    if request.scenario.model.prediction_layers:
        return {"decoding_type": "MTP", "num_nextn_predict_layers": request.drafts, **limit}
    return {"decoding_type": "NGram", "max_draft_len": request.drafts, "max_matching_ngram_size": 4, **limit}


def _drafted(options: Options) -> int | None:
    own = options.number("speculative-config.num-nextn-predict-layers")
    options.text("speculative-config.decoding-type")
    return own or options.number("speculative-config.max-draft-len")


def _slots(request: Request) -> int | None:
    """Places for experts on all ranks, copies of busy ones included (``MoeLoadBalancerConfig`` of 1.2)."""
    experts, copies = request.scenario.model.experts, request.plan.redundant_experts
    return None if experts is None or copies is None else experts.count + int(copies)


def _copies(options: Options) -> int | None:
    slots = options.number("moe-config.load-balancer.num-slots")
    experts = resolve_model(options.model, Path()).model.experts if options.model in names("models") else None
    options.number("moe-config.load-balancer.layer-updates-per-iter", least=0)
    return None if slots is None or experts is None else slots - experts.count


def _host_bytes(request: Request) -> int | None:
    """Bytes of host memory for each device (tensorrt_llm/_torch/pyexecutor/resource_manager.py)."""
    return int(device_host_bytes(request.scenario)) if request.plan.kv_tiers else None


def _graphs(request: Request) -> dict[str, Any] | None:
    if not request.plan.cuda_graphs:
        return None
    return {**({"max_batch_size": request.sequences} if request.sequences else {}), "enable_padding": True}


def _waits(request: Request) -> bool | None:
    return None if request.plan.async_scheduling and request.role != "prefill" else True


def _stated_graphs(options: Options) -> bool | None:
    return False if options.text("cuda-graph-config") == "null" else None


def _transceiver(request: Request) -> dict[str, Any] | None:
    return {"backend": "DEFAULT", "max_tokens_in_buffer": request.longest} if request.role else None


OPTIONS: Sequence[Row] = (
    Option("--backend", write=lambda _: "pytorch"),
    Option("--tp_size", "tensor_parallel", lambda r: r.plan.tensor_parallel * r.plan.data_parallel, _tensor),
    degree("--pp_size", "pipeline_parallel"),
    degree("--ep_size", "expert_parallel"),
    Option("moe_config.load_balancer.num_slots", "redundant_experts", _slots, _copies),
    Option("moe_config.load_balancer.layer_updates_per_iter", write=lambda r: None if _slots(r) is None else 1),
    compute_dtype("dtype"),
    Option("enable_attention_dp", "data_parallel", lambda r: True if r.plan.data_parallel > 1 else None, _data),
    switch_on("attention_dp_config.enable_balance", "balanced_prompts"),
    *formats("quant_config.quant_algo", READ_WEIGHTS, "kv_cache_config.dtype", "tensorrt-llm", READ_CACHES),
    number("--max_batch_size", "max_sequences", lambda request: request.sequences),
    number("--max_num_tokens", "max_batched_tokens", lambda request: request.budget),
    Option("--max_seq_len", write=lambda request: request.longest),
    memory_share("--kv_cache_free_gpu_memory_fraction"),
    switch_on("--enable_chunked_prefill", "chunked_prefill"),
    number("kv_cache_config.tokens_per_block", "kv_block_tokens", lambda request: request.block_tokens or None),
    cache_tokens("kv_cache_config.max_tokens", "kv_cache_config.tokens_per_block", 32),
    Option("kv_cache_config.host_cache_size", write=_host_bytes),
    switch("kv_cache_config.enable_block_reuse", "prefix_cache"),
    drafts("speculative_config", _speculative, _drafted, lambda of: of.number("speculative-config.max-concurrency")),
    Option("cache_transceiver_config", write=_transceiver),
    Option("disable_overlap_scheduler", "async_scheduling", _waits, off("disable_overlap_scheduler")),
    Option("cuda_graph_config", "cuda_graphs", _graphs, _stated_graphs),
    Option("--config", write=_file),
)


def _spans(request: Request) -> bool:
    """Whether some server spans nodes."""
    plans = (one.plan for one in requests_of(request.scenario, {}))
    return any(size(plan) > largest_node(request.scenario.cluster) for plan in plans)


def _words(request: Request, model: str) -> tuple[str, ...]:
    return (*(("trtllm-llmapi-launch",) if _spans(request) else ()), "trtllm-serve", model)


def _router(servers: Sequence[tuple[Server, str]], _policy: str) -> str:
    """What hands requests to prefill servers and then to decode servers, with its file."""
    lines = ["cat > disaggregated.yaml <<END", "hostname: 0.0.0.0", f"port: {ROUTER_PORT}", "backend: pytorch"]
    for role, group in (("prefill", "context_servers"), ("decode", "generation_servers")):
        urls = [url.removeprefix("http://") for server, url in servers if server.role == role]
        lines += [f"{group}:", f"  num_instances: {len(urls)}", "  urls:", *(f'    - "{url}"' for url in urls)]
    return "\n".join([*lines, "END", "trtllm-serve disaggregated -c disaggregated.yaml"])


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    request = requests[-1]
    plan = request.plan
    yield from budget_notes(request)
    if _spans(request):
        yield ("cluster: a server spans nodes, so start the script in one process per device, as srun --mpi=pmix does")
    yield f"plan.memory_fraction {plan.memory_fraction:g}: TensorRT-LLM counts it of the memory that weights leave free"
    if plan.speculative is not None and not request.scenario.model.prediction_layers:
        yield "plan.speculative: drafts come from the prompt's n-grams; name a draft model for others"


def _role(options: Options) -> str:
    """Whether a server does prefill or decode alone: only prefill runs without overlapped scheduling."""
    mode = options.text("disaggregation-mode")
    if mode or not options.text("cache-transceiver-config.backend"):
        return mode if mode in ("prefill", "decode") else ""
    return "prefill" if options.flag("disable-overlap-scheduler") else "decode"


DIALECT = Dialect(
    engine="tensorrt-llm",
    options=OPTIONS,
    programs=(("trtllm-serve", "serve"), ("trtllm-serve",), ("dynamo.trtllm",)),
    image="",
    words=_words,
    port=PORT,
    router=_router,
    notes=_notes,
    of_node=reachable,
    positional=True,
    aliases={
        "tensor-parallel-size": "tp-size",
        "pipeline-parallel-size": "pp-size",
        "moe-expert-parallel-size": "ep-size",
        **dict.fromkeys(
            ("free-gpu-memory-fraction", "kv-cache-config.free-gpu-memory-fraction"),
            "kv-cache-free-gpu-memory-fraction",
        ),
        **dict.fromkeys(("extra-llm-api-options", "extra-engine-args"), "config"),
    },
    flags={"enable-chunked-prefill", "trust-remote-code"},
    role=_role,
    tiers=lambda options: bool(options.number("kv-cache-config.host-cache-size", least=0)),
    longest="max-seq-len",
    files=("config",),
    prefix="TRTLLM_",
    files_win=True,
)
claims, read = DIALECT.claims, DIALECT.read
