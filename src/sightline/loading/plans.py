"""``plan``: what the scenario states, else the framework's defaults, else those of `Plan`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sightline.errors import InputError
from sightline.frameworks import read_framework
from sightline.loading.complaints import Complaints, check
from sightline.loading.not_yet import unpredicted
from sightline.loading.schema import PlanKeys
from sightline.loading.techniques import read_techniques
from sightline.scenario import Framework, Plan

DEFAULT_FRAMEWORK = "reference"
TECHNIQUES = ("offload", "recompute", "quantization", "adapter")
"""Keys whose values are words, lists or mappings."""

_DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(Plan) if f.default is not MISSING}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """A plan as far as it could be read."""

    framework: Framework | None
    values: Mapping[str, Any]
    """Fields of `Plan` with a good value, ``framework`` aside; ``data_parallel`` only where it is stated."""
    stated: frozenset[str]
    """Keys the scenario states."""


def read_plan(mapping: object, complaints: Complaints) -> ReadPlan:
    """Return what of a ``plan`` is right, its mistakes noted."""
    checked = check(PlanKeys, mapping, "plan", complaints)
    stated = dict(checked.values)
    wrong = set(checked.wrong)
    for key, sentence in unpredicted(stated):
        complaints.add(sentence)
        wrong.add(key)
    techniques = {key: stated[key] for key in TECHNIQUES if key in stated}
    read = read_techniques(techniques, complaints)
    wrong |= techniques.keys() - read.keys()
    stated |= read
    framework = None
    if "framework" not in wrong and "framework_version" not in wrong:
        try:
            framework = read_framework(stated.get("framework", DEFAULT_FRAMEWORK), stated.get("framework_version", ""))
        except InputError as error:
            complaints.add(*error.problems)
    behavior = {} if framework is None else {"tensor_overlap": framework.overlap.tensor, **framework.defaults}
    values = {k: stated.get(k, behavior.get(k, default)) for k, default in _DEFAULTS.items() if k not in wrong}
    if "data_parallel" not in stated:
        values.pop("data_parallel", None)
    _settle_schedule(values, stated, complaints)
    return ReadPlan(framework=framework, values=values, stated=frozenset(stated))


def _settle_schedule(values: dict[str, Any], stated: Mapping[str, Any], complaints: Complaints) -> None:
    """More than one virtual stage means the interleaved schedule."""
    if values.get("virtual_stages", 1) == 1 or "schedule" not in values:
        return
    if stated.get("schedule") in ("gpipe", "zero-bubble", "dualpipe"):
        complaints.add(
            f"plan.schedule is '{stated['schedule']}' with plan.virtual_stages {values['virtual_stages']}; allowed: interleaved, "
            "or virtual_stages 1"
        )
    values["schedule"] = "interleaved"
