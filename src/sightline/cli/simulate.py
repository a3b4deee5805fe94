"""The command ``sightline simulate``."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sightline.cli import output, reports
from sightline.cli.options import SaveAnchor, Scenarios, Sort, option
from sightline.cli.output import try_next
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import ProfilesReport, ReportOptions, changes_of
from sightline.errors import InputError
from sightline.whole_files import unwritable

if TYPE_CHECKING:
    from sightline.loading.loader import Loaded
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile
    from sightline.progress import Progress
    from sightline.scenario import ServingScenario
    from sightline.simulation.capacity import Capacity
    from sightline.simulation.load import Integers
    from sightline.simulation.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions(Scenarios):
    """Which loads are simulated, how, and in which form they are answered."""

    save_anchor: SaveAnchor = None
    requests: str | None = option(None, "Write the outcome of every request to a .parquet file.", metavar="OUT")
    trace: str | None = option(None, "Write a Chrome trace (.json), which Perfetto opens.", metavar="OUT")
    capacity: bool = option(False, "Find the highest request rate that meets workload.slo.")
    replay: str | None = option(
        None,
        "Replay the requests of a stored run at their original times and compare with the measurement.",
        metavar="RUN",
    )
    intervals: bool = option(
        True, "Compute intervals, which takes up to ten more simulations.", "--intervals/--no-intervals"
    )
    stream: bool = option(
        False, "Keep no per-request rows, so that memory stays constant. Always on beyond 1,000,000 requests."
    )
    reports: ReportOptions = field(default_factory=ReportOptions)
    sort: Sort = None


def simulate(options: SimulateOptions) -> None:
    """Simulate a serving engine under load: latency, throughput, queueing, KV cache, energy and cost.

    The scenario has task serve: the requests, their arrivals, and optionally an objective (workload.slo). The simulator
    follows every iteration of the engine's scheduler, with iteration times from predict. vLLM 0.14 and later schedules
    the next iteration while one runs, which hides the host time. With --capacity, the result includes the highest
    request rate that meets the objective.

    \b
    Examples:
      sightline simulate --model llama-3.1-8b --cluster "1x h100" --rate 8
      sightline simulate --model llama-3.1-8b --cluster "1x h100" --slo 'ttft<=1s,tpot<=50ms' --capacity
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --sweep workload.arrival.rate=2,4,8 --chart curve.svg
      sightline simulate examples/serving/llama-3.1-8b-h100.yaml --requests requests.parquet --trace trace.json
      sightline simulate examples/tiny-llama-serve-this-machine.yaml --anchor latest --replay latest
    """
    options.reports.check({"--requests": options.requests, "--trace": options.trace})
    loaded = options.read(task="serve")
    scenarios = _scenarios(loaded, options)
    known = options.known(options.save_anchor)
    if options.replay is not None:
        _beside_measured(scenarios[0], options, known, options.replay)
        return
    with progress_bar(lines=True) as progress:
        answers, found, options = _simulated(scenarios, options, known, progress)
    for one, cell in zip(found, loaded.cells, strict=False):
        varied = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in cell.items())
        output.print_remark(f"{varied}: {one.sentence}" if varied else one.sentence)
    again = options.again()
    reports.write(_report(answers, found, loaded, options, known), _write_runs(answers, options))
    end_if_stopped(progress)
    if options.reports.are_tables and again and len(answers) == 1 and not options.capacity:
        has_slo = scenarios[0].workload.slo is not None
        further = ["simulate", *again, *(["--capacity"] if has_slo else ["--chart", "run.svg"])]
        try_next(*(["plan", *again] if has_slo and not answers[0].fits else further))


def _scenarios(loaded: "Loaded", options: SimulateOptions) -> "list[ServingScenario]":
    """The scenarios; refused are those of other tasks, and options that cannot go together for so many."""
    from sightline.anchors.corrected import loads_of

    found, chart, several = loads_of(loaded.scenarios), options.reports.chart, len(loaded.scenarios) > 1
    for name, path in (("--requests", options.requests), ("--trace", options.trace)):
        if path is not None and several:
            raise InputError(f"{name} needs one scenario, got {len(loaded.scenarios)}")
    if options.capacity and several and chart is not None:
        raise InputError(f"--chart with --capacity needs one scenario, got {len(found)}")
    if chart is not None and several:
        _check_curve(chart, found)
    needing_rows = ["--capacity"] * options.capacity + ["--replay"] * (options.replay is not None)
    if options.stream and needing_rows:
        raise InputError(f"--stream cannot be combined with {needing_rows[0]}, which needs per-request rows")
    if options.replay is not None and (options.capacity or several):
        raise InputError("--replay needs one scenario and cannot be combined with --capacity")
    return found


def _simulated(
    scenarios: "list[ServingScenario]", options: SimulateOptions, known: "Anchored | None", progress: "Progress"
) -> "tuple[list[Profile], list[Capacity], SimulateOptions]":
    """The answers, the capacities that were searched, and the options that are still to be followed."""
    from sightline.simulation.simulate import is_long

    if len(scenarios) == 1 and not options.capacity and (options.stream or is_long(scenarios[0])):
        only = streamed(scenarios[0], options.requests, progress, intervals=options.intervals, known=known)
        return [only], [], replace(options, requests=None)
    from sightline.anchors.corrected import simulated

    how = {"capacity": options.capacity, "intervals": options.intervals, "stream": options.stream}
    answers, found = simulated(scenarios, progress, known, **how)
    return answers, found, options


def _beside_measured(
    scenario: "ServingScenario", options: SimulateOptions, known: "Anchored | None", replay: str
) -> None:
    """Simulate the very requests of a measured run, and show both."""
    from sightline.anchors.corrected import simulate as simulate_one

    shown = served_run(replay, options.store)
    answer = simulate_one(scenario, anchor=known or (), load=[shown.outcome.requests], intervals=options.intervals)
    rows = replayed(shown, answer, options.requests)
    written = _write_runs([answer], replace(options, requests=None) if rows else options)
    more = {"replay": rows} if rows else {}
    documents = lambda shown: [one.to_dict() | more for one in shown]  # noqa: E731 - a form like the others
    reports.write(_Replay(answer=[answer], each=documents, is_list=False, run=shown, rows=rows), written)


class _Loads(ProfilesReport):
    """Loads that were simulated; of a search for the highest rate, its runs are what is drawn."""

    @property
    def without_chart(self) -> str:
        return "no request was answered, or too few rates were simulated"

    def chart(self, *room: Any) -> dict[str, Any] | None:
        from sightline.charts.load_charts import serving_chart

        return serving_chart(self.charted(), *room)


def _report(
    answers: "list[Profile]",
    found: "list[Capacity]",
    loaded: "Loaded",
    options: SimulateOptions,
    known: "Anchored | None",
) -> _Loads:
    """The report of the answers in the order that was asked for; sweeps stay as they are unless --sort says more."""
    cells, order = loaded.cells[: len(answers)], None
    if options.sort is not None:
        from sightline.answers.several import ranked

        order = ranked(answers, cells, options.sort)
    is_explained = not found and answers[0].outcome is not None
    return _Loads(
        answer=answers,
        each=lambda shown: [one.to_dict() for one in shown],
        is_list=loaded.is_list,
        cells=cells,
        order=order,
        kept=lambda: {"changes": changes_of(answers, options.again(), known) if is_explained else ()},
        drawn=[one.profile for one in found[0].tried] if len(found) == 1 else None,
    )


def _write_runs(answers: "list[Profile]", options: SimulateOptions) -> ReportOptions:
    """Write what became of the requests; return the reports that are still to be written.

    Of a plan that does not fit these have no chart.
    """
    if any(answer.fits is False for answer in answers):
        if any((options.requests, options.trace, options.reports.chart)):
            output.print_remark("no file written: the plan does not fit, so no request is served")
        return replace(options.reports, chart=None)
    if options.requests is not None:
        from sightline.runs.store import as_parquet
        from sightline.simulation.results.summary import request_table

        output.write_file(options.requests, as_parquet(request_table(answers[0].outcome)))
    if options.trace is not None and answers[0].outcome is None:
        output.print_remark("no trace written: too many requests to keep per-request rows")
    elif options.trace is not None:
        from sightline.chrome.load_trace import load_trace

        text, said = load_trace(answers[0])
        output.write_file(options.trace, text)
        if said:
            output.print_remark(said)
    return options.reports


def _check_curve(path: str, scenarios: "list[ServingScenario]") -> None:
    """Refuse to draw several runs that are no curve, before they run."""
    from sightline.charts.curves import is_curve

    if not is_curve(scenarios):
        raise InputError(
            f"--chart '{path}' draws one scenario, or three or more that differ only in workload.arrival.rate or "
            "workload.arrival.concurrency"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedRun:
    """A measured load."""

    name: str
    scenario: "ServingScenario"
    outcome: "Outcome"


def served_run(asked: str, store: str | None) -> ServedRun:
    """Return a stored run of serving.

    Raises:
        InputError: There is no such run, it measured something else, or it did not end well.
    """
    from sightline.loading.serving import serving_from_mapping
    from sightline.runs import open_store
    from sightline.simulation.replay import outcome_of

    runs = open_store(store)
    run = runs.find(asked)
    if run.scenario.get("workload", {}).get("task") != "serve":
        raise InputError(f"run '{run.id}' is not a serving run; --replay needs a run of task serve")
    if run.status != "ok":
        raise InputError(f"run '{run.id}' is {run.status}; --replay needs a run with status ok")
    scenario = serving_from_mapping(dict(run.scenario))
    return ServedRun(name=run.id, scenario=scenario, outcome=outcome_of(runs.samples(run).to_dicts()))


def replayed(run: ServedRun, profile: "Profile", path: str | None) -> list[dict[str, Any]]:
    """Return measured and simulated times beside each other; every request goes into the file at ``path``."""
    from sightline.runs.store import as_parquet
    from sightline.simulation.replay import compared_requests, compared_statistics

    if profile.outcome is None:
        return []
    if path is not None:
        output.write_file(path, as_parquet(compared_requests(run.outcome, profile.outcome)))
    return compared_statistics(run.outcome, profile.outcome)


@dataclass(kw_only=True)
class _Replay(ProfilesReport):
    """The simulation of a measured run's requests, beside that run."""

    run: ServedRun
    rows: list[dict[str, Any]]
    """Measured and simulated times; none where the plan does not fit."""

    def tables(self) -> Any:
        """Return the simulation's tables, and both runs beside each other."""
        from sightline.answers.loads import replay_rows
        from sightline.answers.outline import Outline

        yield from super().tables()
        if self.rows:
            yield Outline(parts=[replay_rows(self.rows)])

    def chart(self, *room: Any) -> dict[str, Any] | None:
        """Draw every request as measured and as simulated."""
        from sightline.charts.load_charts import replay_chart

        return replay_chart(self.run.outcome, self.answer[0], *room)


def streamed(
    scenario: "ServingScenario",
    requests: str | None,
    progress: "Progress",
    *,
    intervals: bool,
    known: "Anchored | None" = None,
) -> "Profile":
    """Return the profile of a load of which no rows are kept; they go to ``requests`` in order of their ends."""
    from sightline.anchors.corrected import simulate

    run = partial(simulate, scenario, anchor=known or (), intervals=intervals, streamed=True, progress=progress)
    if requests is None:
        return run()
    try:
        # Beside the file, where there is room for it.
        with TemporaryDirectory(prefix=".sightline-", dir=Path(requests).absolute().parent) as folder:
            pieces = _Pieces(Path(folder))
            profile = run(rows=pieces.write)
            pieces.join(Path(requests))
    except OSError as error:
        raise unwritable(requests, error) from error
    output.print_remark(f"wrote {requests}")
    return profile


class _Pieces:
    """Parquet files of a table's pieces in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = 0

    def write(self, numbers: "Integers", piece: "Outcome") -> None:
        """Write a piece."""
        from sightline.runs.store import as_parquet
        from sightline.simulation.results.summary import request_table

        (self._folder / f"{self._written:08}.parquet").write_bytes(as_parquet(request_table(piece, numbers)))
        self._written += 1

    def join(self, path: Path) -> None:
        """Write all pieces as one file, none of them as a whole in memory."""
        import polars

        from sightline.parquet import polars_faults

        if self._written:
            whole = self._folder / "whole"
            try:
                polars.scan_parquet(self._folder / "*.parquet").sink_parquet(whole, compression="zstd")
            except polars_faults() as error:
                raise unwritable(path, error) from error
            whole.replace(path)
