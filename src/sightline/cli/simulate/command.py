"""The command ``sightline simulate``."""

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import asked, output, reports
from sightline.cli.anchored import anchored_by
from sightline.cli.next_step import given, try_next
from sightline.cli.options import (
    Anchors,
    AsCsv,
    AsJson,
    Chart,
    Charts,
    Files,
    Html,
    Markdown,
    RunStore,
    SaveAnchor,
    Settings,
    Sort,
    Sweeps,
)
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.explanation.answer import Advice
    from sightline.loading.possible import Cell, Loaded
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile
    from sightline.scenario import ServingScenario
    from sightline.simulation.rates import Capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files that were asked for."""

    requests: str | None
    trace: str | None
    chart: str | None
    html: str | None
    markdown: str | None
    charts: str | None


def simulate(
    files: Files,
    requests: Annotated[
        str | None,
        typer.Option(metavar="OUT", help="Write what became of each request into a table (.parquet)."),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="OUT", help="Write the run as a Chrome trace for Perfetto (.json).")
    ] = None,
    capacity: Annotated[
        bool, typer.Option("--capacity", help="Search the highest rate of arrivals that meets workload.slo.")
    ] = False,
    anchor: Anchors = None,
    save_anchor: SaveAnchor = None,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Simulate the requests of a measured run at the same times, and compare request by request.",
        ),
    ] = None,
    store: RunStore = None,
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="Intervals, which take up to ten further runs.")
    ] = True,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Keep no rows, in the same memory for any load; always so beyond 1,000,000 requests."
        ),
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    chart: Chart = None,
    charts: Charts = None,
    html: Html = None,
    markdown: Markdown = None,
    settings: Settings = None,
    sweeps: Sweeps = None,
    sort: Sort = None,
) -> None:
    """Simulate a serving engine under a load: times, rates, queue, KV cache, energy and money.

    The scenario has task serve: requests and when they arrive, and perhaps an objective (workload.slo). Every iteration
    of the engine's scheduler is followed, with the times that predict has for it; vLLM from 0.14 on schedules the next
    iteration while one runs, which hides the host's part. With --capacity, the answer has the highest rate that meets
    the objective.

    \b
    Examples:
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --capacity
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --sweep workload.arrival.rate=2,4,8 --chart curve.svg
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --requests requests.parquet --trace trace.json
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --set plan.max_sequences=64 --json
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --html report.html
      sightline simulate examples/tiny-llama-serve-this-machine.yaml --anchor latest --replay latest
    """
    named = _Files(requests=requests, trace=trace, chart=chart, html=html, markdown=markdown, charts=charts)
    written = {"--requests": requests, "--trace": trace, "--chart": chart, "--html": html, "--markdown": markdown}
    output.check(written, json=as_json, csv=as_csv)
    reports.check_charts(charts)
    with progress_bar(stops=False) as reading:
        loaded = asked.read(files, settings, sweeps, reading)
    scenarios = _asked(loaded, named)
    if capacity and len(scenarios) > 1 and chart is not None:
        raise InputError(f"--chart with --capacity draws one search, {len(scenarios)} were asked for")
    if chart is not None and len(scenarios) > 1:
        _check_curve(chart, scenarios)
    needing_rows = ["--capacity"] * capacity + ["--replay"] * (replay is not None)
    if stream and needing_rows:
        raise InputError(f"--stream keeps no rows of requests, which {needing_rows[0]} needs: leave out one of them")
    known = anchored_by(anchor, save_anchor, store)
    if replay is not None:
        if capacity or len(scenarios) > 1:
            raise InputError("--replay is of one scenario, and goes without --capacity")
        _beside_measured(scenarios[0], named, known, replay, store, intervals=intervals, json=as_json)
        return
    from sightline.cli.simulate.streamed import streamed
    from sightline.simulation.simulate import is_long

    found: list[Capacity] = []
    with progress_bar() as progress:
        if len(scenarios) == 1 and not capacity and (stream or is_long(scenarios[0])):
            answers = [streamed(scenarios[0], requests, progress, intervals=intervals, known=known)]
            named = replace(named, requests=None)
        else:
            from sightline.anchors.at_capacity import simulated

            answers, found = simulated(
                scenarios, progress, known, capacity=capacity, intervals=intervals, stream=stream
            )
    for one, cell in zip(found, loaded.cells, strict=False):
        varied = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in cell.items())
        output.print_remark(f"{varied}: {one.sentence}" if varied else one.sentence)
    again = given(files, settings, sweeps)
    is_drawn = (html or markdown) and not found and answers[0].outcome is not None
    changes = reports.changes_of(answers, again, known) if is_drawn else ()
    printed = _write(answers, found, named, loaded.cells, changes)
    if not printed:
        _show(answers, loaded, sort, again, as_json=as_json, as_csv=as_csv)
    end_if_stopped(progress)
    if not (as_json or as_csv or printed) and again and len(answers) == 1 and not capacity:
        has_slo = scenarios[0].workload.slo is not None
        try_next("simulate", *again, *(["--capacity"] if has_slo else ["--chart", "run.svg"]))


def _beside_measured(
    scenario: "ServingScenario",
    named: _Files,
    known: "Anchored | None",
    replay: str,
    store: str | None,
    *,
    intervals: bool,
    json: bool,
) -> None:
    """Simulate the very requests of a measured run, and show both."""
    from sightline.anchors import simulate as simulate_one
    from sightline.cli.simulate.measured import drawn, replayed, served_run
    from sightline.report.terminal.replay import replay_table

    shown = served_run(replay, store)
    answer = simulate_one(scenario, anchor=known or (), load=[shown.outcome.requests], intervals=intervals)
    rows = replayed(shown, answer, named.requests)
    if named.chart is not None and rows:
        drawn(named.chart, shown, answer)
    printed = _write([answer], [], replace(named, requests=None, chart=None) if rows else named)
    if printed:
        return
    document = answer.to_dict() | ({"replay": rows} if rows else {})
    output.show_profiles([answer], lambda: [document], one=True, json=json, csv=False)
    if rows and not json:
        output.print_table(replay_table(rows))


def _asked(loaded: "Loaded", named: _Files) -> "list[ServingScenario]":
    """The scenarios; those of other tasks are refused, and files that hold one run where several were asked for."""
    from sightline.anchors.at_capacity import loads_of

    found = loads_of(loaded.scenarios)
    for option, path in (("--requests", named.requests), ("--trace", named.trace)):
        if path is not None and len(loaded.scenarios) > 1:
            raise InputError(f"{option} is of one scenario, {len(loaded.scenarios)} were asked for")
    return found


def _write(
    answers: "list[Profile]",
    found: "list[Capacity]",
    named: _Files,
    cells: "Sequence[Cell]" = (),
    changes: "Sequence[Advice]" = (),
) -> bool:
    """Write the files that were asked for, of a plan that does not fit only reports.

    Return whether stdout holds one of them.
    """
    printed = _write_reports(answers, found, named, cells, changes)
    _write_runs(answers, found, named)
    return printed


def _write_reports(
    answers: "list[Profile]",
    found: "list[Capacity]",
    named: _Files,
    cells: "Sequence[Cell]",
    changes: "Sequence[Advice]",
) -> bool:
    shown = [one.profile for one in found[0].tried] if len(found) == 1 else answers
    told = cells if len(cells) == len(shown) else ()
    if named.html is not None:
        from sightline.report.pages.profiles import page

        reports.write_page(named.html, lambda typed: page(shown, told, command=typed, changes=changes))
    reports.write_charts(named.charts, shown)
    if named.markdown is None:
        return False
    from sightline.report.markdown.answers import profiles_markdown

    return reports.write_markdown(
        named.markdown, lambda typed: profiles_markdown(answers, told, command=typed, changes=changes)
    )


def _write_runs(answers: "list[Profile]", found: "list[Capacity]", named: _Files) -> None:
    """Write what became of the requests; nothing of a plan that does not fit."""
    if any(answer.fits is False for answer in answers):
        if any((named.requests, named.trace, named.chart)):
            output.print_remark("no file was written: a plan that does not fit serves no request")
        return
    if named.trace is not None and answers[0].outcome is None:
        output.print_remark("no trace was written: of so many requests no rows are kept")
        named = replace(named, trace=None)
    if named.requests is not None:
        from sightline.runs.run import as_parquet
        from sightline.simulation.results.table import request_table

        output.write_file(named.requests, as_parquet(request_table(answers[0].outcome)))
    if named.trace is not None:
        from sightline.report.chrome.serving import load_trace

        text, said = load_trace(answers[0])
        output.write_file(named.trace, text)
        if said:
            output.print_remark(said)
    if named.chart is not None:
        _draw(named.chart, [one.profile for one in found[0].tried] if len(found) == 1 else answers)


def _check_curve(path: str, scenarios: "list[ServingScenario]") -> None:
    """Refuse to draw several runs that are no curve, before they run."""
    from sightline.report.charts.serving.rates import is_curve

    if not is_curve(scenarios):
        raise InputError(
            f"--chart '{path}' draws one run, or three and more that differ in workload.arrival.rate alone, or in its "
            "concurrency"
        )


def _draw(path: str, profiles: "list[Profile]") -> None:
    from sightline.report.charts.drawing import PHONE
    from sightline.report.charts.serving.chart import serving_chart

    drawn = serving_chart(profiles)
    if drawn is None:
        output.print_remark("no chart was drawn: no request was answered, or too few rates were tried")
        return
    output.draw(path, drawn, lambda: serving_chart(profiles, PHONE) or drawn)


def _show(
    answers: "list[Profile]", loaded: "Loaded", sort: str | None, again: list[str], *, as_json: bool, as_csv: bool
) -> None:
    """Print the answers in the order that was asked for; sweeps stay as they are unless ``sort`` says otherwise."""
    order = list(range(len(answers)))
    cells = loaded.cells[: len(answers)]
    if sort is not None:
        from sightline.report.ranking import ranked

        order = ranked(answers, cells, sort)
    if as_json or as_csv:
        answers, cells = [answers[i] for i in order], [cells[i] for i in order]

    def documents() -> list[dict[str, Any]]:
        return [answer.to_dict() for answer in answers]

    output.show_profiles(
        answers,
        documents,
        one=not loaded.is_list,
        json=as_json,
        csv=as_csv,
        cells=cells,
        order=order,
        command=shlex.join(("sightline", "simulate", *(again or ["FILE"]))),
    )
