"""Read sources as spaces of plans: ``{any: [...]}`` and ``{from, to, factor}`` restrict a field that is searched.

A restricted field that a search does not lay out as an axis of its own - a dtype, an adapter, a cluster - makes a
space for each of its values. Of generate and serve, all that a scenario leaves out is free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.loading.checks import Complaints, check, split_restrictions, stated_at, swept, with_forms
from sightline.loading.foreign import read_known
from sightline.loading.generation import GENERATE, generation_from_mapping
from sightline.loading.loader import Overrides, is_impossible, mappings_of, read_scenario
from sightline.loading.plans import (
    NO_POOLS,
    OTHER_NAMES,
    OTHER_TASKS,
    POOL,
    candidate_frameworks,
    plan_keys,
    read_quantization,
    read_training_plan,
)
from sightline.loading.serving import serving_from_mapping
from sightline.loading.sources import Document
from sightline.loading.training import scenario_from_mapping
from sightline.quantities import first_of, show
from sightline.scenario import GenerationPlan, Scenario
from sightline.scenario.generation import SERVING_ONLY
from sightline.scenario.space import GENERATION_FIELDS, POOL_FIELDS, TRAINING_FIELDS, Space
from sightline.scenario.training import AT_MOST

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


def _engine_space(
    mapping: Mapping[str, Any],
    restricted: Mapping[str, Sequence[Any]],
    options: Mapping[str, Any],
    folder: Any,
    *,
    serves: bool,
) -> Space[Any]:
    """The space of a mapping of generation, or of serving.

    The ``restricted`` keys were taken out of the mapping. Raise `InputError` with every mistake in it.
    """
    complaints = Complaints()
    plan, values = _plan_and_values(mapping, restricted, complaints)
    whole = {**mapping, "plan": plan}
    if "batch" in values and not serves:
        whole["workload"] = {**mapping["workload"], "batch": (values["batch"] or (1,))[0]}
    scenario: Any = complaints.note(
        serving_from_mapping if serves else generation_from_mapping, whole, folder, frozenset(values)
    )
    complaints.raise_any()
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
    keys, field = {"workload": GENERATE, "plan": plan_keys()}[part], name
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
        complaints.add(f"plan.framework is {show(value)}; allowed for generation: {', '.join(known)}{near}")
    return name


def _pooled(value: Any, complaints: Complaints) -> bool:
    if value not in (*NO_POOLS, True):
        complaints.add(f"plan.disaggregate has {show(value)}; allowed in a list: none, true")
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


_MOST_NAMES = 6
"""Scenarios that a sentence names."""


def load_spaces(source: object, overrides: Overrides = ()) -> list[Space[Any]]:
    """Return the spaces that a source asks for: one, or one for each value of what is restricted outside a mesh.

    Raises:
        InputError: every mistake, several questions at once, and values of which none is possible.
    """
    read = read_known(source)
    if len(read.documents) > 1:
        raise InputError(_several(read.documents))
    spaces: list[Space[Any]] = []
    try:
        for mapping in mappings_of(read, overrides):
            spaces += spaces_of(mapping, read.folder)
    except InputError as error:
        raise with_forms(error) from None
    return [replace(space, warnings=(*read.remarks, *space.warnings)) for space in spaces] if read.remarks else spaces


def _several(documents: Sequence[Document]) -> str:
    """A sentence that names scenarios that are no single question."""
    names = [one.mapping.get("name") if isinstance(one.mapping, Mapping) else None for one in documents]
    named = zip(names, documents, strict=True)
    said = [show(name) if name else one.place or "an unnamed one" for name, one in named]
    return f"got {len(said):,} scenarios ({first_of(said, _MOST_NAMES)}); allowed: one"


def spaces_of(mapping: Mapping[str, Any], folder: Any = None) -> list[Space[Any]]:
    """Return the spaces of a mapping with the keys of a scenario file.

    Values that a rule excludes are left out with a warning while others remain.

    Raises:
        InputError: every mistake, and the rules that are broken where no value is left.
    """
    fixed, restricted = split_restrictions(mapping)
    task = (mapping.get("workload") or {}).get("task") if isinstance(mapping.get("workload"), Mapping) else None
    inside = {key: values for key, values in restricted.items() if _is_axis(key, task)}
    outside = {key: values for key, values in restricted.items() if key not in inside}
    limit, fixed = _without_limit(fixed)
    spaces: list[Space[Any]] = []
    mistakes: dict[str, None] = {}
    excluded: dict[str, None] = {}
    keys = list(outside)
    for _, variant in swept(fixed, outside):
        options = {key: stated_at(variant, key) for key in keys}
        try:
            if task in ("generate", "serve"):
                spaces.append(_engine_space(variant, inside, options, folder, serves=task == "serve"))
            elif task in OTHER_TASKS:
                spaces.append(Space(scenario=read_scenario(variant, folder), values=_listed(inside), options=options))
            else:
                spaces.append(_training_space(variant, inside, options, folder, at_most=limit))
        except InputError as error:
            (excluded if is_impossible(error) else mistakes).update(dict.fromkeys(error.problems))
    if mistakes or not spaces:
        raise InputError(list(mistakes or excluded))
    warnings = tuple(f"left out: {sentence}" for sentence in excluded)
    return [replace(space, warnings=warnings) for space in spaces]


def _listed(inside: Mapping[str, list[Any]]) -> dict[str, tuple[Any, ...]]:
    return {key.removeprefix("plan."): tuple(values) for key, values in inside.items()}


def _is_axis(key: str, task: Any) -> bool:
    """Whether a key is searched inside a space; outside, each of its values makes a space."""
    if task in ("generate", "serve"):
        return is_axis(key)
    return task not in OTHER_TASKS and key.removeprefix("plan.") in TRAINING_FIELDS and key.startswith("plan.")


def _without_limit(mapping: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether the global batch is a limit, and the mapping with the number in its place."""
    workload = mapping.get("workload")
    batch = workload.get("global_batch") if isinstance(workload, Mapping) else None
    if not isinstance(workload, Mapping) or not isinstance(batch, Mapping) or batch.keys() != {AT_MOST}:
        return False, dict(mapping)
    return True, {**mapping, "workload": {**workload, "global_batch": batch[AT_MOST]}}


def _training_space(
    mapping: Mapping[str, Any],
    inside: Mapping[str, list[Any]],
    options: Mapping[str, Any],
    folder: Any,
    *,
    at_most: bool,
) -> Space[Scenario]:
    """The space of a training scenario, whose restricted axes are read value by value."""
    raw = mapping.get("plan")
    plan = raw if isinstance(raw, Mapping) else {}
    stated = {name: [value] for name, value in plan.items() if name in TRAINING_FIELDS}
    listed = {name: inside.get(f"plan.{name}", stated.get(name)) for name in TRAINING_FIELDS}
    fixed = {**mapping, "plan": {name: value for name, value in plan.items() if name not in TRAINING_FIELDS}}
    values = {name: None if raw is None else _read_values(fixed, name, raw) for name, raw in listed.items()}
    for name, allowed in values.items():
        # A value that everybody takes is part of the question: frameworks are chosen by what they offer of it.
        if allowed is not None and len(allowed) == 1 and name in stated:
            fixed["plan"][name] = stated[name][0]
    scenario = scenario_from_mapping(fixed, folder, free=frozenset(TRAINING_FIELDS))
    return Space(scenario=scenario, values=values, at_most=at_most, options=options)


def _read_values(mapping: Mapping[str, Any], name: str, raw: Sequence[Any]) -> tuple[Any, ...]:
    """The values of an axis as a plan holds them."""
    complaints = Complaints()
    task = str(mapping["workload"].get("task", "pretrain")) if isinstance(mapping.get("workload"), Mapping) else ""
    read = [_read_value(mapping["plan"], name, value, task, complaints) for value in raw]
    complaints.raise_any()
    return tuple(dict.fromkeys(read))


def _read_value(plan: Mapping[str, Any], name: str, value: Any, task: str, complaints: Complaints) -> Any:
    found = read_training_plan({**plan, name: value}, candidate_frameworks(task), complaints)
    return found.values.get(name, found.stated.get(name))
