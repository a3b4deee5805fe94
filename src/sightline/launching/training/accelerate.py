"""Write a scenario as accelerate's YAML for FSDP with the script and command that train with it, and read one back.

Keys are those of accelerate 1.15 (accelerate/commands/config, utils/dataclasses.py); version 2 of its FSDP is
PyTorch's ``fully_shard``. Files for DeepSpeed and Megatron-LM by way of accelerate are read too.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import yaml

from sightline.errors import refuse
from sightline.launching.launch import Launch, Reading
from sightline.launching.options import AUTO, Options, plain, refuse_values, without_none
from sightline.launching.readers import leaves, with_unread
from sightline.launching.shell import command_line
from sightline.launching.source import Source, named_settings
from sightline.launching.training import deepspeed, script
from sightline.launching.training.deepspeed import section
from sightline.launching.training.rules import refusals
from sightline.launching.training.script import Script
from sightline.launching.training.shared import (
    launcher_and_program,
    missing_of,
    on_every_node,
    unwritten,
    whole,
    with_micro_batch,
)
from sightline.launching.training.transformers import of_script, with_script
from sightline.scenario import Plan, Scenario

CONFIGURATION: Final = "accelerate.yaml"
WRITTEN: Final = script.WRITTEN | {
    *("zero_stage", "offload", "recompute", "data_parallel_shard", "gradient_reduce_dtype", "state_dtype"),
    *("fp8_recipe", "overlap_gradient_reduce", "overlap_parameter_gather"),
}
"""Fields of a plan that have keys, here or in the script's settings."""
_PRECISION: Final = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: FSDP or the script does not offer something of the plan; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    text = yaml.safe_dump(configuration(asked), sort_keys=False)
    return Launch(
        framework="fsdp",
        command=_command(asked),
        files={CONFIGURATION: text, **script.files_of(asked, "accelerate", asked.cluster.devices)},
        without_counterpart=[
            *unwritten(asked.plan, WRITTEN, "accelerate"),
            *script.supplied(asked),
            *on_every_node(asked.cluster),
        ],
    )


def configuration(scenario: Scenario) -> dict[str, Any]:
    """Return accelerate's configuration."""
    plan, cluster = scenario.plan, scenario.cluster
    sharded = plan.zero_stage > 0
    written: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": "FSDP" if sharded else "MULTI_GPU" if cluster.devices > 1 else "NO",
        "num_processes": cluster.devices,
        "num_machines": cluster.nodes,
        "machine_rank": 0,
        "mixed_precision": _PRECISION.get(plan.dtype, "no"),
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
        "downcast_bf16": "no",
    }
    if sharded:
        written["fsdp_config"] = fsdp_config(plan)
        written |= _hybrid(scenario)
    if plan.dtype == "fp8":
        algorithm = {"amax_compute_algo": "max", "amax_history_len": 1024} if plan.fp8_recipe == "delayed" else {}
        backend = "TE" if plan.fp8_recipe == "delayed" else "AO"
        written["fp8_config"] = {"backend": backend, **({"fp8_format": "HYBRID", **algorithm} if algorithm else {})}
    if plan.compile:
        written["dynamo_config"] = {"dynamo_backend": "INDUCTOR", "dynamo_use_regional_compilation": True}
    return written


def fsdp_config(plan: Plan) -> dict[str, Any]:
    """Return the keys of ``fsdp_config`` for a plan that shards."""
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": whole(plan.zero_stage) == 3,
        "fsdp_offload_params": "parameters" in plan.offload,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_activation_checkpointing": plan.recompute == "full",
        "fsdp_cpu_ram_efficient_loading": plan.quantization == "none",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def _hybrid(scenario: Scenario) -> dict[str, Any]:
    """Groups of replicas, each of which shards all states."""
    shard, ranks = scenario.plan.data_parallel_shard, whole(scenario.plan.data_parallel)
    if shard is None or whole(shard) == ranks:
        return {}
    sizes = {"dp_replicate_size": ranks // whole(shard), "dp_shard_size": whole(shard), "tp_size": 1, "cp_size": 1}
    return {"parallelism_config": {f"parallelism_config_{name}": size for name, size in sizes.items()}}


def _command(scenario: Scenario) -> str:
    words = ["accelerate", "launch", "--config_file", CONFIGURATION]
    if scenario.cluster.nodes > 1:
        words += ["--machine_rank", "${NODE_RANK:-$SLURM_NODEID}", "--main_process_ip", "$MASTER_ADDR"]
        words += ["--main_process_port", "${MASTER_PORT:-29500}"]
    return command_line([*words, *script.script_words(scenario)], {"--settings": script.SETTINGS})


_NUMBERS: Final[Mapping[str, int]] = dict.fromkeys(
    (
        *("num_processes", "deepspeed_config.gradient_accumulation_steps"),
        *(f"parallelism_config.parallelism_config_dp_{name}_size" for name in ("replicate", "shard")),
    ),
    1,
)
"""Whole numbers of a configuration, and the least of each."""
_HYBRID: Final = "HYBRID"
"""How strategies begin that shard over some devices, which no key says."""
_CHOICES: Final = {
    "distributed_type": ("NO", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_XPU", "FSDP", "DEEPSPEED", "MEGATRON_LM"),
    "deepspeed_config.zero_stage": (0, 1, 2, 3),
    "mixed_precision": ("no", "fp16", "bf16", "fp8", False),
}
_SECTIONS: Final = (
    *("fsdp_config", "deepspeed_config", "megatron_lm_config", "parallelism_config", "dynamo_config", "fp8_config"),
)
READ: Final = (
    *(*_NUMBERS, *_CHOICES, *_SECTIONS, "distributed_type", "fp8_config.backend", "dynamo_config.dynamo_backend"),
    *(
        f"fsdp_config.fsdp_{key}"
        for key in ("reshard_after_forward", "sharding_strategy", "offload_params", "activation_checkpointing")
    ),
    *(
        f"deepspeed_config.{key}"
        for key in ("deepspeed_config_file", "offload_optimizer_device", "offload_param_device")
    ),
    *("megatron_lm_config.megatron_lm_use_distributed_optimizer", "megatron_lm_config.megatron_lm_tp_degree"),
    *("megatron_lm_config.megatron_lm_pp_degree", "megatron_lm_config.megatron_lm_sequence_parallelism"),
    "megatron_lm_config.megatron_lm_recompute_activations",
)
"""Keys that are read."""


_KINDS: Final = ("config-file", "use-fsdp", "use-deepspeed", "use-megatron-lm")
"""Options of ``accelerate launch`` that say how states are sharded."""


def claims(found: Source) -> bool:
    """Whether it is a configuration of accelerate, or a command that names one."""
    launches = found.words[:2] == ("accelerate", "launch") and {*_KINDS} & {*Options(found.words).names()}
    return bool(launches) or "distributed_type" in found.mapping


def read(found: Source) -> Reading:
    """Return what a configuration says as a scenario."""
    stated, trained = found.mapping, Script()
    if found.kind == "command":
        launcher, options = launcher_and_program(found.words)
        named = launcher.text("config-file")
        stated = named_settings(found, named, "accelerate's configuration") if named else {}
        stated = _with_options(stated, launcher)
        trained, own = of_script(found, options)
        each, count = own.samples_per_device, stated.get("num_processes")
        if each and isinstance(count, int) and stated.get("distributed_type") != "MEGATRON_LM":
            trained = replace(trained, workload={"global_batch": each * count, **trained.workload})
        return with_script(_read(found, stated, trained), own, launcher)
    return _read(found, stated, trained)


def _with_options(stated: Mapping[str, Any], launcher: Options) -> dict[str, Any]:
    """A configuration with what options of ``accelerate launch`` say instead, under the keys of its groups."""
    settings = dict(stated)
    for name in launcher.names():
        key = name.replace("-", "_")
        group = next((group for begin, group in _GROUPS.items() if key.startswith(begin)), "")
        if key in _TYPES and launcher.has(name):
            settings["distributed_type"] = _TYPES[key]
        elif group:
            value = plain(launcher.words(name))
            settings[group] = {**section(settings, group), _IN_GROUP.get(key, key): value}
        elif key in ("num_processes", "mixed_precision"):
            settings[key] = plain(launcher.words(name))
    return settings


_TYPES: Final = {
    "use_fsdp": "FSDP",
    "use_deepspeed": "DEEPSPEED",
    "use_megatron_lm": "MEGATRON_LM",
    "multi_gpu": "MULTI_GPU",
}
_GROUPS: Final = {
    **dict.fromkeys(("zero", "offload_", "deepspeed_", "gradient_"), "deepspeed_config"),
    "fsdp_": "fsdp_config",
    "megatron_lm_": "megatron_lm_config",
    "parallelism_config_": "parallelism_config",
    "dynamo_": "dynamo_config",
    "fp8_": "fp8_config",
}
"""Groups of a configuration by how the options of their keys begin."""
_IN_GROUP: Final = {"fp8_backend": "backend"}
"""Keys that are not called as their options."""


def _read(found: Source, stated: Mapping[str, Any], trained: Script) -> Reading:
    refuse_values(stated, numbers=_NUMBERS, choices=_CHOICES, sections=_SECTIONS, left_open=AUTO)
    count = stated.get("num_processes")
    match stated.get("distributed_type"):
        case "DEEPSPEED":
            return _by_deepspeed(found, stated, trained, count)
        case "MEGATRON_LM":
            return _reading(stated, trained, count, "megatron", _megatron(section(stated, "megatron_lm_config")))
    return _reading(stated, trained, count, "fsdp", _plan(stated))


def _by_deepspeed(found: Source, stated: Mapping[str, Any], trained: Script, devices: int | None) -> Reading:
    """DeepSpeed as accelerate starts it: by a file of its own, or by a few of its keys."""
    keys = section(stated, "deepspeed_config")
    if "deepspeed_config_file" in keys:
        own = named_settings(found, str(keys["deepspeed_config_file"]), "DeepSpeed's configuration")
        return _with_unread(deepspeed.reading_of(own, trained, devices), stated)
    zero: dict[str, Any] = {"stage": keys.get("zero_stage", 2)}
    for part, key in (("offload_optimizer", "offload_optimizer_device"), ("offload_param", "offload_param_device")):
        zero |= {part: {"device": keys[key]}} if key in keys else {}
    accumulated = {key: keys[key] for key in ("gradient_accumulation_steps",) if key in keys}
    stated_precision = stated.get("mixed_precision", "no")
    is_open = stated_precision == "no" and "dtype" in trained.plan
    precision = {name: {"enabled": "auto" if is_open else stated_precision == name} for name in ("bf16", "fp16")}
    reading = deepspeed.reading_of({"zero_optimization": zero, **precision, **accumulated}, trained, devices)
    return _with_unread(reading, stated)


def _reading(
    stated: Mapping[str, Any], trained: Script, devices: int | None, framework: str, plan: dict[str, Any]
) -> Reading:
    settings = trained.settings
    reduced = settings.get("gradient_reduce_dtype")
    of_script = {"gradient_reduce_dtype": {v: k for k, v in _REDUCED.items()}.get(reduced or "")}
    offloaded = list(plan.get("offload", ())) if plan.get("offload") != "none" else []
    if settings.get("offload_activations"):
        offloaded.append("activations")
    for key, off in (("dtype", "fp32"), ("recompute", "none"), ("compile", False)):
        # What accelerate leaves off, the script's own arguments may switch on.
        if plan.get(key) == off and key in trained.plan:
            plan[key] = trained.plan[key]
    if settings.get("recompute"):
        plan["recompute"] = "full"
    if settings.get("tf32"):
        plan["dtype"] = "tf32"
    kept = {"offload": offloaded or "none"} if framework == "fsdp" else {}
    scenario = {
        "model": trained.model,
        "workload": {"task": "finetune", **trained.workload},
        "plan": without_none({"framework": framework, **trained.plan, **plan, **kept, **of_script}),
    }
    reading = Reading(framework=framework, scenario=without_none(scenario), missing=missing_of(scenario, devices))
    return _with_unread(reading, stated)


def _with_unread(reading: Reading, stated: Mapping[str, Any]) -> Reading:
    given = {key: value for key, value in leaves(stated) if key not in READ or str(value).upper().startswith(_HYBRID)}
    return with_unread(reading, "accelerate", given, [*READ, *_SECTIONS], "accelerate's")


_REDUCED: Final = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def _plan(stated: Mapping[str, Any]) -> dict[str, Any]:
    fsdp = section(stated, "fsdp_config")
    precision = str(stated.get("mixed_precision", "no")).lower()
    shares = section(stated, "parallelism_config")
    shard = shares.get("parallelism_config_dp_shard_size")
    groups = shares.get("parallelism_config_dp_replicate_size", 1)
    plan: dict[str, Any] = {
        **sharding_of(fsdp),
        **({} if stated.get("distributed_type") == "FSDP" else {"zero_stage": 0}),
        "dtype": {"no": "fp32"}.get(precision, precision),
        "compile": str(section(stated, "dynamo_config").get("dynamo_backend", "NO")).upper() != "NO",
        "data_parallel_shard": shard if groups != 1 else None,
    }
    if precision == "fp8":
        plan["fp8_recipe"] = "delayed" if section(stated, "fp8_config").get("backend") == "TE" else "current"
    return plan


def sharding_of(fsdp: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan that the keys of ``fsdp_config`` say."""
    return {
        "zero_stage": _stage(fsdp),
        "offload": ["optimizer", "parameters"] if _is_true(fsdp.get("fsdp_offload_params")) else "none",
        "recompute": "full" if _is_true(fsdp.get("fsdp_activation_checkpointing")) else "none",
    }


def _stage(fsdp: Mapping[str, Any]) -> int:
    """ZeRO's stage of a sharding: by the strategy of version 1, or by whether weights are freed after the forward."""
    stated = fsdp.get("fsdp_reshard_after_forward", fsdp.get("fsdp_sharding_strategy", "FULL_SHARD"))
    words = {"1": "FULL_SHARD", "2": "SHARD_GRAD_OP", "3": "NO_SHARD", "5": "HYBRID_SHARD_ZERO2"}
    strategy = words.get(str(stated), str(stated).upper())
    return {"NO_SHARD": 0, "SHARD_GRAD_OP": 2, "FALSE": 2, "HYBRID_SHARD_ZERO2": 2}.get(strategy, 3)


def _is_true(stated: object) -> bool:
    return str(stated).lower() == "true"


def _megatron(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Degrees and techniques of Megatron-LM by accelerate's names."""
    sharded = _is_true(keys.get("megatron_lm_use_distributed_optimizer"))
    return {
        "tensor_parallel": keys.get("megatron_lm_tp_degree"),
        "pipeline_parallel": keys.get("megatron_lm_pp_degree"),
        "sequence_parallel": _is_true(keys.get("megatron_lm_sequence_parallelism")),
        "zero_stage": int(sharded),
        "recompute": "selective" if _is_true(keys.get("megatron_lm_recompute_activations")) else "none",
    }
