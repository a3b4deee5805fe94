"""What people ask of a search of plans: read, checked, searched and explained."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import prod
from os import PathLike
from typing import Any

from sightline.content import content, fields_of
from sightline.errors import InputError, noted, refuse
from sightline.launching.registry import ENGINE_WRITERS, WRITERS
from sightline.launching.training.rules import refusals
from sightline.loading.checks import split_restrictions
from sightline.loading.clusters.cluster import read_cluster
from sightline.loading.loader import Overrides, read_overrides
from sightline.loading.plans import NOT_NAMED, candidate_frameworks
from sightline.loading.sources import Source, as_options, read_source
from sightline.loading.spaces import load_spaces
from sightline.planning.clusters import read_prices, with_counts, with_prices
from sightline.planning.plan_limits import LIMITS, read_limits
from sightline.quantities import show
from sightline.scenario import Cluster, GenerationScenario, OperatorScenario, Scenario, ServingScenario
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS, Space, freed, opened


def read_axes(pareto: Sequence[str] | None, meaning: Callable[[str], str], allowed: str) -> tuple[str, str] | None:
    """Return two objectives that mean different figures; None where no front is asked for.

    Args:
        pareto: The objectives.
        meaning: Returns the figure of an objective, and refuses one that nobody knows.
        allowed: What a refusal names.

    Raises:
        InputError: they are not two, or mean the same.
    """
    if pareto is None:
        return None
    if len(pareto) != 2 or len({meaning(name) for name in pareto}) != 2:
        raise InputError(f"pareto is {show(','.join(pareto))}; allowed: {allowed}")
    return pareto[0], pareto[1]


_LARGEST_ARRAY = 1_000_000
"""Elements of arrays that questions are compared by."""


def spaces_of(
    source: object, free: Iterable[str] | None = None, devices: Sequence[str] = (), overrides: Overrides = ()
) -> list[Space[Any]]:
    """Return the spaces of a source: one, or one for each value of what no single mesh holds.

    Args:
        source: A scenario, or a source as `sightline.load` takes it, in which ``{any: [...]}`` restricts a field.
        free: Fields of the plan to search, next to those that a source restricts; default: all of a scenario, those
            that a source leaves out.
        devices: Clusters by name or "<count>x <device>" in place of the source's.
        overrides: Values by dotted key.

    Raises:
        InputError: every mistake in it.
    """
    if isinstance(source, Scenario | GenerationScenario):
        if overrides:
            raise InputError("overrides apply to files, text and mappings; for a Scenario, replace its fields")
        return list(_on_devices(source, free, devices))
    spaces = load_spaces(source, {**read_overrides(overrides), **cluster_of(devices)})
    if any(isinstance(space.scenario, OperatorScenario) for space in spaces):
        raise InputError("workload.task is operator, which has no plan; allowed: pretrain, finetune, generate, serve")
    if free is None:
        return spaces
    names = tuple(free)
    return [freed(space, names) for space in spaces]


def _on_devices(
    scenario: Scenario | GenerationScenario, free: Iterable[str] | None, devices: Sequence[str]
) -> Iterator[Space[Any]]:
    """Yield the space of a scenario, or one for each of the devices, in their usual servers."""
    if not devices:
        yield opened(scenario, free)
    for name in devices:
        yield replace(opened(replace(scenario, cluster=read_cluster(name)), free), options={"cluster": name})


def cluster_of(devices: Sequence[str]) -> dict[str, Any]:
    """Return the setting that stands for devices."""
    if not devices:
        return {}
    return {"cluster": devices[0] if len(devices) == 1 else {"any": list(devices)}}


def counted(devices: Sequence[str], source: object, overrides: Overrides) -> list[str]:
    """Return devices with their counts; of a device that is named alone as many as the source's clusters have."""

    def stated() -> list[int]:
        spaces = spaces_of(source, overrides=overrides)
        return list(dict.fromkeys(space.scenario.cluster.devices for space in spaces))

    return with_counts(devices, stated)


def priced(
    spaces: Sequence[Space[Any]], prices: Iterable[str] | Mapping[str, float]
) -> tuple[list[Space[Any]], Mapping[str, float]]:
    """Return spaces at prices in place of the catalog's, and these by device.

    Raises:
        InputError: a text that is no price.
    """
    own = {part.device.name for space in spaces for part in space.scenario.cluster.parts}
    given = prices if isinstance(prices, Mapping) else read_prices(prices, own)
    return [replace(space, scenario=with_prices(space.scenario, given)) for space in spaces], given


def launched(spaces: Sequence[Space[Any]]) -> list[Space[Any]]:
    """Return spaces without the frameworks for which no launch is written, where one is for any that is named."""
    named = [_frameworks(space) for space in spaces]
    written = {name for names in named for name in names} & {*WRITERS, *ENGINE_WRITERS}
    others = dict.fromkeys(name for names in named for name in names if name not in written)
    if not (written and others):
        return list(spaces)
    said, found = f"left out: no launch is written for {', '.join(others)}; --all searches it too", []
    for space, names in zip(spaces, named, strict=True):
        kept = {"framework": tuple(name for name in names if name in written)} if "framework" in space.values else {}
        if written & {*names}:
            found.append(replace(space, values={**space.values, **kept}, warnings=(*space.warnings, said)))
    return found


def _frameworks(space: Space[Any]) -> Sequence[str]:
    """The frameworks or engines that a space names; none where those of the catalog are tried."""
    if "framework" in space.values:
        return space.values["framework"] or ()
    plan = space.scenario.plan
    return (plan.framework.name if isinstance(space.scenario, Scenario) else plan.engine.name,)


def in_other_frameworks(
    spaces: Sequence[Space[Any]], overrides: Overrides, read: Callable[[Overrides], list[Space[Any]]]
) -> list[Space[Any]]:
    """Return the spaces of a source of training in every framework with a launch; none where it names a framework.

    Args:
        spaces: Those of the typical framework.
        overrides: Values by dotted key.
        read: Reads the source again with such values.
    """
    scenario = spaces[0].scenario
    is_open = any(warning.startswith(NOT_NAMED) for warning in scenario.warnings)
    if not (is_open and isinstance(scenario, Scenario) and scenario.plan.framework.name in WRITERS):
        return []
    work, architecture = scenario.workload, scenario.cluster.device.architecture
    able = candidate_frameworks(work.task, work.preference, architecture)
    names = list(dict.fromkeys((scenario.plan.framework.name, *(name for name in WRITERS if name in able))))
    if len(names) == 1:
        return []
    why = next((f"{names[0]} cannot launch it ({said})" for said in _stated_refusals(spaces[0])), "")
    missing = why or f"no plan of {names[0]} meets the request"
    said = f"{NOT_NAMED}, and {missing}; also searched: {', '.join(names[1:])}"
    stated = {**read_overrides(overrides), "plan.framework": {"any": names}}
    with suppress(InputError):  # others have no such plan
        return [replace(one, warnings=(*spaces[0].warnings, said)) for one in read(stated)]
    return []


def unlaunchable(spaces: Sequence[Space[Any]]) -> Iterator[str]:
    """Yield why the launch of a framework runs no plan at all, where a field that is fixed decides it."""
    trained = [space for space in spaces if isinstance(space.scenario, Scenario)]
    names = {space.scenario.plan.framework.name for space in trained}
    if len(names) == 1:
        said = (f"{min(names)} cannot launch it: {refusal}" for refusal in _stated_refusals(trained[0]))
        yield from islice(said, 1)


def _stated_refusals(space: Space[Scenario]) -> Iterator[str]:
    """Yield why the launch of a framework runs no plan of a space: sentences about fields that are fixed."""
    free = {f"plan.{name}" for name in space.values}
    for refusal in refusals(space.scenario):
        if not free & {*_KEYS.findall(refusal.partition(": ")[0])}:
            yield refusal


_KEYS = re.compile(r"\b(?:plan|workload|model)\.\w+")


def together(spaces: Sequence[Space[Any]]) -> list[Space[Any]]:
    """Return fewer spaces: those that differ in nothing but the number of devices are searched at once."""
    nodes: dict[Any, int] = {}
    for space in spaces:
        key, per_node = _but_devices(space), space.scenario.cluster.per_node
        nodes[key] = max(nodes.get(key, 0), per_node)
    alike: dict[Any, list[Space[Any]]] = {}
    for space in spaces:
        key = _but_devices(space)
        per_node = _within(space.scenario.cluster, nodes[key])
        alike.setdefault((key, per_node), []).append(space)
    return [_joined(several, per_node) for (_, per_node), several in alike.items()]


def _but_devices(space: Space[Any]) -> Any:
    """The content of a space without how many devices it has and how many of them are in a node."""
    question = space.scenario
    cluster = replace(question.cluster, devices=0, per_node=0, full_node=0, name="", counted="")
    fixed = {name: value for name, value in fields_of(question.plan).items() if name not in space.values}
    parts = (cluster, question.model, question.workload, fixed)
    same = tuple(content(part, _LARGEST_ARRAY) for part in parts)
    others = {key: value for key, value in space.options.items() if key.partition(".")[0] != "cluster"}
    return same, str(others), str(dict(space.values)), isinstance(question, Scenario) or id(space)


def _within(cluster: Cluster, per_node: int) -> int:
    """Devices of the node that a cluster is predicted in: a larger one where its devices are a part of it.

    In a full mesh and a torus the links of devices that are not used would count too.
    """
    is_part = cluster.devices <= cluster.per_node and per_node % cluster.devices == 0
    return per_node if is_part and cluster.intra_node.topology in ("pcie", "switch") else cluster.per_node


def _joined(spaces: Sequence[Space[Any]], per_node: int) -> Space[Any]:
    first, *others = spaces
    if not others:
        return first
    sizes = {space.scenario.cluster.devices: space.scenario.cluster for space in spaces}
    scenario = replace(first.scenario, cluster=replace(first.scenario.cluster, per_node=per_node))
    return replace(first, scenario=scenario, clusters=tuple(sizes[count] for count in sorted(sizes)))


def plan_command(
    source: object,
    overrides: Overrides,
    devices: Sequence[str],
    prices: Mapping[str, float],
    options: Mapping[str, object],
) -> str:
    """Return the command of a source with its options; devices are a setting, which a later one replaces.

    An option that is None or False is left out, one that is True has no value.
    """
    named = isinstance(source, PathLike) or (isinstance(source, str) and "\n" not in source and source != "-")
    typed = source.words if isinstance(source, Source) else (str(source),) if named else ()
    words = [
        "sightline plan",
        shlex.join(typed or ("FILE",)),
        *as_options({**read_overrides(overrides), **cluster_of(devices)}),
    ]
    stated = {f"--{name}": value for name, value in options.items() if value is not None and value is not False}
    words += [name if value is True else f"{name} {shlex.quote(str(value))}" for name, value in stated.items()]
    words += [f"--price {shlex.quote(f'{name}={price:g}')}" for name, price in prices.items()]
    return " ".join(words)


def check_request(mapping: Mapping[str, Any], options: Mapping[str, Any], *, most: int) -> None:
    """Raise `InputError` with the mistakes of a request.

    Args:
        mapping: With the keys of a scenario file.
        options: Arguments of `sightline.planning.search.plan`.
        most: Questions that restricted fields outside of the mesh may stand for.
    """
    _, restricted = split_restrictions(mapping)
    inside = {f"plan.{name}" for name in (*TRAINING_FIELDS, *GENERATION_FIELDS)} | {"workload.batch"}
    count = prod(len(values) for key, values in restricted.items() if key not in inside)
    devices = options.get("devices") or ()
    if count * max(1, len(devices)) > most:
        raise InputError(f"restricted fields give {count:,} searches; allowed: up to {most}")
    problems: list[str] = []
    objective = options.get("objective")
    with noted(problems):
        source = read_source(mapping)
        spaces, _ = priced(spaces_of(source, None, counted(devices, source, ())), options.get("prices") or ())
        _check_objectives(type(spaces[0].scenario), objective, options.get("pareto"))
    with noted(problems):
        read_limits(**{name: options.get(name) for name in LIMITS})
    refuse(problems)


def _check_objectives(kind: type, objective: Any, pareto: Any) -> None:
    """Raise `InputError` for objectives that a task does not have."""
    if kind is ServingScenario:
        from sightline.planning.serving.serving_search import objective_of

        objective_of(objective or "time")
    elif kind is GenerationScenario:
        from sightline.planning.generation_objectives import ALLOWED_AXES, figure_key

        figure_key(objective or "time")
        read_axes(pareto, figure_key, ALLOWED_AXES)
    else:
        from sightline.planning.training.objectives import OBJECTIVES, check_objective

        check_objective(objective or "time")
        read_axes(pareto, check_objective, f"two of {', '.join(OBJECTIVES)}")
