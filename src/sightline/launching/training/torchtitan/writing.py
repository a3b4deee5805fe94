"""A scenario as a TOML file of torchtitan 0.2 and the command that starts it (torchtitan/config/job_config.py)."""

from math import ceil
from typing import Any, Final

from sightline.launching.launch import Launch, refuse
from sightline.launching.shell.writing import command_line
from sightline.launching.training.ranks import cluster_problems, on_every_node, torchrun
from sightline.launching.training.support import not_offered, unwritten, whole, with_micro_batch
from sightline.launching.training.torchtitan.models import MODULE, UNPIPELINED, module_text, named
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
    found = named(scenario.model)
    unknown = f"{scenario.model.name} has layers that no model of torchtitan has: Llama 3, Qwen 3, DeepSeek V3, gpt-oss"
    problems = [*not_offered(scenario.plan), *cluster_problems(scenario.cluster), *([unknown] if found is None else [])]
    refuse(problems)
    asked = with_micro_batch(scenario)
    refuse(_problems(asked))
    module = module_text(asked.model)
    files = {CONFIGURATION: toml_text(configuration(asked))}
    words = torchrun(asked.cluster, "-m", "torchtitan.train")
    return Launch(
        framework="torchtitan",
        command=command_line(words, {"--job.config_file": CONFIGURATION}),
        files=files if module is None else {**files, f"{MODULE}.py": module},
        without_counterpart=[*unwritten(asked.plan, WRITTEN, "torchtitan"), *_supplied(asked)],
    )


def _problems(scenario: Scenario) -> list[str]:
    plan, model = scenario.plan, scenario.model
    family = (named(model) or ("",))[0]
    stages, others = (
        whole(plan.pipeline_parallel),
        plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel,
    )
    reduced = plan.gradient_reduce_dtype
    tensor = whole(plan.expert_tensor_parallel)
    told = {
        f"plan.pipeline_parallel is {stages}: torchtitan has no pipeline stages of {family}": (
            stages > 1 and family in UNPIPELINED
        ),
        "plan.schedule is zero-bubble: PyTorch's zero-bubble schedules have several stages on a rank, which Sightline "
        "does not predict": plan.schedule == "zero-bubble" and stages > 1,
        "plan.zero_stage is 0: torchtitan replicates weights only without tensor, pipeline and context parallelism": (
            plan.zero_stage == 0 and plan.data_parallel > 1 and others > 1
        ),
        f"plan.data_parallel_shard is 1 with plan.zero_stage {plan.zero_stage}: a rank alone shards nothing; allowed: "
        "plan.zero_stage 0": (
            plan.zero_stage > 0 and plan.data_parallel_shard == 1 < plan.data_parallel and plan.context_parallel == 1
        ),
        "plan.stage_layers: torchtitan spreads layers over stages by itself": plan.stage_layers is not None,
        f"plan.gradient_reduce_dtype is {reduced}: torchtitan 0.2 reduces in fp32": reduced not in (None, "fp32"),
        f"plan.expert_tensor_parallel is {tensor}: torchtitan has 1 and plan.tensor_parallel": (
            plan.expert_parallel > 1 and tensor not in (1, plan.tensor_parallel)
        ),
        f"plan.virtual_stages is {plan.virtual_stages}: torchtitan cannot spread {model.layers} layers over "
        f"{stages * whole(plan.virtual_stages)} stages": _layers_each(scenario) is None,
        "plan.tensor_overlap is all with plan.compile false: torchtitan compiles its asynchronous one": (
            plan.tensor_overlap == "all" and plan.tensor_parallel > 1 and not plan.compile
        ),
        "plan.recompute limits what recomputes to some layers: torchtitan has every so many": (
            isinstance(plan.recompute, Recomputation)
            and (plan.recompute.layers is not None or (plan.recompute.every > 1 and bool(plan.recompute.modules)))
        ),
    }
    return [sentence for sentence, is_so in told.items() if is_so]


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
    ends = 0 if scenario.model.layers % (whole(plan.pipeline_parallel) * whole(plan.virtual_stages)) == 0 else 1
    return {
        "pipeline_parallel_schedule": SCHEDULES["interleaved" if interleaved else str(plan.schedule)],
        "pipeline_parallel_microbatch_size": whole(plan.sequences),
        "pipeline_parallel_first_stage_less_layers": ends,
        "pipeline_parallel_last_stage_less_layers": ends,
        "pipeline_parallel_layers_per_stage": _layers_each(scenario),
    }


def _layers_each(scenario: Scenario) -> int | None:
    """Layers of a stage for as many stages as the plan has, embedding and head counting where layers do not divide.

    None where no number makes so many stages.
    """
    plan, layers = scenario.plan, scenario.model.layers
    stages = whole(plan.pipeline_parallel) * whole(plan.virtual_stages)
    units = layers if layers % stages == 0 else layers + 2
    each = -(-units // stages)
    return each if -(-units // each) == stages else None


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
    plan, work = scenario.plan, scenario.workload
    told = {
        "these are the keys of torchtitan 0.2; later versions are configured in Python": True,
        "model.hf_assets_path is the folder of the tokenizer, training.dataset the data: set both to yours": True,
        "optimizer.lr is an example": True,
        f"workload.total_tokens is not stated: the command trains {STEPS} steps": work.total_tokens is None,
        "plan.sequence_parallel is false: torchtitan splits activations along the sequence with tensor parallelism": (
            plan.tensor_parallel > 1 and not plan.sequence_parallel
        ),
        "workload.task is finetune: name the weights by checkpoint.initial_load_path": work.task == "finetune",
        "workload.lengths: torchtitan fills every sample to training.seq_len": work.lengths is not None,
    }
    return [*(sentence for sentence, is_so in told.items() if is_so), *on_every_node(scenario.cluster)]
