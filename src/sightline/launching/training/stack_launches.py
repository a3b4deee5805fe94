"""Write a scenario as the file of a tool built on other frameworks, by the same ``stacks.yaml``.

What is written is read back: where a plan comes back as another one, the tool has no key for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import yaml

from sightline.errors import InputError, nearest, refuse
from sightline.frameworks.choices import choices_of
from sightline.launching.hugging_face import repository_of
from sightline.launching.launch import Launch
from sightline.launching.source import Source
from sightline.launching.training import accelerate, deepspeed, script
from sightline.launching.training.rules import OF_PRETRAIN_GPT, SCRIPTED, refusals
from sightline.launching.training.shared import on_every_node, per_node, shown, whole, with_micro_batch
from sightline.launching.training.stack_dialects import SPELLED, sizes_of
from sightline.launching.training.stacks import Stack, reading_of, shortest, stacks, values_of
from sightline.loading import scenario_from_mapping
from sightline.loading.checks import stated_at
from sightline.loading.written import to_mapping
from sightline.quantities import show
from sightline.scenario import Model, Scenario
from sightline.scenario.precision import LOW_PRECISION
from sightline.scenario.techniques import ALL_LINEAR, MODULE_NAMES
from sightline.scenario.training import Pretrain

FILE: Final = "train.yaml"
SHARDED: Final = {"deepspeed": "ds_config.json", "fsdp": "fsdp.json"}
"""Files beside it, by framework."""
_OWN: Final = ("optimizer", "activation_checkpointing")
"""Keys of DeepSpeed's configuration that these tools say themselves."""
_IDLE: Final = {"plan.expert_capacity": 0, "plan.prediction_layers": 0}
_COUNTS: Final = ("_parallel", "virtual_stages", *_IDLE)
"""Keys that are left out where they change nothing: degrees of 1, and what ``_IDLE`` has."""
_OF_DATA: Final = ("total_tokens", "lengths", "packing")


def check_tool(tool: str) -> Stack:
    """Return the tool of a name.

    Raises:
        InputError: There is none.
    """
    named = {stack.name.lower(): stack for stack in stacks() if stack.start}
    if tool.lower() not in named:
        raise InputError(
            f"no launch is written for {show(tool)}{nearest(tool, list(named))}; allowed: {', '.join(named)}"
        )
    return named[tool.lower()]


def write(scenario: Any, tool: str | None = None) -> Launch:
    """Return the launch of a scenario with a tool; by default the one that its framework is.

    Raises:
        InputError: There is no such tool, or it has no key for something of the scenario; a sentence each.
    """
    if not isinstance(scenario, Scenario):
        raise InputError(f"{tool} trains; workload.task is {scenario.workload.task}")
    framework = scenario.plan.framework.name
    stack = check_tool(tool or framework)
    if framework not in (allowed := SCRIPTED if stack.framework == "transformers" else (stack.framework,)):
        raise InputError(f"plan.framework is {framework}; {stack.name} has {', '.join(allowed)}")
    refuse(refusals(scenario, () if stack.framework in (*SCRIPTED, stack.name.lower()) else OF_PRETRAIN_GPT))
    asked = with_micro_batch(scenario)
    stated, files = _settings(stack, asked, _wanted(stack, asked))
    refuse(list(_lost(stack, asked, {**stated, **files})))
    nodes, recipe = asked.cluster.nodes, stated.get("recipe", "")
    own = (name for name, keys in stack.by_command.items() if any(stated.get(key) for key in keys))
    command = next(own, stack.commands.partition(",")[0])
    places = {"each": per_node(asked.cluster), "nodes": nodes, "command": command, "recipe": recipe}
    starts = {
        "several": stack.several.format(**places) if nodes > 1 else "",
        "ranks": "" if recipe.endswith("_single_device") else f"--nproc_per_node={places['each']} ",
        "trial": stack.trial if asked.workload.steps is None else "",
        "weights": stack.weights if asked.workload.task == "finetune" else "",
    }
    texts = {SHARDED[name]: script.json_text(settings) for name, settings in files.items()}
    own_keys = {key: value for key, value in stated.items() if key not in stack.unwritten.split()}
    whole_file = stack.nested({**own_keys, **{key: SHARDED[key] for key in files}})
    skew, lengths = asked.plan.expert_skew, asked.workload.lengths
    return Launch(
        framework=stack.name if tool else framework,
        command=stack.start.format(**places, **starts),
        files={FILE: yaml.safe_dump(whole_file, sort_keys=False), **texts},
        without_counterpart=[
            f"the data set and the learning rate in {FILE} are examples",
            *(["WEIGHTS in the environment is the folder of the checkpoint"] if "WEIGHTS" in stack.start else []),
            *([f"plan.expert_skew is {skew:g}: {stack.name} has no argument for it"] if skew else []),
            *(["workload.lengths: those of the data set count"] if lengths is not None else []),
            *on_every_node(asked.cluster),
        ],
    )


def has_model(tool: str, model: Model, task: str) -> bool:
    """Return whether a tool has a name, or sizes, for a model; a repository too where it tunes that."""
    stack, name = check_tool(tool), script.named_model(model)
    if task == "finetune":
        return name in stack.written and bool(repository_of(name or ""))
    return name in stack.written or bool(sizes_of(stack.name, model))


def _model(stack: Stack, scenario: Scenario) -> str | None:
    """The repository of the scenario's model; None where the tool has a name or sizes for it."""
    if stack.written:
        return None
    repository = repository_of(script.named_model(scenario.model) or "")
    if not repository:
        raise InputError(
            f"model is {scenario.model.name}: {stack.name} loads a repository; the catalog knows none of it"
        )
    return repository


def _wanted(stack: Stack, scenario: Scenario) -> dict[str, Any]:
    """The scenario's values by dotted key, and what ``stacks.yaml`` has keys of its own for."""
    mapping = _comparable(scenario)
    offload, adapter = mapping["plan"]["offload"], mapping["plan"]["adapter"]
    adapter = {"kind": "none"} if adapter == "none" else {key: shortest(value) for key, value in adapter.items()}
    recompute = mapping["plan"]["recompute"]
    recompute = recompute["modules"] if isinstance(recompute, Mapping) and [*recompute] == ["modules"] else recompute
    offloads = offload if isinstance(offload, list) else [offload]
    plan = {**mapping["plan"], "recompute": recompute, "offload": offloads, "adapter": adapter}
    steps = scenario.workload.steps
    return {
        **mapping,
        "plan": plan,
        "model": _model(stack, scenario),
        "accumulation": script.accumulation(scenario),
        "steps": None if steps is None else whole(steps),
        "rows": _rows(scenario.workload),
    }


def _rows(workload: Pretrain) -> str | None:
    """How samples fill rows, where the tools pack them; they never pack pairs."""
    if workload.packing or workload.preference != "none":
        return "packed" if workload.packing else None
    return "full" if workload.lengths is None else None


def _comparable(scenario: Scenario) -> dict[str, Any]:
    """A scenario's keys without those that no tool says or that do nothing; an adapter of 4 bits is always qlora."""
    mapping = to_mapping(scenario)
    plan, work = mapping["plan"], mapping["workload"]
    if isinstance(plan["adapter"], Mapping):
        four_bits = {"kind": "qlora"} if plan["quantization"].startswith("nf4") else {}
        plan["adapter"] = {**plan["adapter"], **four_bits, "upcast": scenario.plan.upcasts}
    # What is not named is the framework's own, of kernels where all devices have the same.
    kernels = scenario.plan.framework.attention_kernels
    plan = {**({"attention_kernel": kernels["default"]} if {*kernels} == {"default"} else {}), **plan}
    own = choices_of(scenario.plan.framework, scenario.plan.dtype)
    plan |= {name: value for name, value in own.items() if name != "attention_kernel"}
    left = {"expert_skew", "replicas", "launch_blocking"}
    left |= {"context_exchange"} if plan["context_parallel"] == 1 else set()
    left |= {"sequence_parallel", "tensor_overlap"} if plan["tensor_parallel"] == 1 else set()
    left |= {key for key in plan if key.startswith("fp8")} if plan["dtype"] not in LOW_PRECISION else set()
    left |= {"data_parallel_shard"} if plan.get("data_parallel_shard") == plan["data_parallel"] else set()
    left |= {"attention_kernel"} if plan["attention"] == "eager" else set()
    kept = {key: value for key, value in plan.items() if key not in left}
    return {**mapping, "plan": kept, "workload": {key: value for key, value in work.items() if key not in _OF_DATA}}


def _settings(stack: Stack, scenario: Scenario, wanted: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys of the tool, and those of the files beside it by framework."""
    framework = scenario.plan.framework.name
    stated: dict[str, Any] = {**stack.always, **stack.written.get(scenario.model.name, {})}
    has_adapter = stated_at(wanted, "plan.adapter.kind") != "none"
    for ours, keys in stack.read.items():
        value = _names(stack, ours, stated_at(wanted, ours))
        if value not in (None, []) and (has_adapter or not ours.startswith("plan.adapter")):
            stated[keys.split()[0]] = value
    idle = {keys.split()[0]: _IDLE.get(ours, 1) for ours, keys in stack.read.items() if ours.endswith(_COUNTS)}
    stated = {key: value for key, value in stated.items() if key not in idle or value != idle[key]}
    for ours, words in stack.words.items():
        word = next((its for its, own in words["values"].items() if own == stated_at(wanted, ours)), None)
        stated |= {words["key"]: word} if word is not None else {}
    for key, further in stack.beside.items():
        stated |= further.get(stated.get(key), {})
    for rule in stack.when:
        meant = {**stack.defaults, **stated, "framework": framework}
        if rule["if"].get("framework", framework) != framework:
            continue
        if all(stated_at(wanted, ours) == value for ours, value in rule["then"].items()):
            told = dict(values_of(stack, meant))
            is_said = all(told.get(ours) == value for ours, value in rule["then"].items())
            stated |= {} if is_said else {key: value for key, value in rule["if"].items() if key != "framework"}
    files: dict[str, Any] = {}
    if framework == "deepspeed":
        settings = deepspeed.configuration(scenario)
        files["deepspeed"] = {key: value for key, value in settings.items() if key not in _OWN}
    elif framework == "fsdp" and scenario.plan.zero_stage > 0:
        sharded = accelerate.fsdp_config(scenario.plan) | {"fsdp_activation_checkpointing": False}
        plain = {key.removeprefix("fsdp_"): value for key, value in sharded.items() if key != "fsdp_version"}
        own = {**stack.fsdp.get("fsdp_config", {}), **plain}
        is_file = stack.fsdp.get("fsdp") == SHARDED["fsdp"]
        stated |= {} if is_file else {**stack.fsdp, "fsdp_config": own}
        files |= {"fsdp": {"fsdp": "full_shard auto_wrap", "fsdp_config": own}} if is_file else {}
    stated = {key: value for key, value in stated.items() if value != "none" or key in stack.defaults}
    stated = {key: value for key, value in stated.items() if (value, stack.defaults.get(key)) != ("none", "none")}
    return SPELLED[stack.name](stated, scenario) if stack.name in SPELLED else stated, files


def _names(stack: Stack, ours: str, value: Any) -> Any:
    """Projections and whole modules as checkpoints call them."""
    if ours == "plan.adapter.targets" and value == ALL_LINEAR:
        return stack.all_linear or None
    if ours not in ("plan.adapter.targets", "plan.adapter.also_trained") or not value:
        return value
    if stack.modules:
        return [name for name, parts in stack.modules.items() if {*parts} <= {*value}]
    projections = {word: name for name, word in reversed([*MODULE_NAMES.items()])}
    named = projections | {part: names[0] for part, names in script.WHOLE_MODULES.items()}
    names = [named[word] for word in value]
    return stack.lists.join(names) if stack.lists else names


def _lost(stack: Stack, scenario: Scenario, stated: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on what comes back of the tool's keys as something else."""
    if isinstance(both := stated.get("fsdp"), Mapping):
        stated = {**stated, **both}
    found = reading_of(stack, Source(place=FILE, text=""), stated, scenario.cluster.devices).scenario
    asked = _comparable(scenario)
    model = found.get("model") if stack.written else asked["model"]
    loaded = scenario_from_mapping({**found, "model": model, "cluster": asked["cluster"]})
    same = {key: getattr(scenario.model, key) for key in ("name", "max_positions", "rope_theta", "norm_eps")}
    if replace(loaded.model, **same) != scenario.model:
        yield f"model is {scenario.model.name}: {stack.name} would train {loaded.model.name}, which has other layers"
    back = _comparable(loaded)
    for part in ("workload", "plan"):
        for key in {**asked[part], **back[part]}:
            one, other = asked[part].get(key), back[part].get(key)
            both = isinstance(one, Mapping) and isinstance(other, Mapping)
            differing = {f".{k}": (one.get(k), other.get(k)) for k in {**one, **other}} if both else {"": (one, other)}
            for name, (wanted, told) in differing.items():
                if wanted != told:
                    trains = "has no setting for it" if told is None else f"would train with {shown(told)}"
                    yield f"{part}.{key}{name} is {shown(wanted)}: {stack.name} {trains}"
