"""Spaces of serving plans: what a scenario of task generate or serve leaves out is free, the rest has its values."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.loading.generation import GENERATE, generation_from_mapping
from sightline.loading.input.checks import Complaints, check
from sightline.loading.plan import NO_POOLS, OTHER_NAMES, PLAN, POOL
from sightline.loading.serving import serving_from_mapping
from sightline.loading.techniques import read_quantization
from sightline.quantities import show
from sightline.scenario import GenerationPlan, GenerationScenario, ServingScenario
from sightline.scenario.generation import SERVING_ONLY
from sightline.scenario.space import GENERATION_FIELDS, POOL_FIELDS, Space

POOLS = ("prefill", "decode")


def is_axis(key: str) -> bool:
    """Whether a restricted key is searched inside a space; outside, each of its values makes a space."""
    part, _, name = key.partition(".")
    return key == "workload.batch" or (part == "plan" and (name in GENERATION_FIELDS or _pool_field(name) is not None))


def _pool_field(name: str) -> str | None:
    """The name that a space has for ``disaggregate.POOL.FIELD``; None for any other."""
    whole, _, own = name.partition(".")
    pool, _, field = own.partition(".")
    return own if whole == "disaggregate" and pool in POOLS and field in POOL_FIELDS else None


def generation_space(
    mapping: Mapping[str, Any], restricted: Mapping[str, Sequence[Any]], options: Mapping[str, Any], folder: Any
) -> Space[GenerationScenario]:
    """Return the space of a mapping, whose ``restricted`` keys were taken out.

    Raises:
        InputError: every mistake in it.
    """
    complaints = Complaints()
    work = mapping.get("workload") or {}
    plan, values = _plan_and_values(mapping, restricted, complaints)
    if "batch" in values:
        work = {**work, "batch": (values["batch"] or (1,))[0]}
    whole = {**mapping, "workload": work, "plan": plan}
    scenario = complaints.note(generation_from_mapping, whole, folder, frozenset(values))
    if complaints.problems or scenario is None:
        raise InputError(complaints.problems)
    return Space(scenario=scenario, values=values, options=options)


def serving_space(
    mapping: Mapping[str, Any], restricted: Mapping[str, Sequence[Any]], options: Mapping[str, Any], folder: Any
) -> Space[ServingScenario]:
    """Return the same of ``task: serve``, where prefill stays with decode.

    Raises:
        InputError: every mistake in it.
    """
    complaints = Complaints()
    plan, values = _plan_and_values(mapping, restricted, complaints)
    if True in (values.get("disaggregate") or ()):
        complaints.add("plan.disaggregate is stated; allowed in a search of plans that serve: none")
    values |= {"disaggregate": (False,)} if "disaggregate" in values else {}
    whole = {**mapping, "plan": plan}
    scenario = complaints.note(serving_from_mapping, whole, folder, frozenset(values))
    if complaints.problems or scenario is None:
        raise InputError(complaints.problems)
    return Space(scenario=scenario, values=values, options=options)


def _plan_and_values(
    mapping: Mapping[str, Any], restricted: Mapping[str, Sequence[Any]], complaints: Complaints
) -> tuple[Any, dict[str, tuple[Any, ...] | None]]:
    """A mapping's plan without workers of their own, and the values of its fields that are free or restricted."""
    raw = mapping.get("plan") or {}
    plan = dict(raw) if isinstance(raw, Mapping) else raw
    values: dict[str, tuple[Any, ...] | None] = {
        _name(key): _read(key, stated, complaints) for key, stated in restricted.items()
    }
    if isinstance(plan, dict):
        fixed = ("engine", "max_sequences", *SERVING_ONLY)
        names = ("framework", *(f.name for f in fields(GenerationPlan) if f.name not in fixed))
        free = {name: None for name in names if name not in plan}
        limit = {"max_sequences": (plan["max_sequences"],)} if "max_sequences" in plan else {}
        values = free | limit | values | _stated_pools(plan, values, complaints)
    return plan, values


def _name(key: str) -> str:
    _, _, name = key.partition(".")
    return _pool_field(name) or name


def _read(key: str, stated: Sequence[Any], complaints: Complaints) -> tuple[Any, ...]:
    """The values of a restricted key as a plan holds them; mistakes are noted."""
    part, _, name = key.partition(".")
    if name == "framework":
        return tuple(_engine(value, complaints) for value in stated)
    if name == "quantization":
        return tuple(read_quantization(value, key, complaints) for value in stated)
    if name == "disaggregate":
        return tuple(_pooled(value, complaints) for value in stated)
    keys, field = {"workload": GENERATE, "plan": PLAN}[part], name
    if _pool_field(name):
        keys, field = POOL, name.rpartition(".")[2]
    above = key.removesuffix(f".{field}")
    structure = {field: getattr(keys[field], "kind", keys[field])}
    read = [check(structure, {field: value}, above, complaints).values.get(field) for value in stated]
    return tuple(dict.fromkeys(read))


def _engine(value: Any, complaints: Complaints) -> str:
    name, known = OTHER_NAMES.get(str(value).lower(), str(value)), catalog.names("engines")
    if name not in known:
        near = nearest(name, known)
        complaints.add(f"plan.framework is {show(value)}; generates: {', '.join(known)}{near}")
    return name


def _pooled(value: Any, complaints: Complaints) -> bool:
    if value not in (*NO_POOLS, True):
        complaints.add(f"plan.disaggregate has {show(value)}; allowed in a list of values: none, true")
    return value not in NO_POOLS


def _stated_pools(plan: dict[str, Any], restricted: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """What a plan states of workers of their own, taken out of it; what they leave out is free like all else."""
    stated = plan.get("disaggregate")
    found: dict[str, Any] = {"disaggregate": (True,)} if any("." in name for name in restricted) else {}
    if stated in NO_POOLS:
        plan.pop("disaggregate", None)
    elif stated is True or (isinstance(stated, Mapping) and set(stated) <= set(POOLS)):
        del plan["disaggregate"]
        found["disaggregate"] = (True,)
        for pool, own in ({} if stated is True else stated).items():
            read = check(POOL, own, f"plan.disaggregate.{pool}", complaints).values
            found |= {f"{pool}.{name}": (value,) for name, value in read.items()}
    return found
