"""Explain: what limits a scenario, a stored run or a trace that is sent, where its time goes, and what would help."""

from typing import TYPE_CHECKING, Final

from sightline.web import uploads
from sightline.web.fields import TRAINING, groups
from sightline.web.request import Asked, with_change
from sightline.web.views import View
from sightline.web.views.runs import MOST, RUN, address, found

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sightline.explanation.answer import Explanation
    from sightline.render.html import Piece

TASKS: Final = (*TRAINING, "generate")


def answer(asked: Asked) -> "Piece":
    """Return the limits, the advice, and the time by phase, module and operator, of the scenario or of a run."""
    from sightline.explanation.explain import explain
    from sightline.prediction import predict
    from sightline.render.html import Piece, folded, paragraphs, text

    if uploads.TRACE in asked.values:
        return Piece()
    if RUN in asked.values:
        return _of_run(asked)
    explanation = explain(predict(asked.scenario()))
    said = "For traces of several ranks, and traces too large to upload, use the command line:"
    command = text("sightline explain rank*.json", said)
    more = folded("Explain the traces of several ranks", paragraphs([said]), command)
    return _shown(explanation, asked.scenario_values) + more


def _of_run(asked: Asked) -> "Piece":
    """Explain a stored run, next to its prediction."""
    from sightline.answers.labels import texts_of_scenario
    from sightline.answers.outline import Link
    from sightline.explanation.explain import explain
    from sightline.loading.sources import without_files
    from sightline.render import html
    from sightline.runs import open_store

    store = open_store()
    with without_files():
        run = found(RUN, asked, store)
        stated = texts_of_scenario(run.scenario)
        shown = _shown(explain(run, store=store.place), stated)
    return html.joined(
        html.headline(run.name, 2),
        html.buttons([Link(f"run {run.id}", address(run.id)), Link("All runs", "/runs")]),
        shown,
    )


def _shown(explanation: "Explanation", stated: "Mapping[str, str]") -> "Piece":
    from sightline.answers.analyses import explained_outline
    from sightline.render.html import outline_piece

    return outline_piece(explained_outline(explanation, link=with_change(stated)))


def context(asked: Asked) -> "Mapping[str, Any]":
    """Return the fields of the form, which runs and traces have not, the runs to choose from, and the largest trace."""
    from sightline.answers.runs import choices
    from sightline.runs import open_store

    return {
        "groups": groups(TASKS),
        "is_of_scenario": not {RUN, uploads.TRACE} & asked.values.keys(),
        "runs": choices(open_store().newest(MOST)[0]),
        "chosen": asked.option(RUN),
        "most_bytes": uploads.most_bytes(),
        "trace_path": uploads.PATH,
        "of_scenario": uploads.OF_SCENARIO,
    }


VIEW: Final = View(
    name="explain",
    title="Explain",
    about="What limits a scenario, a run or a trace, where its time goes, and the changes that would help most.",
    answer=answer,
    job=uploads.job,
    context=context,
    routes=(uploads.trace_route(),),
    shares_scenario=True,
    tasks=TASKS,
)
