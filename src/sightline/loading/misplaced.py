"""Keys of a scenario that stand in the wrong part: where each of them belongs.

Only a scenario that was refused is looked at, so right ones wait for nothing here.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from sightline.loading.input.checks import Complaints
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.measured import MEASURED
from sightline.loading.parts import SCENARIO
from sightline.loading.plan import PLAN

_SEARCHED = ("", "workload", "plan", "cluster")
"""Parts in which keys of others are looked for; the first is the top of the scenario."""


def moved(mapping: Mapping[str, Any], complaints: Complaints) -> Mapping[str, Any]:
    """Return the scenario with every misplaced key where it belongs, and note each of them.

    Whatever else is wrong can then be said of the scenario that was meant.
    """
    found = list(_misplaced(mapping))
    for part, key, home in found:
        at = part or "the top of the scenario"
        complaints.add(f"{dotted(part, key)} is no key of {at}; {key} belongs under {home}: write {home}.{key}")
    for part, key, home in found:
        mapping = _moved(mapping, part, key, home)
    return _without_other_tasks(mapping, complaints)


def _without_other_tasks(mapping: Mapping[str, Any], complaints: Complaints) -> Mapping[str, Any]:
    """Return the scenario without the keys of its workload that are another task's, and note each of them."""
    workload = mapping.get("workload")
    task = workload.get("task") if isinstance(workload, Mapping) else None
    keys = _workloads()
    if not isinstance(workload, Mapping) or not isinstance(task, str) or task not in keys:
        return mapping
    other = {key: [name for name in keys if key in keys[name]] for key in workload if key not in keys[task]}
    foreign = {key: names for key, names in other.items() if names}
    for key, names in foreign.items():
        complaints.add(f"workload.{key} is a key of {', '.join(names)}; workload.task is {task}")
    return {**mapping, "workload": {key: value for key, value in workload.items() if key not in foreign}}


def _misplaced(mapping: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each misplaced key with the part that it stands in and the part that it belongs to."""
    for part in _SEARCHED:
        stated = mapping.get(part) if part else mapping
        for key in stated if isinstance(stated, Mapping) else ():
            if isinstance(key, str) and key not in _homes()[part] and (home := _home(key)):
                yield part, key, home


def _home(key: str) -> str:
    return next((part for part, keys in _homes().items() if part and key in keys), "")


@cache
def _workloads() -> Mapping[str, frozenset[str]]:
    """The keys of ``workload`` by task."""
    from sightline.loading.generation import GENERATE
    from sightline.loading.operations import OPERATORS
    from sightline.loading.serving import SERVE
    from sightline.loading.training import WORKLOAD

    operators = chain.from_iterable(asked.keys for asked in OPERATORS.values())
    training = frozenset(WORKLOAD)
    return {
        "pretrain": training,
        "finetune": training,
        "generate": frozenset(GENERATE),
        "serve": frozenset(SERVE),
        "operator": frozenset(("task", "operator", *operators)),
    }


@cache
def _homes() -> Mapping[str, frozenset[str]]:
    """The keys of each part, those of all tasks together; a key of several parts belongs to the first."""
    from sightline.loading.clusters.cluster import CLUSTER
    from sightline.loading.models.keys import DENSE

    return {
        "": frozenset((*SCENARIO, "sweep")),
        "plan": frozenset(PLAN),
        "workload": frozenset(chain.from_iterable(_workloads().values())),
        "cluster": frozenset(CLUSTER),
        "measured": frozenset(MEASURED),
        "model": frozenset(DENSE),
    }


def _moved(mapping: Mapping[str, Any], part: str, key: str, home: str) -> Mapping[str, Any]:
    """The scenario with a key moved to its home, or left out where the home states it or is no mapping."""
    stated = mapping[part] if part else mapping
    rest = {k: v for k, v in stated.items() if k != key}
    changed = {**mapping, part: rest} if part else rest
    there = changed.get(home)
    if isinstance(there, Mapping) or there is None:
        return {**changed, home: {key: stated[key], **(there or {})}}
    return changed
