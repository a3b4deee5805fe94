"""A scenario as DeepSpeed's ``ds_config.json``, the script that trains with it and the command that starts it.

Keys and defaults are those of DeepSpeed 0.19 (deepspeed/runtime/config.py, zero/config.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from sightline.launching.launch import Launch, refuse
from sightline.launching.shell.writing import command_line
from sightline.launching.training import script_settings as script
from sightline.launching.training.ranks import on_every_node, per_node
from sightline.launching.training.rules import refusals
from sightline.launching.training.support import unwritten, whole, with_micro_batch
from sightline.scenario import Plan, Scenario

CONFIGURATION: Final = "ds_config.json"
WRITTEN: Final = script.WRITTEN | {
    *("zero_stage", "offload", "recompute", "overlap_gradient_reduce", "overlap_parameter_gather"),
    "gradient_reduce_dtype",
}
"""Fields of a plan that have keys, here or in the script's settings."""
OPTIMIZERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "adamw": ("AdamW", {}),
    "adamw-fused": ("AdamW", {"torch_adam": False}),
    "adamw-unfused": ("AdamW", {"torch_adam": True}),
    "muon": ("Muon", {}),
}
"""Type and parameters of DeepSpeed's own optimizers; others are the script's."""
_HELD_ELSEWHERE: Final = {"device": "cpu", "pin_memory": True}


def write(scenario: Scenario) -> Launch:
    """Return the launch of a scenario.

    Raises:
        InputError: DeepSpeed or the script does not offer something of the plan; a sentence each.
    """
    refuse(refusals(scenario))
    asked = with_micro_batch(scenario)
    ranks = asked.cluster.devices
    return Launch(
        framework="deepspeed",
        command=_command(asked),
        files={CONFIGURATION: script.json_text(configuration(asked)), **script.files_of(asked, "deepspeed", ranks)},
        without_counterpart=[
            *unwritten(asked.plan, WRITTEN, "DeepSpeed's configuration"),
            *script.supplied(asked, *([f"lr in {CONFIGURATION}"] if asked.plan.optimizer in OPTIMIZERS else [])),
            *_hosts(asked),
        ],
    )


def configuration(scenario: Scenario) -> dict[str, Any]:
    """Return the engine's configuration."""
    plan, work = scenario.plan, scenario.workload
    moved = {2: "bf16" if plan.dtype == "bf16" else "fp16"}.get(_moved_bytes(plan), "fp32")
    written: dict[str, Any] = {
        "train_batch_size": work.global_batch,
        "train_micro_batch_size_per_gpu": whole(plan.sequences),
        "gradient_accumulation_steps": script.accumulation(scenario),
        "gradient_clipping": 1.0,
        "bf16": {"enabled": plan.dtype == "bf16"},
        "fp16": {"enabled": plan.dtype == "fp16"},
        "communication_data_type": moved,
        "zero_optimization": _zero(plan),
        "steps_per_print": 10,
    }
    if plan.optimizer in OPTIMIZERS:
        kind, options = OPTIMIZERS[plan.optimizer]
        written["optimizer"] = {"type": kind, "params": {"lr": 1e-4, "weight_decay": 0.1, **options}}
    else:
        written |= {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    if plan.recompute == "full":
        held = "activations" in plan.offload
        written["activation_checkpointing"] = {"partition_activations": False, "cpu_checkpointing": held}
    return written


def _moved_bytes(plan: Plan) -> int:
    return int(plan.framework.sharding.gradient_reduce_bytes[plan.dtype])


def _zero(plan: Plan) -> dict[str, Any]:
    overlap = plan.framework.overlap
    written: dict[str, Any] = {
        "stage": whole(plan.zero_stage),
        "overlap_comm": overlap.gradients,
        "contiguous_gradients": True,
    }
    if plan.zero_stage == 3 and not overlap.parameters:
        written["stage3_prefetch_bucket_size"] = 0
    if "optimizer" in plan.offload:
        written["offload_optimizer"] = _HELD_ELSEWHERE
    if "parameters" in plan.offload:
        written["offload_param"] = _HELD_ELSEWHERE
    return written


def _command(scenario: Scenario) -> str:
    cluster = scenario.cluster
    words = ["deepspeed", "--num_gpus", str(per_node(cluster))]
    if cluster.nodes > 1:
        together = ("--no_ssh", "--node_rank", "${NODE_RANK:-$SLURM_NODEID}", "--master_addr", "$MASTER_ADDR")
        words += ["--num_nodes", str(cluster.nodes), *together, "--master_port", "${MASTER_PORT:-29500}"]
        words += ["--hostfile", "hostfile"]
    arguments = {"--deepspeed_config": CONFIGURATION, "--settings": script.SETTINGS}
    return command_line([*words, *script.script_words(scenario)], arguments)


def _hosts(scenario: Scenario) -> list[str]:
    cluster = scenario.cluster
    if cluster.nodes == 1:
        return []
    listed = f"hostfile lists the {cluster.nodes} nodes, a line '<name> slots={per_node(cluster)}' each"
    return [listed, *on_every_node(cluster)]
