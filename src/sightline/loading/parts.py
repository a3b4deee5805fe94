"""The parts that scenarios of every task have: a name, a model, a cluster, and what somebody measured."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightline.errors import nearest
from sightline.loading.clusters import cluster_of
from sightline.loading.input.complaints import Complaints, check, require
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.input.kinds import Keys, anything, each, name_or_mapping, text
from sightline.loading.models import ReadModel, model_of
from sightline.quantities import show
from sightline.scenario import Cluster

SCENARIO: Keys = {
    "name": text,
    **each(name_or_mapping, "model cluster"),
    **each(anything, "workload plan measured"),
}
"""The top of a scenario."""
MODEL = {"model": "a name of the catalog, a path or a mapping"}
CLUSTER = {"cluster": "'<count>x <device>', a name of the catalog or a mapping"}

TEXTS = ("source", "bottleneck", "evidence", "note", "date")
_NUMBERS = """
    step_time_s tokens_per_s tokens_per_s_per_device model_flops_per_s_per_device flops_per_s_per_device mfu hfu
    run_time_s energy_j cost_usd memory_bytes layer_activation_bytes relative_layer_activations ttft_s tpot_s itl_s
    latency_s output_tokens_per_s requests_per_s goodput_requests_per_s completed failed cost_usd_per_million_tokens
    time_s flops bytes
"""
NUMBERS = tuple(_NUMBERS.split())
GROUPS = ("memory_bytes", "phases", "ttft_s", "tpot_s", "itl_s", "latency_s")
"""Results that are mappings of parts, or of statistics, to numbers."""

KEYS = (*TEXTS, *NUMBERS, "phases", "fits")


class Parts(NamedTuple):
    """What scenarios of all tasks have, as far as it could be read."""

    name: str
    model: ReadModel | None
    cluster: Cluster | None
    measured: Any
    workload: Any
    plan: Any


def read_parts(
    mapping: Mapping[str, Any], needed: Mapping[str, str], base: Path | str | None, complaints: Complaints
) -> Parts:
    """Return the parts of a scenario, mistakes noted; a model is read only where one is ``needed``."""
    top = check(SCENARIO, mapping, "", complaints)
    if isinstance(mapping, Mapping):
        require(top, needed, "", complaints)
    return Parts(
        name=top.values.get("name", ""),
        model=model_of(top, Path(base or ""), complaints) if "model" in needed else None,
        cluster=cluster_of(top, complaints),
        measured=top.values.get("measured"),
        workload=top.values.get("workload"),
        plan=top.values.get("plan"),
    )


def read_measured(mapping: object, complaints: Complaints) -> dict[str, Any]:
    """Return the measured values, mistakes noted."""
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        complaints.add(f"measured is {show(mapping)}; allowed: a mapping of result keys to values")
        return {}
    for key, value in mapping.items():
        if key not in KEYS:
            near = nearest(key, KEYS) if isinstance(key, str) else ""
            complaints.add(f"{dotted('measured', key)} is not a known result{near or '; known: ' + ', '.join(KEYS)}")
        elif value is not None and not _is_right(key, value):
            complaints.add(f"{dotted('measured', key)} is {show(value)}; allowed: {_allowed(key)}")
    return {k: v for k, v in mapping.items() if v is not None}


def _is_right(key: str, value: object) -> bool:
    if key in TEXTS:
        return isinstance(value, str)
    if key == "fits":
        return isinstance(value, bool)
    if key in GROUPS and isinstance(value, Mapping):
        return all(isinstance(k, str) and _is_number(v) for k, v in value.items())
    return key in NUMBERS and _is_number(value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:
        return False


def _allowed(key: str) -> str:
    if key in TEXTS:
        return "text"
    if key == "fits":
        return "true, false"
    group = "a mapping of its parts to numbers"
    return group if key not in NUMBERS else "a number of 0 or more" + (f", or {group}" if key in GROUPS else "")
