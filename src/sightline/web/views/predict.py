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
    from sightline.render.html import Piece

TASKS: Final = (*TRAINING, "generate")
_AT_ONCE: Final = ("time", "memory")
"""Charts that are there with the answer; the others come after it."""
_KEPT: Final = 64
"""Predictions of which going back, downloads and parts that come later need no second one."""


def answer(asked: Asked) -> "Piece":
    """Return everything about the prediction; why it is so comes after it."""
    from sightline.answers.outline import Charts
    from sightline.answers.profile import label_of, profile_outline
    from sightline.render.html import charts_piece, joined, outline_piece

    profile, query = _profile(asked.scenario_query), asked.scenario_query
    narrow = not asked.is_wide
    label = label_of(profile)
    charts = Charts(answer=profile, label=label, start="predict", is_narrow=narrow, names=_AT_ONCE, titled=False)
    better = render("later.html", address=f"/predict/better?{query}", lines=7)
    why = render("later.html", address=f"/predict/why?{query}", lines=30)
    tools = render("predict_tools.html", query=query, command=_command(asked))
    inserted = joined(better, charts_piece(charts), tools, why)
    return outline_piece(profile_outline(profile, most_charts=0), inserted=inserted)


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
    from sightline.answers.analyses import better
    from sightline.answers.outline import Outline
    from sightline.render.html import outline_piece

    part = better(_explanation(asked.scenario_query), with_change(asked.scenario_values))
    return outline_piece(Outline(title="", parts=[part]))


def _why(asked: Asked) -> "Piece":
    """What limits the prediction, and further charts."""
    from sightline.answers.analyses import limits_outline
    from sightline.answers.outline import Charts
    from sightline.answers.profile import label_of
    from sightline.render.html import charts_piece, outline_piece

    profile = _profile(asked.scenario_query)
    further = Charts(answer=profile, label=label_of(profile), start="more", is_narrow=not asked.is_wide, but=_AT_ONCE)
    return outline_piece(limits_outline(_explanation(asked.scenario_query))) + charts_piece(further)


def _json(asked: Asked) -> "Response":
    import json

    document = _profile(asked.scenario_query).to_dict(tables=True)
    return attached(json.dumps(document, indent=2, allow_nan=False), "prediction.json")


def _csv(asked: Asked) -> "Response":
    from sightline.render.csv import csv_text, line_of

    return attached(csv_text([line_of(_profile(asked.scenario_query))]), "prediction.csv")


def _scenario(asked: Asked) -> "Response":
    return attached(_yaml(asked), "scenario.yaml")


def _report(asked: Asked) -> "Response":
    from sightline.answers.profile import profile_outline
    from sightline.render.document import outline_page

    query = asked.scenario_query
    outline = profile_outline(_profile(query), changes=_explanation(query).advice)
    found = outline_page(outline, command="sightline predict scenario.yaml")
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
