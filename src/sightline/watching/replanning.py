"""Search for a better plan of a job that departed, in a low-priority process of its own, and report it in sentences."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.quantities import SECONDS, format_quantity, percent
from sightline.scenario import Cluster, Scenario
from sightline.scenario.space import TRAINING_FIELDS

if TYPE_CHECKING:
    from sightline.planning.plan_answer import PlanAnswer
    from sightline.profile import Profile


def scenario_now(
    scenario: Scenario, *, devices: int | None = None, sequence_length: float | None = None, link_factor: float = 1.0
) -> Scenario:
    """Return a scenario with what has changed. The plan stays as far as it can run there.

    Each replica keeps its samples of a step, so that fewer replicas make a smaller global batch. Devices that no whole
    replica of the plan fills stay idle. Where none is filled, the cluster is that of all devices, and the plan cannot
    run there (`can_run`).

    Args:
        scenario: What was asked.
        devices: Devices that work; None for all.
        sequence_length: Tokens of a sample; None for the scenario's.
        link_factor: How many times as long as before what crosses the links takes.
    """
    now = scenario
    if sequence_length is not None and round(sequence_length) != scenario.workload.sequence_length:
        now = replace(now, workload=replace(now.workload, sequence_length=round(sequence_length), lengths=None))
    if devices is not None and devices != scenario.cluster.devices and not scenario.cluster.groups:
        now = _on(now, devices)
    if link_factor > 1.0 and link_factor != float("inf"):
        now = replace(now, cluster=_slowed(now.cluster, link_factor))
    return now


def can_run(scenario: Scenario) -> bool:
    """Return whether the plan breaks no rule about what can be at all."""
    from sightline.planning.training.validity import POSSIBLE
    from sightline.scenario.rules import broken_by

    return not any(broken_by(scenario, POSSIBLE))


def on_devices(scenario: Scenario, devices: int) -> Scenario:
    """Return a scenario on other many devices, its plan and batch as they are."""
    from sightline.planning.clusters import resizer

    return replace(scenario, cluster=resizer(scenario.cluster)(devices))


def _on(scenario: Scenario, devices: int) -> Scenario:
    """The most replicas that can run on devices; one replica on all of them where none can."""
    size = devices_of_replica(scenario)
    for replicas in range(devices // size, 0, -1):
        found = on_devices(_with_replicas(scenario, replicas), replicas * size)
        if can_run(found):
            return found
    return on_devices(_with_replicas(scenario, max(devices // size, 1)), devices)


def devices_of_replica(scenario: Scenario) -> int:
    """Return how many devices hold one replica of the model."""
    plan = scenario.plan
    return int(plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)


def _with_replicas(scenario: Scenario, replicas: int) -> Scenario:
    plan, work = scenario.plan, scenario.workload
    # Sharding in groups of replicas is for the number that there was.
    fewer = replace(plan, data_parallel=replicas, data_parallel_shard=None)
    batch = work.global_batch * replicas
    if batch % plan.data_parallel == 0:
        work = replace(work, global_batch=batch // int(plan.data_parallel))
    return replace(scenario, plan=fewer, workload=work)


def _slowed(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with a slower link: the network where there are nodes, else that inside of the node."""
    if cluster.nodes > 1:
        network = cluster.network
        return replace(cluster, network=replace(network, bandwidth_per_node=network.bandwidth_per_node / factor))
    link = cluster.intra_node
    return replace(cluster, intra_node=replace(link, bandwidth=link.bandwidth / factor))


def left_open(scenario: Mapping[str, Any], free: tuple[str, ...]) -> dict[str, Any]:
    """Return a scenario as a file says it, without the fields of its plan that are searched."""
    plan = {key: value for key, value in scenario["plan"].items() if key not in (*free, *_FOLLOWING)}
    return {**scenario, "plan": plan}


_FOLLOWING = ("data_parallel_shard", "stage_layers", "replicas", "attention_kernel")
"""Fields that only make sense with values of free ones."""


WORTH: Final = 0.03
"""Share of the step that another plan must save, at the low end of the 80 % interval, to be worth a restart."""
UNEXPLAINED: Final = 0.15
"""Share of the predicted step by which a measured one must differ for that to be told."""


def assumptions_of(scenario: Scenario, now: Scenario, question: Mapping[str, Any]) -> list[str]:
    """Return what has changed between the scenario that was asked and the one that is planned for."""
    assumptions, there, used = [], question.get("devices"), int(now.cluster.devices)
    length, batch, factor = now.workload.sequence_length, now.workload.global_batch, question.get("link_factor") or 1.0
    if used != scenario.cluster.devices or (there is not None and used < there):
        whole = f"{used} of the {there} devices, in whole replicas of {devices_of_replica(now)}"
        devices = whole if there is not None and used < there else f"{used} device{'s' * (used != 1)}"
        samples = "" if batch == scenario.workload.global_batch else f" and {batch:,.0f} samples per step"
        assumptions.append(f"{devices}{samples}")
    if length != scenario.workload.sequence_length:
        assumptions.append(f"{length:,.0f} tokens per sample")
    if 1.0 < factor < float("inf"):
        assumptions.append(f"links {factor:.2g} x slower")
    return assumptions


def no_plan_sentence(now: Scenario, evaluated: int, *, leaves_room: bool) -> str:
    """Return what is said where no plan was found."""
    framework, devices = now.plan.framework.name, int(now.cluster.devices)
    if not evaluated:
        return f"{framework} has no plan for this on {devices} device{'s' * (devices != 1)}"
    room = " with enough memory to spare" if leaves_room else ""
    return f"none of the {evaluated:,} {framework} plans fits{room}"


def kept_plan_sentence(evaluated: int, cause: str, assumptions: Sequence[str]) -> str:
    """Return what is said where no other plan saves enough."""
    said = f"the current plan is still the best of {evaluated:,} searched"
    said += "" if cause in ("devices", "sequences") else "; the cause is in the job itself"
    return said + _assuming(assumptions)


def gain_sentence(
    present: "Profile",
    best: "Profile",
    settings: Mapping[str, Any],
    interval: tuple[float, float] | None,
    assumptions: Sequence[str],
    *,
    is_advised: bool,
) -> str:
    """Return what changes of the plan save."""
    present_s, best_s = float(present.step_time_s), float(best.step_time_s)
    gain = 1.0 - best_s / present_s
    much = f"{percent(abs(gain))} {'less' if gain > 0 else 'more'} time"
    ends = "" if interval is None else f"80 %: {_interval(interval, gain)}; "
    times = f"{ends}predicted step time {_time(best_s)}, {_time(present_s)} with the current plan"
    verb = "would" if is_advised else "may"
    said = f"{_worded(present.scenario, settings)} {verb} take {much} ({times})"
    if not is_advised:
        said += ": too uncertain to justify a restart"
    return said + _assuming(assumptions)


def replacement_sentence(
    now: Scenario, best: "Profile", settings: Mapping[str, Any], assumptions: Sequence[str]
) -> str:
    """Return what is said where the plan that ran cannot run any more."""
    devices = int(now.cluster.devices)
    took = f"predicted step time {_time(float(best.step_time_s))}"
    said = (
        f"the current plan cannot run on the remaining devices; on {devices}, {_worded(now, settings)} is the fastest"
    )
    return f"{said}: {took}" + _assuming(assumptions)


def _assuming(assumptions: Sequence[str]) -> str:
    return f"; assumed: {', '.join(assumptions)}" if assumptions else ""


def _interval(interval: tuple[float, float], gain: float) -> str:
    """The ends of a gain, in the direction of the sentence."""
    low, high = (100 * end for end in (interval if gain > 0 else (-interval[1], -interval[0])))
    return f"{low:.0f} to {high:.0f} %"


def _worded(present: Scenario, settings: Mapping[str, Any]) -> str:
    before = present.plan.to_dict()
    listed = [f"{key.removeprefix('plan.')} {value} (now {before[key.removeprefix('plan.')]})"
              for key, value in settings.items()]  # fmt: skip
    return " and ".join((", ".join(listed[:-1]), listed[-1])) if len(listed) > 1 else listed[0]


def _time(seconds: float) -> str:
    return format_quantity(seconds, SECONDS)


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
    from sightline.watching.expected import scenario_of

    scenario = scenario_of(question["scenario"])
    changed = {key: question[key] for key in ("devices", "sequence_length", "link_factor") if question.get(key)}
    now = scenario_now(scenario, **changed)
    if not can_run(now) and can_run(scenario):
        search = _elsewhere(now)
    else:
        present = _predicted(now)
        search = _search(now, present, _memory_limit(present, question))
    answer = _answer(search, question, assumptions_of(scenario, search.now, question))
    return answer | {"command": _command(search, question)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """A search and what it was asked."""

    now: Scenario
    present: "Profile | None"
    """The plan that runs, in the situation; None where it cannot run there."""
    found: "PlanAnswer"
    limit: float | None


def _search(now: Scenario, present: "Profile | None", limit: float | None) -> _Search:
    from sightline.planning.search import plan

    found = plan(now, top=1, max_memory=limit)
    return _Search(now=now, present=present, found=found, limit=limit)


def _elsewhere(now: Scenario) -> _Search:
    """Search on the most devices that any plan runs on."""
    most = int(now.cluster.devices)
    search = _search(now, None, None)
    for count in range(most - 1, max(most - MOST_SIZES, 0), -1):
        if search.found.plans:
            break
        search = _search(on_devices(now, count), None, None)
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
    same = f"every plan takes {factor:.2g} x its prediction, like the current plan"
    answer: dict[str, Any] = {
        "present_s": present_s,
        "factor": factor,
        "assumed": assumed + [same] * (abs(factor - 1.0) >= UNEXPLAINED),
        "evaluated": found.evaluated,
        "set": {},
        "gain": 0.0,
        "advised": False,
    }
    if not found.plans:
        return answer | {
            "sentence": no_plan_sentence(search.now, found.evaluated, leaves_room=search.limit is not None)
        }
    best = found.plans[0].profile
    if present is None:
        settings = _changes(search.now, best.scenario)
        said = replacement_sentence(search.now, best, settings, answer["assumed"])
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
    if not settings or (gain < WORTH and not is_for_memory):
        said = kept_plan_sentence(answer["evaluated"], str(question.get("cause")), answer["assumed"])
        return {"set": {}, "gain": 0.0, "best_s": float(present.step_time_s), "sentence": said}
    interval = gains_between(present, best)
    is_advised = is_for_memory or (interval is not None and interval[0] > WORTH)
    said = gain_sentence(present, best, settings, interval, answer["assumed"], is_advised=is_advised)
    ends = None if interval is None else list(interval)
    return {"gain": gain, "interval": {"gain": ends}, "advised": is_advised, "sentence": said}


def _changes(present: Scenario, best: Scenario) -> dict[str, Any]:
    before, after = present.plan.to_dict(), best.plan.to_dict()
    return {f"plan.{name}": after[name] for name in TRAINING_FIELDS if after[name] != before[name]}


def _with_fewest_changes(best: "Profile", present: "Profile", limit: float | None) -> "Profile":
    """The best plan with every change undone that saves next to nothing."""
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

    from sightline.launching.registry import WRITERS
    from sightline.watching.expected import as_mapping

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
    words += ["--max-memory", f"{search.limit / 1e9:.4g} GB"] if search.limit else []
    has_launch = search.now.plan.framework.name in WRITERS
    return shlex.join([*words, "--launch", f"{name}.launch"] if has_launch else words)


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
