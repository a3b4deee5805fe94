"""Write a scenario as a command that starts ``pretrain_gpt.py`` of Megatron-LM on every device, and read one back.

Arguments are those of megatron/training/arguments.py of 2026-08.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from sightline.errors import InputError, refuse
from sightline.launching.launch import Launch, Reading
from sightline.launching.options import Options, without_none
from sightline.launching.readers import with_unread
from sightline.launching.shell import command_line
from sightline.launching.source import Source
from sightline.launching.table import Option, fields_written, plan_read, written
from sightline.launching.training.megatron_model import POSITIONS, Arguments, model_arguments, model_of
from sightline.launching.training.rules import GATHERED, refusals
from sightline.launching.training.shared import (
    TRIAL,
    devices_of,
    launcher_and_program,
    missing_of,
    on_every_node,
    torchrun,
    unwritten,
    whole,
    with_micro_batch,
)
from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.scenario import Plan, Scenario
from sightline.scenario.techniques import Recomputation

MODULES: Final = {
    "core_attention": "core_attn",
    "latent_up": "mla_up_proj",
    "mlp": "mlp",
    "layernorm": "layernorm",
    "moe": "moe",
    "moe_activation": "moe_act",
    "shared_experts": "shared_experts",
}
"""What may be recomputed alone, by our words and Megatron's."""
EXCHANGES: Final = {"ring": "p2p", "all-gather": "allgather", "all-to-all": "a2a", "mixed": "a2a+p2p"}
RECIPES: Final = {"delayed": "delayed", "current": "tensorwise", "blockwise": "blockwise"}
OPTIMIZERS: Final = {"adamw": "adam", "sgd-momentum": "sgd", "muon": "muon"}
_STATED_OPTIMIZERS: Final = {theirs: ours for ours, theirs in OPTIMIZERS.items()} | {"dist_muon": "muon"}
SHARDED: Final = {2: "optim_grads", 3: "optim_grads_params"}
"""What Megatron-FSDP shards by ZeRO's stage."""
_FP8: Final = {"fp8": "hybrid", "mxfp8": "e4m3"}
_LONGEST: Final = 9_999
"""Characters of a layout of stages with its repetitions written out."""
_FLASH: Final = {"fused": "cudnn", "flash": "flash-2"}
"""Kernels of fused attention by Megatron's words."""
_FULL: Final = 4
"""Bytes of a gradient in fp32."""


def _inverse(words: Mapping[str, str], word: str) -> str | None:
    return {theirs: ours for ours, theirs in words.items()}.get(word)


def _parts(scenario: Scenario) -> int:
    """Chunks of layers of all stages; 1 without a pipeline."""
    stages = whole(scenario.plan.pipeline_parallel)
    return stages * whole(scenario.plan.virtual_stages) if stages > 1 else 1


def _inner_and_outer(scenario: Scenario) -> list[int] | None:
    """The inner, all-to-all part of a mixed exchange stays inside a node, as far as the heads go round."""
    plan, ranks = scenario.plan, whole(scenario.plan.context_parallel)
    if ranks == 1 or plan.context_exchange != "mixed":
        return None
    inner = min(ranks, scenario.cluster.per_node // whole(plan.tensor_parallel) or 1)
    return [inner, ranks // inner]


def _stated_exchange(options: Options) -> str | None:
    exchange = _inverse(EXCHANGES, options.text("cp-comm-type", "p2p"))
    return exchange if options.number("context-parallel-size", 1) != 1 else None


def _ends(scenario: Scenario) -> int:
    """Layers that embedding and head count as: 2 where that makes equal chunks of layers that are not."""
    plan, layers, parts = scenario.plan, scenario.model.layers, _parts(scenario)
    is_free = plan.stage_layers is None and not plan.prediction_layers
    return 2 if is_free and layers % parts and not (layers + 2) % parts else 0


def _chunk_layers(scenario: Scenario) -> int | None:
    """Layers of each of the equal chunks of an interleaved pipeline."""
    each, left = divmod(scenario.model.layers + _ends(scenario), _parts(scenario))
    is_equal = not left and scenario.plan.stage_layers is None
    return each if is_equal and _parts(scenario) > whole(scenario.plan.pipeline_parallel) else None


def _layout(scenario: Scenario) -> str | None:
    """Unequal chunks in order, with the embedding, the loss and what predicts further tokens at the ends."""
    stated, layers, parts = scenario.plan.stage_layers, scenario.model.layers, _parts(scenario)
    if parts == 1 or (stated is None and not (layers + _ends(scenario)) % parts):
        return None
    chunks = ["t" * count for count in stated or stage_layers(layers, parts)]
    chunks[0], chunks[-1] = f"E{chunks[0]}", f"{chunks[-1]}{'m' * whole(scenario.plan.prediction_layers)}L"
    return "|".join(chunks)


def _stated_layout(options: Options) -> list[int] | None:
    """Layers of each stage where a layout spreads them otherwise than by default."""
    layout, stages = options.text("pipeline-model-parallel-layout"), _stages(options)
    if not layout:
        return None
    repeated = re.compile(r"(?:\(([^()]*)\)|([A-Za-z]))\*0*(\d+)")
    while found := repeated.search(layout):
        chunk = found[1] or found[2] or ""
        if len(layout) + len(chunk) * (times := int(found[3][:9])) > _LONGEST:
            raise InputError(f"--pipeline-model-parallel-layout stands for more than {_LONGEST:,} layers and stages")
        layout = layout[: found.start()] + chunk * times + layout[found.end() :]
    layers = [stage.count("t") for stage in layout.split("|")]
    return layers if len(layers) == stages and layers != stage_layers(sum(layers), stages) else None


def _stages(options: Options) -> int:
    return options.number("pipeline-model-parallel-size", 1) or 1


def _virtual_stages(options: Options) -> int:
    layers, stages = options.number("num-layers"), _stages(options)
    each = options.number("num-layers-per-virtual-pipeline-stage")
    layout = options.text("pipeline-model-parallel-layout")
    counted = options.has("account-for-embedding-in-pipeline-split") + options.has("account-for-loss-in-pipeline-split")
    if layout:
        return (layout.count("|") + 1) // stages or 1
    if each and layers:
        return (layers + counted) // (stages * each) or 1
    return options.number("num-virtual-stages-per-pipeline-rank", 1) or 1


def _zero_stage(options: Options) -> int:
    """The distributed optimizer is ZeRO-1; Megatron-FSDP shards the rest."""
    strategy = options.text("data-parallel-sharding-strategy", "optim_grads_params")
    fsdp = options.has("use-megatron-fsdp") or options.has("use-torch-fsdp2")
    sharded = options.has("use-distributed-optimizer")
    return {"no_shard": 0, "optim": 1, "optim_grads": 2}.get(strategy, 3) if fsdp else int(sharded)


def _reduces(scenario: Scenario, dtype: str, *, low: bool) -> bool:
    """Whether gradients of a compute dtype are reduced in 16 bits, or else in full."""
    plan, moved = scenario.plan, scenario.plan.framework.sharding.gradient_reduce_bytes
    return plan.high_precision_dtype == dtype and (moved.get(plan.dtype, moved["bf16"]) < _FULL) is low


def _stated_reduction(options: Options) -> str | None:
    low, full = (options.has(name) for name in ("grad-reduce-in-bf16", "accumulate-allreduce-grads-in-fp32"))
    return "bf16" if low else "fp32" if full or options.has("bf16") else "fp16" if options.has("fp16") else None


def _is_low(scenario: Scenario) -> bool:
    return scenario.plan.dtype in (*_FP8, "nvfp4")


def _gathers_low(scenario: Scenario) -> bool:
    """Whether weights are kept and gathered in 8 bits alone."""
    plan = scenario.plan
    return bool(plan.zero_stage > 0) and bool(plan.framework.low_precision.weight_bytes) and plan.dtype in GATHERED


def _dtype(options: Options) -> str:
    plain = "bf16" if options.has("bf16") else "fp16" if options.has("fp16") else "fp32"
    if options.has("fp4-format"):
        return "nvfp4"
    low = options.has("fp8-format") or options.has("fp8-hybrid") or options.has("fp8-e4m3")
    return ("mxfp8" if options.text("fp8-recipe", "delayed") == "mxfp8" else "fp8") if low else plain


def _recipe(scenario: Scenario) -> str | None:
    plan = scenario.plan
    return RECIPES[plan.fp8_recipe] if plan.dtype == "fp8" else "mxfp8" if plan.dtype == "mxfp8" else None


def _stated_recipe(options: Options) -> str | None:
    recipe = _inverse(RECIPES, options.text("fp8-recipe", "delayed"))
    return recipe if _dtype(options) == "fp8" else None


def _ends_in_bf16(scenario: Scenario) -> int:
    return whole(scenario.plan.bf16_layers) if _is_low(scenario) else 0


def _stated_ends_in_bf16(options: Options) -> int | None:
    if not options.has("first-last-layers-bf16"):
        return None
    return sum(options.number(f"num-layers-at-{end}-in-bf16", 1, least=0) or 0 for end in ("start", "end"))


def _recomputation(plan: Plan) -> dict[str, Any]:
    """The arguments of recomputation, by the end of their names."""
    recompute = plan.recompute
    if recompute == "none":
        return {}
    modules = recompute.modules if isinstance(recompute, Recomputation) else ()
    if recompute == "selective" or modules:
        chosen = plan.framework.selective if recompute == "selective" else modules
        return {"granularity": "selective", "modules": [name for word, name in MODULES.items() if word in chosen]}
    of = recompute if isinstance(recompute, Recomputation) else Recomputation()
    if of.layers is not None:
        return {"granularity": "full", "method": "block", "num-layers": of.layers // whole(plan.virtual_stages)}
    return {"granularity": "full", "method": "uniform", "num-layers": of.together}


def _stated_recomputation(options: Options) -> Any:
    granularity, method = options.text("recompute-granularity"), options.text("recompute-method")
    layers, named = options.number("recompute-num-layers", 1, least=0), options.words("recompute-modules")
    if options.has("recompute-activations") or granularity == "selective":
        words = [word for word, name in MODULES.items() if name in named]
        return {"modules": words} if words and words != ["core_attention"] else "selective"
    if granularity != "full":
        return "none"
    if method == "block":
        return {"modules": "full", "layers": (layers or 0) * _virtual_stages(options)}
    return {"modules": "full", "together": layers} if layers and layers > 1 else "full"


_OFFLOADED: Final = "cpu-offloading-num-layers"


def _stated_offload(options: Options) -> Any:
    layers, held = options.number("num-layers"), options.number(_OFFLOADED, 0, least=0)
    activations = bool(layers and held and held >= layers - 1)
    optimizer = options.has("optimizer-cpu-offload")
    return [*["optimizer"] * optimizer, *["activations"] * activations] or "none"


def _backend(scenario: Scenario) -> str:
    plan = scenario.plan
    fused = "fused" if plan.attention_kernel == "cudnn" else "flash"
    return "unfused" if plan.attention == "eager" else fused if plan.attention_kernel else "auto"


def _is_eager(options: Options) -> bool:
    """Whether no kernel fuses attention, as in Megatron-LM's own layers without ``--use-flash-attn``."""
    backend, own = options.text("attention-backend"), options.text("transformer-impl") == "local"
    own = options.has("use-legacy-models") or own
    return backend in ("unfused", "local") or (own and not options.has("use-flash-attn") and backend != "flash")


def _fuses_loss(scenario: Scenario) -> bool:
    return "cross-entropy" in scenario.plan.framework.fusion.fused


def _deduplicates(scenario: Scenario) -> bool:
    return scenario.plan.expert_dispatch == "deduplicated"


def _is_flexible(options: Options) -> bool:
    return options.text("moe-token-dispatcher-type", "allgather") == "flex" or options.has("moe-enable-deepep")


Row: TypeAlias = Option[Scenario, Options]


def _degree(name: str, field: str) -> Row:
    """Return the option of a degree."""
    return Option(f"--{name}", field, lambda s: whole(getattr(s.plan, field)), lambda o: o.number(name, 1))


def _flag(name: str, is_on: Callable[[Scenario], object], field: str = "", on: Any = True, off: Any = False) -> Row:
    """Return the option that stands alone where something is so, and what its field is with and without it."""
    return Option(f"--{name}", field, lambda s: bool(is_on(s)) or None, lambda o: on if o.has(name) else off)


def _with_another(name: str, write: Callable[[Scenario], object]) -> Row:
    """Return an option that says nothing beyond another one."""
    return Option(f"--{name}", write=write, read=lambda o: o.has(name))


KEYS: Final[Sequence[Row]] = (
    _degree("tensor-model-parallel-size", "tensor_parallel"),
    _degree("pipeline-model-parallel-size", "pipeline_parallel"),
    _degree("context-parallel-size", "context_parallel"),
    Option(
        "--cp-comm-type",
        "context_exchange",
        lambda s: EXCHANGES[s.plan.context_exchange] if s.plan.context_parallel > 1 else None,
        _stated_exchange,
    ),
    _with_another("hierarchical-context-parallel-sizes", _inner_and_outer),
    _flag("sequence-parallel", lambda s: s.plan.sequence_parallel and s.plan.tensor_parallel > 1, "sequence_parallel"),
    _flag(
        "tp-comm-overlap",
        lambda s: s.plan.tensor_overlap == "all" and s.plan.tensor_parallel > 1,
        "tensor_overlap",
        "all",
        "backward",
    ),
    _flag("account-for-embedding-in-pipeline-split", _ends),
    _flag("account-for-loss-in-pipeline-split", _ends),
    Option("--num-layers-per-virtual-pipeline-stage", "virtual_stages", _chunk_layers, _virtual_stages),
    Option("--pipeline-model-parallel-layout", "stage_layers", _layout, _stated_layout),
    Option(
        "--micro-batch-size", "micro_batch", lambda s: whole(s.plan.sequences), lambda o: o.number("micro-batch-size")
    ),
    Option("--global-batch-size", write=lambda s: s.workload.global_batch),
    Option("--use-distributed-optimizer", "zero_stage", lambda s: bool(s.plan.zero_stage > 0) or None, _zero_stage),
    _flag("overlap-grad-reduce", lambda s: s.plan.framework.overlap.gradients, "overlap_gradient_reduce"),
    _flag(
        "overlap-param-gather",
        lambda s: s.plan.framework.overlap.parameters and s.plan.zero_stage > 0,
        "overlap_parameter_gather",
    ),
    Option("--use-megatron-fsdp", write=lambda s: bool(s.plan.zero_stage > 1) or None),
    Option("--data-parallel-sharding-strategy", write=lambda s: SHARDED.get(whole(s.plan.zero_stage))),
    _with_another("ckpt-format", lambda s: "fsdp_dtensor" if s.plan.zero_stage > 1 else None),
    Option(
        "--num-distributed-optimizer-instances",
        "data_parallel_shard",
        lambda s: whole(s.plan.replica_groups) if s.plan.zero_stage > 0 and s.plan.replica_groups > 1 else None,
    ),
    _flag("grad-reduce-in-bf16", lambda s: _reduces(s, "bf16", low=True)),
    _flag("accumulate-allreduce-grads-in-fp32", lambda s: _reduces(s, "fp16", low=False)),
    Option("", "gradient_reduce_dtype", read=_stated_reduction),
    _flag("bf16", lambda s: s.plan.high_precision_dtype == "bf16"),
    _flag("fp16", lambda s: s.plan.high_precision_dtype == "fp16"),
    Option("--fp8-format", "dtype", lambda s: _FP8.get(s.plan.dtype), _dtype),
    Option("--fp8-recipe", "fp8_recipe", _recipe, _stated_recipe),
    Option("--fp4-format", write=lambda s: "e2m1" if s.plan.dtype == "nvfp4" else None),
    _with_another("fp4-recipe", lambda s: "nvfp4" if s.plan.dtype == "nvfp4" else None),
    Option(
        "--fp8-param-gather",
        "fp8_parameter_gather",
        lambda s: _gathers_low(s) or None,
        lambda o: o.has("fp8-param-gather") if _dtype(o) in GATHERED else None,
    ),
    _flag("reuse-grad-buf-for-mxfp8-param-ag", lambda s: _gathers_low(s) and s.plan.dtype == "mxfp8"),
    _flag("first-last-layers-bf16", _ends_in_bf16),
    Option(
        "--num-layers-at-start-in-bf16",
        "bf16_layers",
        lambda s: _ends_in_bf16(s) // 2 if _ends_in_bf16(s) else None,
        _stated_ends_in_bf16,
    ),
    Option("--num-layers-at-end-in-bf16", write=lambda s: -(-_ends_in_bf16(s) // 2) or None),
    _flag("fp8-output-proj", lambda s: _is_low(s) and s.plan.narrow_head, "narrow_head", on=True, off=None),
    Option(
        "--recompute-granularity",
        "recompute",
        lambda s: _recomputation(s.plan).get("granularity"),
        _stated_recomputation,
    ),
    *(
        Option(f"--recompute-{end}", write=lambda s, end=end: _recomputation(s.plan).get(end))  # type: ignore[misc]
        for end in ("modules", "method", "num-layers")
    ),
    Option("--optimizer-cpu-offload", "offload", lambda s: "optimizer" in s.plan.offload or None, _stated_offload),
    _with_another("optimizer-offload-fraction", lambda s: 1.0 if "optimizer" in s.plan.offload else None),
    _flag("use-precision-aware-optimizer", lambda s: "optimizer" in s.plan.offload),
    _flag("overlap-cpu-optimizer-d2h-h2d", lambda s: "optimizer" in s.plan.offload),
    # All layers but the last, whose backward pass begins at once.
    Option(f"--{_OFFLOADED}", write=lambda s: s.model.layers - 1 if "activations" in s.plan.offload else None),
    Option("--attention-backend", "attention", _backend, lambda o: "eager" if _is_eager(o) else "flash"),
    Option("", "attention_kernel", read=lambda o: _FLASH.get(o.text("attention-backend"))),
    Option("", read=lambda o: o.has("use-flash-attn")),
    *(
        Option(
            f"--no-{name}-fusion",
            f"fused_{kernel}",
            lambda s, kernel=kernel: kernel not in s.plan.framework.fusion.fused or None,  # type: ignore[misc]
            lambda o, name=name: o.flag(f"{name}-fusion"),  # type: ignore[misc]
        )
        for name, kernel in (("rope", "rope"), ("bias-swiglu", "activation"))
    ),
    _flag("cross-entropy-loss-fusion", _fuses_loss, "fused_loss"),
    _with_another("cross-entropy-fusion-impl", lambda s: "native" if _fuses_loss(s) else None),
    Option(
        "--optimizer",
        "optimizer",
        lambda s: OPTIMIZERS[s.plan.optimizer],
        lambda o: o.word("optimizer", _STATED_OPTIMIZERS) or "adamw",
    ),
    Option(
        "--mtp-num-layers",
        "prediction_layers",
        lambda s: whole(s.plan.prediction_layers) or None,
        lambda o: o.number("mtp-num-layers", least=0),
    ),
)
"""Arguments of a plan and of its workload's batch."""
EXPERT_KEYS: Final[Sequence[Row]] = (
    _degree("expert-model-parallel-size", "expert_parallel"),
    Option(
        "--expert-tensor-parallel-size",
        "expert_tensor_parallel",
        lambda s: whole(s.plan.expert_tensor_parallel),
        lambda o: o.number("expert-tensor-parallel-size", o.number("tensor-model-parallel-size", 1)),
    ),
    Option(
        "--moe-token-dispatcher-type",
        "expert_dispatch",
        lambda s: "flex" if _deduplicates(s) else "alltoall",
        lambda o: "deduplicated" if _is_flexible(o) else "all-to-all",
    ),
    _with_another("moe-flex-dispatcher-backend", lambda s: "deepep" if _deduplicates(s) else None),
    Option(
        "--moe-expert-capacity-factor",
        "expert_capacity",
        lambda s: s.plan.expert_capacity or None,
        lambda o: o.decimal("moe-expert-capacity-factor"),
    ),
    _flag("moe-pad-expert-input-to-capacity", lambda s: s.plan.expert_capacity),
    _flag("overlap-moe-expert-parallel-comm", lambda s: s.plan.expert_overlap, "expert_overlap", on=True, off=None),
)
"""Those of models with experts."""
WRITTEN: Final = fields_written((*KEYS, *EXPERT_KEYS)) | {"schedule"}
"""Fields of a plan that have arguments."""


MEGATRON: Final = "Megatron-LM's pretrain_gpt.py"
_WARM_UP: Final = 0.01
"""Share of the steps in which the learning rate rises."""
_OLD: Final = ("2019", "2022", "0.2", "0.5", "0.8")
"""Lines whose releases spell some arguments otherwise."""


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: Megatron-LM does not offer something of the plan or of the model; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    arguments = {
        **model_arguments(asked.model, asked.workload.sequence_length),
        **written((*KEYS, *EXPERT_KEYS) if asked.model.experts else KEYS, asked),
        **_run(asked),
    }
    words = [*_environment(asked), *torchrun(asked.cluster, "${MEGATRON:-Megatron-LM}/pretrain_gpt.py")]
    return Launch(
        framework="megatron",
        command=command_line(words, arguments),
        without_counterpart=[*unwritten(asked.plan, WRITTEN, MEGATRON), *_supplied(asked)],
    )


def _environment(scenario: Scenario) -> list[str]:
    """Variables that Megatron-LM checks for."""
    plan = scenario.plan
    # Kernels of collectives start in the order of their calls, as tensor parallelism needs before Blackwell; sharding
    # by Megatron-FSDP needs the opposite.
    ordered = plan.zero_stage <= 1 and (plan.tensor_parallel > 1 or plan.context_parallel > 1)
    held = "activations" in plan.offload
    set_values = {"CUDA_DEVICE_MAX_CONNECTIONS=1": ordered, "NVTE_CPU_OFFLOAD_V1=1": held}
    return [name for name, is_set in set_values.items() if is_set]


def _run(scenario: Scenario) -> Arguments:
    """How long, on which tokens, and how weights are updated."""
    work = scenario.workload
    finetunes: Arguments = {"--finetune": True, "--load": "${CHECKPOINT:?}"} if work.task == "finetune" else {}
    return {
        **finetunes,
        "--train-iters": TRIAL if work.steps is None else whole(work.steps),
        "--lr": 1e-4,
        "--min-lr": 1e-5,
        "--lr-decay-style": "cosine",
        "--lr-warmup-fraction": _WARM_UP,
        "--tokenizer-type": "NullTokenizer",
        "--vocab-size": scenario.model.vocab_size,
        "--mock-data": True,
        "--log-interval": 1,
        "--log-throughput": True,
        "--eval-iters": 0,
    }


def _supplied(scenario: Scenario) -> list[str]:
    """What the user replaces or supplies."""
    work, line, kernel = scenario.workload, scenario.plan.framework.version, scenario.plan.attention_kernel
    told = {
        "MEGATRON is the folder of NVIDIA's Megatron-LM; these are the arguments of its releases since 2025": True,
        f"plan.framework_version is {line}: its releases spell some of these arguments otherwise": line in _OLD,
        "--mock-data and the NullTokenizer stand for your data and tokenizer: replace them by --data-path, "
        "--tokenizer-type and --tokenizer-model": True,
        "--lr and its schedule are examples": True,
        f"plan.attention_kernel is {kernel}: --attention-backend flash takes the release that is installed": (
            kernel == "flash-2" and scenario.plan.attention != "eager"
        ),
        "model.rope_theta is not stated: Megatron-LM takes 10000 unless you add --rotary-base": (
            scenario.model.positions == "rotary" and scenario.model.rope_theta is None
        ),
        f"workload.total_tokens is not stated: the command trains {TRIAL} steps": work.total_tokens is None,
        "CHECKPOINT is the folder of the weights in Megatron-LM's format": work.task == "finetune",
    }
    told_too = [*_recomputed_whole(scenario), *on_every_node(scenario.cluster)]
    return [*(sentence for sentence, is_so in told.items() if is_so), *told_too]


def _recomputed_whole(scenario: Scenario) -> list[str]:
    """Where the plan recomputes more layers than a stage has, which Megatron-LM takes for all of them."""
    plan = scenario.plan
    asked = plan.recompute.layers if isinstance(plan.recompute, Recomputation) else None
    stages = whole(plan.pipeline_parallel) * whole(plan.virtual_stages)
    most = max(plan.stage_layers or stage_layers(scenario.model.layers, stages)) * whole(plan.virtual_stages)
    if asked is None or asked <= most:
        return []
    return [f"plan.recompute is of {asked} layers of a stage, and the longest stage has {most}: all are recomputed"]


_MARKS: Final = ("tensor-model-parallel-size", "micro-batch-size", "num-layers", "pipeline-model-parallel-size")
"""Arguments of which a command of Megatron-LM has several."""


_SCRIPTS: Final = ("pretrain_gpt.py", "pretrain_mamba.py", "pretrain_hybrid.py")
"""Scripts whose models are read."""
_OTHERS: Final = {
    "bert": "an encoder",
    "t5": "an encoder and a decoder",
    "ict": "a retriever",
    "biencoder|retriever": "a retriever",
    "retro": "retrieval",
    "vision|multimodal|vlm|llava|mimo": "a model with images",
    "vl|omni|audio": "a model with images or sound",
    "inference|generation|generate|server": "generation",
    "tasks|eval|mmlu": "a task",
    "tools|preprocess|checkpoint|convert|export|quantize|ptq|merge|analyze": "no training",
    "rl|grpo": "reinforcement learning",
}
"""What scripts are, by a word of their names or of their folders."""


def _refused_script(script: str) -> str:
    """Why a script is not read, in a sentence; empty where it may be."""
    parts = re.split(r"[/_.]", "/".join(script.split("/")[-3:]))
    kinds = (what for words, what in _OTHERS.items() if {*words.split("|")} & {*parts})
    what = None if script.endswith(_SCRIPTS) else next(kinds, None)
    return f"{script} is {what} of Megatron-LM, which is not predicted" if what else ""


def claims(found: Source) -> bool:
    """Whether it is a command of Megatron-LM."""
    names = Options(found.words).names()
    scripts = any("pretrain_" in word and word.endswith(".py") for word in found.words)
    return found.kind == "command" and (scripts or sum(mark in names for mark in _MARKS) > 1)


def read(found: Source) -> Reading:
    """Return what a command says as a scenario."""
    launcher, options = launcher_and_program(found.words)
    script = next((word for word in found.words if word.endswith(".py")), "")
    refuse([said] if (said := _refused_script(script)) else [])
    vocabulary = _vocabulary(options)
    options.number("max-position-embeddings")
    known = {*options.unknown}
    model = model_of(options, vocabulary)
    of_model = [said for name, said in options.unknown.items() if name not in known]
    keys = (*KEYS, *EXPERT_KEYS) if options.number("num-experts", least=0) else KEYS
    groups = options.number("num-distributed-optimizer-instances", 1) or 1
    plan = {"framework": "megatron", **plan_read(keys, options)}
    devices = devices_of(launcher)
    work = _workload(options, is_trial=TRIAL in found.text)
    guessed = [said for said in of_model if said not in options.missing.values()]
    scenario = {"model": None if guessed else model, "workload": work, "plan": plan}
    degrees: list[Any] = [plan.get(f"{axis}_parallel") for axis in ("tensor", "pipeline", "context")]
    if devices and groups > 1 and all(degrees):
        plan["data_parallel_shard"] = devices // prod(degrees) // groups
    refuse([*launcher.problems, *options.problems])
    names = [f"--{name}" for name in options.read_names()]
    missing = missing_of(scenario, devices, model=(*guessed, "the command does not state it")[0])
    if scenario["model"] is not None and vocabulary is None:
        missing["model.vocab_size"] = "tokens of the vocabulary, which the tokenizer's file says"
    reading = Reading(
        framework="megatron",
        scenario=without_none(scenario),
        unread=[name for name in options.unknown if name.startswith("$")],
        missing={**missing, **options.missing},
        without_counterpart=[
            *launcher.unknown.values(),
            *(said for said in options.unknown.values() if said not in {*options.missing.values(), *guessed[:1]}),
        ],
    )
    given = options.unread(launcher.read_names())
    given |= {} if not script or script.endswith(_SCRIPTS) else {script: "a script of its own"}
    positions = options.text("position-embedding-type", "rope")
    if (held := options.number(_OFFLOADED, 0, least=0)) and "activations" not in plan.get("offload", ()):
        given[f"--{_OFFLOADED}"] = held
    given |= {} if positions in POSITIONS else {"--position-embedding-type": positions}
    reading = with_unread(reading, "megatron", given, names, "Megatron-LM's")
    started = launcher.unread() if "--num-layers" not in launcher.unread() else {}
    return with_unread(reading, "launcher", started, of="the launcher's")


def _vocabulary(options: Options) -> int | None:
    """The vocabulary where the arguments state it: a tokenizer that is a file does not say."""
    kind = options.text("tokenizer-type", "")
    return (
        options.number("vocab-size")
        or options.number("padded-vocab-size")
        or (_GPT2 if kind == "GPT2BPETokenizer" else None)
    )


_GPT2: Final = 50257
"""Tokens of GPT-2's vocabulary."""


def _workload(options: Options, *, is_trial: bool) -> dict[str, Any]:
    length, batch = options.number("seq-length"), options.number("global-batch-size")
    steps, samples = (options.number(f"train-{name}", least=0) for name in ("iters", "samples"))
    if steps and batch:
        samples = None if is_trial else steps * batch
    tokens = samples * length if samples and length else None
    named = {"sequence_length": "seq-length", "global_batch": "global-batch-size"}
    options.missing |= {f"workload.{key}": said for key, name in named.items() if (said := options.unknown.get(name))}
    task = "finetune" if options.has("finetune") else "pretrain"
    return without_none({"task": task, "sequence_length": length, "global_batch": batch, "total_tokens": tokens})
