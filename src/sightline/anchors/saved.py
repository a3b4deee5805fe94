"""Anchors kept under a name: what was measured, on what, when, and what it taught."""

from datetime import UTC, datetime
from typing import Any

from sightline.anchors.files import anchor_names, read_anchor, save_anchor
from sightline.anchors.given import to_document
from sightline.prediction.anchoring.anchor import joined
from sightline.prediction.anchoring.anchored import Anchored
from sightline.prediction.anchoring.timed import Answered, task_name
from sightline.runs import open_store
from sightline.scenario import Scenario


def save(known: Anchored, name: str, store: str | None = None) -> None:
    """Keep anchors under a name in a store of runs; they are learned from again whenever they are used."""
    from sightline import __version__

    whole = joined(known.anchors, name)
    scenarios = [one.scenario for one in (*whole.timed, *(load.timed[0] for load in whole.loads))]
    tasks = sorted({task_name(scenario) for scenario in scenarios})
    document = {
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tasks": tasks,
        "models": _each(scenario.model.name for scenario in scenarios),
        "clusters": _each(scenario.cluster.name or scenario.cluster.device.name for scenario in scenarios),
        "frameworks": _each(map(_made_by, scenarios)),
        "taught": [entry for task in tasks for entry in known.to_dicts(task)],
        **to_document(whole),
    }
    save_anchor(open_store(store), name, document)


def listing(store: str | None = None) -> list[dict[str, Any]]:
    """Return all saved anchors of a store without their measurements, in the order of their names."""
    opened = open_store(store)
    found = [read_anchor(opened, name) for name in anchor_names(opened)]
    return [{key: value for key, value in one.items() if key not in ("measurements", "loads")} for one in found]


def _each(values: Any) -> list[str]:
    return list(dict.fromkeys(map(str, values)))


def _made_by(scenario: Answered) -> str:
    of = scenario.plan.framework if isinstance(scenario, Scenario) else scenario.plan.engine
    return f"{of.name} {of.version}".strip()
