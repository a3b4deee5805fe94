"""A question with the choices of one of its plans in place of what was searched, as dotted keys and texts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sightline.answers.plan_sentences import settings_of
from sightline.errors import SightlineError
from sightline.loading import to_mapping
from sightline.loading.sources import as_text
from sightline.planning.answer import PlanAnswer, RankedPlan

_PARTS: Final = ("workload", "workload.requests", "workload.arrival", "workload.slo", "plan")
"""Keys whose mappings are written key by key; what lies deeper is one text."""
_NAMED: Final = ("model", "cluster")
"""Of a scenario, what the catalog has by name."""
_RESTRICTS: Final = frozenset({"any", "from", "to", "factor", "at_most"})


def texts_of(mapping: Mapping[str, Any]) -> dict[str, str]:
    """Return a scenario by dotted keys, with values as ``--set`` reads them."""
    return {key: as_text(value) for key, value in _flat(mapping)}


def asked_alone(answer: PlanAnswer, plan: RankedPlan, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question whose only answer is a plan, by dotted keys.

    Args:
        answer: Of the search.
        plan: One of its plans.
        mapping: What was asked, with the keys of a scenario file.
    """
    resolved = dict(_flat(to_mapping(plan.profile.scenario)))
    chosen = settings_of(answer, plan)
    found = {key: resolved.get(key) if _is_restricted(value) else value for key, value in _flat(mapping)}
    if "cluster" in answer.free or any(key.startswith("cluster") for key in chosen):
        found["cluster"] = " + ".join(plan.profile.scenario.cluster.stated)
        chosen = {key: value for key, value in chosen.items() if not key.startswith("cluster")}
    return {key: value for key, value in {**found, **chosen}.items() if value is not None}


def asked_with(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question with other values, by dotted keys."""
    return {**dict(_flat(mapping)), **settings}


def _flat(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in part.items():
        named = f"{above}.{key}" if above else str(key)
        if named in _PARTS and isinstance(value, Mapping) and not _is_restricted(value):
            yield from _flat(value, named)
        else:
            yield named, value


def _is_restricted(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and value.keys() <= _RESTRICTS


def texts_of_scenario(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return a stored scenario as dotted keys with texts: what is of the catalog by its name, all else in full."""
    named = _by_name(scenario)
    whole = {key: json.dumps(value) for key, value in named.items() if key in _NAMED and isinstance(value, Mapping)}
    return {key: text for key, text in {**texts_of(named), **whole}.items() if text != ""}


def _by_name(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scenario with the names of its model and cluster, where they stand for the same."""
    names = {key: part["name"] for key in _NAMED if isinstance(part := scenario.get(key), Mapping) and "name" in part}
    whole = _resolved(scenario)
    for tried in (names, *({key: name} for key, name in names.items())):
        if tried and whole is not None and _resolved(short := {**scenario, **tried}) == whole:
            return short
    return scenario


def _resolved(scenario: Mapping[str, Any]) -> Any:
    from sightline.loading import load, to_mapping

    try:
        found = load(dict(scenario))
    except SightlineError:
        return None
    return None if isinstance(found, list) else to_mapping(found)
