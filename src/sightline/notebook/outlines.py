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
    model, about = getattr(asked, "model", None), labels.subtitle(asked)
    stated, defaults = _choices(asked)
    pairs = {"task": asked.workload.task}
    if model is not None:
        size = f"{units.count(float(model.parameters))} parameters"
        pairs["model"] = f"{model.name}: {size}, {model.layers:,} layers of width {model.hidden_size:,}"
    pairs["cluster"] = asked.cluster.in_words
    pairs["workload"] = labels.operation(asked) if model is None else about[0].split(" · ")[-1]
    if hasattr(asked, "plan"):
        pairs |= {"plan": "".join(about[1:2]), "set": ", ".join(f"{key}: {one}" for key, one in stated.items())}
    title = f"At their defaults: {len(defaults)} choices"
    return Outline(
        title=labels.title(asked),
        said=[Said(asks=name, says=said) for name, said in pairs.items() if said],
        parts=[Rows.of_pairs(list(defaults.items()), title, is_folded=True)],
        warnings=asked.warnings,
    )


def _choices(asked: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Choices of a plan that are not the framework's own, and those that it makes itself and that do something."""
    if not hasattr(asked, "plan"):
        return {}, {}
    which = "engine" if hasattr(asked.plan, "engine") else "framework"
    plain = replace(asked, plan=type(asked.plan)(**{which: getattr(asked.plan, which)}))
    mine, usual = (as_json(to_mapping(one)["plan"]) for one in (asked, plain))
    told = {key: value for key, value in mine.items() if key not in _DERIVED}
    own = {key: _said(value) for key, value in told.items() if usual.get(key) != value}
    return own, {key: _said(value) for key, value in told.items() if key not in own and value not in _UNSAID}


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " + ".join(map(_said, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
