"""Share among training frameworks: how processes start on every device, what stays unwritten, and what is missing."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import PurePath
from typing import Any, Final

from sightline.errors import refuse
from sightline.frameworks.choices import CHOICES, choices_of
from sightline.launching.options import Options
from sightline.quantities import show
from sightline.scenario import Cluster, Plan, Scenario
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import broken_rules
from sightline.scenario.rules.techniques import interleaving_needs

MODEL = "a name of the catalog, a path or a mapping"


def missing_of(
    scenario: Mapping[str, Any], devices: int | None, *, model: str = "", batch: str = "samples per optimizer step"
) -> dict[str, str]:
    """Return the keys that a scenario needs and does not state, and what belongs there.

    Args:
        scenario: As far as it was read.
        devices: How many processes are started, where that is known.
        model: Why the model is not known.
        batch: What the whole batch is.
    """
    counted = "" if devices is None else f"{devices}x "
    missing = {} if scenario.get("model") else {"model": f"{MODEL}{model and '; '}{model}"}
    missing["cluster"] = f"'{counted}<device>', such as {counted or '8x '}h100-sxm-80gb"
    for key, what in (("sequence_length", "tokens per sample"), ("global_batch", batch)):
        if key not in scenario["workload"]:
            missing[f"workload.{key}"] = what
    return missing


TRIAL: Final = "${STEPS:-50}"
"""Steps of a run whose length is not stated."""
_EVERY_NODE: Final = {
    "--node-rank": "${NODE_RANK:-$SLURM_NODEID}",
    "--master-addr": "$MASTER_ADDR",
    "--master-port": "${MASTER_PORT:-29500}",
}

_LAUNCHERS: Final = ("launch.py", "run.py")
"""Scripts that start others."""
_STARTING_MODULES: Final = ("torch.", "accelerate.", "deepspeed.launcher")
"""How modules begin that start others."""
_TOOLS: Final = ("swift", "megatron", "llamafactory-cli", "lmf", "axolotl")
"""Commands that train by themselves."""
ALL: Final = "-1"
"""What DeepSpeed's launcher takes for all devices of a node, or all nodes."""
PROCESSES_LEFT_OPEN: Final = "auto|gpu|cpu|xpu"
"""What torchrun takes instead of a number of processes on each node."""


def per_node(cluster: Cluster) -> int:
    """Return the devices that each node gives."""
    return cluster.devices // cluster.nodes


def torchrun(cluster: Cluster, *program: str) -> list[str]:
    """Return the words that start a program on every device of a node; on several nodes each runs them."""
    words = ["torchrun", "--nproc-per-node", str(per_node(cluster))]
    if cluster.nodes == 1:
        return [*words, "--standalone", *program]
    together = [word for option in _EVERY_NODE.items() for word in option]
    return [*words, "--nnodes", str(cluster.nodes), *together, *program]


def on_every_node(cluster: Cluster) -> list[str]:
    """Return how several nodes are started together, in a sentence; none for one node."""
    if cluster.nodes == 1:
        return []
    names = "MASTER_ADDR set to the first one's name and NODE_RANK to 0, 1, ..."
    slurm = "Slurm's 'srun --ntasks-per-node 1 bash launch.sh' sets the rank"
    return [f"launch.sh runs on each of the {cluster.nodes} nodes, with {names}; {slurm}"]


def launcher_and_program(words: Sequence[str]) -> tuple[Options, Options]:
    """Return the options of what starts the processes and those of the script that they run.

    Both are the options of the whole command where it names no script: then a file of Python is an option's value.
    """
    at = next((at for at, word in enumerate(words) if _is_program(word, words[at - 1] if at else "")), None)
    at = None if words and PurePath(words[0]).name in _TOOLS else at
    return (Options(words), Options(words)) if at is None else (Options(words[:at]), Options(words[at + 1 :]))


def _is_program(word: str, before: str) -> bool:
    """Whether a word is a script, or a module behind ``-m``, that is no launcher."""
    if before in ("-m", "--module"):
        return not word.startswith(_STARTING_MODULES)
    return word.endswith(".py") and PurePath(word).name not in _LAUNCHERS


_CHOSEN: Final = re.compile(r"[\w.-]+:(\d+(?:,\d+)*)")
"""Devices of one node that DeepSpeed's launcher is told."""


def devices_of(launcher: Options) -> int | None:
    """Return how many processes are started in all; None where the command does not say.

    The options are those of torchrun, DeepSpeed's and accelerate's launchers and Slurm's srun.
    """
    if in_all := launcher.number("num-processes"):
        return in_all
    each = launcher.number("nproc-per-node", left_open=PROCESSES_LEFT_OPEN)
    each = each or launcher.number("num-gpus", left_open=ALL) or launcher.number("ntasks-per-node")
    if (chosen := _CHOSEN.fullmatch(launcher.text("include") or launcher.text("i"))) and not each:
        return chosen[1].count(",") + 1
    counts = ("nnodes", "num-nodes", "nodes", "N")
    stated = [name for name in counts if launcher.has(name)]
    # Nodes that may join later, such as 1:4, are no number.
    known = (launcher.number(name, left_open=rf"\d+[:-]\d+|{ALL}") for name in stated)
    nodes = next(filter(None, known), None) if stated else 1
    if each and nodes:
        launcher.unknown.clear()
    return each * nodes if each and nodes else None


_ALWAYS_WRITTEN = ("framework", "data_parallel", "launch_blocking")
"""Fields that the script itself states: what it runs, on how many devices, with which variables."""


def with_micro_batch(scenario: Scenario) -> Scenario:
    """Return a scenario whose micro-batch is known: the fastest that fits where its plan leaves it open.

    Raises:
        InputError: The framework does not interleave as many micro-batches as that makes.
    """
    if scenario.plan.micro_batch is not None:
        return scenario
    # Imported here because a plan that states its micro-batch needs no prediction.
    from sightline.prediction import predict

    answered = predict(scenario).scenario
    if not isinstance(answered, Scenario):
        raise TypeError("a step of training is answered with its scenario")
    known = replace(scenario, plan=replace(scenario.plan, micro_batch=answered.plan.micro_batch))
    refuse(list(broken_rules((interleaving_needs,), facts_of(known))))
    return known


def unwritten(plan: Plan, written: Container[str], what: str) -> Iterator[str]:
    """Yield a sentence for each field that differs from the framework's default and is not among those ``written``.

    ``what`` names the framework or its program.
    """
    plain = plan.framework.plain or plan.framework
    own, stated = choices_of(plain, plan.dtype), choices_of(plan.framework, plan.dtype)
    for field in fields(Plan):
        name = field.name
        if name in written or name in _ALWAYS_WRITTEN:
            continue
        if name in CHOICES and name != "attention_kernel":
            value, default = stated.get(name), own.get(name)
        else:
            value, default = getattr(plan, name), _default(plan, name, field.default)
        if value != default:
            yield f"plan.{name} is {shown(value)}: {what} has no argument for it"


def whole(number: Any) -> int:
    """Return a count as the whole number it is."""
    return int(number)


def _default(plan: Plan, name: str, default: object) -> object:
    if name == "tensor_overlap":
        return plan.framework.tensor_overlap(plan.sequence_parallel)
    return plan.framework.defaults.get(name, None if default is MISSING else default)


def shown(value: object) -> str:
    """Return a value in words, without quotes."""
    return ", ".join(sorted(value)) if isinstance(value, frozenset) else show(value).strip("'")
