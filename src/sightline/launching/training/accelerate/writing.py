"""A scenario as accelerate's YAML for FSDP, the script that trains with it and the command that starts it.

Keys are those of accelerate 1.15 (accelerate/commands/config, utils/dataclasses.py); version 2 of its FSDP is PyTorch's
``fully_shard``.
"""

from typing import Any, Final

import yaml

from sightline.launching.launch import Launch, refuse
from sightline.launching.shell.writing import command_line
from sightline.launching.training import script_settings as script
from sightline.launching.training.ranks import on_every_node
from sightline.launching.training.rules import refusals
from sightline.launching.training.support import unwritten, whole, with_micro_batch
from sightline.scenario import Plan, Scenario

CONFIGURATION: Final = "accelerate.yaml"
WRITTEN: Final = script.WRITTEN | {
    *(
        "zero_stage",
        "offload",
        "recompute",
        "data_parallel_shard",
        "gradient_reduce_dtype",
        "state_dtype",
        "fp8_recipe",
    ),
    *("overlap_gradient_reduce", "overlap_parameter_gather"),
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
        written["fsdp_config"] = _fsdp(plan)
        written |= _hybrid(scenario)
    if plan.dtype == "fp8":
        algorithm = {"amax_compute_algo": "max", "amax_history_len": 1024} if plan.fp8_recipe == "delayed" else {}
        backend = "TE" if plan.fp8_recipe == "delayed" else "AO"
        written["fp8_config"] = {"backend": backend, **({"fp8_format": "HYBRID", **algorithm} if algorithm else {})}
    if plan.compile:
        written["dynamo_config"] = {"dynamo_backend": "INDUCTOR", "dynamo_use_regional_compilation": True}
    return written


def _fsdp(plan: Plan) -> dict[str, Any]:
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
