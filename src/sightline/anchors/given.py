"""What the words of an anchor stand for: a stored run, a file with a ``measured:`` block, a saved anchor, a profile.

What measured a load is read in `sightline.anchors.loads`, which only such anchors need.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from sightline.anchors.files import ENDINGS, anchor_names, read_anchor
from sightline.anchors.traced import anchor_of_trace, is_traced
from sightline.errors import InputError, nearest
from sightline.loading import load, to_mapping
from sightline.loading.sources import read_source
from sightline.prediction.anchoring.anchor import Anchor, anchor_of, joined
from sightline.prediction.anchoring.timed import TIMES
from sightline.profile import Profile
from sightline.runs import Run, Store, open_store
from sightline.runs.store import LATEST
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario

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
    found: list[Anchor] = []
    problems: list[str] = []
    several: Iterable[Any] = [given] if isinstance(given, (*_ONE, Anchor)) else cast("Iterable[Any]", given)
    for one in several:
        try:
            found.append(_anchor(one, store))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return _told_apart(found)


def _told_apart(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Return the anchors with a number behind a name that an earlier one has."""
    found: dict[str, Anchor] = {}
    for one in anchors:
        place = 1 + sum(name == one.name or name.startswith(f"{one.name} (") for name in found)
        name = one.name if place == 1 else f"{one.name} ({place})"
        timed = tuple(replace(each, name=each.name.replace(one.name, name, 1)) for each in one.timed)
        loads = tuple(each.named(each.name.replace(one.name, name, 1)) for each in one.loads)
        found[name] = one if place == 1 else replace(one, name=name, timed=timed, loads=loads)
    return list(found.values())


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
    raise InputError(f"an anchor is a profile, a run, a scenario, a file or a name, not {type(given).__name__}")


def _of_word(word: str | Path, store: Store) -> Anchor:
    """The anchor of a trace, a file, a saved name, or a run's id, in this order."""
    path, name = Path(word), str(word)
    if is_traced(word):
        return anchor_of_trace(word)
    if path.is_file():
        return _of_file(path)
    if path.is_dir() and ("/" in name or isinstance(word, Path)):
        raise InputError(f"--anchor: '{path}' is a folder; an anchor is a file, a stored run or a saved name")
    if isinstance(word, Path) or "/" in name or path.suffix.lower() in ENDINGS:
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"--anchor: there is no file '{path}'{nearest(path.name, beside)}")
    saved = anchor_names(store)
    if name in saved:
        return of_document(read_anchor(store, name), name)
    runs = store.storage.folders()
    if name == LATEST or any(name and run.startswith(name) for run in runs):
        return _of_run(store.find(name), store)
    near = nearest(name, (*saved, *runs))
    raise InputError(f"--anchor '{name}' is no file, no saved anchor and no run in '{store.place}'{near}")


def _of_file(path: Path) -> Anchor:
    """The anchor of a file's scenarios, or of a result that ``measure --json`` wrote."""
    documents = [document.mapping for document in read_source(path).documents]
    results = [one for one in documents if isinstance(one, Mapping) and one.get("source") in ("measured", "predicted")]
    if results:
        return joined([_of_result(one.get("scenario") or {}, one, str(path)) for one in results], str(path))
    return _of_scenarios(_listed(load(path)), str(path), path.parent)


def _of_run(run: Run, store: Store) -> Anchor:
    if run.status != "ok":
        reason = f" ({run.reason})" if run.reason else ""
        raise InputError(
            f"run '{run.id}' is {run.status.replace('_', ' ')}{reason}; only a run that ended ok can be an anchor"
        )
    records = store.samples(run).to_dicts() if run.scenario.get("workload", {}).get("task") == "serve" else []
    if records:
        from sightline.anchors.loads import anchor_of_outcome
        from sightline.simulation.replay import outcome_of

        scenario = load({key: value for key, value in run.scenario.items() if key != "measured"})
        return anchor_of_outcome(run.id, cast("ServingScenario", _listed(scenario)[0]), outcome_of(records))
    return _of_result(run.scenario, {"source": "measured", **run.result}, run.id)


def _of_result(scenario: Mapping[str, Any], result: Mapping[str, Any], name: str) -> Anchor:
    if result.get("source") == "predicted":
        raise InputError(f"'{name}' is a prediction; only what was measured teaches about your cluster")
    found = _listed(load({key: value for key, value in scenario.items() if key != "measured"}))
    return _anchor_of(found[0], {key: result[key] for key in _every_time() if key in result}, name)


def _of_profile(profile: Profile) -> Anchor:
    if profile.source != "measured":
        raise InputError(f"an anchor is {profile.source}; only a profile that was measured teaches about your cluster")
    name = profile.scenario.name or "the measured profile"
    if isinstance(profile.scenario, ServingScenario) and profile.outcome is not None:
        from sightline.anchors.loads import anchor_of_outcome

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
    from sightline.anchors.loads import anchor_of_figures

    return anchor_of_figures(scenario, measured, name, folder)


def _of_scenarios(scenarios: Sequence[Any], name: str, folder: Path = Path()) -> Anchor:
    """The anchor of all scenarios that have a ``measured`` block."""
    measured = [one for one in scenarios if one.measured]
    if not measured:
        raise InputError(f"anchor '{name}' has no 'measured:' block, such as measured: {{step_time_s: 1.1}}")
    called = [name if len(measured) == 1 else f"{name}#{place}" for place in range(1, len(measured) + 1)]
    return joined([_anchor_of(one, one.measured, of, folder) for one, of in zip(measured, called, strict=True)], name)


def to_document(anchor: Anchor) -> dict[str, Any]:
    """Return what a file holds of an anchor's measurements: resolved scenarios with what was measured."""
    steps = [
        {**to_mapping(one.scenario), "measured": {one.quantity: float(one.seconds)}, "name": one.name}
        for one in anchor.timed
    ]
    if not anchor.loads:
        return {"measurements": steps}
    from sightline.anchors.loads import to_documents

    return {"measurements": steps, "loads": to_documents(anchor)}


def of_document(document: Mapping[str, Any], name: str) -> Anchor:
    """Return the anchor that a file holds.

    Raises:
        InputError: Its measurements cannot be read.
    """
    try:
        scenarios = [_listed(load(dict(one)))[0] for one in document["measurements"]]
        loads = _loads_of(document)
    except InputError as error:
        raise InputError([f"the saved anchor '{name}' cannot be read: {said}" for said in error.problems]) from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise InputError(f"the saved anchor '{name}' cannot be read: {error}") from error
    return joined([*([_of_scenarios(scenarios, name)] if scenarios or not loads else []), *loads], name)


def _loads_of(document: Mapping[str, Any]) -> list[Anchor]:
    if not document.get("loads"):
        return []
    from sightline.anchors.loads import of_documents

    return of_documents(document["loads"])
