"""Write a scenario as DeepSpeed's ``ds_config.json`` with the script and command that train with it, and read one back.

Keys and defaults are those of DeepSpeed 0.19 (deepspeed/runtime/config.py, zero/config.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from sightline.errors import refuse
from sightline.launching.launch import BLOCKING, Launch, Reading
from sightline.launching.options import AUTO, Options, refuse_values, without_none
from sightline.launching.readers import leaves, with_unread
from sightline.launching.shell import command_line
from sightline.launching.source import Source, named_settings
from sightline.launching.training import script
from sightline.launching.training.rules import refusals
from sightline.launching.training.script import Script
from sightline.launching.training.shared import (
    devices_of,
    launcher_and_program,
    missing_of,
    on_every_node,
    per_node,
    unwritten,
    whole,
    with_micro_batch,
)
from sightline.launching.training.transformers import of_script, with_script
from sightline.program.techniques.tensor_parallel import SHARDS_WEIGHTS
from sightline.quantities import show
from sightline.scenario import Plan, Scenario

CONFIGURATION: Final = "ds_config.json"
HOSTS: Final = "hostfile"
"""Name of the file that lists the nodes, where there are several."""
WRITTEN: Final = script.WRITTEN | {
    *("zero_stage", "offload", "recompute", "overlap_gradient_reduce", "overlap_parameter_gather"),
    "gradient_reduce_dtype",
}
"""Fields of a plan that have keys, here or in the script's settings."""
OPTIMIZERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "adamw": ("AdamW", {}),
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
    ranks, nodes = asked.cluster.devices, asked.cluster.nodes
    lines = [f"node-{node} slots={per_node(asked.cluster)}\n" for node in range(nodes)]
    hosts = {HOSTS: "".join(lines)} if nodes > 1 else {}
    # The launcher hands other nodes the variables of this file alone.
    hosts |= {".deepspeed_env": f"{BLOCKING}=1\n"} if nodes > 1 and asked.plan.launch_blocking else {}
    own = {CONFIGURATION: script.json_text(configuration(asked)), **hosts}
    return Launch(
        framework="deepspeed",
        command=_command(asked),
        files={**own, **script.files_of(asked, "deepspeed", ranks)},
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
    return written | {key: _HELD_ELSEWHERE for key, (part, _) in _OFFLOADED.items() if part in plan.offload}


def _command(scenario: Scenario) -> str:
    cluster = scenario.cluster
    words = ["deepspeed", "--num_gpus", str(per_node(cluster))]
    if cluster.nodes > 1:
        together = ("--no_ssh", "--node_rank", "${NODE_RANK:-$SLURM_NODEID}", "--master_addr", "$MASTER_ADDR")
        words += ["--num_nodes", str(cluster.nodes), *together, "--master_port", "${MASTER_PORT:-29500}"]
        words += ["--hostfile", HOSTS]
    arguments = {"--deepspeed_config": CONFIGURATION, "--settings": script.SETTINGS}
    return command_line([*words, *script.script_words(scenario)], arguments)


def _hosts(scenario: Scenario) -> list[str]:
    cluster = scenario.cluster
    if cluster.nodes == 1:
        return []
    names = "replace its names by those of yours, in the order of NODE_RANK"
    return [f"{HOSTS} lists the {cluster.nodes} nodes: {names}", *on_every_node(cluster)]


_NUMBERS: Final[Mapping[str, int]] = dict.fromkeys(
    ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), 1
)
"""Whole numbers of a configuration, and the least of each."""
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "zero_optimization.stage": (0, 1, 2, 3),
    "zero_optimization.overlap_comm": (True, False),
    **{f"zero_optimization.offload_{part}.device": ("none", "cpu", "nvme") for part in ("optimizer", "param")},
    "communication_data_type": ("fp32", "bf16", "fp16"),
    "bf16.enabled": (True, False),
    "fp16.enabled": (True, False),
}
_SECTIONS: Final = ("zero_optimization", "bf16", "fp16", "optimizer", "activation_checkpointing")
READ: Final = (
    *(*_NUMBERS, *_CHOICES, *_SECTIONS, "sequence_parallel_size", "optimizer.type", "optimizer.params.torch_adam"),
    *("activation_checkpointing.cpu_checkpointing", "zero_optimization.cpu_offload"),
    *("zero_optimization.cpu_offload_param", "zero_optimization.offload_optimizer.ratio"),
    "zero_optimization.offload_param.ratio",
)
"""Keys that are read."""


def claims(found: Source) -> bool:
    """Whether it is a configuration of DeepSpeed, or a command that names one."""
    options = Options(found.words)
    launches = found.kind == "command" and bool(options.words("deepspeed-config") or options.words("deepspeed"))
    keys = {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}
    return launches or bool(keys & found.mapping.keys())


def read(found: Source) -> Reading:
    """Return what a configuration says as a scenario."""
    devices: int | None = None
    trained = Script()
    stated, unknown, own = found.mapping, list[str](), None
    if found.kind == "command":
        launcher, options = launcher_and_program(found.words)
        named = options.text("deepspeed-config") or options.text("deepspeed")
        stated = named_settings(found, named, "DeepSpeed's configuration")
        trained, own = of_script(found, options)
        devices = devices_of(launcher)
        unknown = [*launcher.unknown.values(), *options.unknown.values()]
        refuse([*launcher.problems, *options.problems])
    reading = reading_of(stated, trained, devices)
    reading = replace(reading, without_counterpart=[*reading.without_counterpart, *unknown])
    return reading if own is None else with_script(reading, own, launcher)


def reading_of(stated: Mapping[str, Any], trained: Script, devices: int | None) -> Reading:
    """Return what a configuration says on so many devices, with what the script's own files say.

    Raises:
        InputError: Values that DeepSpeed does not take; a sentence each.
    """
    refuse_values(stated, numbers=_NUMBERS, choices=_CHOICES, sections=_SECTIONS, left_open=AUTO)
    refuse([*_contradictions(stated), *_uneven_batch(stated, devices), *_foreign_optimizer(stated)])
    devices = devices or _implied_devices(stated)
    batch = {"global_batch": _batch(stated, devices)}
    workload = {"task": "pretrain", **trained.workload, **without_none(batch)}
    plan = {"framework": "deepspeed", **trained.plan, **plan_of(stated)}
    scenario = without_none({"model": trained.model, "workload": workload, "plan": plan})
    given = {key: value for key, value in leaves(stated) if key not in READ}
    reading = Reading(
        framework="deepspeed",
        scenario=scenario,
        missing=missing_of(scenario, devices),
        samples_per_device=_of_each(stated),
        without_counterpart=[*_read_otherwise(section(stated, "zero_optimization")), *_recomputed(stated)],
    )
    return with_unread(reading, "deepspeed", given, [*READ, *_SECTIONS], "DeepSpeed's")


def section(stated: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping under a key; an empty one where there is none."""
    value = stated.get(key)
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int | None:
    """A number that is stated; "auto" leaves it to whoever starts the engine."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _contradictions(stated: Mapping[str, Any]) -> Iterator[str]:
    """What DeepSpeed itself refuses."""
    if all(section(stated, name).get("enabled") is True for name in ("fp16", "bf16")):
        yield "fp16.enabled and bf16.enabled are both true; DeepSpeed allows one of them"
    zero = section(stated, "zero_optimization")
    for key in _OFFLOADED:
        share = section(zero, key).get("ratio", 1)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            yield f"zero_optimization.{key}.ratio is {show(share)}; allowed: a number from 0 to 1"
        elif share < 1 and zero.get("stage", 0) in range(SHARDS_WEIGHTS):
            yield f"zero_optimization.{key}.ratio is {show(share)}; DeepSpeed offloads a part at stage 3 alone"


def _uneven_batch(stated: Mapping[str, Any], devices: int | None) -> Iterator[str]:
    """The three batch sizes, of which DeepSpeed holds the first to the product of the others and the ranks."""
    whole_batch, micro, accumulated = _batch_sizes(stated)
    if whole_batch is None or micro is None or accumulated is None:
        return
    rank = micro * accumulated
    each = f"train_micro_batch_size_per_gpu {micro} x gradient_accumulation_steps {accumulated}"
    if devices and whole_batch != rank * devices and "sequence_parallel_size" not in stated:
        yield f"train_batch_size is {whole_batch}; allowed: {each} x {devices} devices = {rank * devices}"
    elif whole_batch % rank:
        yield f"train_batch_size is {whole_batch}; allowed: a multiple of {each}"


def _implied_devices(stated: Mapping[str, Any]) -> int | None:
    """The ranks by which all three batch sizes agree."""
    whole_batch, micro, accumulated = _batch_sizes(stated)
    if whole_batch is None or micro is None or accumulated is None or "sequence_parallel_size" in stated:
        return None
    return whole_batch // (micro * accumulated)


def _batch_sizes(stated: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Samples of a step, those of a micro-batch on each rank, and micro-batches of a step."""
    whole_batch, micro, accumulated = (_count(stated.get(key)) for key in _NUMBERS)
    return whole_batch, micro, accumulated


def _batch(stated: Mapping[str, Any], devices: int | None) -> int | None:
    whole_batch, each = _count(stated.get("train_batch_size")), _of_each(stated)
    return each * devices if devices and each else whole_batch


def _of_each(stated: Mapping[str, Any]) -> int | None:
    """Samples of a step that each rank processes; None where the whole batch is stated, or ranks share samples."""
    whole_batch, micro, accumulated = _batch_sizes(stated)
    is_open = whole_batch is None and "sequence_parallel_size" not in stated
    return micro * (accumulated or 1) if is_open and micro else None


def _read_otherwise(zero: Mapping[str, Any]) -> Iterator[str]:
    """Offloading that a scenario cannot state, and what it is read as."""
    for key, (part, least) in _OFFLOADED.items():
        stated, name = section(zero, key), f"zero_optimization.{key}"
        if stated.get("device", "none") == "none":
            continue
        if zero.get("stage", 0) in range(least):
            yield f"{name} is left out: DeepSpeed offloads {part} from zero_optimization.stage {least} on"
        elif stated["device"] == "nvme":
            yield f"{name}.device is nvme, which is not predicted: read as the host's memory"
        if stated.get("ratio", 1) != 1:
            yield f"{name}.ratio is {show(stated['ratio'])}, which is not predicted: read as 1"


def _recomputed(stated: Mapping[str, Any]) -> Iterator[str]:
    """What DeepSpeed's recomputation is read as, which a script has to call."""
    if own := {*section(stated, "activation_checkpointing")} - {"partition_activations", "cpu_checkpointing"}:
        yield f"activation_checkpointing has {min(own)}: read as recomputation of all layers, if the script calls it"


def plan_of(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a configuration, by a scenario's keys."""
    zero = section(stated, "zero_optimization")
    stage = zero.get("stage", 0)
    formats = [name for name in ("bf16", "fp16") if section(stated, name).get("enabled") is True]
    moved = stated.get("communication_data_type")
    overlaps = zero.get("overlap_comm")
    offloaded = [part for key, (part, least) in _OFFLOADED.items() if _is_offloaded(zero, key, least)]
    recomputes = section(stated, "activation_checkpointing")
    if recomputes.get("cpu_checkpointing"):
        offloaded.append("activations")
    return without_none(
        {
            "zero_stage": stage if stage in (0, 1, 2, 3) else None,
            "dtype": formats[0] if formats else None if _is_auto(stated) else "fp32",
            "micro_batch": _count(stated.get("train_micro_batch_size_per_gpu")),
            "gradient_reduce_dtype": moved if moved in ("fp32", "bf16", "fp16") else None,
            "overlap_gradient_reduce": overlaps if isinstance(overlaps, bool) else None,
            "overlap_parameter_gather": False if zero.get("stage3_prefetch_bucket_size") == 0 else None,
            "offload": offloaded or "none",
            "recompute": "full" if recomputes else None,
            "optimizer": _optimizer(section(stated, "optimizer")),
        }
    )


_HOSTS: Final = ("cpu", "nvme")
"""Where parts may be offloaded to."""
_OFFLOADED: Final = {"offload_optimizer": ("optimizer", 1), "offload_param": ("parameters", SHARDS_WEIGHTS)}
"""What each key offloads, and from which stage on."""


def _is_offloaded(zero: Mapping[str, Any], key: str, least: int) -> bool:
    """Whether a part is offloaded; NVMe counts as the host, which feeds it."""
    if zero.get("stage", 0) in range(least):
        return False
    stated = section(zero, key)
    return stated.get("device", "none") in _HOSTS or zero.get(f"cpu_{key.removesuffix('_optimizer')}") is True


def _is_auto(stated: Mapping[str, Any]) -> bool:
    return any(section(stated, name).get("enabled") == "auto" for name in ("bf16", "fp16"))


def _optimizer(stated: Mapping[str, Any]) -> str | None:
    kind = str(stated.get("type", "")).lower()
    options = stated.get("params")
    unfused = isinstance(options, Mapping) and options.get("torch_adam") is True
    return {"adam": "adamw", "adamw": "adamw-unfused" if unfused else "adamw", "muon": "muon"}.get(kind)


def _foreign_optimizer(stated: Mapping[str, Any]) -> Iterator[str]:
    """An optimizer that is stated, but not predicted."""
    own = section(stated, "optimizer")
    if "type" in own and own["type"] not in AUTO and _optimizer(own) is None:
        yield f"optimizer.type is {show(own['type'])}, which is not predicted; read: Adam, AdamW, Muon"
