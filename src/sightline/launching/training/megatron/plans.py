"""A plan as arguments of ``pretrain_gpt.py`` (megatron/training/arguments.py, 2026-08)."""

from collections.abc import Sequence
from typing import Any, Final

from sightline.launching.training.megatron.models import Arguments
from sightline.launching.training.rules.megatron import GATHERED
from sightline.launching.training.support import whole
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
