"""``sightline measure``: the same scenario, for real, on the machine at hand."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import output
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sightline.cli.measure_files import Measured
    from sightline.measurement.operators.runs import Measured as MeasuredOperator
    from sightline.measurement.processes.suite import Step

STUDY = "2311.03687"
SUITES = ("standard", STUDY)


def measure(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]", help="Scenario files (YAML, JSON or CSV); - reads stdin.", show_default=False
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Measure a suite: standard, the operators `calibrate` takes; 2311.03687, that study's grid.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, and half of a suite.")] = False,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Measure also what an earlier run of the suite has measured.")
    ] = False,
    implementation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How PyTorch is to do it: flash, math, eager, ... (attention), fused, foreach, loop (adam), "
            "host-to-device, ... (copy), dynamic, static, compiled, eager (generation).",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Run the checkpoint in this folder; default: random weights."),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Training, of end-to-end, module, operator; default: end-to-end,module."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps timed in each run; default: 100.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Training steps before them; default: 30.")] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Independent runs of training, each by new processes; default: 3.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="What training a scenario may take; default: 3600.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run also what is predicted not to fit.")] = False,
    nnodes: Annotated[int | None, typer.Option(help="Nodes that train together; or start with torchrun.")] = None,
    node_rank: Annotated[int | None, typer.Option(help="Which of them this is, from 0.")] = None,
    rendezvous: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where node 0 can be reached by the others.")
    ] = None,
    dtype: Annotated[str, typer.Option(metavar="NAME", help="The suite's dtype: fp32, bf16 or fp16.")] = "fp32",
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The suite's cluster, such as '8x h100-sxm-80gb'; default: this-machine."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line per operator.")] = False,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the results as .json, which `calibrate --from` reads.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="REPORT", help="Write the study's report as one .html page.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="DIR|URL", help="Where runs are stored; default: SIGHTLINE_RUNS.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of every scenario; repeatable."),
    ] = None,
    sweeps: Annotated[
        list[str] | None, typer.Option("--sweep", metavar="KEY=A,B,C", help="Ask for every value of a key; repeatable.")
    ] = None,
) -> None:
    """Measure training, generation or single operators here: medians and how certain they are, under a prediction's keys.

    The scenario's cluster is this-machine, its processor, or the GPUs it has. Each scenario runs in a process of its
    own and is stored as a run. Needs PyTorch, which the extra named measure installs.

    \b
    Examples:
      sightline measure examples/measure-tiny-llama.yaml --quick
      sightline measure examples/measure-tiny-llama-zero2.yaml --level end-to-end,module --json
      sightline measure scenario.yaml --nnodes 2 --node-rank 0 --rendezvous node0:29500
      sightline measure examples/operators-this-machine.yaml
      sightline measure scenario.yaml --sweep workload.m=1,16,256 --json
      sightline measure examples/tiny-llama-generate-this-machine.yaml --quick
      sightline measure --suite 2311.03687 --quick --html report.html
      sightline measure --suite standard --quick --out operators.json
      sightline calibrate --from operators.json --device this-machine --out my-catalog
    """
    if as_json and as_csv:
        raise InputError("--json and --csv exclude each other: stdout holds one of them")
    output.check_output_paths([("--out", out, (".json",)), ("--html", html, (".html", ".htm"))])
    if html is not None and suite != STUDY:
        raise InputError(f"--html writes the report of --suite {STUDY}; results of others have --json, --csv and --out")
    if bool(files) == (suite is not None):
        raise InputError("measure takes scenario files or --suite, one of them")
    from sightline.cli.measure_files import Wishes, measure_files
    from sightline.cli.measure_options import refuse_idle
    from sightline.runs import open_store

    options = {
        "--implementation": implementation,
        "--weights": weights,
        "--level": level,
        "--steps": steps,
        "--warmup": warmup,
        "--repeats": repeats,
        "--time-limit": time_limit,
        "--force": force,
        "--nnodes": nnodes,
        "--node-rank": node_rank,
        "--rendezvous": rendezvous,
        "--set": settings,
        "--sweep": sweeps,
        "--dtype": None if dtype == "fp32" else dtype,
        "--cluster": cluster,
        "--csv": as_csv,
        "--out": out,
        "--rerun": rerun,
    }
    if suite in SUITES:
        refuse_idle(options, [f"--suite {suite}"])
    if suite == STUDY:
        from sightline.cli.measure_study import measure_study

        measure_study(open_store(store), quick=quick, rerun=rerun, html=html, as_json=as_json)
        return
    missing: list[str] = []
    measured: Sequence[Measured]
    if suite is None:
        wishes = Wishes(
            implementation=implementation,
            weights=weights,
            quick=quick,
            levels=level,
            steps=steps,
            warm_up=warmup,
            repeats=repeats,
            time_limit_s=time_limit,
            force=force,
            nnodes=nnodes,
            node_rank=node_rank,
            rendezvous=rendezvous,
            options=options,
        )
        measured = measure_files(files or [], settings or [], sweeps or [], open_store(store), wishes, _tell)
        if not measured:
            return
    else:
        measured, missing = _measure_suite(suite, dtype, cluster, store, quick=quick, rerun=rerun)
    _print(measured, as_json=as_json, as_csv=as_csv, out=out, is_one=suite is None and len(measured) == 1)
    for sentence in missing:
        output.print_remark(f"not measured: {sentence}")


def _measure_suite(
    suite: str, dtype: str, cluster: str | None, store: str | None, *, quick: bool, rerun: bool
) -> "tuple[list[MeasuredOperator], list[str]]":
    from sightline.errors import nearest
    from sightline.measurement.machine.devices import CPU_DTYPES
    from sightline.measurement.operators.runs import grouped, measure_suite
    from sightline.measurement.operators.suite import standard_suite
    from sightline.runs import open_store

    if suite not in SUITES:
        raise InputError(f"--suite is '{suite}'; allowed: {', '.join(SUITES)}{nearest(suite, SUITES)}")
    if dtype not in CPU_DTYPES:
        raise InputError(f"--dtype is '{dtype}'; allowed: {', '.join(CPU_DTYPES)}{nearest(dtype, CPU_DTYPES)}")
    scenarios = standard_suite(dtype, quick=quick, cluster=cluster)
    with output.progress(len(grouped(scenarios)), "measuring", least=2) as advance:
        return measure_suite(
            suite,
            scenarios,
            open_store(store),
            quick=quick,
            brief=cluster is None,
            rerun=rerun,
            on_step=lambda step: _tell(step, advance),
        )


def results_of_suite(
    suite: str, dtype: str, cluster: str | None, store: str | None, *, quick: bool, rerun: bool
) -> list[dict[str, Any]]:
    """Measure a suite and return its results under the documented keys; says what could not be measured."""
    measured, missing = _measure_suite(suite, dtype, cluster, store, quick=quick, rerun=rerun)
    for sentence in missing:
        output.print_remark(f"not measured: {sentence}")
    return [_result(m) for m in measured]


def _tell(step: "Step", advance: "Callable[[], None]") -> None:
    """Say when a case has ended, and why where it did not end well."""
    if step.run is None:
        return
    advance()
    if step.run.status == "ok" and step.run.environment.get("contended"):
        for why in step.run.environment["contention"]:
            output.print_remark(f"warning: {step.case.name}: {why}")


def _print(measured: "Sequence[Measured]", *, as_json: bool, as_csv: bool, out: str | None, is_one: bool) -> None:
    import json

    from sightline.cli.measure_files import outcome
    from sightline.report.answer_terminal import tables
    from sightline.report.csv_lines import to_csv

    profiles = [m.profile for m in measured if m.profile is not None]
    for m in measured:
        if m.profile is None:
            output.print_remark(f"not measured: {m.run.name}: {outcome(m.run)}")
    results = [_result(m) for m in measured] if as_json or out else []
    if out is not None:
        output.write_file(out, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        output.print_remark(f"written: {Path(out)}")
    for warning in dict.fromkeys(w for p in profiles for w in p.warnings):
        output.print_remark(f"warning: {warning}")
    if as_json:
        output.print_json(results[0] if is_one else results)
    elif as_csv:
        output.print_text(to_csv(profiles))
    else:
        for table in tables(profiles):
            output.print_table(table)


def _result(measured: "Measured") -> dict[str, Any]:
    """The result keys, the run they are stored in, and what it ran on."""
    from sightline.profile.results import profile_to_dict

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
    return profile_to_dict(measured.profile) | {
        "run": run.id,
        "command": list(run.command),
        "environment": dict(run.environment),
    }
