"""A scenario as a TOML file of torchtitan 0.2 and the command that starts it (torchtitan/config/job_config.py)."""

from math import ceil
from typing import Any, Final

from sightline.launching.launch import Launch, refuse
from sightline.launching.shell.writing import command_line
from sightline.launching.training.ranks import on_every_node, torchrun
from sightline.launching.training.rules import refusals
from sightline.launching.training.rules.torchtitan import layers_each
from sightline.launching.training.support import unwritten, whole, with_micro_batch
from sightline.launching.training.torchtitan.models import MODULE, module_text, named
from sightline.launching.training.torchtitan.toml_text import toml_text
from sightline.scenario import Plan, Scenario
from sightline.scenario.techniques import Recomputation

CONFIGURATION: Final = "train.toml"
STEPS: Final = 50
"""Steps of a run whose tokens are not stated."""
WRITTEN: Final = frozenset(
    (
        *("tensor_parallel", "pipeline_parallel", "context_parallel", "context_exchange", "expert_parallel"),
        *("expert_tensor_parallel", "data_parallel_shard", "tensor_overlap", "virtual_stages", "schedule"),
        *("micro_batch", "zero_stage", "offload", "recompute", "dtype", "fp8_recipe", "optimizer", "compile"),
        *("expert_dispatch", "state_dtype", "sequence_parallel"),
    )
)
"""Fields of a plan that have keys."""
DTYPES: Final = {"fp32": "float32", "tf32": "float32"}
"""Parameters in mixed precision by compute dtype; others compute in bfloat16."""
SCHEDULES: Final = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}
EXCHANGES: Final = {"all-gather": "allgather", "ring": "alltoall"}
OPTIMIZERS: Final = {"adamw": "fused", "adamw-fused": "fused", "adamw-unfused": "foreach"}


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: torchtitan does not offer something of the plan or has no such model; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    module = module_text(asked.model)
    files = {CONFIGURATION: toml_text(configuration(asked))}
    words = torchrun(asked.cluster, "-m", "torchtitan.train")
    return Launch(
        framework="torchtitan",
        command=command_line(words, {"--job.config_file": CONFIGURATION}),
        files=files if module is None else {**files, f"{MODULE}.py": module},
        without_counterpart=[*unwritten(asked.plan, WRITTEN, "torchtitan"), *_supplied(asked)],
    )


def configuration(scenario: Scenario) -> dict[str, Any]:
    """Return the tables of the file."""
    plan, work = scenario.plan, scenario.workload
    name, flavor = named(scenario.model) or ("", "")
    tokens = work.total_tokens
    steps = STEPS if tokens is None else ceil(float(tokens) / work.tokens_per_step)
    pipelined = plan.pipeline_parallel > 1
    replica = work.global_batch // whole(plan.data_parallel)
    stored = "bfloat16" if plan.framework.memory.states.weights < 4 else "float32"
    written: dict[str, Any] = {
        "job": {"dump_folder": "./outputs", "description": scenario.name or f"{scenario.model.name} by Sightline"},
        "model": {"name": name, "flavor": flavor, "hf_assets_path": "./assets", "converters": _converters(plan)},
        "optimizer": {"name": "AdamW", "lr": 3e-4, "implementation": OPTIMIZERS[plan.optimizer]},
        "lr_scheduler": {"warmup_steps": max(1, steps // 100)},
        "training": {
            "local_batch_size": replica if pipelined else whole(plan.sequences),
            "global_batch_size": work.global_batch,
            "seq_len": work.sequence_length,
            "steps": steps,
            "dataset": "c4",
            "dtype": stored,
            "mixed_precision_param": DTYPES.get(plan.dtype, "bfloat16"),
            "mixed_precision_reduce": "float32",
            "enable_cpu_offload": "parameters" in plan.offload,
        },
        "parallelism": _parallelism(scenario),
        "activation_checkpoint": _recomputation(plan.recompute),
        "compile": {"enable": plan.compile, "components": ["model", "loss"]},
        "metrics": {"log_freq": 1},
    }
    if plan.dtype == "fp8":
        written["quantize"] = {"linear": {"float8": {"recipe_name": "tensorwise", "filter_fqns": ["output"]}}}
    if plan.dtype == "mxfp8":
        written["quantize"] = {"linear": {"mx": {"recipe_name": "mxfp8_cublas", "filter_fqns": ["output"]}}}
    if module_text(scenario.model) is not None:
        written["experimental"] = {"custom_import": MODULE}
    return written


def _converters(plan: Plan) -> list[str]:
    return {"fp8": ["quantize.linear.float8"], "mxfp8": ["quantize.linear.mx"]}.get(plan.dtype, [])


def _parallelism(scenario: Scenario) -> dict[str, Any]:
    plan = scenario.plan
    ranks = whole(plan.data_parallel)
    shard = ranks if plan.data_parallel_shard is None else whole(plan.data_parallel_shard)
    sharded = plan.zero_stage > 0
    written: dict[str, Any] = {
        "data_parallel_replicate_degree": ranks // shard if sharded else ranks,
        "data_parallel_shard_degree": shard if sharded else 1,
        "fsdp_reshard_after_forward": "always" if plan.zero_stage == 3 else "never",
        "tensor_parallel_degree": whole(plan.tensor_parallel),
        "enable_async_tensor_parallel": plan.tensor_overlap == "all" and bool(plan.tensor_parallel > 1),
        "pipeline_parallel_degree": whole(plan.pipeline_parallel),
        "context_parallel_degree": whole(plan.context_parallel),
        "expert_parallel_degree": whole(plan.expert_parallel),
        "expert_tensor_parallel_degree": whole(plan.expert_tensor_parallel),
    }
    if plan.context_parallel > 1:
        written["context_parallel_rotate_method"] = EXCHANGES[plan.context_exchange]
    if plan.expert_parallel > 1 and plan.expert_dispatch == "deduplicated":
        written["expert_parallel_comm_backend"] = "deepep"
    if plan.pipeline_parallel > 1:
        written |= _stages(scenario)
    return written


def _stages(scenario: Scenario) -> dict[str, Any]:
    plan = scenario.plan
    interleaved = plan.virtual_stages > 1
    stages, layers = whole(plan.pipeline_parallel) * whole(plan.virtual_stages), scenario.model.layers
    ends = 0 if layers % stages == 0 else 1
    return {
        "pipeline_parallel_schedule": SCHEDULES["interleaved" if interleaved else str(plan.schedule)],
        "pipeline_parallel_microbatch_size": whole(plan.sequences),
        "pipeline_parallel_first_stage_less_layers": ends,
        "pipeline_parallel_last_stage_less_layers": ends,
        "pipeline_parallel_layers_per_stage": int(layers_each(layers, stages)),
    }


def _recomputation(recompute: str | Recomputation) -> dict[str, Any]:
    every = recompute.every if isinstance(recompute, Recomputation) else 1
    if recompute == "none":
        return {"mode": "none"}
    if every > 1:
        return {"mode": "selective", "selective_ac_option": str(every)}
    if recompute == "selective" or (isinstance(recompute, Recomputation) and recompute.modules):
        return {"mode": "selective", "selective_ac_option": "op"}
    return {"mode": "full"}


def _supplied(scenario: Scenario) -> list[str]:
    """What the user supplies, and what torchtitan does by itself."""
    work = scenario.workload
    told = {
        "these are the keys of torchtitan 0.2; later versions are configured in Python": True,
        "model.hf_assets_path is the folder of the tokenizer, training.dataset the data: set both to yours": True,
        "optimizer.lr is an example": True,
        f"workload.total_tokens is not stated: the command trains {STEPS} steps": work.total_tokens is None,
        "workload.task is finetune: name the weights by checkpoint.initial_load_path": work.task == "finetune",
        "workload.lengths: torchtitan fills every sample to training.seq_len": work.lengths is not None,
    }
    return [*(sentence for sentence, is_so in told.items() if is_so), *on_every_node(scenario.cluster)]
