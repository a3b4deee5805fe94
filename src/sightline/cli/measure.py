"""``sightline measure``: the same scenario, for real, on the machine at hand."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.cli import output, reports
from sightline.cli.measured_files import (
    PAPER_SUITE,
    STANDARD_SUITE,
    SUITES,
    MeasureOptions,
    measure_files,
    outcome,
    refuse_idle,
)
from sightline.cli.options import takes_options
from sightline.cli.progress_bar import progress_bar
from sightline.cli.reports import ProfilesReport, Report
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sightline.answers.outline import Outline
    from sightline.measurement.processes.suite import Measured, Step
    from sightline.reproduction.arxiv_2311_03687.measured import MeasuredSuite
    from sightline.runs import Store


@takes_options
def measure(options: MeasureOptions) -> None:
    """Measure training, generation, serving or single operators, and report the same keys as a prediction.

    The cluster must be this-machine (its CPU) or the GPUs of this machine. Each scenario runs in a separate process and
    is stored as a run. Serving scenarios start the plan's engine, or use the server at --url. Requires PyTorch: install
    the extra `measure`.

    \b
    Examples:
      sightline measure examples/measure-tiny-llama.yaml --quick
      sightline measure examples/measure-tiny-llama-zero2.yaml --level end-to-end,module --json
      sightline measure scenario.yaml --nnodes 2 --node-rank 0 --rendezvous node0:29500
      sightline measure examples/operators-this-machine.yaml
      sightline measure scenario.yaml --sweep workload.m=1,16,256 --json
      sightline measure examples/tiny-llama-generate-this-machine.yaml --quick
      sightline measure examples/tiny-llama-serve-this-machine.yaml
      sightline measure scenario.yaml --url http://localhost:8000 --api-key-env SERVER_KEY
      sightline measure --suite 2311.03687 --quick --html report.html
      sightline measure --suite standard --quick --out operators.json
      sightline calibrate --from operators.json --device this-machine --out my-catalog
    """
    _check(options)
    from sightline.runs import open_store

    if options.suite in SUITES:
        refuse_idle(options, [f"--suite {options.suite}"])
    if options.suite == PAPER_SUITE:
        _paper_suite(open_store(options.store), options)
        return
    missing: list[str] = []
    measured: Sequence[Measured]
    if options.suite is None:
        measured = measure_files(options, open_store(options.store), _tell)
        if not measured:
            return
    else:
        measured, missing = _measure_suite(options)
    _print(measured, options)
    _not_measured(missing)


def _check(options: MeasureOptions) -> None:
    """Refuse, before anything runs, options that contradict each other."""
    options.reports.check({"--out": options.reports.out})
    if options.suite == PAPER_SUITE and (options.reports.markdown or options.reports.charts):
        raise InputError(f"--suite {PAPER_SUITE} supports only --html and --json")
    if bool(options.files) == (options.suite is not None):
        raise InputError("give either scenario files or --suite")


def _measure_suite(options: MeasureOptions) -> "tuple[list[Measured], list[str]]":
    from sightline.errors import nearest
    from sightline.measurement.machine import CPU_DTYPES
    from sightline.measurement.operators.suite import measure_suite, standard_suite
    from sightline.runs import open_store

    suite, dtype, cluster = str(options.suite), options.dtype, options.cluster
    if suite not in SUITES:
        raise InputError(f"--suite is '{suite}'; allowed: {', '.join(SUITES)}{nearest(suite, SUITES)}")
    if dtype not in CPU_DTYPES:
        raise InputError(f"--dtype is '{dtype}'; allowed: {', '.join(CPU_DTYPES)}{nearest(dtype, CPU_DTYPES)}")
    scenarios = standard_suite(dtype, quick=options.quick, cluster=cluster)
    with progress_bar(stops=False) as progress:
        return measure_suite(
            suite,
            scenarios,
            open_store(options.store),
            quick=options.quick,
            brief=cluster is None,
            rerun=options.rerun,
            on_step=_tell,
            progress=progress,
        )


def results_of_suite(store: str | None, *, dtype: str, quick: bool, rerun: bool) -> list[dict[str, Any]]:
    """Measure the standard suite and return its results under the documented keys; says what could not be measured."""
    measured, missing = _measure_suite(
        MeasureOptions(suite=STANDARD_SUITE, dtype=dtype, store=store, quick=quick, rerun=rerun)
    )
    _not_measured(missing)
    return [_result(m) for m in measured]


def _not_measured(sentences: "Iterable[str]") -> None:
    for sentence in sentences:
        output.print_remark(f"not measured: {sentence}")


def _tell(step: "Step") -> None:
    """Say what disturbed a case that has ended."""
    if step.run is not None and step.run.status == "ok" and step.run.environment.get("contended"):
        for why in step.run.environment["contention"]:
            output.print_remark(f"warning: {step.case.name}: {why}")


def _print(measured: "Sequence[Measured]", options: MeasureOptions) -> None:
    import json

    _not_measured(f"{m.run.name}: {outcome(m.run)}" for m in measured if m.profile is None)
    results = [_result(m) for m in measured] if options.reports.as_json or options.reports.out else []
    if options.reports.out is not None:
        output.write_file(options.reports.out, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    profiles = [m.profile for m in measured if m.profile is not None]
    report = ProfilesReport(answers=profiles, documents=lambda _: results, is_list=options.suite is not None)
    if profiles:
        reports.write(report, options.reports)
    else:
        report.show(options.reports)


def _result(measured: "Measured") -> dict[str, Any]:
    """The result keys, the run they are stored in, and what it ran on."""
    run = measured.run
    if measured.profile is None:
        return {
            "scenario": dict(run.scenario),
            "source": "measured",
            "fits": run.status != "out_of_memory",
            "status": run.status,
            "reason": run.reason,
            "run": run.id,
        }
    return measured.profile.to_dict() | {
        "run": run.id,
        "command": list(run.command),
        "environment": dict(run.environment),
    }


def _paper_suite(store: "Store", options: MeasureOptions) -> None:
    """Measure the grid, write its report and print its tables."""
    from sightline.measurement.machine import hardware_at_hand
    from sightline.reproduction.arxiv_2311_03687.measured import measured_suite

    hardware = hardware_at_hand()
    with progress_bar(stops=False) as progress:
        suite = measured_suite(hardware, store, quick=options.quick, rerun=options.rerun, progress=progress)
    for one in (answered for _, cells in suite for answered in cells if answered.refused):
        output.print_remark(f"not predicted: {one.cell.row}, {one.cell.column}: {one.refused}")
    reports.write(_SuiteReport(suite, str(hardware.cluster(hardware.count))), options.reports)


@dataclass(frozen=True)
class _SuiteReport(Report):
    suite: "MeasuredSuite"
    cluster: str

    def document(self) -> Any:
        from sightline.reproduction.arxiv_2311_03687.measured import suite_to_list

        return suite_to_list(self.suite)

    def outline(self) -> "Outline":
        from sightline.answers.comparison import suite_outline

        return suite_outline(f"The study of arXiv {PAPER_SUITE} on {self.cluster}", self.suite, _machine())


def _machine() -> list[str]:
    """Sentences about what the suite ran on."""
    from sightline.measurement.machine import record_environment

    environment = record_environment()
    gpus, cpu = environment["gpus"], environment["cpu"]
    kinds = ", ".join(dict.fromkeys(str(gpu["name"]) for gpu in gpus))
    what = f"{len(gpus)} x {kinds}" if gpus else f"{cpu['model']}, {cpu['cores']} cores"
    return [what, ", ".join(f"{name} {version}" for name, version in environment["libraries"].items())]


__all__ = ["measure"]
