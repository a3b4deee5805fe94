"""What the words of a request stand for: a run, a file of results or scenarios, a profile, ``predicted``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sightline.anchors.sources import measured_scenario
from sightline.content import flatten
from sightline.errors import InputError, missing_file, nearest, prefixed
from sightline.explanation.compared import Cell, Side
from sightline.folders import located
from sightline.loading import load, to_mapping
from sightline.loading.checks import with_value
from sightline.loading.sources import cell_value, numbered, read_source
from sightline.loading.traces import measured_in
from sightline.prediction import predict
from sightline.profile import IDLE_PHASES, SERVING, TASKS, Profile, Task, task_of
from sightline.profile.results import figure_of
from sightline.quantities import show
from sightline.runs import Run, Store
from sightline.runs.store import LATEST

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

ENDINGS = (".yaml", ".yml", ".json", ".csv")
"""Of files of scenarios and results."""
_One = TypeVar("_One")


def file_of(
    name: str, store: Store, *, words: Sequence[str] = (LATEST,), is_path: bool = False
) -> tuple[Path, int | None] | None:
    """Return the file that a name stands for, and which of its results is meant; None for the name of a run.

    Args:
        name: As it was typed; ``results.json#2`` is the second of a file.
        store: Where runs are looked for.
        words: What else may be said, to which a misspelled name may be near.
        is_path: The name can only be a file's.

    Raises:
        InputError: It looks like a file that is not there, or like one of the words.
    """
    path, number = numbered(name)
    if located(path).is_file():
        return path, number
    if is_path or "/" in name or path.suffix.lower() in (*ENDINGS, ".gz"):
        raise missing_file(path)
    if name != LATEST and (near := nearest(name, words)):
        raise InputError(f"no run '{name}' in '{store.place}'{near}")
    return None


def run_named(name: str, store: Store) -> Run:
    """Return the run that a word stands for which is no file; raise `InputError` where there is none."""
    with prefixed(f"there is no results or scenario file '{name}', and " if name != LATEST else ""):
        return store.find(name)


def chosen(found: Sequence[_One], number: int | None, name: str, verb: str = "compare") -> _One:
    """Return the one of several things of a file that is meant, counted from 1.

    Raises:
        InputError: There are several and no number says which, or none of that number.
    """
    if number is None and len(found) > 1:
        raise InputError(f"'{name}' has {len(found)} results; {verb} needs one, such as {name}#1")
    if number is not None and not 1 <= number <= len(found):
        raise InputError(f"'{name}' does not exist; the file has {len(found)}")
    return found[(number or 1) - 1]


def is_answer(mapping: Any) -> bool:
    """Return whether a mapping is a result, or a run as ``sightline runs export`` and ``show`` write it."""
    return isinstance(mapping, Mapping) and (is_run(mapping) or _is_result(mapping))


def is_run(mapping: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a run as ``sightline runs export`` and ``show`` write it."""
    return isinstance(mapping.get("result"), Mapping) and {"id", "scenario"} <= mapping.keys()


def _is_result(mapping: Mapping[str, Any]) -> bool:
    return mapping.get("source") in ("predicted", "measured") and (
        "completed" in mapping or any(figure_of(mapping, kind.whole) is not None for kind in TASKS)
    )


PREDICTED = "predicted"
_SCENARIO_KEYS = ("name", "model", "cluster", "workload", "plan")

Asked: TypeAlias = Profile | Run | str | Path
"""A profile, a run, the name of a run or file, or ``predicted``."""


def sides_of(a: Asked, b: Asked, store: Store, known: "Anchored | None" = None) -> tuple[Side, Side]:
    """Return both sides; ``predicted`` is the prediction of the other one's scenario.

    What is predicted here is predicted with what anchors taught, ``known``.

    Raises:
        InputError: Some name stands for nothing, or for nothing that can be compared.
    """
    if _is_predicted(a) and _is_predicted(b):
        raise InputError("'predicted' predicts the other argument; give a run, a result or a scenario there")
    if _is_predicted(a):
        second = _side(b, store, known)
        return _predicted_side(second, known), second
    first = _side(a, store, known)
    return first, (_predicted_side(first, known) if _is_predicted(b) else _side(b, store, known))


def _is_predicted(asked: Asked) -> bool:
    return isinstance(asked, str) and asked == PREDICTED


def _predicted_side(side: Side, known: "Anchored | None") -> Side:
    if not side.scenario:
        raise InputError(f"'{side.name}' has no scenario, so it cannot be predicted")
    return predicted(side.scenario, PREDICTED, f"'{side.name}'", known)


def _side(asked: Asked, store: Store, known: "Anchored | None") -> Side:
    if isinstance(asked, Run):
        return side_of_run(asked, store)
    if not isinstance(asked, str | Path):
        return side_of_profile(asked)
    name = str(asked)
    if (scenario := measured_scenario(name)) is not None:
        question = to_mapping(replace(scenario, measured={}))
        stated = {**scenario.measured, "source": "measured", "remarks": scenario.warnings}
        return side_of_result(stated, name, scenario=question)
    found = file_of(name, store, words=(PREDICTED, LATEST), is_path=isinstance(asked, Path))
    return side_of_run(run_named(name, store), store) if found is None else side_of_file(*found, name, known)


def side_of_run(run: Run, store: Store, used: str = "compared") -> Side:
    """Return a stored run as a side.

    Raises:
        InputError: It did not end well, so that it cannot be ``used``, or is no result of one scenario.
    """
    if run.status != "ok":
        reason = f" ({run.reason})" if run.reason else ""
        raise InputError(
            f"run '{run.id}' is {run.status.replace('_', ' ')}{reason}; only a run with status ok can be {used}"
        )
    rows = store.rows(run).to_dicts()
    with _as_results(f"run '{run.id}'"):
        side = side_of_result(
            run.result, run.id, scenario=run.scenario, cells=_cells(rows), environment=run.environment
        )
    if side.kind is not SERVING:
        return side
    from sightline.simulation.replay import outcome_of

    samples = store.samples(run).to_dicts()
    with _as_results(f"run '{run.id}'"):
        return replace(side, outcome=outcome_of(samples))


def side_of_profile(profile: Profile, name: str = "") -> Side:
    """Return a profile of one plan as a side."""
    if not isinstance(profile, Profile):
        raise InputError(f"compare takes profiles, runs and files, not {type(profile).__name__}")
    cells = [Cell(row.phase, row.module, row.operator, float(row.exposed_s)) for row in profile.rows]
    side = side_of_result(profile.to_dict(), name or profile.source, cells=cells)
    return replace(side, outcome=profile.outcome)


def side_of_result(
    result: Mapping[str, Any],
    name: str,
    *,
    scenario: Mapping[str, Any] | None = None,
    cells: Iterable[Cell] = (),
    environment: Mapping[str, Any] | None = None,
) -> Side:
    """Return documented result keys as a side; ``scenario`` and the table's ``cells`` where they lie elsewhere.

    Raises:
        InputError: It is no result of one scenario.
    """
    asked = scenario or result.get("scenario") or {}
    kind = _kind_of_result(result, asked, name)
    found = environment or result.get("environment") or {}
    intervals = result.get("interval") or {}
    return Side(
        name=name,
        title=str(asked.get("name", "")),
        source=str(result.get("source", "measured")),
        kind=kind,
        scenario=asked,
        figures=_numbers({key: _figure(result, key) for key in kind.headline} | _derived(result, kind)),
        phases=_numbers(result.get("phases") or {}),
        memory_bytes=_numbers(result.get("memory_bytes") or {}),
        intervals={key: (float(low), float(high)) for key, (low, high) in intervals.items() if high is not None},
        cells=[cell for cell in cells or _cells(result.get("rows") or ()) if cell.phase not in IDLE_PHASES],
        is_contended=bool(found.get("contended")),
        is_anchored=bool(result.get("anchor")),
        fits=result.get("fits") is not False,
        warnings=(*_disturbances(name, found), *result.get("remarks", ())),
        answered=None if result.get("completed") is None else int(result["completed"]),
        unanswered=_unanswered(result),
    )


def _figure(result: Mapping[str, Any], key: str) -> Any:
    """A figure, or its mean where several requests have it."""
    found = figure_of(result, key)
    return figure_of(result, f"{key}.mean") if found is None else found


def _unanswered(result: Mapping[str, Any]) -> dict[str, int]:
    """How many requests of a load were refused, by reason, or failed; nothing of other tasks."""
    found = {"failed": result.get("failed") or 0, **(result.get("refused") or {})}
    return {reason: int(count) for reason, count in found.items() if count}


def _kind_of_result(result: Mapping[str, Any], scenario: Mapping[str, Any], name: str) -> Task:
    task = (scenario.get("workload") or {}).get("task")
    stated = None if task is None else task_of(str(task))
    if task is not None and stated is None:
        known = ", ".join(t for k in TASKS for t in k.workloads)
        raise InputError(f"{name} has task {task}; compare supports {known}")
    usual = SERVING if isinstance(result.get("ttft_s"), Mapping) else TASKS[0]
    kind = stated or next((kind for kind in TASKS if figure_of(result, kind.whole) is not None), usual)
    if figure_of(result, kind.whole) is None:
        none = _unanswered(result)
        if (result.get("completed") or not none) and any(_figure(result, key) is not None for key in kind.headline):
            return kind
        if none:
            why = ", ".join(f"{count:,} {reason}" for reason, count in none.items())
            raise InputError(f"'{name}' answered no request ({why}), so it has no times to compare")
        several = result.get("results")
        held = f"{len(several)} operators of a suite" if isinstance(several, Sequence) else f"no {kind.whole}"
        raise InputError(f"'{name}' has {held}; compare needs the result of one scenario")
    return kind


def _derived(result: Mapping[str, Any], kind: Task) -> dict[str, float]:
    """Rates of an operator, which a stored measurement leaves to the reader."""
    seconds = result.get("time_s")
    if kind.name != "operator" or not seconds:
        return {}
    return {f"{of}_per_s": result[of] / seconds for of in ("flops", "bytes") if of in result}


def _cells(rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Return the cells of a stored table."""
    return [
        Cell(
            str(row.get("phase", "")),
            str(row.get("module", "")),
            str(row.get("operator", "")),
            float(row.get("exposed_s", row.get("time_s")) or 0.0),
            row.get("low_s"),
            row.get("high_s"),
        )
        for row in rows
    ]


def _numbers(mapping: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in mapping.items() if value is not None}


def _disturbances(name: str, environment: Mapping[str, Any]) -> tuple[str, ...]:
    reasons = environment.get("contention") or () if environment.get("contended") else ()
    return tuple(f"{name} was measured on a busy machine: {reason}" for reason in reasons)


def side_of_file(path: Path, number: int | None, name: str, known: "Anchored | None" = None) -> Side:
    """Return one of the results of a file, or the prediction of one of its scenarios, counted from 1.

    Raises:
        InputError: It holds neither, or several and no number says which.
    """
    if (measured := measured_in(path if number is None else Path(f"{path}#{number}"))) is not None:
        sent = measured.pop("sent")
        remarks = [f"{name} was sent as workload.arrival {show(sent)}"] if sent else []
        return side_of_result({**measured, "source": "measured", "remarks": remarks}, name)
    documents = read_source(path).documents
    if is_answer(documents[0].mapping):
        return _side_of_result(chosen([document.mapping for document in documents], number, name), name)
    loaded = load(path)
    scenario = chosen(loaded if isinstance(loaded, list) else [loaded], number, name)
    return side_of_profile(answer(scenario, known, intervals=True), name)


def answer(scenario: Any, known: "Anchored | None", *, intervals: bool = False) -> Profile:
    """Return the prediction of a scenario; a load is simulated, with ``intervals`` where they are asked for."""
    if scenario.workload.task != "serve":
        return predict(scenario, anchor=known)
    from sightline.anchors.corrected import simulate

    return simulate(scenario, anchor=known or (), intervals=intervals)


def predicted(
    scenario: Mapping[str, Any], name: str, whose: str, known: "Anchored | None" = None, *, intervals: bool = True
) -> Side:
    """Return the prediction of a scenario's mapping; ``whose`` it is stands in front of complaints.

    A load has ``intervals`` only where they are asked for, which takes two further runs.
    """
    with prefixed(f"the scenario of {whose}: "):
        loaded = load(dict(scenario))
    one = chosen(loaded if isinstance(loaded, list) else [loaded], None, whose)
    return side_of_profile(answer(one, known, intervals=intervals), name)


def _side_of_result(mapping: Mapping[str, Any], name: str) -> Side:
    with _as_results(f"'{name}'"):
        return _read(mapping, name)


@contextmanager
def _as_results(what: str) -> Iterator[None]:
    """Refuse what has another form than results."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise InputError(f"{what} is not a result written by predict or measure: {error}") from error


def _read(mapping: Mapping[str, Any], name: str) -> Side:
    if is_run(mapping):
        of = {key: mapping.get(key) for key in ("scenario", "environment")}
        return side_of_result(mapping["result"], name, **of, cells=_cells(mapping.get("rows") or ()))
    whole = _unflattened(mapping)
    scenario = whole.get("scenario") or {key: whole[key] for key in _SCENARIO_KEYS if key in whole}
    return _with_table(side_of_result(whole, name, scenario=scenario))


def _unflattened(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A line of CSV with its dotted keys as nested mappings and its pairs as numbers; JSON as it is."""
    whole: dict[str, Any] = {}
    for key, value in mapping.items():
        whole = with_value(whole, key, value)
    pairs = whole.get("interval")
    if isinstance(pairs, Mapping):
        # A key of an interval may be a dotted one, such as memory_bytes.total.
        ends = {key: value.split() if isinstance(value, str) else value for key, value in flatten(pairs).items()}
        whole["interval"] = {key: [_end(end) for end in value] for key, value in ends.items()}
    return whole


def _end(end: Any) -> Any:
    """An end of an interval; None where a bound has none."""
    return None if end in (None, "None", "null") else cell_value(str(end))


def _with_table(side: Side) -> Side:
    """A prediction's file has neither table nor requests: its scenario's are taken where it gives the same figures."""
    if side.is_measured or side.cells or not side.scenario:
        return side
    try:
        again = predicted(side.scenario, side.name, side.name, intervals=False)
    except InputError:
        return side
    key = side.kind.whole
    same = again.kind is side.kind and isclose(again.figures[key], side.figures[key], rel_tol=1e-6)
    return replace(side, cells=again.cells, outcome=again.outcome) if same else side
