"""``sightline predict``: scenarios in, predictions out."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import options, output, reports
from sightline.cli.next_step import given, has, try_next
from sightline.cli.options import (
    Anchors,
    Files,
    RunStore,
    SaveAnchor,
    Settings,
    SkipInvalid,
    Sort,
    Sweeps,
    Top,
    anchored_by,
    first_of,
    takes_options,
)
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import ProfilesReport, ReportOptions, changes_of
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.loading.loader import Asked, Cell, Loaded
    from sightline.planning.plan_answer import NearestPlan
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile
    from sightline.progress import Progress

MOST_TOP = 10**9
"""Answers of which the first may be asked for: more than anybody sweeps."""
MOST_TABLES = 1000
"""Answers of which JSON holds the tables of operators and stages; of more it would not fit into memory."""


@takes_options
def predict(
    files: Files,
    anchor: Anchors = None,
    save_anchor: SaveAnchor = None,
    *,
    written: ReportOptions,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="OUT", help="Write the timeline of a training step or generation as a Chrome trace (.json)."
        ),
    ] = None,
    settings: Settings = None,
    sweeps: Sweeps = None,
    skip_invalid: SkipInvalid = False,
    sort: Sort = None,
    top: Top = None,
    store: RunStore = None,
    nearest: Annotated[
        bool,
        typer.Option("--nearest", help="If no single change makes the plan fit, search for the nearest that does."),
    ] = False,
) -> None:
    """Predict training, generation or a single operator: time, memory, and whether it fits.

    The scenario sets the task. A plan that does not fit in memory is still predicted, and for training the result lists
    changes that would make it fit. With --anchor, the prediction is corrected with a few measured steps or requests
    from your cluster; the output lists each correction.

    \b
    Examples:
      sightline predict examples/llama-2-7b-zero2-8xa800.yaml
      sightline predict examples/llama-2-70b-generate-4xh100.yaml
      sightline predict examples/llama-2-70b-generate-4xh100.yaml --sweep workload.batch=1,4,16,64 --chart curve.svg
      sightline predict scenario.yaml --chart prediction.svg
      sightline predict scenario.yaml --html report.html --markdown report.md
      sightline predict scenario.yaml --set plan.zero_stage=3 --json
      sightline predict scenario.yaml --nearest
      sightline predict scenario.yaml --sweep plan.micro_batch=1,2,4 --csv
      sightline predict examples/sweep-llama-2-7b.yaml --sort memory_bytes.total --top 5
      sightline predict examples/operators.yaml
      sightline predict scenario.yaml --anchor examples/llama-2-7b-measured-8xa800.yaml
      sightline predict scenario.yaml --anchor latest --save-anchor our-cluster
      cat scenario.yaml | sightline predict -
    """
    written.check({"--trace": trace})
    first = first_of(top, MOST_TOP)
    # Files may be pipes that somebody else writes, so Ctrl-C ends the reading at once.
    with progress_bar(stops=False) as reading:
        loaded = options.read(files, settings, sweeps, reading, skip_invalid=skip_invalid)
    _refuse_pictures(loaded.scenarios, written.chart, trace)
    known = anchored_by(anchor, save_anchor, store)
    with progress_bar() as progress:
        answers = _predict_all(loaded, known, progress, in_full=first is None, skip_invalid=skip_invalid)
    for remark in loaded.not_answered():
        output.print_remark(remark)
    if known is None and any(one.measured for one in loaded.scenarios):
        output.print_remark("the scenario has measurements; use --anchor FILE to correct the prediction with them")
    again = given(files, settings, sweeps)
    order = _order(answers, loaded.cells[: len(answers)], sort, first, as_asked=written.as_json or written.as_csv)
    if trace is not None:
        from sightline.chrome.step_trace import chrome_trace

        output.write_file(trace, chrome_trace(answers[0]))
    plans = _nearest(answers, known, again) if nearest else ()
    reports.write(_report(answers, loaded, order, known, again, plans), written)
    end_if_stopped(progress)
    if written.are_tables and again:
        try_next(*_next_step(answers, again, written.chart or written.html))


def _nearest(answers: "list[Profile]", known: "Anchored | None", again: list[str]) -> "Sequence[NearestPlan]":
    """Return the nearest plans that fit, if the only plan does not and no single change makes it fit."""
    from sightline.planning.unfit import nearest_to

    command = shlex.join(("sightline", "predict", *(again or ["FILE"])))
    return nearest_to(answers[0], command, known) if len(answers) == 1 else ()


def _report(
    answers: "list[Profile]",
    loaded: "Loaded",
    order: list[int],
    known: "Anchored | None",
    again: list[str],
    nearest: "Sequence[NearestPlan]",
) -> ProfilesReport:
    """The report of the answers, of which stdout holds those in ``order``; ``again`` asks for them again."""

    def documents(shown: "Sequence[Profile]") -> list[dict[str, Any]]:
        from sightline.planning.unfit import prediction_to_dict

        with_tables = len(shown) <= MOST_TABLES
        if not with_tables:
            output.print_remark(
                f"rows and stages are omitted for more than {MOST_TABLES:,} results; use --top N to include them"
            )
        if loaded.is_list:
            return [one.to_dict(tables=with_tables) for one in shown]
        return [prediction_to_dict(one, nearest) for one in shown]

    return ProfilesReport(
        answers=answers,
        documents=documents,
        is_list=loaded.is_list,
        cells=loaded.cells[: len(answers)],
        order=order,
        nearest=nearest,
        would_help=lambda: changes_of(answers, again, known),
    )


def _next_step(answers: "list[Profile]", again: list[str], picture: str | None) -> list[str]:
    """Words of the command that goes on from a prediction: what would fit, what matters, or a picture of several."""
    tasks = {answer.task.name for answer in answers}
    if "operator" in tasks:
        return []
    if len(answers) > 1:
        return [] if picture or len(tasks) > 1 else ["predict", *again, "--chart", "sweep.svg"]
    from sightline.prediction.changes import needs_several

    is_training = "training" in tasks
    if is_training and needs_several(answers[0]):
        return ["predict", *again, "--nearest"]
    return ["plan" if is_training and not answers[0].fits and has("plan") else "sensitivity", *again]


def _order(
    answers: "list[Profile]", cells: "list[Cell]", sort: str | None, top: int | None, *, as_asked: bool
) -> list[int]:
    """Return the positions of the answers that are shown, in order; as asked unless one of the options says more."""
    if sort is None and (len(answers) < 2 or (as_asked and top is None)):
        return list(range(len(answers)))[:top]
    from sightline.answers.several import ranked

    return ranked(answers, cells, sort or "")[:top]


def _refuse_pictures(scenarios: "list[Asked]", picture: str | None, trace: str | None) -> None:
    """Refuse charts and traces that cannot be drawn, before any work is done."""
    from sightline.profile import task_of

    tasks = {task.name for scenario in scenarios if (task := task_of(scenario.workload.task))}
    path = picture or trace
    if path is not None and "operator" in tasks:
        raise InputError(f"'{path}': operators have no chart or trace; use --html, --json or --csv")
    if trace is not None and len(scenarios) > 1:
        raise InputError(f"--trace draws one scenario, got {len(scenarios)}")
    if trace is not None and "serving" in tasks:
        raise InputError(f"'{trace}': predict cannot trace serving; use `sightline simulate FILE --trace`")
    if picture is not None and len(tasks) > 1:
        raise InputError(f"'{picture}': a chart shows either training or generation; predict them separately")


def _predict_all(
    loaded: "Loaded", known: "Anchored | None", progress: "Progress", *, in_full: bool, skip_invalid: bool
) -> "list[Profile]":
    """Return the predictions; ``in_full`` with their intervals, which every table shows and which take longest."""
    from sightline.prediction import predict as predict_one

    several = len(loaded.scenarios) > 1

    def answer(scenario: "Asked") -> "Profile":
        found = predict_one(scenario, anchor=known)
        _ = found.interval if in_full and several else None
        return found

    return loaded.answered_by(answer, progress, "predicting", skip_invalid=skip_invalid)
