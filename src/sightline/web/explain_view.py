"""Explain: what limits a scenario, a stored run or a trace that is sent, where its time goes, and what would help.

Traces are bounded in size and kept only until their job has read them.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.answers.labels import texts_of_scenario
from sightline.answers.outline import Link
from sightline.answers.runs import choices
from sightline.errors import InputError
from sightline.loading.sources import without_files
from sightline.progress import Progress
from sightline.render import html
from sightline.render.html import Piece, folded, outline_piece, paragraphs, text
from sightline.runs import open_store
from sightline.web.fields import TRAINING
from sightline.web.opened import TRACE, anchored, trace_job
from sightline.web.request import Asked, read_one, with_change
from sightline.web.stored_views import MOST, RUN, find_run, run_address
from sightline.web.views import View, Work, found

if TYPE_CHECKING:
    from sightline.explanation.answer import Explanation
    from sightline.loading.loader import Loaded

TASKS: Final = (*TRAINING, "generate")


def answer(asked: Asked) -> "Piece":
    """Return the limits, the advice, and the time by phase, module and operator, of the scenario or of a run."""
    from sightline.explanation.explain import explain

    if TRACE in asked.values:
        return Piece()
    if RUN in asked.values:
        return _of_run(asked)
    found = _shown(explain(anchored(asked)), asked.corrected_values)
    said = "For traces of several ranks, and traces too large to upload, use the command line:"
    command = text("sightline explain rank*.json", said)
    more = folded("Explain the traces of several ranks", paragraphs([said]), command)
    return html.joined(html.buttons([Link("Open in Predict", f"/predict?{asked.scenario_query}")]), found, more)


def _of_run(asked: Asked) -> "Piece":
    """Explain a stored run, next to its prediction."""
    from sightline.explanation.explain import explain

    store = open_store()
    with without_files():
        run = find_run(RUN, asked, store)
        stated = texts_of_scenario(run.scenario)
        shown = _shown(explain(run, store=store.place), stated)
    return html.joined(html.buttons([Link(f"run {run.id}", run_address(run.id)), Link("All runs", "/runs")]), shown)


def _shown(explanation: "Explanation", stated: Mapping[str, str], title: str = "") -> "Piece":
    """What is explained, with links to the scenario's changes where it is one that somebody stated."""
    from sightline.answers.analyses import explained_outline

    outline = explained_outline(explanation, link=with_change(stated) if stated else None)
    return outline_piece(replace(outline, title=title or outline.title), title_level=2)


def context(asked: Asked) -> Mapping[str, Any]:
    """Return the runs to choose from, and whether a scenario is shown that a trace may be of."""
    runs = dict(choices(open_store().newest(MOST)[0]))
    return {
        "choosers": [(RUN, "stored run", {"": "choose one", **runs}, asked.option(RUN))] if runs else (),
        "submit": "Explain the run",
        "is_of_scenario": not {RUN, TRACE} & asked.values.keys(),
    }


def explained(loaded: "Loaded", _: Mapping[str, Any]) -> Any:
    """Return what ``sightline explain --json`` prints."""
    from sightline.explanation.explain import explain

    documents = [explain(one).to_dict() for one in loaded.scenarios]
    return documents if loaded.is_list else documents[0]


EXPLAINED: Final = Work(explained)


def explain_trace(
    mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress, sent: Path
) -> Mapping[str, Any]:
    """Return what explains a trace; ``mapping`` may hold the ``scenario`` that it is of."""
    from sightline.explanation.explain import explain
    from sightline.explanation.subject import is_trace

    name, stated = str(options.get("name", "trace")), mapping.get("scenario")
    if not is_trace(sent):
        raise InputError(f"'{name}' is no trace: torch.profiler writes one by export_chrome_trace")
    try:
        scenario = read_one(stated) if stated is not None else None
        explanation = explain([str(sent)], scenario=scenario, progress=progress)
    except InputError as error:
        raise InputError([problem.replace(str(sent), name) for problem in error.problems]) from None
    explanation = replace(explanation, warnings=[said.replace(str(sent), name) for said in explanation.warnings])
    shown = _shown(explanation, texts_of_scenario(stated) if stated else {}, f"Trace {name}")
    return found(explanation.to_dict(), shown)


TRACE_WORK: Final = Work(explain_trace, ("name",))
"""Its option is what the trace is called by who sent it; no file is looked for under it."""
VIEW: Final = View(
    name="explain",
    about="What limits a scenario, a run or a trace, where its time goes, and the changes that would help most.",
    answer=answer,
    job=trace_job,
    context=context,
    shares_scenario=True,
    is_further=True,
    tasks=TASKS,
)
