"""Outlines that notebooks alone show: of scenarios, and of single answers whose commands show several."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sightline.answers import labels, units
from sightline.answers.outline import Outline, Rows, Said
from sightline.loading import to_mapping
from sightline.quantities import as_json

if TYPE_CHECKING:
    from sightline.prediction.roofline_table import RooflineTable
    from sightline.profile import Profile

_DERIVED = ("data_parallel", "tensor_overlap", "framework")
"""Choices that follow from others, or are said by the plan's words."""
_UNSAID: tuple[Any, ...] = (None, "none", 0, 0.0, False, [], {})


def profile_outline(answer: "Profile") -> Outline:
    """Return one profile with what would help it; a profile of many plans as ranges."""
    from sightline.answers.profile import profile_outline as outlined
    from sightline.answers.profile import ranges_outline
    from sightline.explanation.explain import changes_of
    from sightline.profile import SERVING

    if getattr(answer.whole_s, "ndim", 0):
        return ranges_outline(answer)
    # A load's changes would each be simulated, which takes longer than a notebook may to show what it has.
    return outlined(answer, changes=[] if answer.task is SERVING else changes_of(answer))


def table_outline(answer: "RooflineTable") -> Outline:
    """Return what bounds each matmul of a scenario on a device."""
    from sightline.answers.analyses import roofline_outline

    return roofline_outline([(labels.title(answer.scenario), answer)])


def scenario_outline(asked: Any) -> Outline:
    """Return a scenario of any task: model, cluster, workload, plan, and what is left at its default."""
    pairs = [("task", asked.workload.task), *_model(asked), *_cluster(asked), ("workload", _workload(asked))]
    defaults = _defaults(asked)
    return Outline(
        title=labels.title(asked),
        said=[Said(asks=name, says=said) for name, said in (*pairs, *_plan(asked)) if said],
        parts=[
            Rows(
                title=f"At their defaults: {len(defaults)} choices",
                headings=("", ""),
                rows=list(defaults.items()),
                numbers=False,
                is_folded=True,
            )
        ],
        warnings=asked.warnings,
    )


def _model(asked: Any) -> list[tuple[str, str]]:
    if not hasattr(asked, "model"):
        return []
    model = asked.model
    layers = f"{model.layers:,} layers of width {model.hidden_size:,}"
    return [("model", f"{model.name}: {units.count(float(model.parameters))} parameters, {layers}")]


def _cluster(asked: Any) -> list[tuple[str, str]]:
    return [("cluster", asked.cluster.in_words)]


def _workload(asked: Any) -> str:
    """The workload in words, or its keys where there are no words."""
    if not hasattr(asked, "model"):
        return labels.operation(asked)
    return labels.subtitle(asked)[0].split(" · ")[-1]


def _plan(asked: Any) -> list[tuple[str, str]]:
    if not hasattr(asked, "plan"):
        return []
    said = labels.subtitle(asked)
    return [("plan", said[1] if len(said) > 1 else ""), ("set", _joined(_stated(asked)))]


def _keys(asked: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan's choices, and those of a plan that states nothing but its framework."""
    plan = asked.plan
    which = "engine" if hasattr(plan, "engine") else "framework"
    usual = replace(asked, plan=type(plan)(**{which: getattr(plan, which)}))
    mine, others = (as_json(to_mapping(one)["plan"]) for one in (asked, usual))
    return mine, others


def _stated(asked: Any) -> dict[str, str]:
    """Choices that are not the framework's own."""
    mine, usual = _keys(asked)
    return {key: _said(value) for key, value in mine.items() if usual.get(key) != value and key not in _DERIVED}


def _defaults(asked: Any) -> dict[str, str]:
    """Choices that the framework makes itself, without those that switch something off."""
    if not hasattr(asked, "plan"):
        return {}
    mine, usual = _keys(asked)
    return {
        key: _said(value)
        for key, value in mine.items()
        if usual.get(key) == value and value not in _UNSAID and key not in _DERIVED
    }


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " + ".join(map(_said, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _joined(choices: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {said}" for key, said in choices.items())
