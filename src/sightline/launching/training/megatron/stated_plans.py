"""The plan that arguments of ``pretrain_gpt.py`` state (megatron/training/arguments.py, 2026-08)."""

import re
from typing import Any

from sightline.launching.options import Options, without_none
from sightline.launching.training.megatron.plans import EXCHANGES, MODULES, OPTIMIZERS, RECIPES
from sightline.prediction.schedules.closed_forms import stage_layers


def plan_of(options: Options) -> dict[str, Any]:
    """Return the plan that arguments state, by a scenario's keys."""
    stages = options.number("pipeline-model-parallel-size", 1) or 1
    read: dict[str, Any] = {
        "framework": "megatron",
        "tensor_parallel": options.number("tensor-model-parallel-size", 1),
        "pipeline_parallel": stages,
        "context_parallel": options.number("context-parallel-size", 1),
        "sequence_parallel": options.has("sequence-parallel"),
        "tensor_overlap": "all" if options.has("tp-comm-overlap") else "backward",
        "virtual_stages": _virtual_stages(options, stages),
        "micro_batch": options.number("micro-batch-size"),
        "optimizer": {value: key for key, value in OPTIMIZERS.items()}.get(options.text("optimizer", "adam") or ""),
        "prediction_layers": options.number("mtp-num-layers", least=0),
        "stage_layers": _stage_layers(options, stages),
        **_context_of(options),
        **_sharding_of(options),
        **_precision_of(options),
        **_memory_of(options),
        **_kernels_of(options),
    }
    return without_none({**read, **(_experts_of(options) if options.number("num-experts", least=0) else {})})


def _context_of(options: Options) -> dict[str, Any]:
    named = options.text("cp-comm-type", "p2p")
    options.has("hierarchical-context-parallel-sizes")
    if options.number("context-parallel-size", 1) == 1:
        return {}
    return {"context_exchange": {value: key for key, value in EXCHANGES.items()}.get(named or "")}


def _stage_layers(options: Options, stages: int) -> list[int] | None:
    """Layers of each stage where a layout spreads them otherwise than by default."""
    layout = options.text("pipeline-model-parallel-layout")
    if not layout:
        return None
    repeated = re.compile(r"\(([^()]*)\)\*(\d+)|([A-Za-z])\*(\d+)")
    while repeated.search(layout):
        layout = repeated.sub(lambda found: (found[1] or found[3]) * int(found[2] or found[4]), layout)
    layers = [stage.count("t") for stage in layout.split("|")]
    return layers if len(layers) == stages and layers != stage_layers(sum(layers), stages) else None


def _virtual_stages(options: Options, stages: int) -> int:
    layers = options.number("num-layers")
    each = options.number("num-layers-per-virtual-pipeline-stage")
    layout = options.text("pipeline-model-parallel-layout")
    counted = options.has("account-for-embedding-in-pipeline-split") + options.has("account-for-loss-in-pipeline-split")
    if layout:
        return (layout.count("|") + 1) // stages or 1
    if each and layers:
        return (layers + counted) // (stages * each) or 1
    return options.number("num-virtual-stages-per-pipeline-rank", 1) or 1


def _sharding_of(options: Options) -> dict[str, Any]:
    strategy = options.text("data-parallel-sharding-strategy", "optim_grads_params") or ""
    fsdp = options.has("use-megatron-fsdp") or options.has("use-torch-fsdp2")
    sharded = options.has("use-distributed-optimizer")
    stage = {"no_shard": 0, "optim": 1, "optim_grads": 2}.get(strategy, 3) if fsdp else int(sharded)
    low = options.has("grad-reduce-in-bf16")
    full = options.has("accumulate-allreduce-grads-in-fp32")
    options.has("ckpt-format")
    reduced = "bf16" if low else "fp32" if full or options.has("bf16") else "fp16" if options.has("fp16") else None
    return {
        "zero_stage": stage,
        "overlap_gradient_reduce": options.has("overlap-grad-reduce"),
        "overlap_parameter_gather": options.has("overlap-param-gather"),
        "gradient_reduce_dtype": reduced,
    }


def _precision_of(options: Options) -> dict[str, Any]:
    plain = "bf16" if options.has("bf16") else "fp16" if options.has("fp16") else "fp32"
    recipe = options.text("fp8-recipe", "delayed")
    read: dict[str, Any] = {"dtype": plain}
    if options.has("fp4-format"):
        options.has("fp4-recipe")
        read = {"dtype": "nvfp4"}
    elif options.has("fp8-format") or options.has("fp8-hybrid") or options.has("fp8-e4m3"):
        low = "mxfp8" if recipe == "mxfp8" else "fp8"
        read = {"dtype": low, "fp8_parameter_gather": options.has("fp8-param-gather")}
        if low == "fp8":
            read["fp8_recipe"] = {value: key for key, value in RECIPES.items()}.get(recipe or "")
        options.has("reuse-grad-buf-for-mxfp8-param-ag")
    if options.has("first-last-layers-bf16"):
        ends = (options.number(f"num-layers-at-{end}-in-bf16", 1, least=0) or 0 for end in ("start", "end"))
        read["bf16_layers"] = sum(ends)
    return {**read, **({"narrow_head": True} if options.has("fp8-output-proj") else {})}


def _memory_of(options: Options) -> dict[str, Any]:
    offloaded = {
        "optimizer": options.has("optimizer-cpu-offload"),
        "activations": options.has("fine-grained-activation-offloading") or options.has("cpu-offloading-num-layers"),
    }
    for name in ("offload-modules", "optimizer-offload-fraction", "use-precision-aware-optimizer"):
        options.has(name)
    options.has("overlap-cpu-optimizer-d2h-h2d")
    parts = [name for name, is_set in offloaded.items() if is_set]
    return {"offload": parts or "none", "recompute": _recompute_of(options)}


def _recompute_of(options: Options) -> Any:
    granularity, method = options.text("recompute-granularity"), options.text("recompute-method")
    layers, named = options.number("recompute-num-layers", 1, least=0), options.words("recompute-modules")
    if options.has("recompute-activations") or granularity == "selective":
        words = [word for word, name in MODULES.items() if name in named]
        return {"modules": words} if words and words != ["core_attention"] else "selective"
    if granularity != "full":
        return "none"
    if method == "block":
        stages = options.number("pipeline-model-parallel-size", 1) or 1
        return {"modules": "full", "layers": (layers or 0) * _virtual_stages(options, stages)}
    return {"modules": "full", "together": layers} if layers and layers > 1 else "full"


def _kernels_of(options: Options) -> dict[str, Any]:
    backend = options.text("attention-backend")
    fuses = options.has("cross-entropy-loss-fusion")
    options.has("cross-entropy-fusion-impl")
    options.has("use-flash-attn")
    read: dict[str, Any] = {"attention": "eager" if backend in ("unfused", "local") else "flash", "fused_loss": fuses}
    if backend == "fused":
        read["attention_kernel"] = "cudnn"
    return read


def _experts_of(options: Options) -> dict[str, Any]:
    tensor = options.number("tensor-model-parallel-size", 1)
    flexible = options.text("moe-token-dispatcher-type", "allgather") == "flex" or options.has("moe-enable-deepep")
    options.has("moe-flex-dispatcher-backend")
    options.has("moe-pad-expert-input-to-capacity")
    return {
        "expert_parallel": options.number("expert-model-parallel-size", 1),
        "expert_tensor_parallel": options.number("expert-tensor-parallel-size", tensor),
        "expert_capacity": options.decimal("moe-expert-capacity-factor"),
        "expert_dispatch": "deduplicated" if flexible else "all-to-all",
        "expert_overlap": True if options.has("overlap-moe-expert-parallel-comm") else None,
    }
