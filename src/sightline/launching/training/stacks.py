"""Read and write tools built on other frameworks, such as LLaMA-Factory, by ``stacks.yaml``."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, lru_cache, reduce
from pathlib import Path
from typing import Any, Final

from sightline.catalog.yaml12 import parse
from sightline.content import record
from sightline.errors import InputError, refuse
from sightline.launching.launch import Reading, with_batch, with_tokens
from sightline.launching.options import Options, not_read, plain, refuse_values, without_none
from sightline.launching.readers import leaves, with_unread
from sightline.launching.shell import variables_of
from sightline.launching.source import Source, beside, source_of
from sightline.launching.training import accelerate, deepspeed
from sightline.launching.training.script import WHOLE_MODULES
from sightline.launching.training.shared import TRIAL, devices_of, launcher_and_program, missing_of
from sightline.launching.training.stack_dialects import DERIVED, vocabulary_of
from sightline.loading.checks import with_value
from sightline.quantities import show
from sightline.scenario.plan import UPCAST
from sightline.scenario.techniques import MODULE_NAMES

NUMBERS: Final = ("plan.micro_batch", "accumulation", "workload.sequence_length", "plan.adapter.rank")
OWN: Final = "base.yml"
"""MaxText's file of defaults, which ``stacks.yaml`` has."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")


@record
class Marks:
    """By what a tool's files and commands are told from others."""

    commands: str = ""
    keys: str = ""
    options: str = ""
    never: str = ""
    one: str = ""
    """Keys, and kinds of what Kubernetes deploys, of which one is enough."""

    def tell(self, found: Source) -> bool:
        """Whether a file or a command is its own."""
        if {*found.mapping, str(found.mapping.get("kind"))} & {*self.one.split()}:
            return True
        if found.kind == "command":
            names = "|".join(re.escape(command.strip()) for command in self.commands.split(","))
            if self.commands and re.search(rf"[ /]({names}) ", f" {' '.join(found.words)} "):
                return True
            given = Options(found.words).names() if self.options else ()
            if self.options and {*self.options.split()} <= {name.replace("-", "_") for name in given}:
                return True
        stated = (found.mapping or (file_of(found) if self.commands else {})).keys()
        return len({*self.keys.split()} & stated) > 1 and not {*self.never.split()} & stated


@record
class Stack(Marks):
    """How one tool says what it trains, as ``stacks.yaml`` has it."""

    name: str
    release: str
    defaults: Mapping[str, Any]
    read: Mapping[str, str]
    words: Mapping[str, Mapping[str, Any]]
    when: tuple[Mapping[str, Mapping[str, Any]], ...]
    refused: Mapping[str, Mapping[Any, str]]
    framework: str = "transformers"
    is_nested: bool = False
    derived: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    written: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_recipes: str = ""
    start: str = ""
    modules: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unwritten: str = ""
    beside: Mapping[str, Mapping[Any, Mapping[str, Any]]] = field(default_factory=dict)
    trial: str = ""
    weights: str = ""
    several: str = ""
    fsdp: Mapping[str, Any] = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)
    all_linear: str = ""
    lists: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    one_process: str = ""
    harmless: Mapping[str, str] = field(default_factory=dict)
    by_command: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def keys_of(self, ours: str) -> Sequence[str]:
        """Return its keys that say one of ours."""
        return self.read[ours].split() if ours in self.read else [self.words[ours]["key"]] if ours in self.words else ()

    @property
    def tool(self) -> str:
        """Its name, as readers of other launches call it."""
        return self.name

    def nested(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Return keys ``group.key`` as groups, where a tool has groups."""
        if not self.is_nested:
            return dict(stated)
        return reduce(lambda whole, key: with_value(whole, key, stated[key]), stated, {})

    @property
    def valued(self) -> frozenset[str]:
        """Its keys of which every value is read, or refused."""
        texts = (*self.read.values(), *(str(word["key"]) for word in self.words.values()))
        return frozenset(key for text in texts for key in text.split())

    @property
    def ruled(self) -> frozenset[str]:
        """Its keys that are read or refused."""
        return self.valued | {key for rule in self.when for key in rule["if"]} | {*self.refused}

    @property
    def known(self) -> frozenset[str]:
        """Its keys that are read, or that change nothing."""
        texts = (self.keys, *self.harmless.values())
        return self.ruled | {key for text in texts for key in text.split()} | {*self.defaults}


@cache
def stacks() -> tuple[Stack, ...]:
    """Return the tools whose files are read."""
    stated = _table()
    found = []
    for name, own in stated.items():
        if name[0] != "_":
            stack = Stack(**{**own, "name": name, "when": tuple(own["when"])})
            of_trainer = {} if stack.is_nested else stated["_harmless"]
            shared = {why: _without(keys, stack.ruled) for why, keys in of_trainer.items()}
            found.append(replace(stack, harmless={**shared, **stack.harmless}))
    return tuple(found)


def _without(keys: str, others: Collection[str]) -> str:
    return " ".join(key for key in keys.split() if key not in others)


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = parse(Path(__file__).with_name("stacks.yaml").read_text(encoding="utf-8"))
    return table


def not_read_tool(found: Source) -> str:
    """Return the name of the tool that a file or a command is of, where its files are recognized but not read."""
    return next((name for name, marks in _table()["_not_read"].items() if Marks(**marks).tell(found)), "")


def stack_of(found: Source) -> Stack | None:
    """Return the tool that a file or a command is of; None where it is of none."""
    return next((stack for stack in stacks() if stack.tell(found)), None)


def claims(found: Source) -> bool:
    """Whether what was given is of such a tool."""
    return stack_of(found) is not None


def read(found: Source) -> Reading:
    """Return what a file or a command of such a tool says as a scenario.

    Raises:
        InputError: It trains something that is not predicted, or has values that the tool does not take.
    """
    stack = stack_of(found)
    assert stack is not None  # noqa: S101 - it claims what was given
    if found.kind != "command":
        return reading_of(stack, found, found.mapping)
    launcher, options = launcher_and_program(found.words)
    if (name := _named_file(found)) and not beside(found, name):
        raise InputError(f"{found.place} names {name}, and there is no such file; put it next to {found.place}")
    given = {name.replace("-", "_"): _values(options.words(name)) for name in options.names()}
    pairs = [(key, value) for key, equals, value in (word.partition("=") for word in options.plain) if equals]
    given |= {key: plain([re.sub(r"^\[(.*)\]$", r"\1", value)]) for key, value in pairs if "$" not in value}
    spelled = {name.replace("-", "_"): said for name, said in options.unknown.items()}
    spelled |= {key: f"{key} is {value}, which only running it would tell" for key, value in pairs if "$" in value}
    opened = {stack.also.get(key, key): said for key, said in spelled.items()}
    if "config" in opened and stack.name != "torchtune":
        raise InputError(f"{found.place}: {opened['config']}; read that file instead")
    given = {name: value for name, value in given.items() if stack.also.get(name, name) not in opened}
    started = _accelerated(found, launcher)
    devices = devices_of(launcher) or started.mapping.get("num_processes") or _devices_of_variables(found, stack)
    base = accelerate.read(started).scenario["plan"] if started.mapping else {}
    recipe = next((word for word in options.plain if word.endswith(("_distributed", "_single_device"))), None)
    given |= {"recipe": recipe} if recipe else {}
    alone = 1 if recipe and recipe.endswith("_single_device") else None
    return reading_of(stack, found, {**_flat(stack, file_of(found)), **given}, alone or devices, base, opened)


def reading_of(
    stack: Stack,
    found: Source,
    stated: Mapping[str, Any],
    devices: int | None = None,
    base: Mapping[str, Any] = {},
    opened: Mapping[str, str] = {},
) -> Reading:
    """Return what keys of a tool say as a scenario.

    Args:
        stack: The tool.
        found: Where the keys stand.
        stated: The keys with their values.
        devices: How many processes are started, where that is known.
        base: The plan of what starts the tool.
        opened: Sentences on keys whose values only running a script would tell.
    """
    stated = {stack.also.get(key, key): shortest(value) for key, value in _flat(stack, stated).items()}
    refuse(list(_refusals(stack, stated)))
    if stated.get("fp16") is True and stated.get("bf16") is True:
        raise InputError(f"fp16 and bf16 are true; allowed: one of them with {stack.name}")
    of_command = [keys for name, keys in stack.by_command.items() if Marks(commands=name, keys="").tell(found)]
    said = {**stack.defaults, **(of_command[0] if of_command else {}), **without_none(stated)}
    said = without_none(said | (DERIVED[stack.name](said, stack.models) if stack.name in DERIVED else {}))
    refuse_values(
        stack.nested(said),
        numbers={_key(stack, ours, said): 1 for ours in NUMBERS if _key(stack, ours, said)},
        choices={str(word["key"]): tuple(word["values"]) for word in stack.words.values()},
    )
    missing = _left_open(stack, opened)
    ruled = (ours for ours in stack.of_recipes.split() if not {*stack.keys_of(ours)} & stated.keys())
    missing |= dict.fromkeys(ruled, "what the recipe has for it")
    devices = devices or said.get("devices")
    sharding, notes, *further = _sharding(stack, found, said, base)
    for by in {"deepspeed", "fsdp"} & missing.keys():
        sharding, missing["plan.zero_stage"] = {"plan.framework": by}, missing.pop(by)
    said["framework"] = sharding["plan.framework"]
    values = dict(values_of(stack, said)) | sharding
    missing |= {} if "plan.quantization" in values else _quantized(values.get("model"))
    own = {name: values.pop(name, None) for name in ("accumulation", "steps", "rows", "loss", "recipe", "format")}
    if values.get("plan.adapter.kind", "none") == "none":
        values = {key: value for key, value in values.items() if not key.startswith("plan.adapter.")}
    if values.get("plan.quantization") in UPCAST:
        if values["plan.framework"] == "transformers" and "plan.adapter.kind" in values:
            # trl's older releases alone cast norms up unless they are told not to.
            values.setdefault("plan.adapter.upcast", False)
    elif values.pop("plan.adapter.upcast", False):
        notes = [*notes, "norms in fp32 beside weights that are not quantized: read as those of plan.dtype"]
    scenario: dict[str, Any] = {"workload": {}}
    for key, value in values.items():
        scenario = scenario if key in missing else with_value(scenario, key, value)
    each = values["plan.micro_batch"] * own["accumulation"]
    unsure = missing.pop("accumulation", missing.get("plan.micro_batch", ""))
    is_stated = "global_batch" in scenario["workload"]
    if not unsure and not is_stated:
        scenario = with_batch(scenario, each, devices)
    is_open = TRIAL in found.text or any(key in opened for key in stack.keys_of("steps"))
    steps = own["steps"] if isinstance(own["steps"], int) and own["steps"] > 0 and not is_open else None
    scenario = with_tokens(scenario, steps)
    batch = unsure or f"samples per optimizer step: {each} on each device"
    unread = _unread(stack, stated)
    reading = Reading(
        framework=stack.name,
        scenario=scenario,
        unread=unread,
        missing={**missing_of(scenario, devices, batch=batch), **vocabulary_of(scenario.get("model")), **missing},
        samples_per_device=None if unsure or is_stated else each,
        steps=steps,
        without_counterpart=[
            *not_read(unread, stack.known, f"{stack.name}'s"),
            *_unknown(stack, opened),
            *notes,
            *_rows(own["rows"]),
        ],
    )
    return with_unread(reading, *further) if further else reading


def _left_open(stack: Stack, opened: Mapping[str, str]) -> dict[str, str]:
    """Sentences on values that only running a script would tell, by our keys."""
    opened = {**opened, **{key: opened[of] for key, of in stack.derived.items() if of in opened}}
    says = {ours: stack.keys_of(ours) for ours in (*stack.read, *stack.words) if ours not in ("steps", "fsdp_config")}
    return {ours: opened[key] for ours, keys in says.items() for key in keys if key in opened}


_NAMED_FORMAT: Final = re.compile(r"(?i)[-_](gptq|awq|aqlm|(?:bnb-)?4bit|int[48]|fp8|w[48]a16)(?![a-z])")


def _quantized(model: Any) -> dict[str, str]:
    """What is missing of a model whose repository is called after the format of its weights."""
    named = _NAMED_FORMAT.search(model) if isinstance(model, str) else None
    return {"plan.quantization": f"the format of the weights of {model}, such as nf4"} if named else {}


def _unread(stack: Stack, stated: Mapping[str, Any]) -> list[str]:
    """Keys that nothing stands for, and those with a value that no rule names."""
    groups = tuple(f"{key}." for text in stack.harmless.values() for key in text.split())
    stating = {key: value for key, value in stated.items() if value not in (None, "", False)}
    unknown = [key for key in stating if key not in stack.known and not key.startswith(groups)]
    return unknown + [key for key, value in stating.items() if key in stack.known and not _is_named(stack, key, value)]


def _is_named(stack: Stack, key: str, value: Any) -> bool:
    """Whether the rules of a key, if it has any, name its value."""
    named = {_word(rule["if"][key]) for rule in stack.when if key in rule["if"]} | {*stack.refused.get(key, ())}
    if not named or key in stack.valued or {"any", "more"} & named:
        return True
    kinds = {type(one) for one in named}
    return _word(value) in named | {_word(stack.defaults.get(key))} or (kinds == {bool} == {type(value)})


def _unknown(stack: Stack, opened: Mapping[str, str]) -> list[str]:
    """Sentences on keys whose values are not known but may matter."""
    ruled = {key for rule in stack.when for key in rule["if"]}
    return [said for key, said in opened.items() if key in ruled or key not in stack.known]


def _flat(stack: Stack, stated: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Keys of groups as ``group.key``, where a tool has groups."""
    found: dict[str, Any] = {}
    for key, value in stated.items():
        is_group = stack.is_nested and isinstance(value, Mapping)
        found |= _flat(stack, value, f"{within}{key}.") if is_group else {f"{within}{key}": value}
    return found


def shortest(value: Any) -> Any:
    """Return a whole number as YAML 1.1 spells it too, which these tools read, or with a point."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,3}(_\d{3}){1,4}|\d{1,15}\.0+", value):
        return int(float(value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _rows(rows: str | None) -> list[str]:
    """What samples that are shorter than a row change, in a sentence."""
    filled = {"packed": "rows hold several samples", None: "samples are padded to the longest of a micro-batch"}
    said = [how for key, how in filled.items() if key == rows]
    return [f"{how}: all are read as workload.sequence_length long; state workload.lengths" for how in said]


@lru_cache(maxsize=8)
def file_of(found: Source) -> Mapping[str, Any]:
    """Return what the YAML or JSON holds that a command names; nothing where there is none."""
    path = beside(found, _named_file(found)) if found.kind == "command" and _named_file(found) else None
    return source_of(path).mapping if path else {}


def _named_file(found: Source) -> str:
    """The file with a tool's keys that a command names; empty for none."""
    _, options = launcher_and_program(found.words)
    words = [
        *options.words("config"),
        *(word for word in options.plain if word.endswith(_SUFFIXES) and "=" not in word),
    ]
    return next((word for word in words if Path(word).name != OWN), "")


def _values(words: Sequence[str]) -> Any:
    """What follows an option; ``key=value`` after it is no value of it."""
    own = [*words[:1], *(word for word in words[1:] if "=" not in word)]
    return own if len(own) > 1 else plain(own)


def _accelerated(found: Source, launcher: Options) -> Source:
    """Accelerate's configuration that a command names; an empty one where there is none."""
    path = beside(found, launcher.text("config-file")) if launcher.has("config-file") else None
    return source_of(path) if path else Source(place="", text="")


def _devices_of_variables(found: Source, stack: Stack) -> int | None:
    """The devices that a command's environment gives; None where it does not say."""
    variables = variables_of(found.text)
    each, nodes = variables.get("NPROC_PER_NODE", ""), variables.get("NNODES", "1")
    visible = variables.get("CUDA_VISIBLE_DEVICES", "")
    if not each and re.fullmatch(r"\d+(,\d+)*", visible):
        each = str(len(visible.split(",")))
        if stack.one_process and each != "1":
            raise InputError(
                f"CUDA_VISIBLE_DEVICES is {visible} without NPROC_PER_NODE: {stack.one_process} of {stack.name}, which "
                "is not predicted"
            )
    return int(each) * int(nodes) if each.isdecimal() and nodes.isdecimal() else None


def _refusals(stack: Stack, stated: Mapping[str, Any]) -> Iterator[str]:
    for key, reasons in stack.refused.items():
        in_group = any(one.startswith(f"{key}.") for one in stated)
        value = _word(stated.get(key, in_group or None))
        general = None if value in ("None", "none", "", False, 0) else reasons.get("any")
        general = reasons.get("more") if isinstance(value, int) and value > 1 and general is None else general
        what = reasons.get(value, general)
        if what is not None:
            said = show(stated[key]) if key in stated else "set"
            yield f"{key} is {said}: {what} of {stack.name}, which is not predicted"


def _word(value: Any) -> Any:
    return value if isinstance(value, bool | int) else str(value)


def _key(stack: Stack, ours: str, said: Mapping[str, Any]) -> str:
    """Which of its keys says one of ours."""
    return next((key for key in stack.read.get(ours, "").split() if key in said), "")


def values_of(stack: Stack, said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield our keys with what the tool says, a later value in place of one before it."""
    yield "workload.task", "finetune"
    yield "plan.dtype", "fp32"
    for ours in stack.read:
        if (key := _key(stack, ours, said)) and not ours.startswith(("deepspeed", "fsdp")):
            value = _LISTS[ours](said[key]) if ours in _LISTS else said[key]
            is_own = stack.modules and ours == "plan.adapter.targets" and isinstance(value, list)
            yield ours, [part for name in value for part in stack.modules.get(name, [name])] if is_own else value
    for ours, words in stack.words.items():
        if (key := words["key"]) in said:
            yield ours, words["values"][said[key]]
    for rule in stack.when:
        if all(
            said.get(key) is None if value is None else _word(said.get(key)) == value
            for key, value in rule["if"].items()
        ):
            yield from rule["then"].items()


def _names(stated: Any) -> list[str]:
    """Names as a list, or separated by commas."""
    return [name.strip() for name in stated.split(",")] if isinstance(stated, str) else list(stated or ())


def _targets(stated: Any) -> Any:
    """Projections with an adapter; of a pattern those that it names."""
    if isinstance(stated, str) and re.search(r"[|\\(*]", stated):
        spelled = re.sub(r"\(([\w|]+)\)_proj", lambda found: " ".join(f"{n}_proj" for n in found[1].split("|")), stated)
        return [name for name in dict.fromkeys(re.findall(r"\w+", spelled)) if name in MODULE_NAMES] or [stated]
    names = _names(stated)
    return "all-linear" if {*names} in ({"all"}, {"all-linear"}) else names


def _also_trained(stated: Any) -> list[str]:
    """Whole modules that are trained beside an adapter, by our names where they have one."""
    parts = {name: part for part, names in WHOLE_MODULES.items() for name in names} | {"output_layer": "head"}
    return list(dict.fromkeys(parts.get(name, name) for name in _names(stated)))


_LISTS: Final = {"plan.adapter.targets": _targets, "plan.adapter.also_trained": _also_trained}


def _sharding(stack: Stack, found: Source, said: Mapping[str, Any], base: Mapping[str, Any]) -> tuple[Any, ...]:
    """What DeepSpeed's configuration, FSDP or what starts the tool says: the framework, and how it shards."""
    named = said.get(_key(stack, "deepspeed", said))
    if any(said.get(_key(stack, key, said)) for key in ("fsdp", "fsdp_config")):
        return _fsdp(found, said.get("fsdp"), said.get("fsdp_config"))
    if named:
        return _deepspeed(stack, found, named)
    if base:
        kept = {key: value for key, value in base.items() if key != "micro_batch" and value not in ("none", None)}
        return {f"plan.{key}": value for key, value in kept.items() if key not in ("dtype", "compile")}, []
    return {"plan.framework": stack.framework}, []


def _deepspeed(stack: Stack, found: Source, named: Any) -> tuple[Any, ...]:
    """What DeepSpeed's configuration says: by its file, as the tool's own, or by a name with the stage."""
    of = {"plan.framework": "deepspeed"}
    path = None if isinstance(named, Mapping) else beside(found, str(named))
    if path or isinstance(named, Mapping):
        stated = named if path is None else source_of(path).mapping
        own = {key: value for key, value in deepspeed.plan_of(stated).items() if key not in ("micro_batch", "dtype")}
        given = {key: value for key, value in leaves(stated) if key not in deepspeed.READ}
        return {**of, **{f"plan.{key}": value for key, value in own.items()}}, [], "deepspeed", given
    stem = re.sub(r"\.json$", "", str(named).rpartition("/")[2])
    if stem in stack.presets:
        theirs = f"there is no file {named} next to it; {stack.name}'s own of that name is read"
        return {**of, **stack.presets[stem]}, [theirs] if stem != str(named) else []
    stage = re.search(r"(?:z|zero|stage)_?([0-3])", stem.lower())
    if stage is None:
        raise InputError(f"deepspeed is {show(named)}, and there is no such file; put it next to {found.place}")
    offloads = ["optimizer", *(["parameters"] if stage[1] == "3" else [])] if "offload" in stem.lower() else []
    said = f"there is no file {named} next to it; it is read as ZeRO-{stage[1]}{' with offload' if offloads else ''}"
    return {**of, "plan.zero_stage": int(stage[1]), **({"plan.offload": offloads} if offloads else {})}, [said]


_STRATEGIES: Final = ("no_shard", "shard_grad_op", "hybrid_shard_zero2", "hybrid_shard", "full_shard")


def _fsdp(found: Source, words: Any, named: Any) -> tuple[Any, ...]:
    """What FSDP's words and its configuration say, either of which may be a file."""
    said: list[str] = []
    stated = dict(named) if isinstance(named, Mapping) else {}
    for name in (words, named):
        if isinstance(name, str) and (path := beside(found, name)):
            held = source_of(path).mapping
            words, stated = held.get("fsdp", words if name is named else ""), {**held.get("fsdp_config", held)}
    text = " ".join(words) if isinstance(words, list | tuple) else str(words)
    if text == "fsdp2":
        stated = {"activation_checkpointing": True, **stated}
    keys = {key if key.startswith("fsdp_") else f"fsdp_{key}": value for key, value in stated.items()}
    strategy = next((one for one in _STRATEGIES if one in text), "full_shard")
    keys.setdefault("fsdp_sharding_strategy", strategy)
    keys.setdefault("fsdp_offload_params", "offload" in text)
    if "HYBRID" in str(keys["fsdp_sharding_strategy"]).upper():
        said.append("FSDP shards over some devices: read as over all; state plan.data_parallel_shard")
    groups = {f"fsdp_config.{key}": value for key, value in keys.items() if key[5] != "_"}
    given = {key: value for key, value in groups.items() if key not in accelerate.READ}
    plan = {key: value for key, value in accelerate.sharding_of(keys).items() if value != "none"}
    whole = {"plan.framework": "fsdp", **{f"plan.{key}": value for key, value in plan.items()}}
    return whole, said, "accelerate", given
