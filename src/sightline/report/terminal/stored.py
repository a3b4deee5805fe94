"""One stored run as a page: what was run, its figures, where its time went, the machine, and its prediction."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from sightline.errors import SightlineError
from sightline.profile import SERVING, TASKS, Profile, task_of
from sightline.profile.results import figure_of, flatten
from sightline.quantities import percent
from sightline.report import summary, units
from sightline.report.runs import short_id
from sightline.report.terminal import parts
from sightline.report.terminal.operators import operators_of_suite
from sightline.runs import Run, Store

if TYPE_CHECKING:
    import polars

_PRINTED = 12
"""Lines of what a run that failed printed last."""
_WELL = ("ok", "running")
_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "deepspeed", "megatron-core", "vllm", "flash-attn")
"""Those that a result depends on most, in the order in which they are named."""


def page(run: Run, store: Store, age: str = "") -> RenderableType:
    """Return what is worth reading of a run; ``age`` is how long ago it began."""
    rows, samples = store.rows(run), store.samples(run)
    profile = profile_of_run(run, rows)
    blocks: list[RenderableType] = [*_status(run, age)]
    if profile is not None:
        from sightline.report.terminal.profile import tables

        blocks += tables([profile])
    elif run.result.get("results"):
        blocks.append(Text())
        blocks.append(operators_of_suite(run.result["results"]))
    else:
        blocks += _figures(run)
    about = [*_how(run, samples.height), *_machine(run.environment), *_warnings(run)]
    blocks += [*([Text()] if about else []), *about, *_printed(run)]
    blocks += [*_prediction(run, store), parts.Sentence(f"files: {_files(run, store)}")]
    blocks += [parts.Command(f"sightline runs show {_short(run, store)} --full")]
    return Group(*blocks)


def profile_of_run(run: Run, rows: "polars.DataFrame") -> Profile | None:
    """Return what a run measured as a profile; None where it has no result, or one of several operators."""
    from sightline.loading import load
    from sightline.measurement.processes.suite import profile_of

    task = task_of(str((run.scenario.get("workload") or {}).get("task")))
    if task is None or figure_of(run.result, task.whole) is None:
        return None
    result = {"source": "measured", "interval": {}, "warnings": ()} | dict(run.result)
    try:
        found = load(dict(run.scenario))
        return None if isinstance(found, list) else profile_of(found, result, rows.to_dicts())
    except (SightlineError, KeyError, TypeError, ValueError):
        # A run of an older release, or of a program of one's own, may lack what a profile has.
        return None


def _status(run: Run, age: str) -> Iterator[RenderableType]:
    """How it ended, when, and how long it took; its name where that is not the scenario's, which comes with it."""
    if run.name != run.scenario.get("name") or run.status not in _WELL:
        yield Text(run.name, style="bold")
    took = took_s(run)
    said = [
        run.status.replace("_", " "),
        age,
        "" if took is None else f"took {units.seconds(took)}",
        f"suite {run.suite}" if run.suite else "",
        f"run {run.id}",
    ]
    yield Text(" · ".join(filter(None, said)), style="dim" if run.status in _WELL else "bold red")
    if run.reason:
        yield parts.Sentence(run.reason, "" if run.status in _WELL else "red")


def took_s(run: Run) -> float | None:
    """Return the seconds from a run's begin to its end; None while it runs."""
    from datetime import datetime

    try:
        return (datetime.fromisoformat(run.ended) - datetime.fromisoformat(run.created)).total_seconds()
    except ValueError:
        return None


def _figures(run: Run) -> Iterator[RenderableType]:
    """The figures of a result that is of no known task: those that some task declares, with their units."""
    for task in TASKS:
        found = [(metric.label, figure_of(run.result, key), metric.unit) for key, metric in task.figures.items()]
        known = [(label, value, unit) for label, value, unit in found if isinstance(value, int | float)]
        if known:
            grid = parts.grid(2)
            for label, value, unit in known:
                grid.add_row(Text(label, style="dim"), Text(summary.shown(value, unit), style="bold"))
            yield grid
            return


def _how(run: Run, samples: int) -> Iterator[RenderableType]:
    """How it was measured, in a line or two."""
    said = [
        f"{key.removesuffix('_s').replace('_', ' ')} {_word(key, value)}" for key, value in _measurement(run).items()
    ]
    if samples:
        said.append(f"samples {samples:,}")
    if said:
        yield _entry("measured", ", ".join(said))


def _measurement(run: Run) -> Mapping[str, Any]:
    found = dict(run.result.get("measurement") or {})
    spread = found.pop("spread_s", None)
    if isinstance(spread, Mapping) and {"p10", "p90"} <= spread.keys():
        found["p10 to p90"] = " to ".join(units.seconds(float(spread[end])) for end in ("p10", "p90"))
    found = flatten(found)
    return {key: value for key, value in found.items() if isinstance(value, str | int | float) and value != ""}


def _word(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    is_time = key.partition(".")[0].endswith("_s")
    return units.seconds(value) if is_time else f"{value:,}" if isinstance(value, int) else units.digits(value)


def _machine(environment: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The devices with their driver, then the libraries."""
    processor, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    hardware = [*_devices(environment.get("gpus") or ())]
    if processor.get("model"):
        cores = processor.get("allowed_cpus")
        hardware.append(f"{processor['model']}" + (f" ({cores:g} CPUs)" if cores else ""))
    if memory.get("total_bytes"):
        hardware.append(units.gib(float(memory["total_bytes"])))
    hardware += [str(environment[key]) for key in ("system", "host") if environment.get(key)]
    if hardware:
        yield _entry("machine", ", ".join(hardware))
    libraries = environment.get("libraries") or {}
    software = [f"{name} {libraries[name]}" for name in _LIBRARIES if name in libraries]
    software += [f"Python {environment['python']}"] if environment.get("python") else []
    if software:
        yield _entry("software", ", ".join(software))


def _devices(gpus: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each kind of device with its count, memory and driver."""
    kinds: dict[tuple[Any, ...], int] = {}
    for gpu in gpus:
        kind = tuple(gpu.get(key) for key in ("name", "memory_bytes", "driver"))
        kinds[kind] = kinds.get(kind, 0) + 1
    for (name, size, driver), count in kinds.items():
        held = f" ({units.gib(float(size))})" if size else ""
        yield f"{count} x {name}{held}" + (f", driver {driver}" if driver else "")


def _warnings(run: Run) -> Iterator[RenderableType]:
    """What disturbed it, and what to know before its figures are believed."""
    contention = run.environment.get("contention") or () if run.environment.get("contended") else ()
    for said in (*(f"busy machine: {reason}" for reason in contention), *(run.result.get("warnings") or ())):
        yield parts.Sentence(f"warning: {said}", "yellow")


def _printed(run: Run) -> Iterator[RenderableType]:
    """The end of what a run printed that did not end well."""
    if run.output and run.status not in _WELL:
        lines = run.output.rstrip().splitlines()[-_PRINTED:]
        yield from (Text(), Text("end of its output:", style="bold"), Text("\n".join(lines)), Text())


def _prediction(run: Run, store: Store) -> Iterator[RenderableType]:
    """How far its headline is from its prediction, and the command that says more."""
    task = task_of(str((run.scenario.get("workload") or {}).get("task")))
    if run.status != "ok" or task is None or figure_of(run.result, task.whole) is None:
        return
    # A load would be simulated, which may take longer than one wants to wait for a page.
    if said := "" if task is SERVING else against_prediction(run, store):
        yield _entry("predicted", said)
    yield parts.Command(f"sightline compare {_short(run, store)} predicted")


def _short(run: Run, store: Store) -> str:
    return short_id(run.id, store.storage.folders())


def against_prediction(run: Run, store: Store) -> str:
    """Return how the measured time of a run compares with what is predicted for it; empty where nothing is."""
    from sightline.explanation.comparison import NO_DIFFERENCE, compare
    from sightline.report.comparison import interval, shown

    try:
        rows = compare("predicted", run, levels=["step"], store=store.place).rows
    except SightlineError:
        return ""
    row = next((row for row in rows if row.ratio is not None), None)
    if row is None or row.a is None or row.ratio is None:
        return ""
    said = "no difference found" if row.verdict == NO_DIFFERENCE else f"{row.verdict} than predicted"
    span = f" ({percent(row.probability)}: {interval(row)})" if row.probability else ""
    return f"{shown(row.quantity, row.a)}; measured {units.digits(row.ratio)} x predicted{span}: {said}"


def _files(run: Run, store: Store) -> str:
    return f"{', '.join(sorted(store.storage.files(run.id)))} in {store.place}/{run.id}"


def _entry(name: str, said: str) -> RenderableType:
    """A sentence with its name in front."""
    return parts.Sentence(f"{name}: {said}")
