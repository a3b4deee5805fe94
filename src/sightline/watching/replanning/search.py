"""The search for a better plan of a job that departed, in a process of its own that gives way to all others.

``python -m sightline.watching.replanning.search`` reads a question from its input and prints the answer, both JSON.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.scenario import Scenario
from sightline.scenario.space import TRAINING_FIELDS
from sightline.watching.replanning import answers

if TYPE_CHECKING:
    from sightline.planning.answer import PlanAnswer
    from sightline.profile import Profile

AS_FAST: Final = 1.002
"""A change of the plan that saves less than this is left out."""
MOST_CPU_S: Final = 600
"""Seconds of a processor that a search may take."""
FULL: Final = 0.9
"""Share of the memory that a plan may take where it was nearly full."""
MOST_SIZES: Final = 8
"""Numbers of devices that are tried where the plan that ran fits on none of those that are left."""


def replanned(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return which plan would be better now, and by how much.

    What is known to have changed is part of the scenario. What the measured step takes beyond its prediction there
    makes every plan longer by the same factor, so that it changes no gain: nobody knows which part of the step it is.

    Args:
        question: ``scenario``, and what has changed: ``cause``, ``devices``, ``sequence_length``, ``link_factor``,
            ``measured_s``, ``memory`` (bytes in use), ``folder`` (where files for the command are written, if
            anywhere), ``name`` (of those files).

    Returns:
        ``sentence``; ``set``, the changes of the plan; ``gain``, the share of the time that they save, and its
        ``interval``; ``advised``, whether they are worth a restart; ``present_s`` and ``best_s``, predictions of both
        plans in the situation; ``factor``, measured over predicted; ``assumed``; ``command``; ``evaluated``; ``plan``.
    """
    from sightline.launching.registry import WRITERS
    from sightline.watching.expected import scenario_of
    from sightline.watching.replanning.situation import can_run, scenario_now

    scenario = scenario_of(question["scenario"])
    changed = {key: question[key] for key in ("devices", "sequence_length", "link_factor") if question.get(key)}
    now = scenario_now(scenario, **changed)
    # A framework that nothing is launched with is searched as a whole.
    is_launchable = now.plan.framework.name in WRITERS
    if not can_run(now) and can_run(scenario):
        search = _elsewhere(now, is_launchable=is_launchable)
    else:
        present = _predicted(now)
        search = _search(now, present, _memory_limit(present, question), is_launchable=is_launchable)
    answer = _answer(search, question, answers.assumed(scenario, search.now, question))
    return answer | {"command": _command(search, question)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """A search and what it was asked."""

    now: Scenario
    present: "Profile | None"
    """The plan that runs, in the situation; None where it cannot run there."""
    found: "PlanAnswer"
    limit: float | None
    is_launchable: bool


def _search(now: Scenario, present: "Profile | None", limit: float | None, *, is_launchable: bool) -> _Search:
    from sightline.planning.search import plan

    found = plan(now, top=1, launchable=is_launchable, max_memory=limit)
    return _Search(now=now, present=present, found=found, limit=limit, is_launchable=is_launchable)


def _elsewhere(now: Scenario, *, is_launchable: bool) -> _Search:
    """Search on the most devices that any plan runs on."""
    from sightline.watching.replanning.situation import on_devices

    most = int(now.cluster.devices)
    search = _search(now, None, None, is_launchable=is_launchable)
    for count in range(most - 1, max(most - MOST_SIZES, 0), -1):
        if search.found.plans:
            break
        search = _search(on_devices(now, count), None, None, is_launchable=is_launchable)
    return search


def _predicted(scenario: Scenario) -> "Profile":
    from sightline.prediction import predict

    return predict(scenario)


def _memory_limit(present: "Profile", question: Mapping[str, Any]) -> float | None:
    """Predicted bytes at which a plan would leave room; None where memory is not what departed."""
    if question.get("cause") != "memory" or not question.get("memory"):
        return None
    beyond = float(question["memory"]) / float(present.memory_bytes["total"])
    return FULL * float(present.usable_bytes) / max(beyond, 1.0)


def _answer(search: _Search, question: Mapping[str, Any], assumed: list[str]) -> dict[str, Any]:
    """The best plan against the one that runs."""
    found, present = search.found, search.present
    measured_s, present_s = question.get("measured_s"), None if present is None else float(present.step_time_s)
    factor = measured_s / present_s if measured_s and present_s else 1.0
    answer: dict[str, Any] = {
        "present_s": present_s,
        "factor": factor,
        "assumed": assumed + answers.of_factor(factor),
        "evaluated": found.evaluated,
        "set": {},
        "gain": 0.0,
        "advised": False,
    }
    if not found.plans:
        return answer | {"sentence": answers.of_none(search.now, found.evaluated, leaves_room=search.limit is not None)}
    best = found.plans[0].profile
    if present is None:
        settings = _changes(search.now, best.scenario)
        said = answers.of_another(search.now, best, settings, answer["assumed"])
        return answer | _of_best(best, settings) | {"advised": True, "sentence": said}
    best = _with_fewest_changes(best, present, search.limit)
    settings = _changes(present.scenario, best.scenario)
    return answer | _of_best(best, settings) | _gain(present, best, settings, question, answer)


def _of_best(best: "Profile", settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"best_s": float(best.step_time_s), "set": settings, "plan": best.scenario.plan.to_dict()}


def _gain(
    present: "Profile",
    best: "Profile",
    settings: Mapping[str, Any],
    question: Mapping[str, Any],
    answer: Mapping[str, Any],
) -> dict[str, Any]:
    """What changes of the plan save, and whether they are advised."""
    from sightline.explanation.advice import gains_between

    gain = 1.0 - float(best.step_time_s) / float(present.step_time_s)
    is_for_memory = question.get("cause") == "memory"
    if not settings or (gain < answers.WORTH and not is_for_memory):
        said = answers.of_best(answer["evaluated"], str(question.get("cause")), answer["assumed"])
        return {"set": {}, "gain": 0.0, "best_s": float(present.step_time_s), "sentence": said}
    interval = gains_between(present, best)
    is_advised = is_for_memory or (interval is not None and interval[0] > answers.WORTH)
    said = answers.of_gain(present, best, settings, interval, answer["assumed"], is_advised=is_advised)
    ends = None if interval is None else list(interval)
    return {"gain": gain, "interval": {"gain": ends}, "advised": is_advised, "sentence": said}


def _changes(present: Scenario, best: Scenario) -> dict[str, Any]:
    before, after = present.plan.to_dict(), best.plan.to_dict()
    return {f"plan.{name}": after[name] for name in TRAINING_FIELDS if after[name] != before[name]}


def _with_fewest_changes(best: "Profile", present: "Profile", limit: float | None) -> "Profile":
    """The best plan with every change undone that saves next to nothing."""
    from sightline.watching.replanning.situation import can_run

    fastest = float(best.step_time_s)
    for name in TRAINING_FIELDS:
        value = getattr(present.scenario.plan, name)
        if getattr(best.scenario.plan, name) == value:
            continue
        other = replace(best.scenario, plan=replace(best.scenario.plan, **{name: value}))
        if not can_run(other):
            continue
        profile = _predicted(other)
        fits = profile.fits and (limit is None or float(profile.memory_bytes["total"]) <= limit)
        if fits and float(profile.step_time_s) <= AS_FAST * fastest:
            best = profile
    return best


def _command(search: _Search, question: Mapping[str, Any]) -> str:
    """What to type to see the search again and to write its launch; empty where no file can be written.

    The file ``NAME.json`` leaves the plan open; ``NAME.present.json`` has the plan that runs, in the same situation.
    """
    import shlex

    from sightline.watching.expected import as_mapping
    from sightline.watching.replanning.situation import left_open

    folder, name = question.get("folder"), question.get("name", "replan")
    if not folder:
        return ""
    stated = as_mapping(search.now)
    opened, present = (Path(folder) / f"{name}{ending}.json" for ending in ("", ".present"))
    try:
        _write(opened, left_open(stated, TRAINING_FIELDS))
        if search.present is not None:
            _write(present, stated)
    except OSError:
        return ""
    words = ["sightline", "plan", str(opened)]
    words += ["--launchable"] if search.is_launchable else []
    words += ["--max-memory", f"{search.limit / 1e9:.4g} GB"] if search.limit else []
    return shlex.join([*words, "--launch", f"{name}.launch"] if search.is_launchable else words)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")


def _give_way() -> None:
    """Run after everything else, and not for ever."""
    with suppress(OSError, AttributeError):
        os.nice(19)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))


def main() -> int:
    """Answer the question on the input."""
    _give_way()
    try:
        answer = replanned(json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - whatever it is, the job hears of it in one sentence
        answer = {"error": " ".join(str(error).split()) or type(error).__name__}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
