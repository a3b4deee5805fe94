"""``sightline predict``, ``compare`` and ``check``: predictions, and what is held against them."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, options, output, reports
from sightline.cli.main import FAILED
from sightline.cli.output import try_next
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import ProfilesReport, Report, ReportOptions, changes_of
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.loading.loader import Asked, Cell, Loaded
    from sightline.planning.plan_answer import NearestPlan
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile
    from sightline.progress import Progress

MOST_TOP = 10**9
"""Answers of which the first may be asked for: more than anybody sweeps."""
MOST_TABLES = 1000
"""Answers that are told in full: of more, tables of operators and stages would not fit into memory, and looking for
what would fit takes several predictions for each."""


def predict(
    *,
    scenarios: options.Scenarios,
    save_anchor: options.SaveAnchor = None,
    written: ReportOptions,
    trace: Annotated[
        str | None,
        options.described(
            "Write the timeline of a training step or generation as a Chrome trace (.json).", metavar="OUT"
        ),
    ] = None,
    skip_invalid: options.SkipInvalid = False,
    sort: options.Sort = None,
    top: options.Top = None,
    nearest: Annotated[
        bool, options.described("If no single change makes the plan fit, search for the nearest that does.")
    ] = False,
) -> None:
    """Predict training, generation or a single operator: time, memory, and whether it fits.

    The scenario sets the task. A plan that does not fit in memory is still predicted, and for training the result lists
    changes that would make it fit. With --anchor, the prediction is corrected with a few measured steps or requests
    from your cluster; the output lists each correction.

    \b
    Examples:
      sightline predict --model llama-3.1-8b --cluster "8x h100" --sequence 8192
      sightline predict --model Qwen/Qwen3-32B --cluster "2x h100" --prompt 2000 --output 500 --batch 16
      sightline predict examples/llama-2-7b-zero2-8xa800.yaml --html report.html --markdown report.md
      sightline predict examples/llama-2-7b-does-not-fit.yaml --nearest
      sightline predict examples/llama-2-7b-zero2-8xa800.yaml --anchor examples/llama-2-7b-measured-8xa800.yaml
    """
    written.check({"--trace": trace})
    first = options.first_of(top, MOST_TOP)
    loaded = scenarios.read(skip_invalid=skip_invalid)
    _refuse_pictures(loaded.scenarios, written.chart, trace)
    known = scenarios.known(save_anchor)
    with progress_bar() as progress:
        answers = _predict_all(loaded, known, progress, in_full=first is None, skip_invalid=skip_invalid)
    if any(one.fits is False for one in answers):
        from sightline.planning.unfit import with_launched_advice

        answers = list(map(with_launched_advice, answers))
    for remark in loaded.not_answered():
        output.print_remark(remark)
    if known is None and any(one.measured for one in loaded.scenarios):
        output.print_remark("the scenario has measurements; use --anchor FILE to correct the prediction with them")
    order = _order(answers, loaded.cells[: len(answers)], sort, first, as_asked=written.as_json or written.as_csv)
    if len(order) > MOST_TABLES and not written.are_tables:
        omitted = "advice is" if written.as_csv else "rows, stages and advice are"
        output.print_remark(f"{omitted} omitted for more than {MOST_TABLES:,} results; use --top N to include them")
        answers = [one.replace(advice=()) for one in answers]
    if trace is not None:
        from sightline.chrome.step_trace import chrome_trace

        output.write_file(trace, chrome_trace(answers[0]))
    again = scenarios.again()
    plans = _nearest(answers, known, again) if nearest else ()
    report = _predictions(answers, loaded, order, known, again, plans)
    report.in_full = top is not None
    reports.write(report, written)
    end_if_stopped(progress)
    if written.are_tables and again:
        try_next(*_next_step(answers, again, written.chart or written.html))


def _nearest(answers: "list[Profile]", known: "Anchored | None", again: list[str]) -> "Sequence[NearestPlan]":
    """Return the nearest plans that fit, if the only plan does not and no single change makes it fit."""
    from sightline.planning.unfit import nearest_to

    command = shlex.join(("sightline", "predict", *(again or ["FILE"])))
    return nearest_to(answers[0], command, known) if len(answers) == 1 else ()


def _predictions(
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
        if loaded.is_list:
            return [one.to_dict(tables=with_tables) for one in shown]
        return [prediction_to_dict(one, nearest) for one in shown]

    return ProfilesReport(
        answer=answers,
        each=documents,
        is_list=loaded.is_list,
        cells=loaded.cells[: len(answers)],
        order=order,
        says={"nearest": nearest},
        kept=lambda: {"changes": changes_of(answers, again, known)},
    )


def _next_step(answers: "list[Profile]", again: list[str], picture: str | None) -> list[str]:
    """Words of the command that goes on from a prediction: what would fit, what matters, or a picture of several."""
    tasks = {answer.task.name for answer in answers}
    if "operator" in tasks:
        return []
    if len(answers) > 1:
        return [] if picture or len(tasks) > 1 else ["predict", *again, "--chart", "sweep.svg"]
    return ["sensitivity" if answers[0].fits else "plan", *again]


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
    from sightline.prediction import predictor

    several = len(loaded.scenarios) > 1
    predict_one = predictor(loaded.scenarios, anchor=known)

    def answer(scenario: "Asked") -> "Profile":
        profile = predict_one(scenario)
        _ = profile.interval if in_full and several else None
        return profile

    return loaded.answered_by(answer, progress, "predicting", skip_invalid=skip_invalid)


_SHOWN = "step,request,phase,memory,module"
_ALL = "step,request,phase,memory,module,operator"


def compare(
    a: Annotated[
        str,
        options.argument(
            "A stored run (`latest`, an id or the start of one), a results or scenario file, or `predicted`.", "A"
        ),
    ],
    b: Annotated[
        str, options.argument("The run, results or scenario file to compare with A; `predicted` predicts A.", "B")
    ],
    level: Annotated[
        str | None,
        options.described(
            f"Levels to compare: {_ALL}. Default: all; the terminal omits operator.", metavar="LEVEL,..."
        ),
    ] = None,
    *,
    written: ReportOptions,
    anchor: options.Anchors = None,
    store: options.RunStore = None,
) -> None:
    """Compare two profiles: key figures, time by phase, module and operator, and memory by part.

    Each row shows the ratio B / A with its interval and whether B is faster, slower, or not distinguishable from A
    (the interval contains 1). The interval combines the spread of samples and the uncertainty of predictions. Scenario
    files are predicted first. For two predictions, shared errors cancel and the output shows the probability that each
    is faster. FILE#2 selects the second result of a file, RESULT@SCENARIO is what a load client (guidellm, aiperf,
    `vllm bench serve`, inference-perf) measured of a scenario. Serving runs are compared request by request if both
    served the same requests.

    \b
    Examples:
      sightline compare latest predicted
      sightline compare examples/llama-2-7b-zero2-8xa800.yaml 20261121-104239
      sightline compare examples/llama-2-7b-packed-8xh100.yaml examples/llama-3.1-8b-fsdp-8xh100.yaml
      sightline compare 20261121-104239 20261121-110512 --level phase,module --chart before-after.svg
      sightline compare examples/llama-2-7b-zero2-8xa800.yaml examples/llama-2-7b-measured-8xa800.yaml --json
    """
    written.check()
    from sightline.explanation.comparison import compare as compare_profiles

    levels = (level or (_ALL if written.as_json or written.as_csv else _SHOWN)).split(",")
    comparison = compare_profiles(a, b, levels=[word.strip() for word in levels], store=store, anchor=anchor or ())
    output.warn(comparison.warnings)
    reports.write(Report(kind="comparison", answer=comparison, in_full=level is not None), written)
    if written.are_tables:
        known = [word for one in anchor or () for word in ("--anchor", one)]
        finer = ["--level", "module,operator"] if level is None else ["--chart", "comparison.svg"]
        try_next("compare", a, b, *known, *finer)


def check(
    *,
    scenarios: options.Scenarios,
    require: Annotated[
        list[str],
        options.described(
            "Requirement: `fits`, or FIGURE OPERATOR BOUND, such as 'mfu>=0.35' or 'ttft_p90<=500 ms'. Operators: >=, "
            "<=, >, <; also == and != for counts and words. Quote it: the shell treats > and < as redirection. Can be "
            "repeated.",
            metavar="EXPRESSION,...",
            completes=completion.requirements,
        ),
    ],
    whole_interval: Annotated[
        bool,
        options.described("Require the whole 80 % interval to meet the bound. A figure without an interval fails."),
    ] = False,
    written: Annotated[ReportOptions, options.only("as_json", "markdown")],
) -> None:
    """Check that a prediction meets requirements. Exits with 0 if it does, 1 if not, 2 for invalid input.

    Figures are result keys such as ttft_s.p90, or short names such as ttft_p90 and memory. Serving scenarios are
    simulated. With several scenarios, each must meet every requirement; an invalid combination of a sweep meets none.

    \b
    Examples:
      sightline check --model llama-3.1-8b --cluster "1x rtx-4090" --prompt 1000 --require 'fits,tpot<=30 ms'
      sightline check examples/llama-2-7b-zero2-8xa800.yaml --require 'fits,mfu>=0.15'
      sightline check examples/serving/llama-3.1-8b-h100.yaml --require 'ttft_p90<=500 ms,tpot_p99<=50 ms'
      sightline check examples/llama-2-7b-zero2-8xa800.yaml --require fits --sweep plan.micro_batch=1,2 --json
      sightline check examples/llama-2-7b-zero2-8xa800.yaml --samples 52k --require 'cost<=100' --markdown -
    """
    written.check()
    loaded = scenarios.read()
    from sightline.requirements.check import check as checked_one
    from sightline.requirements.check import requirements

    requirements(require, loaded.scenarios)
    checked = partial(checked_one, whole_interval=whole_interval, anchor=scenarios.known() or ())
    with progress_bar() as progress:
        found = [checked(scenario, require) for scenario in progress.over(loaded.scenarios, "checking")]
    end_if_stopped(progress)  # a verdict on some of the scenarios is none
    left_out = list(loaded.not_possible())
    output.warn(warning for one in found for warning in one.warnings)
    documents = [
        document | {"warnings": [*left_out, *document["warnings"]]} for document in (one.to_dict() for one in found)
    ]
    says = {"impossible": len(loaded.impossible), "left_out": left_out}
    report = _Requirements(
        kind="requirements", answer=found, documents=lambda: documents, is_list=loaded.is_list, says=says
    )
    reports.write(report, written)
    if loaded.impossible or not all(one.met for one in found):
        raise typer.Exit(FAILED)


@dataclass(kw_only=True)
class _Requirements(Report):
    def tables(self) -> Any:
        from sightline.answers.requirements import requirements_lines

        return requirements_lines(self.answer, impossible=self.says["impossible"])
