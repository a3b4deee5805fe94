"""The parts that scenarios of every task have: a name, a model, a cluster, and what somebody measured."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.loading.input.checks import (
    Complaints,
    Keys,
    Kind,
    anything,
    check,
    each,
    flag,
    name_or_mapping,
    require,
    text,
)
from sightline.loading.models import ReadModel, resolve_model
from sightline.loading.plan import ReadPlan
from sightline.quantities import show
from sightline.scenario import Cluster
from sightline.scenario.rules import known_facts

SCENARIO: Keys = {
    "name": text,
    **each(name_or_mapping, "model cluster"),
    **each(anything, "workload plan measured"),
}
"""The top of a scenario."""
MODEL = {"model": "a name of the catalog, a path or a mapping"}
CLUSTER = {"cluster": "'<count>x <device>', a name of the catalog or a mapping"}

_NUMBER, _PARTS = "a number of 0 or more", "a mapping of its parts to numbers"


def _amount(*forms: str) -> Kind:
    """A measured amount, in one of several forms."""

    def check(value: Any) -> Any:
        numbers = value.values() if isinstance(value, Mapping) else (value,)
        form = _PARTS if isinstance(value, Mapping) else _NUMBER
        if form not in forms or not all(_is_amount(number) for number in numbers):
            raise InputError(f"is {show(value)}; allowed: {', or '.join(forms)}")
        return value

    return check


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _words(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"is {show(value)}; allowed: text")
    return value


MEASURED: Keys = {
    **each(_words, "source bottleneck evidence note date"),
    **each(
        _amount(_NUMBER),
        "step_time_s tokens_per_s tokens_per_s_per_device model_flops_per_s_per_device flops_per_s_per_device mfu hfu "
        "run_time_s energy_j cost_usd layer_activation_bytes relative_layer_activations output_tokens_per_s "
        "requests_per_s goodput_requests_per_s completed failed cost_usd_per_million_tokens time_s flops bytes",
    ),
    **each(_amount(_NUMBER, _PARTS), "memory_bytes ttft_s tpot_s itl_s latency_s"),
    "phases": _amount(_PARTS),
    "fits": flag,
}
"""``measured``: what somebody measured, under the keys of results."""


class Parts(NamedTuple):
    """What scenarios of all tasks have, as far as it could be read."""

    name: str
    model: ReadModel | None
    cluster: Cluster | None
    measured: Mapping[str, Any]
    workload: Any
    plan: Any


def read_parts(
    mapping: Mapping[str, Any], needed: Mapping[str, str], base: Path | str | None, complaints: Complaints
) -> Parts:
    """Return the parts of a scenario, mistakes noted; a model is read only where one is ``needed``."""
    top = check(SCENARIO, mapping, "", complaints)
    if isinstance(mapping, Mapping):
        require(top, needed, "", complaints)
    model, cluster = top.values.get("model") if "model" in needed else None, top.values.get("cluster")
    return Parts(
        name=top.values.get("name", ""),
        model=None if model is None else complaints.note(resolve_model, model, Path(base or "")),
        cluster=None if cluster is None else complaints.note(read_cluster, cluster),
        measured=check(MEASURED, top.values.get("measured"), "measured", complaints).values,
        workload=top.values.get("workload"),
        plan=top.values.get("plan"),
    )


def facts_of(
    parts: Parts, workload: Mapping[str, Any], plan: ReadPlan[Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what rules are asked about: the parts, the workload, and the ``values`` that the plan comes to."""
    return known_facts(
        model=None if parts.model is None else parts.model.model,
        cluster=parts.cluster,
        workload=workload,
        plan=values,
        framework=plan.framework,
        stated=plan.stated,
    )
