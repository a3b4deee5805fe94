"""Anchors from what a user names: a stored run, a file with `measured:`, a saved anchor, a log of requests, a trace."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from sightline.anchors.files import ENDINGS, anchor_names, read_anchor, save_anchor
from sightline.errors import InputError, missing_file, nearest, noted, prefixed, refuse
from sightline.folders import located
from sightline.loading import load, to_mapping
from sightline.loading.parts import UNLIKE
from sightline.loading.sources import numbered, read_source
from sightline.loading.traces import PAIRS, Columns, measured_in, open_trace
from sightline.loading.traces.clients import MOST_FAILED, failures
from sightline.loading.traces.shapes import NEEDED, SPANS, TIME
from sightline.prediction.anchoring.anchor import Anchor, anchor_of, joined
from sightline.prediction.anchoring.anchored import Anchored
from sightline.prediction.anchoring.timed import TIMES, WITHOUT_TIME, Answered, ran_out_of_memory, task_name
from sightline.profile import Profile
from sightline.runs import Run, Store, open_store
from sightline.runs.store import LATEST
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario
from sightline.simulation.anchoring import QUANTITIES, ServedLoad, anchor_of_load, without_rows
from sightline.simulation.load import COLUMNS, Requests
from sightline.simulation.outcome import COMPLETED, Outcome

LOG = "requests"
"""Key of ``measured`` that names a log of requests."""


def anchor_of_outcome(name: str, scenario: ServingScenario, outcome: Outcome) -> Anchor:
    """Return the anchor of a load that was measured request by request.

    Raises:
        InputError: No request of it was answered.
    """
    done = outcome.status == COMPLETED
    first_s, last_s = (np.where(done, times, np.nan) for times in (outcome.first_token_s, outcome.last_token_s))
    return anchor_of_load(
        ServedLoad(name=name, scenario=scenario, requests=outcome.requests, first_token_s=first_s, last_token_s=last_s)
    )


def anchor_of_figures(
    scenario: ServingScenario, measured: Mapping[str, Any], name: str, folder: Path = Path()
) -> Anchor:
    """Return the anchor of what a scenario says was measured: a log of requests, or mean times.

    Raises:
        InputError: It says neither, or the log cannot be read.
    """
    _check_load(scenario)
    if failed := failures(measured):
        raise InputError(f"anchor '{name}': {failed}; allowed: {100 * MOST_FAILED:g} %")
    unused = tuple(key for key in measured if key not in (*QUANTITIES, LOG, *WITHOUT_TIME))
    if LOG in measured:
        return anchor_of_load(_logged(name, scenario, folder / str(measured[LOG])), unused)
    means = {key: _mean(measured[key]) for key in QUANTITIES if key in measured}
    if not any(means.values()):
        raise InputError(
            f"anchor '{name}' has no measured time; needed for serving: {LOG} (a table of requests), or the "
            f"means of {' and '.join(QUANTITIES)}"
        )
    return anchor_of_load(without_rows(name, scenario, {key: of for key, of in means.items() if of}), unused)


def _mean(value: Any) -> float:
    """The mean of a time that was measured as a mapping; 0 where there is none."""
    return float((value.get("mean") if isinstance(value, Mapping) else value) or 0.0)


def _logged(name: str, scenario: ServingScenario, path: Path) -> ServedLoad:
    with prefixed(f"measured.{LOG}: "):
        columns = _columns(path)
    arrival_s = columns[TIME]
    times = next((pair for pair in PAIRS if {*pair} <= {*columns}), None)
    if times is None:
        either = " or ".join(" and ".join(pair) for pair in PAIRS)
        raise InputError(f"measured.{LOG}: '{path}' has no column {either}")
    since = arrival_s if times is SPANS else 0.0
    first_s, last_s = (columns[key] + since for key in times)
    impossible = np.flatnonzero((first_s <= arrival_s) | (last_s < first_s))
    if impossible.size:
        one = f"measured.{LOG}: line {columns['line'][impossible[0]]} of '{path}'"
        raise InputError(f"{one} has its first token before its arrival, or its last token before its first")
    requests = Requests(**{key: columns[key] for key in COLUMNS if key in columns})
    return ServedLoad(name=name, scenario=scenario, requests=requests, first_token_s=first_s, last_token_s=last_s)


def _columns(path: Path) -> Columns:
    """The columns of a log, in order of arrival."""
    if not numbered(path)[0].is_file():
        raise missing_file(path)
    columns = open_trace(path).whole()
    if TIME not in columns:
        raise InputError(f"'{path}' has no column {TIME}; needed: {TIME}, {', '.join(NEEDED)}")
    return columns


TOKEN_TIMES = ("first_token_s", "last_token_s")


def _load_to_document(load: ServedLoad) -> dict[str, Any]:
    """What a file holds of a load: who answered, and every request."""
    times = {key: getattr(load, key).tolist() for key in TOKEN_TIMES}
    return {
        "name": load.name,
        "scenario": to_mapping(load.scenario),
        "requests": {field.name: getattr(load.requests, field.name).tolist() for field in fields(Requests)},
        "times": {key: [None if np.isnan(s) else s for s in column] for key, column in times.items()},
        "means": dict(load.means),
        "kv_tokens": load.kv_tokens,
    }


def _load_of_document(document: Mapping[str, Any]) -> Anchor:
    """The anchor of a load that a file holds."""
    scenario = load(dict(document["scenario"]))
    if not isinstance(scenario, ServingScenario):
        raise InputError("allowed: a scenario with task serve")
    columns: dict[str, Any] = {
        key: np.array(column, np.float64 if key.endswith("_s") else np.int64)
        for key, column in document["requests"].items()
    }
    times: dict[str, Any] = {
        key: np.array([np.nan if s is None else s for s in document["times"][key]]) for key in TOKEN_TIMES
    }
    stated = {key: document[key] for key in ("name", "means", "kv_tokens")}
    return anchor_of_load(ServedLoad(**stated, **times, scenario=scenario, requests=Requests(**columns)))


SEPARATOR = "@"
"""Between a trace and the scenario that it is of: a trace itself does not say what ran."""


def is_traced(word: str | Path) -> bool:
    """Return whether a word names a trace, with a scenario or without."""
    from sightline.traces.files import looks_like_trace

    name, at, _ = str(word).rpartition(SEPARATOR)
    place = Path(name if at else word)
    # Neither a saved name nor a run is a path that exists.
    return place.exists() and looks_like_trace(place)


def measured_scenario(word: str) -> Any:
    """Return the scenario of ``RESULT@SCENARIO`` with what a load client measured of it; None for another word.

    Raises:
        InputError: The scenario cannot be read, or is not one.
    """
    result, _, question = word.rpartition(SEPARATOR)
    if not result or not numbered(result)[0].is_file():
        return None
    scenarios = _listed(load(Path(question), {"measured": str(Path(result).resolve())}))
    if len(scenarios) != 1:
        raise InputError(f"'{question}' has {len(scenarios)} scenarios; '{result}' was measured of one")
    _check_load(scenarios[0])
    return scenarios[0]


def _check_load(scenario: Any) -> None:
    """Raise `InputError` where a load client's result is of another load than the scenario's."""
    refuse([said for said in scenario.warnings if said.endswith(UNLIKE)])


def anchor_of_trace(word: str | Path) -> Anchor:
    """Return the anchor of ``TRACE@SCENARIO``: its mean step, over the steps and ranks that count.

    Raises:
        InputError: The scenario is missing, is of several or of no training, or the trace cannot be read or has no
            steps.
    """
    from sightline.traces.job import read_job

    trace, _, question = str(word).rpartition(SEPARATOR)
    if not trace:
        raise InputError(f"--anchor: '{word}' is a trace without a scenario; write {word}{SEPARATOR}SCENARIO.yaml")
    scenarios = _listed(load(Path(question)))
    if len(scenarios) != 1 or not isinstance(scenarios[0], Scenario):
        raise InputError(f"--anchor: '{question}' must hold the training scenario of '{trace}'")
    job = read_job([trace])
    ranks = job.ranks
    if not job.is_sound:
        raise InputError(f"'{trace}' has no step to learn from: {'; '.join(job.warnings)}")
    if not all(rank.steps.are_named for rank in ranks):
        raise InputError(f"'{trace}' has no steps; call profiler.step() after each step of the job")
    return anchor_of(scenarios[0], {"step_time_s": sum(rank.whole_ns for rank in ranks) / len(ranks) / 1e9}, str(word))


Given: TypeAlias = (
    "Profile | Run | Scenario | GenerationScenario | ServingScenario | Anchor | Mapping[str, Any] | str | Path"
)
"""What may be given as an anchor."""
_ONE = (str, Path, Profile, Run, Mapping, Scenario, GenerationScenario, OperatorScenario, ServingScenario)
"""What is one anchor, not several."""


def anchors_of(given: "Iterable[Given] | Given", store: str | None = None) -> list[Anchor]:
    """Return the anchors that words, profiles, runs and scenarios stand for; words are looked up in a ``store``.

    Raises:
        InputError: Some word stands for nothing, or for nothing that teaches about times; all of them at once.
    """
    anchors: list[Anchor] = []
    problems: list[str] = []
    several: Iterable[Any] = [given] if isinstance(given, (*_ONE, Anchor)) else cast("Iterable[Any]", given)
    for each in several:
        with noted(problems):
            anchors.append(_anchor(each, store))
    refuse(problems)
    return _told_apart(anchors)


def _told_apart(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Return the anchors with a number behind a name that an earlier one has."""
    by_name: dict[str, Anchor] = {}
    for anchor in anchors:
        place = 1 + sum(name == anchor.name or name.startswith(f"{anchor.name} (") for name in by_name)
        name = anchor.name if place == 1 else f"{anchor.name} ({place})"
        timed = tuple(replace(each, name=each.name.replace(anchor.name, name, 1)) for each in anchor.timed)
        loads = tuple(each.named(each.name.replace(anchor.name, name, 1)) for each in anchor.loads)
        by_name[name] = anchor if place == 1 else replace(anchor, name=name, timed=timed, loads=loads)
    return list(by_name.values())


def _anchor(given: Any, store: str | None) -> Anchor:
    match given:
        case Anchor():
            return given
        case Profile():
            return _of_profile(given)
        case Run():
            return _of_run(given, open_store(store))
        case Scenario() | GenerationScenario() | OperatorScenario() | ServingScenario():
            return _of_scenarios([given], given.name or "the anchor")
        case Mapping():
            return _of_scenarios(_listed(load(dict(given))), str(given.get("name") or "the anchor"))
        case str() | Path():
            return _of_word(given, open_store(store))
    raise InputError(f"an anchor must be a profile, run, scenario, file or name, not {type(given).__name__}")


def _of_word(word: str | Path, store: Store) -> Anchor:
    """The anchor of a trace, a file, a saved name, or a run's id, in this order."""
    path, name = Path(word), str(word)
    if is_traced(word):
        return anchor_of_trace(word)
    if (asked := measured_scenario(name)) is not None:
        return _of_scenarios([asked], name)
    if numbered(path)[0].is_file() and (measured := measured_in(path)) is not None:
        is_result = f"--anchor: '{name}' is {measured['source']} without a scenario"
        raise InputError(f"{is_result}; write {name}{SEPARATOR}SCENARIO.yaml")
    if located(path).is_file():
        return _of_file(path)
    if path.is_dir() and ("/" in name or isinstance(word, Path)):
        raise InputError(f"--anchor: '{path}' is a folder; allowed: a file, a stored run or a saved anchor")
    if isinstance(word, Path) or "/" in name or path.suffix.lower() in ENDINGS:
        with prefixed("--anchor: "):
            raise missing_file(path)
    saved = anchor_names(store)
    if name in saved:
        return of_document(read_anchor(store, name), name)
    runs = store.storage.folders()
    if name == LATEST or any(name and run.startswith(name) for run in runs):
        return _of_run(store.find(name), store)
    near = nearest(name, (*saved, *runs))
    raise InputError(f"--anchor '{name}' is not a file, saved anchor or run in '{store.place}'{near}")


def _of_file(path: Path) -> Anchor:
    """The anchor of a file's scenarios, or of a result that ``measure --json`` wrote."""
    documents = [document.mapping for document in read_source(path).documents]
    results = [one for one in documents if isinstance(one, Mapping) and one.get("source") in ("measured", "predicted")]
    if results and all(isinstance(result.get("scenario") or {}, Mapping) for result in results):
        return joined([_of_result(result.get("scenario") or {}, result, str(path)) for result in results], str(path))
    return _of_scenarios(_listed(load(path)), str(path), path.parent)


def _of_run(run: Run, store: Store) -> Anchor:
    if run.status != "ok":
        reason = f" ({run.reason})" if run.reason else ""
        raise InputError(f"run '{run.id}' is {run.status.replace('_', ' ')}{reason}; an anchor must have status ok")
    records = store.samples(run).to_dicts() if run.scenario.get("workload", {}).get("task") == "serve" else []
    if records:
        from sightline.simulation.replay import outcome_of

        scenario = load({key: value for key, value in run.scenario.items() if key != "measured"})
        return anchor_of_outcome(run.id, cast("ServingScenario", _listed(scenario)[0]), outcome_of(records))
    return _of_result(run.scenario, {"source": "measured", **run.result}, run.id)


def _of_result(scenario: Mapping[str, Any], result: Mapping[str, Any], name: str) -> Anchor:
    if result.get("source") == "predicted":
        raise InputError(f"'{name}' is a prediction; an anchor must be a measurement")
    scenarios = _listed(load({key: value for key, value in scenario.items() if key != "measured"}))
    return _anchor_of(scenarios[0], {key: result[key] for key in _every_time() if key in result}, name)


def _of_profile(profile: Profile) -> Anchor:
    if profile.source != "measured":
        raise InputError(f"the profile is {profile.source}; an anchor must be a measurement")
    name = profile.scenario.name or "the measured profile"
    if isinstance(profile.scenario, ServingScenario) and profile.outcome is not None:
        return anchor_of_outcome(name, profile.scenario, profile.outcome)
    times = {key: getattr(profile, key) for key in profile.stated if key in _every_time()}
    return _anchor_of(profile.scenario, times, name)


def _every_time() -> set[str]:
    return {key for keys in TIMES.values() for key in keys} | {"time_s"}


def _listed(loaded: Any) -> list[Any]:
    return loaded if isinstance(loaded, list) else [loaded]


def _anchor_of(scenario: Any, measured: Mapping[str, Any], name: str, folder: Path = Path()) -> Anchor:
    """The anchor of one scenario and what was measured of it; files are in a ``folder``."""
    if not isinstance(scenario, ServingScenario):
        return anchor_of(scenario, measured, name)
    return anchor_of_figures(scenario, measured, name, folder)


def _of_scenarios(scenarios: Sequence[Any], name: str, folder: Path = Path()) -> Anchor:
    """The anchor of all scenarios that have a ``measured`` block."""
    measured = [(place, scenario) for place, scenario in enumerate(scenarios, start=1) if scenario.measured]
    if not measured:
        raise InputError(f"anchor '{name}' has no 'measured:' block, such as measured: {{step_time_s: 1.1}}")
    ran = [(place, one) for place, one in measured if not ran_out_of_memory(one.measured)] or measured
    each = [(one, name if len(measured) == 1 else _called(one, name, place)) for place, one in ran]
    whole = joined([_anchor_of(one, one.measured, called, folder) for one, called in each], name)
    return replace(whole, out_of_memory=len(measured) - len(ran))


def _called(scenario: Any, name: str, place: int) -> str:
    """The name of one of several measured scenarios: where it is, and what it is of."""
    model = f"{scenario.model.name} on " if hasattr(scenario, "model") else ""
    what = scenario.name or f"{model}{scenario.cluster.in_words}"
    return f"{name}, {'row' if name.endswith('.csv') else 'scenario'} {place}: {what}"


def to_document(anchor: Anchor) -> dict[str, Any]:
    """Return what a file holds of an anchor's measurements: resolved scenarios with what was measured."""
    steps = [
        {**to_mapping(step.scenario), "measured": {step.quantity: float(step.seconds)}, "name": step.name}
        for step in anchor.timed
    ]
    loads = [_load_to_document(load) for load in anchor.loads if isinstance(load, ServedLoad)]
    return {"measurements": steps, **({"loads": loads} if loads else {})}


def of_document(document: Mapping[str, Any], name: str) -> Anchor:
    """Return the anchor that a file holds.

    Raises:
        InputError: Its measurements cannot be read.
    """
    try:
        scenarios = [_listed(load(dict(stated)))[0] for stated in document["measurements"]]
        loads = [_load_of_document(load) for load in document.get("loads") or ()]
    except InputError as error:
        raise InputError([f"saved anchor '{name}' cannot be read: {said}" for said in error.problems]) from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise InputError(f"saved anchor '{name}' cannot be read: {error}") from error
    return joined([*([_of_scenarios(scenarios, name)] if scenarios or not loads else []), *loads], name)


def save(known: Anchored, name: str, store: str | None = None) -> None:
    """Keep anchors under a name in a store of runs; they are learned from again whenever they are used."""
    from sightline import __version__

    whole = joined(known.anchors, name)
    scenarios = [measured.scenario for measured in (*whole.timed, *(load.timed[0] for load in whole.loads))]
    tasks = sorted({task_name(scenario) for scenario in scenarios})
    document = {
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tasks": tasks,
        "models": _each(scenario.model.name for scenario in scenarios),
        "clusters": _each(scenario.cluster.name or scenario.cluster.device.name for scenario in scenarios),
        "frameworks": _each(map(_made_by, scenarios)),
        "taught": [entry for task in tasks for entry in known.to_dicts(task)],
        **to_document(whole),
    }
    save_anchor(open_store(store), name, document)


def listing(store: str | None = None) -> list[dict[str, Any]]:
    """Return all saved anchors of a store without their measurements, in the order of their names."""
    opened = open_store(store)
    documents = [read_anchor(opened, name) for name in anchor_names(opened)]
    return [
        {key: value for key, value in document.items() if key not in ("measurements", "loads")}
        for document in documents
    ]


def _each(values: Any) -> list[str]:
    return list(dict.fromkeys(map(str, values)))


def _made_by(scenario: Answered) -> str:
    of = scenario.plan.framework if isinstance(scenario, Scenario) else scenario.plan.engine
    return f"{of.name} {of.version}".strip()
