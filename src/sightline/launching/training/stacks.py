"""Read tools that train by way of other frameworks - LLaMA-Factory, axolotl, ms-swift - by ``stacks.yaml``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Final

from sightline.catalog.yaml12 import parse
from sightline.content import record
from sightline.errors import InputError, refuse
from sightline.launching.launch import Reading
from sightline.launching.options import not_read, plain, refuse_values
from sightline.launching.source import Source, source_of
from sightline.launching.training import deepspeed
from sightline.launching.training.shared import devices_of, launcher_and_program, missing_of
from sightline.loading.checks import with_value
from sightline.quantities import show

NUMBERS: Final = ("plan.micro_batch", "accumulation", "workload.sequence_length", "plan.adapter.rank")


@record
class Marks:
    """By what a tool's files and commands are told from others."""

    commands: str
    keys: str

    def tell(self, found: Source) -> bool:
        """Whether a file or a command is its own."""
        if found.kind == "command":
            words = f" {' '.join(word.rpartition('/')[2] for word in found.words)} "
            return any(f" {command.strip()} " in words for command in self.commands.split(","))
        return len({*self.keys.split()} & found.mapping.keys()) > 1


@record
class Stack(Marks):
    """How one tool says what it trains, as ``stacks.yaml`` has it."""

    name: str
    release: str
    defaults: Mapping[str, Any]
    read: Mapping[str, str]
    words: Mapping[str, Mapping[Any, Any]]
    when: tuple[Mapping[str, Mapping[str, Any]], ...]
    refused: Mapping[str, Mapping[Any, str]]
    harmless: Mapping[str, str] = field(default_factory=dict)
    by_command: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        """Its keys that are read, or that change nothing."""
        texts = (self.keys, *self.read.values(), *self.harmless.values(), *(str(w["key"]) for w in self.words.values()))
        own = {key for text in texts for key in text.split()} | {*self.refused, *self.defaults}
        return frozenset(own | {key for rule in self.when for key in rule["if"]})


@cache
def stacks() -> tuple[Stack, ...]:
    """Return the tools whose files are read."""
    stated = _table()
    shared = stated["_harmless"]
    return tuple(
        Stack(**{**own, "name": name, "when": tuple(own["when"]), "harmless": {**shared, **own.get("harmless", {})}})
        for name, own in stated.items()
        if name[0] != "_"
    )


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = parse(Path(__file__).with_name("stacks.yaml").read_text(encoding="utf-8"))
    return table


def not_read_tool(found: Source) -> str:
    """Return the name of the tool that a file or a command is of, where its files are recognized but not read."""
    return next((name for name, marks in _table()["_not_read"].items() if Marks(**marks).tell(found)), "")


def _stack(found: Source) -> Stack | None:
    return next((stack for stack in stacks() if stack.tell(found)), None)


def claims(found: Source) -> bool:
    """Whether what was given is of such a tool."""
    return _stack(found) is not None


def read(found: Source) -> Reading:
    """Return what a file or a command of such a tool says as a scenario.

    Raises:
        InputError: It trains something that is not predicted, or has values that the tool does not take.
    """
    stack, stated, devices, unknown = _stack(found), dict(found.mapping), None, dict[str, str]()
    assert stack is not None  # noqa: S101 - it claims what was given
    if found.kind == "command":
        stated, devices, unknown = _of_command(found)
    refuse(list(_refusals(stack, stated)))
    said = {**stack.defaults, **{key: value for key, value in stated.items() if value is not None}}
    for command, keys in stack.by_command.items():
        said = {**(keys if Marks(commands=command, keys="").tell(found) else {}), **said}
    refuse_values(said, numbers={_key(stack, ours, said): 1 for ours in NUMBERS if _key(stack, ours, said)})
    read_values = dict(_read(stack, said))
    micro, accumulated = read_values["plan.micro_batch"], read_values.pop("accumulation")
    sharding, notes = _sharding(found, read_values.pop("deepspeed", None), read_values.pop("fsdp", None))
    scenario: dict[str, Any] = {"workload": {"task": "finetune"}, "plan": {"framework": "transformers"}}
    for key, value in {**read_values, **sharding}.items():
        scenario = with_value(scenario, key, value)
    plan = scenario["plan"]
    if plan.get("adapter", {}).get("kind") in (None, "none"):
        plan.pop("adapter", None)
    if devices:
        scenario["workload"]["global_batch"] = micro * accumulated * devices
    each = f"samples per optimizer step: {micro * accumulated} on each device"
    unread = [key for key in stated if key not in stack.known]
    return Reading(
        framework=stack.name,
        scenario=scenario,
        missing={**missing_of(scenario, devices, batch=each), **sharding.get("missing", {})},
        samples_per_device=micro * accumulated,
        unread=unread,
        without_counterpart=[*not_read(unread, stack.known, f"{stack.name}'s"), *unknown.values(), *notes],
    )


def _of_command(found: Source) -> tuple[dict[str, Any], int | None, dict[str, str]]:
    """The options of a command, with those of the file that it names."""
    launcher, options = launcher_and_program(found.words)
    file = next((word for word in options.plain if word.endswith((".yaml", ".yml", ".json"))), None)
    stated = dict(source_of(found.folder / file).mapping) if file and (found.folder / file).is_file() else {}
    given = {name.replace("-", "_"): plain(options.words(name)) for name in options.names()}
    given = {name: value for name, value in given.items() if name.replace("_", "-") not in options.unknown}
    return {**stated, **given}, devices_of(launcher), dict(options.unknown)


def _refusals(stack: Stack, stated: Mapping[str, Any]) -> Iterator[str]:
    for key, reasons in stack.refused.items():
        if (what := reasons.get(_word(stated.get(key)))) is not None:
            yield f"{key} is {show(stated[key])}: {what} of {stack.name}, which is not predicted"


def _word(value: Any) -> Any:
    return value if isinstance(value, bool | int) else str(value)


def _key(stack: Stack, ours: str, said: Mapping[str, Any]) -> str:
    """Which of its keys says one of ours."""
    return next((key for key in stack.read.get(ours, "").split() if key in said), "")


def _read(stack: Stack, said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Our keys with what the tool says."""
    for ours in stack.read:
        if key := _key(stack, ours, said):
            yield ours, _targets(said[key]) if ours == "plan.adapter.targets" else said[key]
    yield "plan.dtype", "fp32"
    for ours, words in stack.words.items():
        value = _word(said.get(words["key"]))
        if value in words and value != "key":
            yield ours, words[value]
    for rule in stack.when:
        if all(_word(said.get(key)) == value for key, value in rule["if"].items()):
            yield from rule["then"].items()


def _targets(stated: Any) -> Any:
    """Projections with an adapter, as a list or separated by commas."""
    names = [name.strip() for name in stated.split(",")] if isinstance(stated, str) else list(stated or ())
    return "all-linear" if {*names} & {"all", "all-linear"} else names


def _sharding(found: Source, named: Any, fsdp: Any) -> tuple[dict[str, Any], list[str]]:
    """What DeepSpeed's configuration or FSDP says: by its file, or by a name that says the stage."""
    if fsdp:
        whole = "full_shard" in str(fsdp) or isinstance(fsdp, Mapping)
        moved = {"plan.offload": ["optimizer", "parameters"]} if "offload" in str(fsdp) else {}
        return {"plan.framework": "fsdp", "plan.zero_stage": 3 if whole else 2, **moved}, []
    if not named:
        return {}, []
    stated = named if isinstance(named, Mapping) else None
    if stated is None and (found.folder / str(named)).is_file():
        stated = source_of(found.folder / str(named)).mapping
    if stated is not None:
        own = {key: value for key, value in deepspeed.plan_of(stated).items() if key not in ("micro_batch", "dtype")}
        return {f"plan.{key}": value for key, value in {"framework": "deepspeed", **own}.items()}, []
    stage = re.search(r"(?:z|zero|stage)_?([0-3])", str(named).lower())
    if stage is None:
        raise InputError(f"deepspeed is {show(named)}, and there is no such file; put it next to {found.place}")
    offloads = ["optimizer", *(["parameters"] if stage[1] == "3" else [])] if "offload" in str(named).lower() else []
    read_as = {"plan.framework": "deepspeed", "plan.zero_stage": int(stage[1])}
    said = f"there is no file {named} next to it; it is read as ZeRO-{stage[1]}{' with offload' if offloads else ''}"
    return {**read_as, **({"plan.offload": offloads} if offloads else {})}, [said]
