"""Predict: whether it fits, how fast it is, what binds it, what it costs, and what would be better."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from sightline.web.downloads import attached, download, later
from sightline.web.fields import TRAINING, form_state, groups
from sightline.web.pages import render
from sightline.web.request import Asked, with_change
from sightline.web.views import View

if TYPE_CHECKING:
    from starlette.responses import Response

    from sightline.explanation.answer import Explanation
    from sightline.profile import Profile
    from sightline.report.pieces import Piece

TASKS: Final = (*TRAINING, "generate")
_AT_ONCE: Final = ("time", "memory")
"""Charts that are there with the answer; the others come after it."""
_KEPT: Final = 64
"""Predictions of which going back, downloads and parts that come later need no second one."""


def answer(asked: Asked) -> "Piece":
    """Return everything about the prediction; why it is so comes after it."""
    from sightline.report.pages.charts import charts_piece
    from sightline.report.pages.profile import label_of, profile_piece
    from sightline.report.pieces import joined

    profile, query = _profile(asked.scenario_query), asked.scenario_query
    narrow = not asked.is_wide
    shown = charts_piece(profile, label_of(profile), "predict", narrow=narrow, names=_AT_ONCE, titled=False)
    better = render("later.html", address=f"/predict/better?{query}", lines=7)
    why = render("later.html", address=f"/predict/why?{query}", lines=30)
    tools = render("predict_tools.html", query=query, command=_command(asked))
    between = joined(better, shown, tools, why)
    return profile_piece(profile, "predict", charts=0, between=between)


def form(asked: Asked) -> Mapping[str, Any]:
    """Return what the plan comes to, and what its framework offers."""
    return form_state(_profile(asked.scenario_query).scenario)


def context(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": groups(TASKS)}


@lru_cache(_KEPT)
def _profile(query: str) -> "Profile":
    from sightline.prediction import predict

    return predict(Asked.of(parse_qsl(query)).scenario())


def _command(asked: Asked) -> str:
    """What gives the same answer in a terminal."""
    return f"sightline predict - <<'YAML'\n{_yaml(asked)}YAML"


def _yaml(asked: Asked) -> str:
    import yaml

    return yaml.safe_dump(dict(asked.mapping), sort_keys=False, allow_unicode=True, width=100)


@lru_cache(_KEPT)
def _explanation(query: str) -> "Explanation":
    from sightline.explanation.explain import explain

    return explain(_profile(query))


def _better(asked: Asked) -> "Piece":
    """Changes that would help, as links."""
    from sightline.report.explained.why import better_piece

    return better_piece(_explanation(asked.scenario_query), with_change(asked.scenario_values))


def _why(asked: Asked) -> "Piece":
    """What limits the prediction, and further charts."""
    from sightline.report.explained.why import limits_piece
    from sightline.report.pages.charts import charts_piece
    from sightline.report.pages.profile import label_of

    profile = _profile(asked.scenario_query)
    further = charts_piece(profile, label_of(profile), "more", narrow=not asked.is_wide, but=_AT_ONCE)
    return limits_piece(_explanation(asked.scenario_query)) + further


def _json(asked: Asked) -> "Response":
    import json

    document = _profile(asked.scenario_query).to_dict(tables=True)
    return attached(json.dumps(document, indent=2, allow_nan=False), "prediction.json")


def _csv(asked: Asked) -> "Response":
    from sightline.report.csv_lines import csv_text, line_of

    return attached(csv_text([line_of(_profile(asked.scenario_query))]), "prediction.csv")


def _scenario(asked: Asked) -> "Response":
    return attached(_yaml(asked), "scenario.yaml")


def _report(asked: Asked) -> "Response":
    from sightline.report.pages.profiles import page

    query = asked.scenario_query
    found = page([_profile(query)], command="sightline predict scenario.yaml", changes=_explanation(query).advice)
    return attached(found, "prediction.html")


VIEW: Final = View(
    name="predict",
    title="Predict",
    about="Describe a model, a cluster and a plan: the answer follows every change.",
    answer=answer,
    form=form,
    context=context,
    routes=(
        later("/better", _better),
        later("/why", _why),
        download("/answer.json", _json),
        download("/answer.csv", _csv),
        download("/scenario.yaml", _scenario),
        download("/report.html", _report),
    ),
    shares_scenario=True,
    tasks=TASKS,
)
