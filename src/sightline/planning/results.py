"""The answer of a search of plans as JSON says it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.planning.answer import NearestPlan, PlanAnswer, RankedPlan
from sightline.profile import Profile
from sightline.profile.results import stamped

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored


def plans_to_dict(answer: PlanAnswer, launches: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Return an answer under its result keys, in SI units and plain Python numbers.

    Args:
        answer: Of a search.
        launches: The command that runs a plan, by rank, where a framework has one.
    """
    found = {
        "objective": answer.objective,
        "evaluated": answer.evaluated,
        "feasible": answer.feasible,
        "rejected": dict(answer.rejected),
        "seconds": answer.seconds,
        "stopped": answer.stopped,
        "free": list(answer.free),
        "plans": [_plan(one, (launches or {}).get(one.rank)) for one in answer.plans],
        "pareto": list(answer.pareto),
        "nearest": [nearest_to_dict(one) for one in answer.nearest],
        "neighbours": [asdict(one) for one in (*answer.alternatives, *answer.neighbours)],
        "hardware": [asdict(one) for one in answer.hardware],
        "assumptions": dict(answer.assumptions),
        "warnings": list(answer.warnings),
    }
    return stamped(found | ({"pareto_axes": list(answer.pareto_axes)} if answer.pareto_axes else {}))


def launches(answer: PlanAnswer) -> Mapping[int, str]:
    """Return by rank the commands that run those plans that their framework can run."""
    from sightline.launching import write

    found = {}
    for one in answer.plans:
        if one.launchable:
            try:
                found[one.rank] = write(one.profile.scenario).command
            except InputError:
                continue
    return found


def _plan(ranked: RankedPlan, launch: str | None = None) -> dict[str, Any]:
    """A plan with its place, its choices, what it runs on, and the result keys of its prediction."""
    result = ranked.profile.to_dict()
    result = {key: value for key, value in result.items() if key not in ("version", "schema")}
    cluster = ranked.profile.scenario.cluster
    place = {
        "rank": ranked.rank,
        "tied": ranked.tied,
        "better": ranked.better,
        "value": ranked.value,
        "plan": result["scenario"]["plan"],
        "cluster": " + ".join(cluster.stated),
        "launchable": ranked.launchable,
        "obstacles": list(ranked.obstacles),
        "tight": ranked.profile.tight,
        "launch": launch,
    }
    return {**place, **result, **ranked.figures}


def nearest_to_dict(found: NearestPlan) -> dict[str, Any]:
    """Return one of the nearest plans that fit, with the result keys of its prediction."""
    return {"set": dict(found.set), "sentence": found.sentence, "command": found.command, **_plan(found.plan)}


def nearest_to_unfit(profile: Profile, command: str, known: "Anchored | None" = None) -> dict[str, Any]:
    """Return the key of the nearest plans that fit, where one that was asked for does not and no single change helps.

    Args:
        profile: What was asked for.
        command: The command that predicts it, which those of the nearest plans extend.
        known: What runs of one's own cluster teach.
    """
    if profile.fits is not False:
        return {}
    from sightline.planning.why.unfit import nearest_to

    found = nearest_to(profile, command, known)
    return {"nearest": [nearest_to_dict(one) for one in found]} if found else {}


def prediction_to_dict(profile: Profile, command: str, known: "Anchored | None" = None) -> dict[str, Any]:
    """Return what ``sightline predict --json`` prints of one prediction: its tables, and plans that fit if it does not.

    The arguments are those of `nearest_to_unfit`.
    """
    return profile.to_dict(tables=True) | nearest_to_unfit(profile, command, known)
