"""Write a scenario as a TOML file of torchtitan 0.2 and the command that starts it, and read one back.

Keys are those of torchtitan/config/job_config.py.
"""

import json
from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final

from sightline.launching.launch import Launch, Reading, refuse
from sightline.launching.options import Options, not_read, refuse_values, without_none
from sightline.launching.shell import command_line
from sightline.launching.source import Source, named_settings
from sightline.launching.training.rules import layers_each, refusals
from sightline.launching.training.shared import (
    devices_of,
    missing_of,
    on_every_node,
    torchrun,
    unwritten,
    whole,
    with_micro_batch,
)
from sightline.launching.training.torchtitan_model import MODULE, NAMES, model_in, module_text, named
from sightline.loading.sources import read_text
from sightline.scenario import Plan, Scenario
from sightline.scenario.techniques import Recomputation


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return tables of words, numbers, truth values and lists of them, and tables in tables, as TOML."""
    return "\n".join(_lines(tables, "")).strip() + "\n"


def _lines(table: Mapping[str, Any], name: str) -> Iterator[str]:
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if own and name:
        yield f"[{name}]"
    for key, value in own.items():
        # What JSON writes of these is TOML too.
        yield f"{key} = {json.dumps(value)}"
    if own:
        yield ""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{name}.{key}" if name else key)


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


_TABLES: Final = ("parallelism", "training", "activation_checkpoint")
"""Tables of which a file of torchtitan has several."""
_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("name", "flavor", "converters", "hf_assets_path", "tokenizer_path", "print_after_conversion"),
    "optimizer": ("name", "implementation", "lr", "eps", "beta1", "beta2", "weight_decay"),
    "training": (
        *("local_batch_size", "batch_size", "global_batch_size", "seq_len", "steps", "dtype", "enable_cpu_offload"),
        *("mixed_precision_param", "mixed_precision_reduce", "dataset", "dataset_path", "max_norm", "gc_freq"),
    ),
    "parallelism": (
        *("data_parallel_replicate_degree", "data_parallel_shard_degree", "fsdp_reshard_after_forward"),
        *("tensor_parallel_degree", "enable_async_tensor_parallel", "pipeline_parallel_degree"),
        *("pipeline_parallel_schedule", "pipeline_parallel_microbatch_size", "context_parallel_degree"),
        *("context_parallel_rotate_method", "expert_parallel_degree", "expert_tensor_parallel_degree"),
        *("pipeline_parallel_layers_per_stage", "pipeline_parallel_first_stage_less_layers"),
        *("pipeline_parallel_last_stage_less_layers", "expert_parallel_comm_backend"),
    ),
    "activation_checkpoint": ("mode", "selective_ac_option"),
    "compile": ("enable", "components"),
}
_NEUTRAL: Final = (
    "job",
    "profiling",
    "metrics",
    "lr_scheduler",
    "checkpoint",
    "validation",
    "comm",
    "debug",
    "quantize",
)
"""Tables that do not change how long a step takes, and formats that the converters name."""
_NUMBERS: Final[Mapping[str, int]] = {
    **{f"parallelism.{axis}_parallel_degree": 1 for axis in ("tensor", "pipeline", "context", "expert")},
    "parallelism.expert_tensor_parallel_degree": 1,
    "parallelism.data_parallel_replicate_degree": 1,
    "parallelism.data_parallel_shard_degree": -1,
    "parallelism.pipeline_parallel_microbatch_size": 1,
    "parallelism.pipeline_parallel_layers_per_stage": 1,
    **{f"parallelism.pipeline_parallel_{end}_stage_less_layers": 0 for end in ("first", "last")},
    "training.local_batch_size": 1,
    "training.batch_size": 1,
    "training.global_batch_size": -1,
    "training.seq_len": 1,
    "training.steps": 0,
}
"""Whole numbers of a file, and the least of each."""
_BATCH: Final = 8
"""Sequences of a device where the file states none."""


def claims(found: Source) -> bool:
    """Whether it is a file of torchtitan, or a command that names one."""
    launches = any("torchtitan" in word for word in found.words) and "job.config-file" in Options(found.words).names()
    return launches or sum(isinstance(found.mapping.get(name), Mapping) for name in _TABLES) > 1


def read(found: Source) -> Reading:
    """Return what a file says as a scenario."""
    stated, devices, unknown = found.mapping, None, list[str]()
    if found.kind == "command":
        options = Options(found.words)
        stated = named_settings(found, options.text("job.config-file"), "torchtitan's configuration")
        devices = devices_of(options)
        unknown = list(options.unknown.values())
        options.refuse()
    refuse_values(stated, numbers=_NUMBERS, sections=(*_READ, "experimental"))
    degrees = _degrees(_table(stated, "parallelism"))
    devices = _devices(degrees) or devices
    model = _model(found, stated)
    workload = _workload(stated, degrees, devices)
    layers = _layers(model)
    plan = _plan(stated, degrees, devices, layers)
    scenario = without_none({"model": model, "workload": workload, "plan": plan})
    unknown_flavor = "the file names a flavor that is not known here"
    each = "samples per optimizer step, which the file leaves to the number of devices"
    return Reading(
        framework="torchtitan",
        scenario=scenario,
        assumed=_assumed(plan, _table(stated, "parallelism"), layers),
        missing=missing_of(scenario, devices, model=unknown_flavor, batch=each),
        without_counterpart=[*not_read(_unread(stated), _known(), "torchtitan's"), *unknown],
    )


def _model(found: Source, stated: Mapping[str, Any]) -> Any:
    """A model of the catalog by its name and flavor, or that of the module next to the file."""
    name, flavor = (str(_table(stated, "model").get(key)) for key in ("name", "flavor"))
    module = found.folder / f"{_table(stated, 'experimental').get('custom_import')}.py"
    if (name, flavor) in NAMES or not module.is_file():
        return NAMES.get((name, flavor))
    return model_in(read_text(module), name, flavor)


def _table(stated: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = stated.get(name)
    return value if isinstance(value, Mapping) else {}


def _degrees(stated: Mapping[str, Any]) -> dict[str, int]:
    names = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel")
    return {
        **{name: int(stated.get(f"{name}_degree", 1)) for name in names},
        "replicate": int(stated.get("data_parallel_replicate_degree", 1)),
        "shard": int(stated.get("data_parallel_shard_degree", -1)),
    }


def _devices(degrees: Mapping[str, int]) -> int | None:
    """The devices that the degrees multiply to; None where sharding takes what is left."""
    if degrees["shard"] < 1:
        return None
    product = degrees["replicate"] * degrees["shard"]
    return product * degrees["tensor_parallel"] * degrees["pipeline_parallel"] * degrees["context_parallel"]


def _replicas(degrees: Mapping[str, int], devices: int | None) -> int | None:
    model = degrees["tensor_parallel"] * degrees["pipeline_parallel"] * degrees["context_parallel"]
    return None if devices is None else devices // model


def _workload(stated: Mapping[str, Any], degrees: Mapping[str, int], devices: int | None) -> dict[str, Any]:
    training = _table(stated, "training")
    replicas = _replicas(degrees, devices)
    local = training.get("local_batch_size", training.get("batch_size", _BATCH))
    whole_batch = training.get("global_batch_size", -1)
    batch = whole_batch if whole_batch > 0 else None if replicas is None else local * replicas
    length, steps = training.get("seq_len", 2048), training.get("steps")
    tokens = steps * batch * length if steps and batch else None
    return without_none({"task": "pretrain", "sequence_length": length, "global_batch": batch, "total_tokens": tokens})


def _plan(
    stated: Mapping[str, Any], degrees: Mapping[str, int], devices: int | None, layers: int | None
) -> dict[str, Any]:
    training, parallelism = _table(stated, "training"), _table(stated, "parallelism")
    pipelined = degrees["pipeline_parallel"] > 1
    local = training.get("local_batch_size", training.get("batch_size", _BATCH))
    plan: dict[str, Any] = {
        "framework": "torchtitan",
        **{name: degree for name, degree in degrees.items() if name not in ("replicate", "shard")},
        "sequence_parallel": degrees["tensor_parallel"] > 1,
        "tensor_overlap": "all" if parallelism.get("enable_async_tensor_parallel") else "none",
        "micro_batch": parallelism.get("pipeline_parallel_microbatch_size", 1) if pipelined else local,
        "offload": ["optimizer", "parameters"] if training.get("enable_cpu_offload") else "none",
        "recompute": _recompute(_table(stated, "activation_checkpoint")),
        "compile": bool(_table(stated, "compile").get("enable", False)),
        "state_dtype": "bf16" if training.get("dtype") == "bfloat16" else "fp32",
        "dtype": _dtype(stated),
        **_sharding(parallelism, degrees, devices, pipelined=pipelined),
        **(_stated_stages(parallelism, layers) if pipelined else {}),
    }
    if degrees["context_parallel"] > 1:
        method = parallelism.get("context_parallel_rotate_method", "allgather")
        plan["context_exchange"] = {value: key for key, value in EXCHANGES.items()}.get(method)
    if parallelism.get("expert_parallel_comm_backend") == "deepep":
        plan["expert_dispatch"] = "deduplicated"
    optimizer = _table(stated, "optimizer").get("implementation", "fused")
    plan["optimizer"] = "adamw" if optimizer == "fused" else "adamw-unfused"
    return without_none(plan)


def _sharding(
    parallelism: Mapping[str, Any], degrees: Mapping[str, int], devices: int | None, *, pipelined: bool
) -> dict[str, Any]:
    policy = parallelism.get("fsdp_reshard_after_forward", "default")
    freed = policy == "always" or (policy == "default" and not pipelined)
    only_replicas = degrees["shard"] == degrees["context_parallel"] == 1 and degrees["replicate"] > 1
    stage = 0 if only_replicas else 3 if freed else 2
    if only_replicas or degrees["replicate"] == 1:
        return {"zero_stage": stage}
    replicas = _replicas(degrees, devices)
    shard = degrees["shard"] if degrees["shard"] > 0 else None if replicas is None else replicas // degrees["replicate"]
    return {"zero_stage": stage, "data_parallel_shard": shard}


def _stated_stages(parallelism: Mapping[str, Any], layers: int | None) -> dict[str, Any]:
    """The schedule; how many stages a rank has follows from the layers of each where these are stated."""
    schedule = str(parallelism.get("pipeline_parallel_schedule", "1F1B"))
    word = {value.lower(): key for key, value in SCHEDULES.items()}.get(schedule.lower(), "zero-bubble")
    if word != "interleaved":
        return {"schedule": word, "virtual_stages": 1}
    each = parallelism.get("pipeline_parallel_layers_per_stage")
    if each is None or layers is None:
        # Two stages on a rank are torchtitan's default.
        return {"schedule": word, "virtual_stages": 2}
    ends = ("first", "last")
    units = layers + sum(parallelism.get(f"pipeline_parallel_{end}_stage_less_layers", 1) for end in ends)
    return {"schedule": word, "virtual_stages": -(-units // each) // int(parallelism["pipeline_parallel_degree"])}


def _layers(model: str | Mapping[str, Any] | None) -> int | None:
    """Layers of a model that was read: by its name those of the catalog's; None where none is known."""
    from sightline.loading.models import resolve_model

    if isinstance(model, str):
        return resolve_model(model, Path()).model.layers
    layers = None if model is None else model["num_hidden_layers"]
    return layers if isinstance(layers, int) else None


def _assumed(plan: Mapping[str, Any], parallelism: Mapping[str, Any], layers: int | None) -> dict[str, Any]:
    """The stages of a rank where the layers of each are stated, but not those of the model."""
    unknown = layers is None and parallelism.get("pipeline_parallel_layers_per_stage") is not None
    stages = plan.get("virtual_stages", 1)
    return {"plan.virtual_stages": stages} if unknown and stages > 1 else {}


def _recompute(stated: Mapping[str, Any]) -> Any:
    mode, option = stated.get("mode", "selective"), str(stated.get("selective_ac_option", "2"))
    if mode != "selective":
        return mode if mode in ("none", "full") else None
    return "selective" if option == "op" else {"modules": "full", "every": int(option)} if option.isdecimal() else None


def _dtype(stated: Mapping[str, Any]) -> str:
    converters = str(_table(stated, "model").get("converters"))
    if "mx" in converters:
        return "mxfp8"
    if "float8" in converters:
        return "fp8"
    return "fp32" if _table(stated, "training").get("mixed_precision_param") == "float32" else "bf16"


def _known() -> list[str]:
    """Tables and keys that are read or change nothing."""
    return [*_READ, *_NEUTRAL, *(f"{name}.{key}" for name, keys in _READ.items() for key in keys)]


def _unread(stated: Mapping[str, Any]) -> list[str]:
    others = [name for name in stated if name not in _READ and name not in (*_NEUTRAL, "experimental")]
    return [
        *others,
        *(f"{name}.{key}" for name, keys in _READ.items() for key in _table(stated, name) if key not in keys),
    ]
