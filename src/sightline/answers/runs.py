"""Stored runs: what a list says of each, and one in full - its figures, the machine, and its prediction."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sightline.answers import outline as out
from sightline.answers import units
from sightline.answers.profile import profile_outline
from sightline.answers.units import NOTHING, shown
from sightline.content import flatten, grouped
from sightline.errors import SightlineError
from sightline.profile import SERVING, TASKS, Profile, Task, task_of
from sightline.profile.metrics import metric_of
from sightline.profile.results import figure_of
from sightline.quantities import counted, percent, relative, relative_span
from sightline.runs import Run, Store

if TYPE_CHECKING:
    import polars

_HEADLINES = [task.whole for task in TASKS]
"""Result keys shown in a list; the first that a run has."""

_PRINTED = 12
"""Lines of what a run that failed printed last."""
_WELL = ("ok", "running")
_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "deepspeed", "megatron-core", "vllm", "flash-attn")
"""Those that a result depends on most, in the order in which they are named."""
FAILED = ("crashed", "out of memory", "timeout", "unsupported", "interrupted", "damaged")
"""What a list says of runs that gave no result."""


def summary(run: Run) -> dict[str, Any]:
    """Return what a list says of a run."""
    key = next((key for key in _HEADLINES if isinstance(figure_of(run.result, key), int | float)), None)
    said = {name: getattr(run, name) for name in ("id", "name", "suite", "status", "reason", "created", "ended")}
    said["contended"] = bool(run.environment.get("contended", False))
    return said | ({key: figure_of(run.result, key)} if key else {})


def columns_of(runs: Sequence[Run], now: datetime | None = None) -> dict[str, list[str]]:
    """Return what a list shows of each run by heading: the start of its id, age, task, model, figure, how it ended."""
    moment, ids = now or datetime.now(UTC), [run.id for run in runs]
    return {
        "run": [short_id(run.id, ids) for run in runs],
        "age": [age(run, moment) for run in runs],
        "task": [str((run.scenario.get("workload") or {}).get("task") or NOTHING) for run in runs],
        "model": [_model(run) for run in runs],
        "result": [_headline(run) for run in runs],
        "status": [_status(run) for run in runs],
    }


def label_of(run: Run) -> str:
    """Return a run's name, and why it failed."""
    return f"{run.name}: {run.reason}" if run.reason else run.name


def short_id(name: str, others: Collection[str]) -> str:
    """Return how a run's id begins, as far as it takes to tell it from the ids of ``others``."""
    words = name.split("-")
    starts = ("-".join(words[:count]) for count in range(2, len(words)))
    return next((start for start in starts if sum(other.startswith(start) for other in others) <= 1), name)


def age(run: Run, now: datetime | None = None) -> str:
    """Return how long ago a run began."""
    passed = seconds_between(run.created, str(now or datetime.now(UTC)))
    if passed is None:
        return NOTHING
    steps = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
    return next((f"{passed / size:.0f} {unit}" for size, unit in steps if passed >= size), f"{max(passed, 0.0):.0f} s")


def _model(run: Run) -> str:
    """The model's name, or the operator; for runs of suites how many there are."""
    model = run.scenario.get("model")
    if model:
        return str(model.get("name") or "unnamed") if isinstance(model, Mapping) else str(model)
    return str((run.scenario.get("workload") or {}).get("operator") or NOTHING)


def _headline(run: Run) -> str:
    """Its main figure with the unit, or how many operators it measured."""
    if several := run.result.get("results"):
        return f"{len(several):,} operators"
    for task in TASKS:
        found = figure_of(run.result, task.whole)
        if isinstance(found, int | float):
            metric = task.figures[task.whole]
            return f"{metric.label} {shown(found, metric.unit)}"
    return NOTHING


def _status(run: Run) -> str:
    return run.status.replace("_", " ") + (", contended" if run.environment.get("contended") else "")


def choices(runs: Sequence[Run], now: datetime | None = None) -> list[tuple[str, str]]:
    """Return the ids of runs, each with the words by which it is chosen."""
    columns = columns_of(runs, now)
    told = zip(runs, columns["age"], columns["result"], columns["status"], strict=True)
    return [
        (run.id, ", ".join((run.name, f"{since} ago", figure if figure != NOTHING else status)))
        for run, since, figure, status in told
    ]


HOW_TO_WATCH = """\
import sightline as sl

with sl.watch("scenario.yaml") as watch:
    for batch in watch.inputs(loader):
        train(batch)
        watch.step()"""
_NEXT = (
    ("Measure a training step, or any other scenario, on this machine:", "sightline measure scenario.yaml"),
    ("Watch a training job from its own program, and store it as a run:", HOW_TO_WATCH),
    ("Import runs from another machine:", "sightline runs import runs.zip"),
)


def runs_outline(
    runs: Sequence[Run],
    count: int | None = None,
    place: str = "",
    address: Callable[[Run], str] | None = None,
    now: datetime | None = None,
) -> out.Outline:
    """Return the list of runs; where there is none, what to do.

    Args:
        runs: Those that are shown.
        count: How many the store has.
        place: Of the store.
        address: Returns the address that opens a run, on pages.
        now: When ages are counted.
    """
    if not runs:
        none = [f"The run store '{place}' has no runs yet."]
        return out.Outline(sentences=none, parts=[out.Steps(steps=[out.Step(*one) for one in _NEXT])])
    columns: dict[str, Sequence[Any]] = {**columns_of(runs, now)}
    # On narrow screens the last column is the one out of sight.
    columns["run"] = columns.pop("run")
    columns = {"name": [out.Link(label_of(run), address(run)) if address else label_of(run) for run in runs], **columns}
    kinds = {"ok": out.GOOD, "running": "", **dict.fromkeys(FAILED, out.BAD)}
    table = out.Rows.of_columns(
        [out.Column(heading=name, cells=cells, is_number=name == "age") for name, cells in columns.items()],
        kinds={cell: kind for cell in columns["status"] if (kind := kinds.get(cell, ""))},
        least=("model", "task", "result"),
    )
    return out.Outline(parts=[out.Lines(lines=_counted(len(runs), count, place), kind=out.FAINT), table])


def _counted(shown: int, count: int | None, place: str) -> list[str]:
    if count is None:
        return []
    if shown < count:
        return [f"Showing the newest {shown:,} of {count:,} runs in {place}; list all with `sightline runs list`."]
    return [f"{counted(shown, 'run')} in {place}, newest first."]


def is_comparable(run: Run) -> bool:
    """Return whether a run has a result that can be compared and explained."""
    return run.status == "ok" and bool(run.result) and bool(run.scenario)


def run_outline(run: Run, store: Store, *, since: str = "", links: Sequence[out.Link] = ()) -> out.Outline:
    """Return what is worth reading of a run.

    Args:
        run: A stored run.
        store: Where it is stored.
        since: How long ago it began.
        links: What leads on from it, on pages.
    """
    profile = profile_of_run(run, store.rows(run))
    about = [*_how(run, store.samples(run).height), *_machine(run.environment)]
    full = out.Outline(parts=list(_results(run))) if profile is None else profile_outline(profile)
    failed = [] if run.status in _WELL else run.output.rstrip().splitlines()[-_PRINTED:]
    short = short_id(run.id, store.storage.folders())
    return out.Outline(
        title=run.name,
        about=[_status_line(run, since), *full.about],
        said=[_ended(run, store), *full.said],
        parts=[
            out.Links(links=links),
            *full.parts,
            out.Lines(lines=about),
            out.Lines(lines=[f"warning: {one}" for one in _warnings(run)], kind=out.PERHAPS),
            out.Lines(title="End of its output" if failed else "", lines=failed),
            out.Lines(lines=[f"files: {', '.join(sorted(store.storage.files(run.id)))} in {store.place}/{run.id}"]),
            out.Steps(steps=[out.Step("", command) for command in _commands(run, short)]),
            out.Section(
                parts=lambda: [_flat("Machine", run.environment), out.Text(title="End of its output", text=run.output)],
                is_detail=True,
            ),
        ],
        scenario=run.scenario,
    )


def _ended(run: Run, store: Store) -> out.Said:
    """How it ended, and how far its main time is from the predicted one."""
    kind = {"ok": out.GOOD, "running": ""}.get(run.status, out.BAD)
    says = ": ".join(filter(None, (run.status.replace("_", " "), run.reason)))
    return _against_prediction(run, store) or out.Said(asks="status", says=says, kind=kind)


def _status_line(run: Run, since: str) -> str:
    """When it began, and how long it took."""
    took = seconds_between(run.created, run.ended)
    said = [
        since,
        "" if took is None else f"took {units.seconds(took)}",
        f"suite {run.suite}" if run.suite else "",
        f"run {run.id}",
    ]
    return " · ".join(filter(None, said))


def _results(run: Run) -> Iterator[out.Part]:
    """The result of a run that is no profile: of a suite its operators, of a known task its figures, else its keys."""
    if isinstance(run.result.get("results"), list):
        yield from _operators(run.result["results"])
        return
    for task in TASKS:
        found = [(metric, figure_of(run.result, key)) for key, metric in task.figures.items()]
        known = [(metric.label, shown(value, metric.unit)) for metric, value in found if units.is_number(value)]
        if known:
            yield out.Rows.of_pairs(known)
            return
    yield _flat("Result", run.result)


def stored_outline(run: Run) -> out.Outline:
    """Return a run without its store: how it ended and its result, folded its environment and scenario."""
    keys = ("id", "status", "reason", "suite", "created", "version")
    said = [out.Said(asks=key, says=str(getattr(run, key))) for key in keys if getattr(run, key)]
    sections = [
        out.Section(title=name, parts=[_flat("", getattr(run, name))], is_folded=True)
        for name in ("result", "environment", "scenario")
    ]
    return out.Outline(title=run.name or run.id, said=said, parts=sections)


def in_full(run: Run, rows: "polars.DataFrame", samples: "polars.DataFrame") -> out.Outline:
    """Return everything that is stored of a run, a line for each key of its result, environment and scenario."""
    keys = ("id", "name", "suite", "status", "reason", "created", "ended", "version")
    about = [(key, str(getattr(run, key))) for key in keys if getattr(run, key)]
    tables = (("result", run.result), ("environment", run.environment), ("scenario", run.scenario))
    lines = [(f"{name}.{key}", _plain(value)) for name, content in tables for key, value in flatten(content).items()]
    about += [("samples", f"{samples.height:,}"), *lines]
    return out.Outline(
        parts=[
            out.Rows.of_pairs(about),
            _table(rows.columns, rows.rows()),
            out.Lines(title="End of its output" if run.output else "", lines=run.output.rstrip().splitlines()),
        ]
    )


def query_outline(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> out.Outline:
    """Return what a query gave."""
    return out.Outline(parts=[_table(columns, rows)])


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> out.Rows:
    cells = [[_plain(value) for value in row] for row in rows]
    return out.Rows(headings=columns, rows=cells, numbers=False)


def _flat(title: str, mapping: Mapping[str, Any]) -> out.Rows:
    """A line for each key of a mapping."""
    rows = [(key, _plain(value)) for key, value in flatten(mapping).items() if value not in (None, "", [])]
    return out.Rows(title=title, headings=("key", "value"), rows=rows, numbers=False)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)


def profile_of_run(run: Run, rows: "polars.DataFrame") -> Profile | None:
    """Return what a run measured as a profile; None where it has no result, or one of several operators."""
    from sightline.loading import load
    from sightline.loading.clusters.this_machine import THIS_MACHINE
    from sightline.measurement.processes.cases import profile_of

    task = task_of(str((run.scenario.get("workload") or {}).get("task")))
    if task is None or figure_of(run.result, task.whole) is None:
        return None
    result = {"source": "measured", "interval": {}, "warnings": ()} | dict(run.result)
    try:
        found = load(dict(run.scenario))
        if isinstance(found, list):
            return None
        if run.suite == "watch" and not run.environment.get("gpus") and found.cluster.device.name != THIS_MACHINE:
            # A job that sees no GPU tells of the memory of its process, which says nothing of the devices.
            result |= {"memory_bytes": {}, "fits": None}
        return profile_of(found, result, rows.to_dicts())
    except (SightlineError, KeyError, TypeError, ValueError):
        # A run of an older release, or of a program of one's own, may lack what a profile has.
        return None


def seconds_between(begin: str, end: str) -> float | None:
    """Return the seconds between two dates; None without an end, or where a date of another program lacks its zone."""
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except (ValueError, TypeError):
        return None


def _how(run: Run, samples: int) -> Iterator[str]:
    """How it was measured, in a line or two."""
    said = [f"{metric_of(key).label} {shown(value, metric_of(key).unit)}" for key, value in _measurement(run).items()]
    if samples:
        said.append(f"samples {samples:,}")
    if said:
        yield f"measured: {', '.join(said)}"


def _measurement(run: Run) -> Mapping[str, Any]:
    found = dict(run.result.get("measurement") or {})
    spread = found.pop("spread_s", None)
    if isinstance(spread, Mapping) and {"p10", "p90"} <= spread.keys():
        found["p10 to p90"] = units.span(float(spread["p10"]), float(spread["p90"]))
    found = flatten(found)
    return {key: value for key, value in found.items() if isinstance(value, str | int | float) and value != ""}


def _machine(environment: Mapping[str, Any]) -> Iterator[str]:
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
        yield f"machine: {', '.join(hardware)}"
    libraries = environment.get("libraries") or {}
    software = [f"{name} {libraries[name]}" for name in _LIBRARIES if name in libraries]
    software += [f"Python {environment['python']}"] if environment.get("python") else []
    if software:
        yield f"software: {', '.join(software)}"


def _devices(gpus: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each kind of device with its count, memory and driver."""
    kinds = Counter(tuple(gpu.get(key) for key in ("name", "memory_bytes", "driver")) for gpu in gpus)
    for (name, size, driver), count in kinds.items():
        held = f" ({units.gib(float(size))})" if size else ""
        yield f"{count} x {name}{held}" + (f", driver {driver}" if driver else "")


def _warnings(run: Run) -> Iterator[str]:
    """What disturbed it, and what to know before its figures are believed."""
    contention = run.environment.get("contention") or () if run.environment.get("contended") else ()
    yield from (*(f"busy machine: {reason}" for reason in contention), *(run.result.get("warnings") or ()))


def _commands(run: Run, short: str) -> Iterator[str]:
    if _task_measured(run) is not None:
        yield f"sightline compare {short} predicted"
    yield f"sightline runs show {short} --full"


def _task_measured(run: Run) -> Task | None:
    """The task whose main time a run measured."""
    task = task_of(str((run.scenario.get("workload") or {}).get("task")))
    return task if run.status == "ok" and task is not None and figure_of(run.result, task.whole) is not None else None


def _against_prediction(run: Run, store: Store) -> out.Said | None:
    """How the measured time of a run compares with what is predicted for it; None where nothing is."""
    from sightline.explanation.comparison import NO_DIFFERENCE, SLOWER, compare

    task = _task_measured(run)
    # A load would be simulated, which may take longer than one wants to wait for a page.
    if task is None or task is SERVING:
        return None
    try:
        rows = compare("predicted", run, levels=["step"], store=store.place).rows
    except SightlineError:
        return None
    row = next((row for row in rows if row.ratio is not None), None)
    if row is None or row.a is None or row.ratio is None:
        return None
    span = f" ({percent(row.probability or 0.0)}: {relative_span(*row.interval)})" if row.interval else ""
    within = ", within the uncertainty" if row.verdict == NO_DIFFERENCE else ""
    says = f"ok, {relative(row.ratio)} than the predicted {units.seconds(row.a)}{within}{span}"
    return out.Said(asks="status", says=says, kind=out.PERHAPS if row.verdict == SLOWER else out.GOOD)


_MOST, _EACH = 14, 5
"""Operators of a kind that are all listed, and how many of the best and worst of more."""
_NOT_SIZES = ("task", "operator", "dtype")


class _Line(NamedTuple):
    kind: str
    sizes: str
    time_s: float
    flops_per_s: float
    bytes_per_s: float

    @property
    def rate(self) -> tuple[bool, float]:
        """What kinds are ranked by: FLOP/s, or bytes/s of those that compute nothing."""
        return self.flops_per_s > 0, self.flops_per_s or self.bytes_per_s


def _operators(results: Sequence[Mapping[str, Any]]) -> Iterator[out.Part]:
    """Operators that one run measured, by kind: all of few, of many those that reach most and least."""
    for kind, lines in grouped((line.kind, line) for line in _lines(results)).items():
        yield out.Rows(
            title=_title(kind, lines),
            headings=("operator", "time", "FLOP/s", "bytes/s"),
            rows=[
                (f"  {one.sizes}", units.seconds(one.time_s), _rate(one.flops_per_s), _rate(one.bytes_per_s))
                for one in _chosen(lines)
            ],
        )
    failed = [str(result["reason"]) for result in results if "reason" in result]
    yield out.Lines(lines=[f"{len(failed):,} not measured: {failed[0]}"] if failed else [], kind=out.BAD)


def _lines(results: Sequence[Mapping[str, Any]]) -> Iterator[_Line]:
    for result in results:
        seconds = result.get("time_s")
        work = (result.get("scenario") or {}).get("workload") or {}
        if seconds:
            rates = (float(result.get(key) or 0.0) / seconds for key in ("flops", "bytes"))
            sizes = ", ".join(f"{key} {value}" for key, value in work.items() if key not in _NOT_SIZES)
            kind = " ".join(str(work[key]) for key in ("operator", "dtype") if key in work)
            yield _Line(kind or "operator", sizes, float(seconds), *rates)


def _chosen(lines: Sequence[_Line]) -> list[_Line]:
    """The lines by what they reach, best first; of very many the two ends."""
    ranked = sorted(lines, key=lambda line: line.rate, reverse=True)
    return ranked if len(ranked) <= _MOST else [*ranked[:_EACH], *ranked[-_EACH:]]


def _title(kind: str, lines: Sequence[_Line]) -> str:
    times = sorted(line.time_s for line in lines)
    said = f"{kind}: {len(lines):,} measured, {units.seconds(times[0])} to {units.seconds(times[-1])}"
    return said if len(lines) <= _MOST else f"{said}; showing the {_EACH} fastest and the {_EACH} slowest"


def _rate(value: float) -> str:
    return units.rate(value, "") if value else NOTHING
