"""Write a scenario as a TOML file of torchtitan 0.2 and the command that starts it, and read one back.

Keys are those of torchtitan/config/job_config.py.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

from sightline.errors import refuse
from sightline.launching.launch import Launch, Reading
from sightline.launching.options import Options, plain, refuse_values, without_none
from sightline.launching.readers import leaves, with_unread
from sightline.launching.shell import command_line
from sightline.launching.source import Source, named_settings
from sightline.launching.table import Option, fields_read, fields_written, fixed, nested, written
from sightline.launching.training.rules import layers_each, refusals
from sightline.launching.training.shared import (
    TRIAL,
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
from sightline.scenario import Scenario
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
WEIGHTS: Final = "checkpoint.initial-load-path"
"""Option that names the weights a run starts from."""
DTYPES: Final = {"fp32": "float32"}
"""Parameters in mixed precision by compute dtype; others compute in bfloat16."""
SCHEDULES: Final = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}
EXCHANGES: Final = {"all-gather": "allgather", "ring": "alltoall"}
OPTIMIZERS: Final = {"adamw": "fused", "adamw-fused": "fused", "adamw-unfused": "foreach"}
_CONVERTERS: Final = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
_QUANTIZED: Final = {
    "fp8": {"float8": {"recipe_name": "tensorwise", "filter_fqns": ["output"]}},
    "mxfp8": {"mx": {"recipe_name": "mxfp8_cublas", "filter_fqns": ["output"]}},
}
"""Recipes of the converters."""
_BATCH: Final = 8
"""Sequences of a device where the file states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """What a file says."""

    tables: Mapping[str, Any]
    started: int | None = None
    """Devices that the command starts, where it says so."""
    has_weights: bool = False
    """Whether the command names weights."""
    layers: int | None = None
    """Of the model, where it is known."""

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.tables.get(name)
        return value if isinstance(value, Mapping) else {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a dotted key."""
        table, _, name = key.partition(".")
        return self.table(table).get(name, default)

    def degree(self, axis: str, default: int = 1) -> int:
        return int(self.get(f"parallelism.{axis}_degree", default))

    @property
    def shard(self) -> int:
        """Ranks that shard the states; -1 for those that are left."""
        return self.degree("data_parallel_shard", -1)

    @property
    def groups(self) -> int:
        return self.degree("data_parallel_replicate")

    @property
    def of_replica(self) -> int:
        """Devices of one replica of the model."""
        return prod(self.degree(f"{axis}_parallel") for axis in ("tensor", "pipeline", "context"))

    @property
    def is_pipelined(self) -> bool:
        return self.degree("pipeline_parallel") > 1

    @property
    def devices(self) -> int | None:
        """Devices that the degrees multiply to, else those that the command starts."""
        return self.started if self.shard < 1 else self.groups * self.shard * self.of_replica

    @property
    def replicas(self) -> int | None:
        return None if self.devices is None else self.devices // self.of_replica

    @property
    def local_batch(self) -> int:
        return int(self.get("training.local_batch_size", self.get("training.batch_size", _BATCH)))

    @property
    def is_tuned(self) -> bool:
        """Whether a run starts from the weights of another."""
        loads = (self.get(f"checkpoint.initial_load_{name}") for name in ("path", "in_hf"))
        is_loaded = self.get("checkpoint.enable") and self.get("checkpoint.initial_load_model_only", True)
        return bool(is_loaded and (self.has_weights or any(loads)))

    @property
    def replicates_only(self) -> bool:
        """Whether replicas share nothing."""
        return self.shard == self.degree("context_parallel") == 1 and self.groups > 1


def _steps(scenario: Scenario) -> int | None:
    steps = scenario.workload.steps
    return None if steps is None else whole(steps)


def _flavor(scenario: Scenario) -> tuple[str, str]:
    return named(scenario.model) or ("", "")


def _pipelined(value: Callable[[Scenario], object]) -> Callable[[Scenario], object]:
    """What only plans with several stages state."""
    return lambda scenario: value(scenario) if scenario.plan.pipeline_parallel > 1 else None


def _local_batch(scenario: Scenario) -> int:
    """Sequences of a rank: of a pipeline those of the whole step."""
    plan, replica = scenario.plan, scenario.workload.global_batch // whole(scenario.plan.data_parallel)
    return replica if plan.pipeline_parallel > 1 else whole(plan.sequences)


def _shard(scenario: Scenario) -> int:
    """Ranks that shard the states; 1 where none are sharded."""
    plan = scenario.plan
    if not plan.zero_stage > 0:
        return 1
    return whole(plan.data_parallel if plan.data_parallel_shard is None else plan.data_parallel_shard)


def _stated_shard(stated: _Stated) -> int | None:
    if stated.replicates_only or stated.groups == 1:
        return None
    return stated.shard if stated.shard > 0 else stated.replicas and stated.replicas // stated.groups


def _zero_stage(stated: _Stated) -> int:
    policy = stated.get("parallelism.fsdp_reshard_after_forward", "default")
    freed = policy == "always" or (policy == "default" and not stated.is_pipelined)
    return 0 if stated.replicates_only else 3 if freed else 2


def _exchange(stated: _Stated) -> str | None:
    if stated.degree("context_parallel") == 1:
        return None
    method = stated.get("parallelism.context_parallel_rotate_method", "allgather")
    return {value: key for key, value in EXCHANGES.items()}.get(method)


def _stages(scenario: Scenario) -> int:
    return whole(scenario.plan.pipeline_parallel) * whole(scenario.plan.virtual_stages)


def _schedule(scenario: Scenario) -> str:
    plan = scenario.plan
    return SCHEDULES["interleaved" if plan.virtual_stages > 1 else str(plan.schedule)]


def _stated_schedule(stated: _Stated) -> str | None:
    if not stated.is_pipelined:
        return None
    schedule = str(stated.get("parallelism.pipeline_parallel_schedule", "1F1B"))
    return {value.lower(): key for key, value in SCHEDULES.items()}.get(schedule.lower(), "zero-bubble")


def _fewer_at_ends(scenario: Scenario) -> int:
    return 0 if scenario.model.layers % _stages(scenario) == 0 else 1


def _virtual_stages(stated: _Stated) -> int | None:
    """How many stages a rank has follows from the layers of each where these are stated."""
    schedule = _stated_schedule(stated)
    if schedule != "interleaved":
        return None if schedule is None else 1
    each: int | None = stated.get("parallelism.pipeline_parallel_layers_per_stage")
    if each is None or stated.layers is None:
        # Two stages on a rank are torchtitan's default.
        return 2
    ends = ("first", "last")
    fewer = [int(stated.get(f"parallelism.pipeline_parallel_{end}_stage_less_layers", 1)) for end in ends]
    return -(-(stated.layers + sum(fewer)) // each) // stated.degree("pipeline_parallel")


def _recomputation(scenario: Scenario) -> tuple[str, str | None]:
    """The mode, and what of a selective one is kept."""
    recompute = scenario.plan.recompute
    every = recompute.every if isinstance(recompute, Recomputation) else 1
    if recompute == "none":
        return "none", None
    if every > 1:
        return "selective", str(every)
    if recompute == "selective" or (isinstance(recompute, Recomputation) and recompute.modules):
        return "selective", "op"
    return "full", None


def _recompute(stated: _Stated) -> Any:
    mode = stated.get("activation_checkpoint.mode", "selective")
    option = str(stated.get("activation_checkpoint.selective_ac_option", "2"))
    if mode != "selective":
        return mode if mode in ("none", "full") else None
    return "selective" if option == "op" else {"modules": "full", "every": int(option)} if option.isdecimal() else None


def _dtype(stated: _Stated) -> str:
    converters = str(stated.get("model.converters"))
    if "mx" in converters:
        return "mxfp8"
    if "float8" in converters:
        return "fp8"
    return "fp32" if stated.get("training.mixed_precision_param") == "float32" else "bf16"


def _compiles(stated: _Stated) -> bool:
    """Whether the model is compiled, which older releases say among the keys of training."""
    enabled = stated.get("compile.enable", stated.get("training.compile", False))
    return bool(enabled) and "model" in stated.get("compile.components", ("model",))


Key: TypeAlias = Option[Scenario, _Stated]


def _degree(field: str) -> Key:
    """The key of a degree."""
    name = f"parallelism.{field}_degree"
    return Option(name, field, lambda scenario: whole(getattr(scenario.plan, field)), lambda s: s.degree(field), 1)


KEYS: Final[Sequence[Key]] = (
    fixed("job.dump_folder", "./outputs"),
    Option("job.description", write=lambda s: s.name or f"{s.model.name} by Sightline"),
    Option("model.name", write=lambda s: _flavor(s)[0]),
    Option("model.flavor", write=lambda s: _flavor(s)[1]),
    fixed("model.hf_assets_path", "./assets"),
    Option(
        "model.converters",
        "dtype",
        lambda s: [_CONVERTERS[s.plan.dtype]] if s.plan.dtype in _CONVERTERS else [],
        _dtype,
    ),
    fixed("optimizer.name", "AdamW"),
    fixed("optimizer.lr", 3e-4),
    Option(
        "optimizer.implementation",
        "optimizer",
        lambda s: OPTIMIZERS[s.plan.optimizer],
        lambda s: "adamw" if s.get("optimizer.implementation", "fused") == "fused" else "adamw-unfused",
    ),
    Option("lr_scheduler.warmup_steps", write=lambda s: max(1, (_steps(s) or 0) // 100)),
    Option("training.local_batch_size", write=_local_batch, least=1),
    Option("training.batch_size", least=1),
    Option("training.global_batch_size", write=lambda s: s.workload.global_batch, least=-1),
    Option("training.seq_len", write=lambda s: s.workload.sequence_length, least=1),
    Option("training.steps", write=_steps, least=0),
    fixed("training.dataset", "c4"),
    Option(
        "training.dtype",
        "state_dtype",
        lambda s: "bfloat16" if s.plan.framework.memory.states.weights < 4 else "float32",
        lambda s: "bf16" if s.get("training.dtype") == "bfloat16" else "fp32",
    ),
    Option("training.mixed_precision_param", write=lambda s: DTYPES.get(s.plan.dtype, "bfloat16")),
    fixed("training.mixed_precision_reduce", "float32"),
    Option(
        "training.enable_cpu_offload",
        "offload",
        lambda s: "parameters" in s.plan.offload,
        lambda s: ["optimizer", "parameters"] if s.get("training.enable_cpu_offload") else "none",
    ),
    Option(
        "parallelism.data_parallel_replicate_degree", write=lambda s: whole(s.plan.data_parallel) // _shard(s), least=1
    ),
    Option("parallelism.data_parallel_shard_degree", "data_parallel_shard", _shard, _stated_shard, -1),
    Option(
        "parallelism.fsdp_reshard_after_forward",
        "zero_stage",
        lambda s: "always" if s.plan.zero_stage == 3 else "never",
        _zero_stage,
    ),
    _degree("tensor_parallel"),
    Option(
        "parallelism.enable_sequence_parallel",
        "sequence_parallel",
        read=lambda s: s.degree("tensor_parallel") > 1 and bool(s.get("parallelism.enable_sequence_parallel", True)),
    ),
    Option(
        "parallelism.enable_async_tensor_parallel",
        "tensor_overlap",
        lambda s: s.plan.tensor_overlap == "all" and bool(s.plan.tensor_parallel > 1),
        lambda s: "all" if s.get("parallelism.enable_async_tensor_parallel") else "none",
    ),
    _degree("pipeline_parallel"),
    _degree("context_parallel"),
    _degree("expert_parallel"),
    _degree("expert_tensor_parallel"),
    Option(
        "parallelism.context_parallel_rotate_method",
        "context_exchange",
        lambda s: EXCHANGES[s.plan.context_exchange] if s.plan.context_parallel > 1 else None,
        _exchange,
    ),
    Option(
        "parallelism.expert_parallel_comm_backend",
        "expert_dispatch",
        lambda s: "deepep" if s.plan.expert_parallel > 1 and s.plan.expert_dispatch == "deduplicated" else None,
        lambda s: "deduplicated" if s.get("parallelism.expert_parallel_comm_backend") == "deepep" else None,
    ),
    Option("parallelism.pipeline_parallel_schedule", "schedule", _pipelined(_schedule), _stated_schedule),
    Option(
        "parallelism.pipeline_parallel_microbatch_size",
        "micro_batch",
        _pipelined(lambda s: whole(s.plan.sequences)),
        lambda s: s.get("parallelism.pipeline_parallel_microbatch_size", 1) if s.is_pipelined else s.local_batch,
        1,
    ),
    *(
        Option(f"parallelism.pipeline_parallel_{end}_stage_less_layers", write=_pipelined(_fewer_at_ends), least=0)
        for end in ("first", "last")
    ),
    Option(
        "parallelism.pipeline_parallel_layers_per_stage",
        "virtual_stages",
        _pipelined(lambda s: int(layers_each(s.model.layers, _stages(s)))),
        _virtual_stages,
        1,
    ),
    Option("activation_checkpoint.mode", "recompute", lambda s: _recomputation(s)[0], _recompute),
    Option("activation_checkpoint.selective_ac_option", write=lambda s: _recomputation(s)[1]),
    Option("compile.enable", "compile", lambda s: s.plan.compile, _compiles),
    Option("training.compile"),
    fixed("compile.components", ["model", "loss"]),
    fixed("metrics.log_freq", 1),
    Option("quantize.linear", "fp8_recipe", lambda s: _QUANTIZED.get(s.plan.dtype)),
    Option("checkpoint.enable", write=lambda s: s.workload.task == "finetune" or None),
    Option("checkpoint.initial_load_in_hf", write=lambda s: s.workload.task == "finetune" or None),
    Option("experimental.custom_import", write=lambda s: None if module_text(s.model) is None else MODULE),
)
_READ: Final = tuple(dict.fromkeys(key.name.partition(".")[0] for key in KEYS if key.name))
"""Tables whose keys are read."""


_CHOICES: Final = {
    "optimizer.name": ("Adam", "AdamW"),
    "activation_checkpoint.mode": ("none", "selective", "full"),
    "parallelism.expert_parallel_comm_backend": ("standard", "deepep"),
}
"""Values of keys of which others are not predicted."""


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: torchtitan does not offer something of the plan or has no such model; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    module = module_text(asked.model)
    files = {CONFIGURATION: toml_text(nested(written(KEYS, asked)))}
    words = torchrun(asked.cluster, "-m", "torchtitan.train")
    further = {"--training.steps": TRIAL} if asked.workload.total_tokens is None else {}
    further |= {f"--{WEIGHTS}": "${WEIGHTS:?}"} if asked.workload.task == "finetune" else {}
    return Launch(
        framework="torchtitan",
        command=command_line(words, {"--job.config_file": CONFIGURATION, **further}),
        files=files if module is None else {**files, f"{MODULE}.py": module},
        without_counterpart=[*unwritten(asked.plan, fields_written(KEYS), "torchtitan"), *_supplied(asked)],
    )


def _supplied(scenario: Scenario) -> list[str]:
    """What the user supplies, and what torchtitan does by itself."""
    work = scenario.workload
    told = {
        "these are the keys of torchtitan 0.2; later versions are configured in Python": True,
        "model.hf_assets_path is the folder of the tokenizer, training.dataset the data: set both to yours": True,
        "optimizer.lr is an example": True,
        f"workload.total_tokens is not stated: the command trains {TRIAL} steps": work.total_tokens is None,
        "WEIGHTS in the environment is the folder of a checkpoint in Hugging Face's format; one in fp8 or mxfp4 needs "
        "checkpoint.initial_load_in_hf_quantized = true": work.task == "finetune",
    }
    return [*(sentence for sentence, is_so in told.items() if is_so), *on_every_node(scenario.cluster)]


_TABLES: Final = ("parallelism", "training", "activation_checkpoint")
"""Tables of which a file of torchtitan has several."""


def claims(found: Source) -> bool:
    """Whether it is a file of torchtitan, or a command that names one."""
    launches = any("torchtitan" in word for word in found.words) and "job.config-file" in Options(found.words).names()
    return launches or sum(isinstance(found.mapping.get(name), Mapping) for name in _TABLES) > 1


def read(found: Source) -> Reading:
    """Return what a file says as a scenario."""
    tables, started, has_weights, unknown = found.mapping, None, False, list[str]()
    of_launcher: dict[str, Any] = {}
    if found.kind == "command":
        options = Options(found.words)
        tables = named_settings(found, options.text("job.config-file"), "torchtitan's configuration")
        started = devices_of(options)
        tables = _with_options(tables, options, is_trial=TRIAL in found.text)
        has_weights = options.has(WEIGHTS)
        unknown = list(options.unknown.values())
        of_launcher = options.unread([name for name in options.names() if "." in name])
        options.refuse()
    least = {key.name: key.least for key in KEYS if key.least is not None}
    refuse_values(tables, numbers=least, sections=_READ, choices=_CHOICES)
    stated = _Stated(tables=tables, started=started, has_weights=has_weights)
    model = _model(found, stated)
    stated = replace(stated, layers=_layers(model))
    plan = {"framework": "torchtitan", **fields_read(KEYS, stated)}
    scenario = without_none({"model": model, "workload": _workload(stated), "plan": plan})
    unknown_flavor = "the file names a flavor that is not known here"
    each = "samples per optimizer step, which the file leaves to the number of devices"
    known = {*_READ, *(one.name for one in KEYS)} - {"training.mixed_precision_reduce"}
    given = {key: value for key, value in leaves(tables) if key not in known}
    reading = Reading(
        framework="torchtitan",
        scenario=scenario,
        assumed=_assumed(plan, stated),
        missing=missing_of(scenario, stated.devices, model=unknown_flavor, batch=each),
        without_counterpart=unknown,
    )
    reading = with_unread(reading, "torchtitan", given, [*_READ, *(key.name for key in KEYS)], "torchtitan's")
    return with_unread(reading, "launcher", of_launcher, of="the launcher's")


def _with_options(tables: Mapping[str, Any], options: Options, *, is_trial: bool) -> dict[str, Any]:
    """The tables of a file with what dotted options of the command say instead."""
    apart = {"job.config-file", WEIGHTS, *(["training.steps"] * is_trial)}
    known = {name for name in options.names() if "." in name} - apart
    stated = {name.replace("-", "_"): plain(options.words(name)) for name in known}
    settings = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()}
    for name, value in stated.items():
        table, _, key = name.partition(".")
        if name.replace("_", "-") not in {one.replace("_", "-") for one in options.unknown}:
            settings[table] = {**settings.get(table, {}), key: value}
    return settings


def _model(found: Source, stated: _Stated) -> Any:
    """A model of the catalog by its name and flavor, or that of the module next to the file."""
    name, flavor = (str(stated.get(f"model.{key}")) for key in ("name", "flavor"))
    module = found.folder / f"{stated.get('experimental.custom_import')}.py"
    if (name, flavor) in NAMES or not module.is_file():
        return NAMES.get((name, flavor))
    return model_in(read_text(module), name, flavor)


def _workload(stated: _Stated) -> dict[str, Any]:
    batch = stated.get("training.global_batch_size", -1)
    batch = batch if batch > 0 else None if stated.replicas is None else stated.local_batch * stated.replicas
    length, steps = stated.get("training.seq_len", 2048), stated.get("training.steps")
    tokens = steps * batch * length if steps and batch else None
    task = "finetune" if stated.is_tuned else "pretrain"
    return without_none({"task": task, "sequence_length": length, "global_batch": batch, "total_tokens": tokens})


def _layers(model: str | Mapping[str, Any] | None) -> int | None:
    """Layers of a model that was read: by its name those of the catalog's; None where none is known."""
    from sightline.loading.models import resolve_model

    if isinstance(model, str):
        return resolve_model(model, Path()).model.layers
    layers = None if model is None else model["num_hidden_layers"]
    return layers if isinstance(layers, int) else None


def _assumed(plan: Mapping[str, Any], stated: _Stated) -> dict[str, Any]:
    """The stages of a rank where the layers of each are stated, but not those of the model."""
    unknown = stated.layers is None and stated.get("parallelism.pipeline_parallel_layers_per_stage") is not None
    stages = plan.get("virtual_stages", 1)
    return {"plan.virtual_stages": stages} if unknown and stages > 1 else {}
