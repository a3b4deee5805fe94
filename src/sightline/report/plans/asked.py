"""A question with the choices of one of its plans in place of what was searched, as dotted keys and texts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sightline.loading import to_mapping
from sightline.loading.sources import as_text
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.report.plans.sentences import settings_of

_PARTS: Final = ("workload", "workload.requests", "workload.arrival", "workload.slo", "plan")
"""Keys whose mappings are written key by key; what lies deeper is one text."""
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
