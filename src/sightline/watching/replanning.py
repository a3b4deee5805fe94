"""The search for a better plan of a job that departed, in a process of its own that gives way to all others.

``python -m sightline.watching.replanning`` reads a question from its input and prints the answer, both JSON.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.quantities import SECONDS, format_quantity
from sightline.scenario import Scenario
from sightline.scenario.space import TRAINING_FIELDS

if TYPE_CHECKING:
    from sightline.planning.answer import PlanAnswer
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile

WORTH: Final = 0.02
"""Share of the step that another plan must save to be worth a restart."""
AS_FAST: Final = 1.002
"""A change of the plan that saves less than this is left out."""
MOST_CPU_S: Final = 600
"""Seconds of a processor that a search may take."""
UNEXPLAINED: Final = 0.15
"""Share of the predicted step that a measured one must take longer for the rest to be told."""
FULL: Final = 0.9
"""Share of the memory that a plan may take where it was nearly full."""


def replanned(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return which plan would be better now, and by how much.

    Args:
        question: ``scenario``, and what has changed: ``cause``, ``devices``, ``sequence_length``, ``link_factor``,
            ``measured_s``, ``memory`` (bytes in use), ``folder`` (where files for the command are written, if
            anywhere), ``name`` (of those files).
    """
    from sightline.launching.registry import WRITERS
    from sightline.planning.search import plan
    from sightline.watching.expected import scenario_of
    from sightline.watching.situation import scenario_now

    scenario = scenario_of(question["scenario"])
    changed = {key: question[key] for key in ("devices", "sequence_length", "link_factor") if question.get(key)}
    now = scenario_now(scenario, **changed)
    known = _learned(now, question.get("measured_s"))
    present = _predicted(now, known)
    limit = _memory_limit(present, question)
    asked: dict[str, Any] = {"top": 1, "anchor": known, "max_memory": limit}
    # A framework that nothing is launched with is searched as a whole.
    launchable = now.plan.framework.name in WRITERS
    found = plan(now, launchable=launchable, **asked)
    answer = _answer(found, present, known, question, limit)
    answer["learned"] = [] if known is None else [one["sentence"] for one in known.to_dicts("training")]
    return answer | {"command": _command(now, question, answer, limit, launchable=launchable)}


def _learned(now: Scenario, measured_s: float | None) -> "Anchored | None":
    """What the job's own step teaches; nothing where it cannot be."""
    from sightline.errors import SightlineError
    from sightline.prediction.anchoring import learn
    from sightline.prediction.anchoring.anchor import anchor_of

    if not measured_s:
        return None
    with suppress(SightlineError, ArithmeticError):
        return learn([anchor_of(now, {"step_time_s": measured_s}, "this job")])
    return None


def _predicted(scenario: Scenario, known: "Anchored | None") -> "Profile":
    from sightline.prediction import predict

    return predict(scenario, anchor=known)


def _memory_limit(present: "Profile", question: Mapping[str, Any]) -> float | None:
    """Predicted bytes at which a plan would leave room; None where memory is not what departed."""
    if question.get("cause") != "memory" or not question.get("memory"):
        return None
    beyond = float(question["memory"]) / float(present.memory_bytes["total"])
    return FULL * float(present.usable_bytes) / max(beyond, 1.0)


def _answer(
    found: "PlanAnswer",
    present: "Profile",
    known: "Anchored | None",
    question: Mapping[str, Any],
    limit: float | None,
) -> dict[str, Any]:
    """The best plan against the one that runs, in a sentence."""
    present_s = float(present.step_time_s)
    answer: dict[str, Any] = {"present_s": present_s, "evaluated": found.evaluated, "set": {}, "gain": 0.0}
    if not found.plans:
        framework, room = present.scenario.plan.framework.name, "" if limit is None else " and leaves room"
        return answer | {"sentence": f"of the {found.evaluated:,} plans that {framework} offers none fits{room}"}
    best = _with_fewest_changes(found.plans[0].profile, present, known, limit)
    changes, best_s = _changes(present.scenario, best.scenario), float(best.step_time_s)
    gain = 1.0 - best_s / present_s
    figures = {"best_s": best_s, "gain": gain, "set": changes, "plan": best.scenario.plan.to_dict()}
    if not changes or (gain < WORTH and question.get("cause") != "memory"):
        said = f"the plan that runs is still the best of {found.evaluated:,} that were searched"
        cause = "" if question.get("cause") in ("devices", "sequences") else "; look for the cause in the job itself"
        return answer | figures | {"set": {}, "gain": 0.0, "best_s": present_s, "sentence": said + cause}
    took = f"{format_quantity(best_s, SECONDS)} a step, {format_quantity(present_s, SECONDS)} with the plan that runs"
    much = f"{100 * abs(gain):.0f} % {'less' if gain > 0 else 'more'} time"
    said = f"{_worded(present.scenario, changes)} would take {much} (predicted {took})"
    return answer | figures | {"sentence": said + _unexplained(question.get("measured_s"), present_s)}


def _unexplained(measured_s: float | None, present_s: float) -> str:
    """What no prediction of the plan that runs explains of its step."""
    rest_s = (measured_s or 0.0) - present_s
    if rest_s < UNEXPLAINED * present_s:
        return ""
    measured = format_quantity(present_s + rest_s, SECONDS)
    return f"; of the {measured} that it takes now, {format_quantity(rest_s, SECONDS)} are not the plan's"


def _worded(present: Scenario, changes: Mapping[str, Any]) -> str:
    before = present.plan.to_dict()
    listed = [f"{key.removeprefix('plan.')} {value} (now {before[key.removeprefix('plan.')]})"
              for key, value in changes.items()]  # fmt: skip
    return " and ".join((", ".join(listed[:-1]), listed[-1])) if len(listed) > 1 else listed[0]


def _changes(present: Scenario, best: Scenario) -> dict[str, Any]:
    before, after = present.plan.to_dict(), best.plan.to_dict()
    return {f"plan.{name}": after[name] for name in TRAINING_FIELDS if after[name] != before[name]}


def _with_fewest_changes(
    best: "Profile", present: "Profile", known: "Anchored | None", limit: float | None
) -> "Profile":
    """The best plan with every change undone that saves next to nothing."""
    from sightline.planning.training.validity import POSSIBLE
    from sightline.scenario.rules import broken_by

    fastest = float(best.step_time_s)
    for name in TRAINING_FIELDS:
        value = getattr(present.scenario.plan, name)
        if getattr(best.scenario.plan, name) == value:
            continue
        other = replace(best.scenario, plan=replace(best.scenario.plan, **{name: value}))
        if any(broken_by(other, POSSIBLE)):
            continue
        profile = _predicted(other, known)
        fits = profile.fits and (limit is None or float(profile.memory_bytes["total"]) <= limit)
        if fits and float(profile.step_time_s) <= AS_FAST * fastest:
            best = profile
    return best


def _command(
    now: Scenario, question: Mapping[str, Any], answer: Mapping[str, Any], limit: float | None, *, launchable: bool
) -> str:
    """What to type to see the search again and to write its launch; empty where no file can be written."""
    import shlex

    from sightline.watching.expected import as_mapping
    from sightline.watching.situation import left_open

    folder, name = question.get("folder"), question.get("name", "replan")
    if not folder:
        return ""
    stated = as_mapping(now)
    opened, measured = (Path(folder) / f"{name}{ending}.json" for ending in ("", ".measured"))
    try:
        _write(opened, left_open(stated, TRAINING_FIELDS))
        words = ["sightline", "plan", str(opened)]
        if question.get("measured_s") and answer.get("learned"):
            _write(measured, {**stated, "measured": {"step_time_s": question["measured_s"]}})
            words += ["--anchor", str(measured)]
    except OSError:
        return ""
    words += ["--launchable"] if launchable else []
    words += ["--max-memory", f"{limit / 1e9:.4g} GB"] if limit else []
    return shlex.join([*words, "--launch", f"{name}.launch"] if launchable else words)


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
