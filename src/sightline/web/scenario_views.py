"""Predict and Compare: whether a scenario fits, how fast it is and what it costs, alone or next to another one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.responses import Response

from sightline.answers.changes import unfit_lines
from sightline.answers.outline import BAD, FAINT, Link, Outline, Section
from sightline.answers.profile import profile_outline
from sightline.errors import InputError, prefixed
from sightline.prediction import predict
from sightline.render.csv import csv_text, line_of
from sightline.render.html import Piece, buttons, joined, outline_piece, paragraphs
from sightline.scenario import ServingScenario
from sightline.web.fields import TRAINING, form_state, groups, imagined
from sightline.web.opened import anchored, known_of
from sightline.web.pages import render
from sightline.web.request import BASELINE, Asked, with_change
from sightline.web.search_views import PLAN
from sightline.web.tabs import depends, scenario_text, tabs_piece
from sightline.web.views import View, Work, attached, download, later

if TYPE_CHECKING:
    from sightline.explanation.answer import Explanation
    from sightline.loading.loader import Loaded
    from sightline.profile import Profile

TASKS: Final = (*TRAINING, "generate")
_KEPT: Final = 32
"""Predictions of which tabs, downloads and parts that come later need no second one."""


def show_prediction(asked: Asked) -> "Piece":
    """Return the four cards, what to change, and the chosen tab."""
    profile, query = _profile(asked.scenario_query), asked.scenario_query
    outline = profile_outline(profile, baseline=_baseline(asked), most_charts=0)
    head = replace(outline, about=outline.about[1:], parts=[], scenario=None)
    unfit = Outline(title="", parts=[Section(parts=[unfit_lines(profile)], kind=BAD)])
    better = render("later.html", address=f"/predict/better?{query}", lines=5, first=outline_piece(unfit).html)
    pinned = render("baseline.html", baseline=asked.option(BASELINE), view=PREDICT.name)
    cards = joined(pinned, outline_piece(head))
    return joined(*((better, cards) if profile.fits is False else (cards, better)), tabs_piece(asked, profile))


def _baseline(asked: Asked) -> "Profile | None":
    """The pinned prediction, if there is one of the same task; one that nothing can be told of any more is none."""
    if BASELINE not in asked.values:
        return None
    try:
        found = _profile(asked.option(BASELINE))
    except InputError:
        return None
    return found if found.task is _profile(asked.scenario_query).task else None


def prediction_form(asked: Asked) -> Mapping[str, Any]:
    """Return what the plan comes to, and what its framework offers."""
    return form_state(_profile(asked.scenario_query).scenario)


def scenario_form(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": (*groups(TASKS), imagined())}


@lru_cache(_KEPT)
def _profile(query: str) -> "Profile":
    from sightline.planning.unfit import with_launched_advice

    return with_launched_advice(anchored(Asked.of(parse_qsl(query))))


@lru_cache(_KEPT)
def _explanation(query: str) -> "Explanation":
    from sightline.explanation.explain import explain

    return explain(_profile(query))


def _better(asked: Asked) -> "Piece":
    """Changes that would help or, of a plan that does not fit, those that would; and the search of all plans."""
    from sightline.answers.analyses import better
    from sightline.planning.unfit import nearest_to

    query, values = asked.scenario_query, asked.corrected_values
    search = urlencode({key: value for key, value in values.items() if PLAN.takes(key)})
    nearest = nearest_to(_profile(query), known=known_of(asked) or None)
    part = better(_explanation(query), with_change(values), search=f"/plan?{search}", nearest=nearest)
    return outline_piece(Outline(title="", parts=[part]))


def _limits(asked: Asked) -> "Piece":
    """What limits the prediction."""
    from sightline.answers.analyses import limits_outline

    return outline_piece(limits_outline(_explanation(asked.scenario_query)), level=3, title_level=3)


def _json(asked: Asked) -> Response:
    import json

    document = _profile(asked.scenario_query).to_dict(tables=True)
    return attached(json.dumps(document, indent=2, allow_nan=False), "prediction.json")


def _csv(asked: Asked) -> Response:
    return attached(csv_text([line_of(_profile(asked.scenario_query))]), "prediction.csv")


def _scenario(asked: Asked) -> Response:
    return attached(scenario_text(asked), "scenario.yaml")


def _report(asked: Asked) -> Response:
    from sightline.planning.unfit import nearest_to
    from sightline.render.document import outline_page

    profile, changes = _profile(asked.scenario_query), _explanation(asked.scenario_query).advice
    nearest = nearest_to(profile, "sightline predict scenario.yaml", known_of(asked) or None)
    outline = profile_outline(profile, changes=changes, nearest=nearest)
    found = outline_page(outline, command="sightline predict scenario.yaml")
    return attached(found, "prediction.html")


A, B = "a", "b"
"""The fields of a comparison: the queries of two scenarios."""


def show_comparison(asked: Asked) -> "Piece":
    """Return two scenarios side by side: both links, which is faster, and the rows level by level."""
    from sightline.answers.comparison import comparison_outline
    from sightline.explanation.comparison import compare

    if missing := [field for field in (A, B) if not asked.option(field)]:
        said = "Drag one of the last scenarios, at the bottom of the page, onto another one."
        return joined(paragraphs([f"Nothing is compared yet. {said}"] if len(missing) > 1 else [said], FAINT))
    sides = {}
    for field in (A, B):
        with prefixed(f"{field}: "):
            sides[field] = _answer(asked.option(field))
    links = [Link(f"Open {field.upper()}", f"/predict?{asked.option(field)}") for field in (A, B)]
    return outline_piece(comparison_outline(compare(*sides.values())), title_level=2) + buttons(links)


def _answer(query: str) -> "Profile":
    """The prediction of a scenario, or what a simulation finds of a load."""
    asked = Asked.of(parse_qsl(query))
    if isinstance(scenario := asked.scenario(), ServingScenario):
        from sightline.anchors.corrected import simulate

        return simulate(scenario, anchor=known_of(asked))
    return _profile(query)


def predicted(loaded: "Loaded", options: Mapping[str, Any]) -> Any:
    """Return what ``sightline predict --json`` prints, with the option ``nearest`` what ``--nearest`` adds."""
    from sightline.planning.unfit import nearest_to, prediction_to_dict, with_launched_advice

    answers = [with_launched_advice(predict(one)) for one in loaded.scenarios]
    if loaded.is_list:
        return [answer.to_dict(tables=True) for answer in answers]
    return prediction_to_dict(answers[0], nearest_to(answers[0]) if options.get("nearest") else ())


PREDICTED: Final = Work(predicted, ("nearest",))
PREDICT: Final = View(
    name="predict",
    answer=show_prediction,
    form=prediction_form,
    context=scenario_form,
    further=(
        later("/better", _better),
        later("/why", _limits),
        later("/depends", depends),
        download("/answer.json", _json),
        download("/answer.csv", _csv),
        download("/scenario.yaml", _scenario),
        download("/report.html", _report),
    ),
    shares_scenario=True,
    tasks=TASKS,
)


COMPARE: Final = View(
    name="compare",
    about="Two scenarios side by side.",
    answer=show_comparison,
    is_further=True,
)
