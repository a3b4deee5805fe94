"""Predict and Validate: whether a scenario fits, how fast it is and what it costs, and how far to trust that."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.responses import Response

from sightline.answers.outline import Charts, Outline
from sightline.answers.profile import label_of, profile_outline
from sightline.errors import InputError, prefixed
from sightline.prediction import predict
from sightline.progress import Progress
from sightline.render.csv import csv_text, line_of
from sightline.render.html import Piece, charts_piece, joined, outline_piece
from sightline.scenario import GenerationScenario, Scenario
from sightline.web.fields import TRAINING, form_state, groups
from sightline.web.jobs import Request
from sightline.web.opened import anchor_piece, anchored
from sightline.web.pages import render
from sightline.web.request import Asked, with_change
from sightline.web.views import View, Work, attached, download, found, later

if TYPE_CHECKING:
    from sightline.explanation.answer import Explanation
    from sightline.loading.loader import Loaded
    from sightline.profile import Profile

TASKS: Final = (*TRAINING, "generate")
_AT_ONCE: Final = ("time", "memory")
"""Charts that are there with the answer; the others come after it."""
_KEPT: Final = 64
"""Predictions of which going back, downloads and parts that come later need no second one."""


def show_prediction(asked: Asked) -> "Piece":
    """Return everything about the prediction; why it is so comes after it."""
    profile, query = _profile(asked.scenario_query), asked.scenario_query
    narrow = not asked.is_wide
    label = label_of(profile)
    charts = Charts(answer=profile, label=label, start="predict", is_narrow=narrow, names=_AT_ONCE, titled=False)
    better = render("later.html", address=f"/predict/better?{query}", lines=7)
    why = render("later.html", address=f"/predict/why?{query}", lines=30)
    tools = render("predict_tools.html", query=query, command=_command(asked))
    inserted = joined(better, charts_piece(charts), tools, why)
    return outline_piece(profile_outline(profile, most_charts=0), inserted=inserted)


def prediction_form(asked: Asked) -> Mapping[str, Any]:
    """Return what the plan comes to, and what its framework offers."""
    return form_state(_profile(asked.scenario_query).scenario)


def scenario_form(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": groups(TASKS)}


@lru_cache(_KEPT)
def _profile(query: str) -> "Profile":
    from sightline.planning.unfit import with_launched_advice

    return with_launched_advice(anchored(Asked.of(parse_qsl(query))))


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

    part = better(_explanation(asked.scenario_query), with_change(asked.scenario_values))
    return outline_piece(Outline(title="", parts=[part]))


def _limits(asked: Asked) -> "Piece":
    """What limits the prediction, and further charts."""
    from sightline.answers.analyses import limits_outline

    profile = _profile(asked.scenario_query)
    further = Charts(answer=profile, label=label_of(profile), start="more", is_narrow=not asked.is_wide, but=_AT_ONCE)
    limits = limits_outline(_explanation(asked.scenario_query))
    return outline_piece(limits, level=3, title_level=2) + charts_piece(further)


def _json(asked: Asked) -> Response:
    import json

    document = _profile(asked.scenario_query).to_dict(tables=True)
    return attached(json.dumps(document, indent=2, allow_nan=False), "prediction.json")


def _csv(asked: Asked) -> Response:
    return attached(csv_text([line_of(_profile(asked.scenario_query))]), "prediction.csv")


def _scenario(asked: Asked) -> Response:
    return attached(_yaml(asked), "scenario.yaml")


def _report(asked: Asked) -> Response:
    from sightline.render.document import outline_page

    query = asked.scenario_query
    outline = profile_outline(_profile(query), changes=_explanation(query).advice)
    found = outline_page(outline, command="sightline predict scenario.yaml")
    return attached(found, "prediction.html")


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
    title="Predict",
    about="Describe a model, a cluster and a plan: the answer follows every change.",
    answer=show_prediction,
    form=prediction_form,
    context=scenario_form,
    further=(
        later("/better", _better),
        later("/why", _limits),
        download("/answer.json", _json),
        download("/answer.csv", _csv),
        download("/scenario.yaml", _scenario),
        download("/report.html", _report),
    ),
    shares_scenario=True,
    tasks=TASKS,
)


SUITE: Final = "suite"
ALL: Final = "all"
"""The field: one suite, whose cases are shown too, or all of the catalog. Nothing is evaluated where it is empty."""


def show_trust(asked: Asked) -> "Piece":
    """Return how far to trust the prediction of the scenario: its interval, and the cases most like it."""
    from sightline.answers.validation import trust_outline
    from sightline.validation.nearest import nearest_cases

    scenario = asked.scenario()
    if not isinstance(scenario, Scenario | GenerationScenario):
        raise InputError(f"workload.task is {asked.option('workload.task')}; allowed here: {', '.join(TASKS)}")
    outline = trust_outline(anchored(asked), nearest_cases(scenario))
    return outline_piece(outline, level=3, title_level=2) + anchor_piece(asked)


def validation_job(asked: Asked) -> Request | None:
    """Return the validation that is asked for, if any; raise `InputError` for a suite that there is none of."""
    from sightline.validation.evaluation import choose

    suite = asked.option(SUITE)
    if not suite:
        return None
    if suite == ALL:
        return Request(kind="validate", mapping={})
    with prefixed(f"{SUITE}: "):
        choose(suite)
    return Request(kind="validate", mapping={SUITE: suite})


def validation_form(_: Asked) -> Mapping[str, Any]:
    """Return the suites to choose from, and the fields of the form."""
    from sightline.validation.evaluation import choose

    return {"suites": sorted(suite.name for suite in choose()), "groups": groups(TASKS), "all": ALL}


def validated(mapping: Mapping[str, Any], _: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the errors of the suites; ``mapping`` is ``{suite: NAME}``, or empty for all of them."""
    from sightline.answers.validation import validation_outline
    from sightline.validation.cases import results_to_dict
    from sightline.validation.evaluation import choose, evaluate

    suite = mapping.get("suite")
    results = evaluate(choose(suite), progress=progress)
    piece = outline_piece(validation_outline(results, cases=suite is not None), title_level=2)
    return found(results_to_dict(results, cases=suite is not None), piece)


VALIDATE_WORK: Final = Work(validated)
VALIDATE: Final = View(
    name="validate",
    title="Validate",
    about="How far to trust a prediction: its interval, the measured cases most like it, and all suites of them.",
    answer=show_trust,
    job=validation_job,
    context=validation_form,
    files={"validation.json": None},
    shares_scenario=True,
    is_further=True,
    tasks=TASKS,
)
