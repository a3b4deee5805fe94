"""``sightline explain``, ``sensitivity``, ``roofline`` and ``explore``: what an answer depends on."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from sightline.cli import completion, options, output, reports
from sightline.cli.options import Anchors, RunStore, Scenarios, Settings, Sweeps, again, argument, described, only
from sightline.cli.output import try_next
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions, changes_of
from sightline.errors import InputError, prefixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.explanation.answer import Explanation
    from sightline.prediction.roofline_table import AnyScenario, RooflineTable


def explain(
    asked: Annotated[
        list[str] | None,
        argument(
            "A scenario or results file (YAML, JSON or CSV), a stored run (`latest`, an id or the start of one), or "
            "a PyTorch profiler trace (.json, .json.gz; several for several ranks); none with --model and --cluster. - "
            "reads a scenario from stdin.",
            "[FILE|RUN|TRACE...]",
        ),
    ] = None,
    scenario: Annotated[str | None, described("The scenario that produced the trace.", metavar="FILE")] = None,
    settings: Settings = None,
    anchor: Anchors = None,
    *,
    question: options.Question,
    written: ReportOptions,
    store: RunStore = None,
) -> None:
    """Show what limits a scenario, run or trace, and the three changes that would help most.

    For each limit, the output shows the time that would remain if nothing else limited it. Recommends plan changes that
    fit, can be launched and save more than the uncertainty of the prediction, each with the command that predicts it. A
    measured run is shown next to its prediction.

    \b
    Examples:
      sightline explain --model llama-3.1-8b --cluster "64x h100" --framework megatron
      sightline explain examples/gpt-3-175b-1024xa100.yaml --chart limits.svg
      sightline explain latest
      sightline explain examples/traces/slow-loader.json.gz
      sightline explain trace.json.gz --scenario examples/llama-2-7b-zero2-8xa800.yaml --json
    """
    written.check()
    from sightline.explanation.explain import explain as answered

    sources, given = [*(asked or ())], settings or []
    if scenario is not None and question.stated():
        [scenario], given = question.over([scenario], settings)
    elif not sources or question.stated():
        sources, given = question.over(asked, settings)
    source = sources[0] if len(sources) == 1 else sources
    stated: dict[str, Any] = {"scenario": scenario, "settings": given, "anchor": anchor or (), "store": store}
    with progress_bar(tables=True) as progress:
        explanation = answered(source, **stated, progress=progress)
    output.warn(explanation.warnings)
    reports.write(Report(kind="explanation", answer=explanation), written)
    end_if_stopped(progress)
    if written.are_tables:
        try_next(*_next(explanation, again(asked, settings, question=question)))


def _next(found: "Explanation", again: list[str]) -> list[str]:
    """Words of the command that goes on: a search where changes help, else what the prediction hangs on."""
    if not again or found.source != "predicted":
        return ["compare", again[0], "predicted"] if again and found.scenario and len(again) == 1 else []
    task = found.scenario.get("workload", {}).get("task")
    if task in ("pretrain", "finetune"):
        return ["plan", *again]
    return [] if task == "operator" else ["sensitivity" if task == "generate" else "simulate", *again]


def sensitivity(
    *, scenarios: Scenarios, written: Annotated[ReportOptions, only("as_json", "verbose", "chart", "charts", "html")]
) -> None:
    """Show which inputs a prediction depends on: elasticities of device, link and network, and candidate changes.

    An elasticity of -0.4 means that raising the input by 1 % reduces the time by 0.4 %. For training, every plan with a
    single change is predicted as well.

    \b
    Examples:
      sightline sensitivity examples/llama-2-7b-zero2-8xa800.yaml
      sightline sensitivity examples/llama-2-70b-generate-4xh100.yaml --sweep workload.batch=1,64
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --json
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --html depends.html
    """
    from sightline.prediction.sensitivity import sensitivity as of
    from sightline.prediction.sensitivity import sensitivity_to_dict

    written.check()
    known, loaded = scenarios.known(), scenarios.read()
    with progress_bar() as progress:
        found = [of(scenario, anchor=known) for scenario in progress.over(loaded.scenarios, "varying inputs")]
    output.warn(warning for one in found for warning in (*one.answer.scenario.warnings, *one.answer.warnings))
    if (written.chart or written.charts) and len(found) > 1:
        raise InputError(f"--chart and --charts draw one scenario, got {len(found)}; use --html for several")
    same = again(scenarios.files, scenarios.settings, question=scenarios.question)
    report = Report(
        kind="sensitivities",
        answer=found,
        drawn=found[0] if found else None,
        documents=lambda: list(map(sensitivity_to_dict, found)),
        is_list=loaded.is_list,
        kept=lambda: {"changes": [changes_of([one.answer], same, known) for one in found]},
    )
    reports.write(report, written)
    end_if_stopped(progress)
    if written.are_tables and same:
        is_training = all(one.neighbours for one in found)
        try_next(*(["plan", *same] if is_training else ["predict", *same, "--html", "report.html"]))


def roofline(
    file: Annotated[
        str, argument("A generation scenario file; any task with --chart. Use - to read from stdin.", "FILE")
    ],
    devices: Annotated[
        str | None,
        described(
            "Catalog devices to use instead of the scenario's device.", metavar="NAME,...", completes=completion.devices
        ),
    ] = None,
    *,
    written: Annotated[ReportOptions, only("as_json", "as_csv", "verbose", "chart", "charts", "html")],
    settings: Settings = None,
    sweeps: Sweeps = None,
) -> None:
    """Show which matmuls of a layer are compute-bound and which are memory-bound, in prefill and decode.

    For each matmul, the table shows its sizes, FLOPs per byte, the ridge point of the device, the time at the roofline
    and the predicted time. Attention has two matmuls, scores and context, as in arXiv 2407.14645. For a training step
    or a single operator, --chart draws every operator under the memory, L2 and link rooflines.

    \b
    Examples:
      sightline roofline examples/llama-2-7b-generate-a100.yaml
      sightline roofline examples/llama-2-7b-generate-a100.yaml --devices a100-sxm-80gb,h100-sxm-80gb
      sightline roofline examples/llama-2-7b-generate-a100.yaml --sweep workload.batch=1,16,256 --csv
      sightline roofline examples/llama-2-7b-generate-a100.yaml --set workload.batch=16 --chart roofline.svg
      sightline roofline examples/llama-2-7b-zero2-8xa800.yaml --chart roofline.svg
    """
    written.check()
    scenarios = Scenarios(files=[file], settings=settings, sweeps=sweeps)
    loaded = scenarios.read()
    is_chart_alone = written.chart and written == ReportOptions(chart=written.chart)
    if written.chart and is_chart_alone and not devices and _has_others(loaded.scenarios):
        _draw_operators(file, loaded.scenarios, written.chart)
        return
    from sightline.answers.labels import variant_labels
    from sightline.prediction.roofline_table import rooflines_to_list

    groups = _classified(file, loaded.scenarios, devices)
    names = variant_labels([group[0].scenario for group in groups])
    tables = [(name, table) for name, group in zip(names, groups, strict=True) for table in group]
    documents = lambda: rooflines_to_list([table for _, table in tables])  # noqa: E731 - a form like the others
    reports.write(Report(kind="roofline", answer=tables, documents=documents, is_list=loaded.is_list), written)
    if written.are_tables and (same := scenarios.again()):
        on = [] if devices is None else ["--devices", devices]
        try_next("roofline", *same, *on, "--chart", "roofline.svg")


def _classified(file: str, scenarios: "Sequence[AnyScenario]", devices: str | None) -> "list[list[RooflineTable]]":
    """The matmuls of each scenario on each device."""
    from sightline.prediction.roofline_table import roofline as of

    chosen = [None] if devices is None else [name.strip() for name in devices.split(",")]
    with prefixed(f"'{file}': "):
        return [[of(one, device) for device in chosen] for one in scenarios]


def _has_others(scenarios: "Sequence[object]") -> bool:
    """Whether scenarios are of another task than generation, whose matmuls have no table."""
    from sightline.scenario import GenerationScenario

    return not any(isinstance(one, GenerationScenario) for one in scenarios)


def _draw_operators(file: str, scenarios: "Sequence[AnyScenario]", path: str) -> None:
    """Draw every operator of one scenario on the roofline."""
    from sightline.charts.rooflines import operator_roofline
    from sightline.prediction import predict

    if len(scenarios) != 1:
        raise InputError(f"--chart '{path}' draws one scenario; '{file}' has {len(scenarios):,}")
    profile = predict(scenarios[0])
    output.warn(profile.warnings)
    without = "the FLOP rate of every operator is unknown on this device"
    reports.write_chart(path, partial(operator_roofline, profile), without)


OWN = """To run your own study, describe it in a file and run `sightline explore FILE`:

  base: scenario.yaml                                # a file, or the scenario itself
  axes:
    cluster.device.memory_bandwidth: {from: 2 TB/s, to: 16 TB/s, factor: 2}
    cluster.device: [a100-sxm-80gb, h100-sxm-80gb]   # names or numbers
  view: both                                         # ideal | calibrated | both
  search: [tensor_parallel, micro_batch]             # plan fields to optimize at every point
  report: [step_time_s, mfu]"""
"""How to write a study file."""


def explore(
    study: Annotated[
        str | None,
        argument(
            "A built-in study, or a study file (YAML or JSON). Use - to read from stdin.",
            "[STUDY]",
            completion.studies,
        ),
    ] = None,
    view: Annotated[
        str | None,
        described(
            "Device model: `ideal` (fixed shares of peak and bandwidth, no kernel launches), `calibrated` (measured "
            "kernel efficiency) or `both`. Default: set by the study.",
            metavar="NAME",
        ),
    ] = None,
    quick: Annotated[bool, described("Run a smaller version of the study with fewer values.")] = False,
    settings: Settings = None,
    *,
    written: ReportOptions,
) -> None:
    """Run a hardware or technology study: the gain from a device, memory, network or process node, and the bottleneck.

    Without STUDY, list the built-in studies. A study file holds a base scenario and axes: any numbers or names of
    devices, clusters, technologies, plans and workloads.

    \b
    Examples:
      sightline explore
      sightline explore a100-to-b200 --quick --chart factors.svg
      sightline explore dram --view both --html dram.html
      sightline explore examples/studies/compute-and-network.yaml
      sightline explore examples/studies/compute-and-network.yaml --set model=llama-3.1-8b --csv
    """
    written.check()
    if study is None:
        _show_list(as_json=written.as_json)
        return
    with progress_bar() as progress:
        from sightline.exploration.run import explore as answered

        answer = answered(study, quick=quick, view=view, overrides=settings or (), progress=progress)
    output.warn(answer.warnings)
    report = Report(kind="study", answer=answer)
    report.kept = lambda: {"csv": report.csv()} if len(answer) <= _MOST_CSV else {}
    reports.write(report, written)
    end_if_stopped(progress)
    if study != "-" and written.are_tables and not (written.chart or written.html):
        try_next("explore", *again([study], settings), "--html", "study.html")


_MOST_CSV = 5_000
"""Rows of the CSV text inside a page; with more it would load slowly."""


def _show_list(*, as_json: bool) -> None:
    """Print the built-in studies, and how one of one's own is written."""
    from sightline.exploration import BUILT_IN

    def table() -> Any:
        from sightline.answers.study import studies_outline

        return [studies_outline(BUILT_IN), OWN]

    output.show(lambda: [{"study": name, "asks": asks} for name, asks in BUILT_IN.items()], table, json=as_json)
    if not as_json:
        try_next("explore", next(iter(BUILT_IN)))
