"""The parts that scenarios of every task have: a name, a model, a cluster, and what somebody measured."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightline.kinds import anything, name_or_mapping, text
from sightline.loading.clusters import forgotten_units, made_of_technology, read_as, read_cluster
from sightline.loading.input.checks import Complaints, Keys, check, each, require
from sightline.loading.measured import MEASURED
from sightline.loading.models import ReadModel, resolve_model
from sightline.loading.plan import ReadPlan
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


class Parts(NamedTuple):
    """What scenarios of all tasks have, as far as it could be read."""

    name: str
    model: ReadModel | None
    cluster: Cluster | None
    measured: Mapping[str, Any]
    workload: Any
    plan: Any
    remarks: tuple[str, ...] = ()
    """What is answered of the cluster although it may not be meant."""


def read_parts(
    mapping: Mapping[str, Any], needed: Mapping[str, str], base: Path | str | None, complaints: Complaints
) -> Parts:
    """Return the parts of a scenario, mistakes noted; a model is read only where one is ``needed``."""
    top = check(SCENARIO, mapping, "", complaints)
    if isinstance(mapping, Mapping):
        require(top, needed, "", complaints)
    named, stated = top.values.get("model") if "model" in needed else None, top.values.get("cluster")
    model = None if named is None else complaints.note(resolve_model, named, Path(base or ""))
    cluster = None if stated is None else complaints.note(read_cluster, stated)
    return Parts(
        name=top.values.get("name", ""),
        model=model,
        cluster=cluster,
        measured=check(MEASURED, top.values.get("measured"), "measured", complaints).values,
        workload=top.values.get("workload"),
        plan=top.values.get("plan"),
        remarks=() if cluster is None or stated is None else tuple(_remarks(stated, cluster)),
    )


def _remarks(stated: str | Mapping[str, Any], cluster: Cluster) -> Iterator[str]:
    yield from read_as(stated)
    yield from made_of_technology(cluster)
    yield from forgotten_units(cluster)


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
