"""Write a scenario as a command that starts ``pretrain_gpt.py`` of Megatron-LM on every device, and read one back.

Arguments are those of megatron/training/arguments.py of 2026-08.
"""

import re
from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from sightline.launching.launch import Launch, Reading, refuse
from sightline.launching.options import Options, not_read, without_none
from sightline.launching.shell import command_line
from sightline.launching.source import Source
from sightline.launching.training.megatron_model import Arguments, model_arguments, model_of
from sightline.launching.training.rules import GATHERED, refusals
from sightline.launching.training.shared import (
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

WRITTEN: Final = frozenset(
    (
        *("tensor_parallel", "pipeline_parallel", "context_parallel", "context_exchange", "expert_parallel"),
        *("expert_tensor_parallel", "data_parallel_shard", "sequence_parallel", "tensor_overlap", "virtual_stages"),
        "stage_layers",
        *("schedule", "micro_batch", "zero_stage", "offload", "recompute", "attention", "attention_kernel", "dtype"),
        *("fp8_recipe", "fp8_parameter_gather", "bf16_layers", "narrow_head", "gradient_reduce_dtype"),
        *("overlap_gradient_reduce", "overlap_parameter_gather", "fused_loss", "optimizer", "expert_capacity"),
        *("expert_dispatch", "expert_overlap", "prediction_layers"),
    )
)
"""Fields of a plan that have arguments."""
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
HELD: Final = ("core_attn", "attn_proj")
"""Modules whose inputs are offloaded where the plan offloads activations."""


def plan_arguments(scenario: Scenario) -> Arguments:
    """Return the arguments of a plan and of its workload's batch."""
    return {
        **_parallelism(scenario),
        **_batch(scenario),
        **_sharding(scenario.plan),
        **_precision(scenario.plan),
        **_memory(scenario.plan),
        **_kernels(scenario.plan),
        **_experts(scenario),
    }


def _set(**flags: Any) -> Arguments:
    """Options that stand alone, of those that are true."""
    return {"--" + name.replace("_", "-"): True for name, is_set in flags.items() if is_set}


def _parallelism(scenario: Scenario) -> Arguments:
    plan = scenario.plan
    written: Arguments = {
        "--tensor-model-parallel-size": whole(plan.tensor_parallel),
        "--pipeline-model-parallel-size": whole(plan.pipeline_parallel),
        "--context-parallel-size": whole(plan.context_parallel),
    }
    if plan.context_parallel > 1:
        written["--cp-comm-type"] = EXCHANGES[plan.context_exchange]
        if plan.context_exchange == "mixed":
            # The inner, all-to-all part stays inside a node, as far as the heads go round.
            inner = min(whole(plan.context_parallel), scenario.cluster.per_node // whole(plan.tensor_parallel) or 1)
            written["--hierarchical-context-parallel-sizes"] = [inner, whole(plan.context_parallel) // inner]
    overlaps = plan.tensor_overlap == "all" and plan.tensor_parallel > 1
    split = bool(plan.sequence_parallel) and plan.tensor_parallel > 1
    return {**written, **_set(sequence_parallel=split, tp_comm_overlap=overlaps), **_stages(scenario)}


def _stages(scenario: Scenario) -> Arguments:
    """How layers are spread: evenly, with embedding and head as layers, or by a layout where neither goes up."""
    plan, layers = scenario.plan, scenario.model.layers
    stages, chunks = whole(plan.pipeline_parallel), whole(plan.virtual_stages)
    if stages == 1:
        return {}
    extra = whole(plan.prediction_layers)
    parts = stages * chunks
    if plan.stage_layers is not None:
        return _layout(plan.stage_layers, extra)
    if layers % parts == 0:
        return {"--num-layers-per-virtual-pipeline-stage": layers // parts} if chunks > 1 else {}
    if (layers + 2) % parts == 0 and not extra:
        split = _set(account_for_embedding_in_pipeline_split=True, account_for_loss_in_pipeline_split=True)
        interleaved = {"--num-layers-per-virtual-pipeline-stage": (layers + 2) // parts} if chunks > 1 else {}
        return {**split, **interleaved}
    return _layout(stage_layers(layers, parts), extra)


def _layout(layers: Sequence[int], predictions: int) -> Arguments:
    """Layers of every stage in order, with the embedding, the loss and what predicts further tokens at the ends."""
    held = ["t" * count for count in layers]
    held[0], held[-1] = f"E{held[0]}", f"{held[-1]}{'m' * predictions}L"
    return {"--pipeline-model-parallel-layout": "|".join(held)}


def _batch(scenario: Scenario) -> Arguments:
    work = scenario.workload
    return {"--micro-batch-size": whole(scenario.plan.sequences), "--global-batch-size": work.global_batch}


def _sharding(plan: Plan) -> Arguments:
    """The distributed optimizer is ZeRO-1; Megatron-FSDP shards the rest."""
    overlap, sharded = plan.framework.overlap, plan.zero_stage > 0
    written = _set(
        use_distributed_optimizer=sharded,
        overlap_grad_reduce=overlap.gradients,
        overlap_param_gather=overlap.parameters and sharded,
    )
    if plan.zero_stage > 1:
        kept = "optim_grads" if plan.zero_stage == 2 else "optim_grads_params"
        written |= {"--use-megatron-fsdp": True, "--data-parallel-sharding-strategy": kept}
        written["--ckpt-format"] = "fsdp_dtensor"
    if sharded and plan.replica_groups > 1:
        written["--num-distributed-optimizer-instances"] = whole(plan.replica_groups)
    moved = plan.framework.sharding.gradient_reduce_bytes
    if plan.dtype != "fp32":
        low = moved.get(plan.dtype, moved["bf16"]) < FULL
        written |= _set(
            grad_reduce_in_bf16=low and plan.high_precision_dtype == "bf16",
            accumulate_allreduce_grads_in_fp32=not low and plan.high_precision_dtype == "fp16",
        )
    return written


FULL: Final = 4


def _precision(plan: Plan) -> Arguments:
    written = _set(**{plan.high_precision_dtype: plan.high_precision_dtype in ("bf16", "fp16")})
    match plan.dtype:
        case "fp8":
            written |= {"--fp8-format": "hybrid", "--fp8-recipe": RECIPES[plan.fp8_recipe]}
        case "mxfp8":
            written |= {"--fp8-format": "e4m3", "--fp8-recipe": "mxfp8"}
        case "nvfp4":
            written |= {"--fp4-format": "e2m1", "--fp4-recipe": "nvfp4"}
        case _:
            return written
    if _gathers_low(plan):
        written |= _set(fp8_param_gather=True, reuse_grad_buf_for_mxfp8_param_ag=plan.dtype == "mxfp8")
    layers = whole(plan.bf16_layers)
    if layers:
        written |= {
            "--first-last-layers-bf16": True,
            "--num-layers-at-start-in-bf16": layers // 2,
            "--num-layers-at-end-in-bf16": layers - layers // 2,
        }
    return {**written, **_set(fp8_output_proj=plan.narrow_head)}


def _gathers_low(plan: Plan) -> bool:
    """Whether weights are kept and gathered in 8 bits alone."""
    kept = plan.framework.low_precision.weight_bytes
    return bool(plan.zero_stage > 0) and bool(kept) and plan.dtype in GATHERED


def _memory(plan: Plan) -> Arguments:
    written = _recomputation(plan)
    if "optimizer" in plan.offload:
        written |= {"--optimizer-cpu-offload": True, "--optimizer-offload-fraction": 1.0}
        written |= _set(use_precision_aware_optimizer=True, overlap_cpu_optimizer_d2h_h2d=True)
    if "activations" in plan.offload:
        written |= {"--fine-grained-activation-offloading": True, "--offload-modules": list(HELD)}
    return written


def _recomputation(plan: Plan) -> Arguments:
    recompute = plan.recompute
    if recompute == "none":
        return {}
    if recompute == "selective":
        return {"--recompute-granularity": "selective", "--recompute-modules": _named(plan.framework.selective)}
    of = recompute if isinstance(recompute, Recomputation) else Recomputation()
    if of.modules:
        return {"--recompute-granularity": "selective", "--recompute-modules": _named(of.modules)}
    some = of.layers is not None
    layers = (of.layers or 0) // whole(plan.virtual_stages) if some else of.together
    return {
        "--recompute-granularity": "full",
        "--recompute-method": "block" if some else "uniform",
        "--recompute-num-layers": layers,
    }


def _named(modules: Any) -> list[str]:
    return [name for word, name in MODULES.items() if word in modules]


def _kernels(plan: Plan) -> Arguments:
    fused = "fused" if plan.attention_kernel == "cudnn" else "flash"
    backend = "unfused" if plan.attention == "eager" else fused if plan.attention_kernel else "auto"
    loss = {"--cross-entropy-loss-fusion": True, "--cross-entropy-fusion-impl": "native"}
    return {
        "--attention-backend": backend,
        **(loss if "cross-entropy" in plan.framework.fusion.fused else {}),
        "--optimizer": OPTIMIZERS[plan.optimizer],
    }


def _experts(scenario: Scenario) -> Arguments:
    plan = scenario.plan
    written: Arguments = {"--mtp-num-layers": whole(plan.prediction_layers)} if plan.prediction_layers else {}
    if scenario.model.experts is None:
        return written
    deduplicated = plan.expert_dispatch == "deduplicated"
    written |= {
        "--expert-model-parallel-size": whole(plan.expert_parallel),
        "--expert-tensor-parallel-size": whole(plan.expert_tensor_parallel),
        "--moe-token-dispatcher-type": "flex" if deduplicated else "alltoall",
        **({"--moe-flex-dispatcher-backend": "deepep"} if deduplicated else {}),
    }
    if plan.expert_capacity:
        written |= {"--moe-expert-capacity-factor": plan.expert_capacity, "--moe-pad-expert-input-to-capacity": True}
    return {**written, **_set(overlap_moe_expert_parallel_comm=plan.expert_overlap)}


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


STEPS: Final = 50
"""Steps of a run whose tokens are not stated."""
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
        **plan_arguments(asked),
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
    tokens = None if work.total_tokens is None else float(work.total_tokens)
    steps = STEPS if tokens is None else ceil(tokens / work.tokens_per_step)
    finetunes: Arguments = {"--finetune": True, "--load": "${CHECKPOINT:?}"} if work.task == "finetune" else {}
    return {
        **finetunes,
        "--train-iters": steps,
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
            kernel in ("flash-2", "flash-3") and scenario.plan.attention != "eager"
        ),
        "model.rope_theta is not stated: Megatron-LM takes 10000 unless you add --rotary-base": (
            scenario.model.positions == "rotary" and scenario.model.rope_theta is None
        ),
        f"workload.total_tokens is not stated: the command trains {STEPS} steps": work.total_tokens is None,
        "CHECKPOINT is the folder of the weights in Megatron-LM's format": work.task == "finetune",
        "workload.lengths: pretrain_gpt.py packs every sample to --seq-length": work.lengths is not None,
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
_RUN: Final = (
    *("lr", "min-lr", "lr-decay-style", "lr-warmup-fraction", "lr-warmup-iters", "lr-warmup-samples", "lr-decay-iters"),
    *("lr-decay-samples", "weight-decay", "clip-grad", "adam-beta1", "adam-beta2", "adam-eps", "seed", "data-path"),
    *("init-method-std", "rotary-percent", "split", "save", "load", "save-interval"),
    *("log-interval", "log-throughput", "eval-iters", "eval-interval", "tensorboard-dir", "tokenizer-type"),
    *("tokenizer-model", "vocab-file", "merge-file", "data-cache-path", "wandb-project", "wandb-exp-name"),
    *("use-mcore-models", "mock-data", "no-load-optim", "no-load-rng", "transformer-impl", "finetune"),
    *("distributed-timeout-minutes", "num-workers", "use-legacy-models", "distributed-backend"),
)
"""Arguments that do not change how long a step takes or what it holds."""


def claims(found: Source) -> bool:
    """Whether it is a command of Megatron-LM."""
    names = Options(found.words).names()
    scripts = any("pretrain_" in word and word.endswith(".py") for word in found.words)
    return found.kind == "command" and (scripts or sum(mark in names for mark in _MARKS) > 1)


def read(found: Source) -> Reading:
    """Return what a command says as a scenario."""
    launcher, options = launcher_and_program(found.words)
    vocabulary = _vocabulary(options)
    model = model_of(options, vocabulary)
    plan = plan_of(options)
    devices = devices_of(launcher)
    scenario = {"model": model, "workload": _workload(options), "plan": plan}
    degrees = [plan[f"{axis}_parallel"] for axis in ("tensor", "pipeline", "context")]
    replicas = None if devices is None else devices // (degrees[0] * degrees[1] * degrees[2])
    if replicas and (groups := options.number("num-distributed-optimizer-instances", 1) or 1) > 1:
        plan["data_parallel_shard"] = replicas // groups
    refuse([*launcher.problems, *options.problems])
    unread = [f"--{name}" for name in options.unread() if name not in (*_RUN, *launcher.read_names())]
    return Reading(
        framework="megatron",
        scenario=without_none(scenario),
        missing=_missing(scenario, devices, vocabulary),
        without_counterpart=[
            *not_read(unread, [f"--{name}" for name in options.read_names()], "Megatron-LM's"),
            *launcher.unknown.values(),
            *options.unknown.values(),
        ],
    )


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


def _workload(options: Options) -> dict[str, Any]:
    length, batch = options.number("seq-length"), options.number("global-batch-size")
    steps, samples = (options.number(f"train-{name}", least=0) for name in ("iters", "samples"))
    if steps and batch:
        samples = steps * batch
    tokens = samples * length if samples and length else None
    task = "finetune" if options.has("finetune") else "pretrain"
    return without_none({"task": task, "sequence_length": length, "global_batch": batch, "total_tokens": tokens})


def _missing(scenario: dict[str, Any], devices: int | None, vocabulary: int | None) -> dict[str, str]:
    """Keys that the command leaves open, and what belongs there."""
    missing = missing_of(scenario, devices, model="the command does not state it")
    if scenario["model"] is not None and vocabulary is None:
        missing["model.vocab_size"] = "tokens of the vocabulary, which the tokenizer's file says"
    return missing
