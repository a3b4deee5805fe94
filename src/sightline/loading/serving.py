"""``workload.arrival`` of serving: when requests arrive."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from sightline.errors import InputError, nearest
from sightline.loading.checks import Complaints, built, check
from sightline.loading.generation import plan_remarks, read_sampling, settled_plan
from sightline.loading.lengths import LENGTH, read_lengths
from sightline.loading.parts import CLUSTER, MODEL, read_parts
from sightline.loading.serving_plan import check_attention_groups
from sightline.loading.sources import check_file, numbered, opened_file, stated_path
from sightline.loading.traces import open_trace
from sightline.quantities import RATE, SECONDS, Dimension, format_quantity, show
from sightline.scenario import (
    Arrival,
    GenerationPlan,
    Model,
    RequestShape,
    Serve,
    ServingScenario,
    Sessions,
    Slo,
    SloClass,
)
from sightline.scenario.rules import ENGINE_DEGREES
from sightline.scenario.serving import LIMITED, MOST_PLAIN_S
from sightline.validators import Keys, Kind, as_stated, description_of, keys_of, quantity, text, tokens

PROCESSES = ("poisson", "gamma", "constant", "closed", "all_at_once")
"""Arrival processes besides the times of a trace."""


class _Use(NamedTuple):
    """What a process needs, and what else it takes."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


_USES: Mapping[str, _Use] = {
    "trace": _Use(takes=("rate", "concurrency")),
    "poisson": _Use(needs=("rate",), takes=("concurrency",)),
    "gamma": _Use(needs=("rate", "cv"), takes=("concurrency",)),
    "constant": _Use(needs=("rate",), takes=("concurrency",)),
    "closed": _Use(needs=("concurrency",), takes=("think_time", "ramp_up")),
    "all_at_once": _Use(),
}
_WHAT = {
    "rate": "requests per second, above 0, or a ramp",
    "cv": "standard deviation / mean of the gaps between requests; 1 is a Poisson process",
    "concurrency": "clients that each wait for their answer before sending the next request",
}

_SUCH_AS = {"rate": 4, "cv": 2, "concurrency": 16}
"""What an example has."""


def read_arrival(stated: object, complaints: Complaints, *, has_trace: bool, turns: bool) -> Arrival:
    """Return when requests arrive, mistakes noted; without a process as a trace says, else all at once.

    ``turns``: whether there are conversations, which wait between their turns in any process.
    """
    checked = check(keys_of(Arrival), stated, "workload.arrival", complaints)
    values = dict(checked.values)
    ramp = _ramp(values.pop("ramp"), complaints) if "ramp" in values else ()
    given = {*values, *(["ramp"] if ramp else [])} - {"process"}
    implying = (given | checked.wrong) - ({"think_time"} if turns else set())
    process = values.setdefault("process", "trace" if has_trace else implied_process(implying))
    if process == "trace" and not has_trace:
        complaints.add(
            f"workload.arrival.process is trace but workload.trace is missing; allowed: {', '.join(PROCESSES)}"
        )
    uses = _USES[process]
    if "rate" in uses.needs and "ramp" in given:
        uses = _Use(needs=tuple(name for name in uses.needs if name != "rate"), takes=(*uses.takes, "ramp"))
    missing = [name for name in uses.needs if name not in {*given, *checked.wrong}]
    complaints.add(*(f"workload.arrival.{name} is missing; {process} needs: {_WHAT[name]}" for name in missing))
    allowed = {*uses.needs, *uses.takes, *(("think_time",) if turns else ())}
    wrong = [] if "process" in checked.wrong else sorted(given - allowed)
    for name in wrong:
        for_it = [other for other, use in _USES.items() if name in {*use.needs, *use.takes}]
        why = f"{process}, which takes {', '.join(sorted(allowed)) or 'no other key'}"
        meant = ", ".join(name for name in for_it if name != "trace") or "poisson, gamma, constant"
        whole = f"; {_replacing(stated, process, uses, allowed)}" if name == wrong[-1] else ""
        complaints.add(f"workload.arrival.{name} does not apply to process {why}; {name} applies to {meant}{whole}")
    if turns and process != "closed" and "concurrency" in given:
        complaints.add(f"workload.arrival.concurrency does not apply to sessions of process {process}; allowed: closed")
    return description_of(Arrival, {**values, "ramp": ramp})


def implied_process(keys: Container[str]) -> str:
    """Return the process that keys of an arrival are of, where none is stated."""
    first = next((key for key in ("cv", "rate", "ramp", "concurrency", "ramp_up", "think_time") if key in keys), "")
    return {"": "all_at_once", "cv": "gamma", "rate": "poisson", "ramp": "poisson"}.get(first, "closed")


def _replacing(stated: object, process: str, uses: _Use, allowed: set[str]) -> str:
    """How a command line replaces all of a file's arrival by another process: only with what that takes."""
    values = {name: _SUCH_AS[name] for name in uses.needs if name in _SUCH_AS}
    values |= {name: value for name, value in stated.items() if name in allowed} if isinstance(stated, Mapping) else {}
    written = ", ".join(f"{name}: {value}" for name, value in {"process": process, **values}.items())
    return f'replace the whole arrival with --set "workload.arrival={{{written}}}"'


def _ramp(stated: object, complaints: Complaints) -> tuple[tuple[float, float], ...]:
    """Rates with the times from which on they hold; of stages with their lengths too."""
    allowed = "allowed: a list of pairs [seconds, requests per second], such as [[60, 1], [60, 4]]"
    pairs: list[Any] = list(stated) if isinstance(stated, list | tuple) else []
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == len(("seconds", "rate")) for pair in pairs):
        complaints.add(f"workload.arrival.ramp is {show(stated)}; {allowed}")
        return ()
    try:
        read = [(quantity(SECONDS, zero=True)(s), quantity(RATE, zero=True)(rate)) for s, rate in pairs]
    except InputError as error:
        complaints.add(f"workload.arrival.ramp has a value that {error}; {allowed}")
        return ()
    lengths, rates = [seconds for seconds, _ in read], [rate for _, rate in read]
    if rates[-1] == 0:
        complaints.add("workload.arrival.ramp ends with a rate of 0, so the load would never end; allowed: above 0")
    begins = lengths if lengths[0] == 0 else [sum(lengths[:place]) for place in range(len(lengths))]
    if any(later <= earlier for earlier, later in pairwise(begins)):
        complaints.add(f"workload.arrival.ramp is {show(stated)}; allowed: increasing times, if the first is 0")
    return tuple(zip(begins, rates, strict=True))


PERCENT, ROUNDING = 100.0, 1e-6
Values = Mapping[str, Any]


SERVE: Keys = {"task": text, **keys_of(Serve)}
"""``workload`` of serving."""


def serving_from_mapping(
    mapping: Mapping[str, Any], base: Path | str | None = None, free: frozenset[str] = frozenset()
) -> ServingScenario:
    """Return the scenario of a mapping whose task is serve; raise `InputError` with every mistake in it.

    Paths are relative to ``base``. Fields that are ``free`` are not held against the rules: a search does that.
    """
    complaints = Complaints()
    parts = read_parts(mapping, {**MODEL, **CLUSTER}, base, complaints)
    read: list[str] = []
    workload = _workload(parts.workload, Path(base or ""), complaints, read)
    if workload is not None and workload.sessions is not None and parts.model is not None:
        _check_context(workload.sessions, parts.model.model, complaints)
    check_attention_groups(parts.plan, None if parts.model is None else parts.model.model, complaints)
    plan, remarks = settled_plan(parts, {"task": Serve.task}, complaints, free, Serve.task)
    if complaints.problems or parts.model is None or parts.cluster is None or plan is None or workload is None:
        raise InputError(complaints.problems)
    scenario = ServingScenario(**parts.described, workload=workload, plan=plan)
    own = (*_remarks(scenario), *_without_effect(scenario.plan, free), *plan_remarks(scenario, free))
    said = (*remarks, *read, *parts.model.remarks, *own, *parts.remarks)
    return replace(scenario, warnings=said)


def _workload(stated: object, base: Path, complaints: Complaints, remarks: list[str]) -> Serve | None:
    """The load, or None with every mistake noted; ``remarks`` get what is said of its trace."""
    before = len(complaints.problems)
    values = check(SERVE, stated, "workload", complaints).values
    trace, sent = _trace(values["trace"], base, complaints, remarks) if "trace" in values else (None, {})
    if "requests" in values and trace is not None:
        complaints.add("workload has both requests and trace; allowed: one of them")
    if "requests" not in values and "trace" not in values:
        complaints.add("workload.requests is missing; needed: count, prompt_tokens and output_tokens, or a trace")
    requests = _requests(values.get("requests"), base, complaints)
    sessions = _sessions(values.get("sessions"), base, complaints)
    if sessions is not None and trace is not None:
        complaints.add("workload.sessions applies to requests; a trace sets its sessions in column session_id")
    arriving = values.get("arrival")
    if sent and arriving is None:
        remarks.append(f"workload.trace {trace} was sent as workload.arrival {show(dict(sent))}; this is simulated")
    arrival = read_arrival(arriving or sent, complaints, has_trace="trace" in values, turns="sessions" in values)
    slo = _slo(values.get("slo"), complaints, remarks)
    sampling = read_sampling(values.get("sampling"), complaints)
    if len(complaints.problems) > before:
        return None
    return Serve(
        requests=requests,
        trace=trace,
        arrival=arrival,
        sessions=sessions,
        slo=slo,
        timeout_s=values.get("timeout"),
        sampling=sampling,
        seed=values.get("seed", 0),
    )


def _trace(stated: str, base: Path, complaints: Complaints, remarks: list[str]) -> tuple[str, Mapping[str, Any]]:
    """The path of a trace whose columns are known, and the keys of ``workload.arrival`` that it states."""
    check_file("workload.trace", stated)
    path = stated_path(base, stated)
    kept = stated if opened_file(stated) else str(path)
    if not numbered(path)[0].is_file():
        why = "this is a folder; allowed: a file" if path.is_dir() else (f"this file does not exist{_near_file(path)}")
        complaints.add(f"workload.trace is {show(stated)}; {why}")
        return kept, {}
    trace = complaints.note(open_trace, path, remarks.append)
    if trace is not None and trace.shape.name:
        remarks.append(f"workload.trace {kept} is read as {trace.shape.name}")
    return kept, {} if trace is None else trace.shape.arrival


def _near_file(path: Path) -> str:
    folder = path.parent
    return nearest(path.name, sorted(file.name for file in folder.iterdir())) if folder.is_dir() else ""


def _number_or_lengths(stated: object, key: str, base: Path, complaints: Complaints, unit: Dimension = LENGTH) -> Any:
    """A number, whole if it is of tokens, or a distribution of them; None with every mistake noted."""
    if isinstance(stated, Mapping | list):
        return read_lengths(stated, key, complaints, base, unit)
    kind: Kind = tokens() if unit is LENGTH else quantity(unit, zero=True)
    try:
        return kind(stated)
    except InputError as error:
        complaints.add(f"{key} {error}, or a distribution")
        return None


def _requests(stated: object, base: Path, complaints: Complaints) -> RequestShape | None:
    if stated is None:
        return None
    values = check(keys_of(RequestShape), stated, "workload.requests", complaints).values
    for name in ("prompt_tokens", "output_tokens"):
        if name in values:
            values[name] = _number_or_lengths(values[name], f"workload.requests.{name}", base, complaints)
    needed = map(values.get, ("count", "prompt_tokens", "output_tokens"))
    return None if None in needed else description_of(RequestShape, values)


def _sessions(stated: object, base: Path, complaints: Complaints) -> Sessions | None:
    if stated is None:
        return None
    values = check(keys_of(Sessions), stated, "workload.sessions", complaints).values
    for name in {"turns", "calls", "tool_tokens", "tool_time"} & values.keys():
        unit = SECONDS if name == "tool_time" else LENGTH
        values[name] = _number_or_lengths(values[name], f"workload.sessions.{name}", base, complaints, unit)
    for name in ("tool_tokens", "tool_time"):
        if values.get(name) and "calls" not in values:
            complaints.add(f"workload.sessions.{name} applies to calls, which is missing")
    return None if None in values.values() else description_of(Sessions, values)


def _check_context(sessions: Sessions, model: Model, complaints: Complaints) -> None:
    """Note a context longer than the model's, or one that the shared prefix fills."""
    context = sessions.context_tokens or model.max_positions
    if context > model.max_positions:
        allowed = f"up to the {model.max_positions:,} of {model.name}"
        complaints.add(f"workload.sessions.context_tokens is {context:,}; allowed: {allowed}")
    for name in ("prefix_tokens", "summary_tokens"):
        if (tokens := getattr(sessions, name)) >= context:
            allowed = f"fewer than the context, {context:,} (workload.sessions.context_tokens)"
            complaints.add(f"workload.sessions.{name} is {tokens:,}; allowed: {allowed}")


def _slo(stated: object, complaints: Complaints, remarks: list[str]) -> Slo | None:
    before = len(complaints.problems)
    values = dict(check(keys_of(Slo), stated, "workload.slo", complaints).values)
    classes = _classes(values.pop("classes", ()), complaints)
    if not isinstance(stated, Mapping) or len(complaints.problems) > before:
        return None
    for key, plain in stated.items():
        if isinstance(plain, int | float) and plain > MOST_PLAIN_S.get(f"{key}_s", inf):
            seconds = f"workload.slo.{key} is {plain:g}, which is {plain:g} seconds"
            remarks.append(f"{seconds}; for milliseconds write {plain:g}ms")
    slo = description_of(Slo, values, classes=classes)
    if not all(slo.of_classes):
        unlimited = "workload.slo.classes has one without a limit" if classes else "workload.slo has no limit"
        complaints.add(f"{unlimited}; needed: ttft, tpot or latency, such as 500 ms")
    return slo


def _classes(stated: Any, complaints: Complaints) -> tuple[SloClass, ...]:
    """Classes of requests, whose shares are all of them."""
    if not isinstance(stated, list | tuple):
        complaints.add(f"workload.slo.classes is {show(stated)}; allowed: a list of mappings with name and share")
        return ()
    read = [built(SloClass, each, f"workload.slo.classes[{i}]", complaints) for i, each in enumerate(stated)]
    classes = tuple(each for each in read if each is not None)
    shares, names = sum(each.share for each in classes), Counter(each.name for each in classes)
    if classes and len(classes) == len(read) and abs(shares - 1.0) > ROUNDING:
        complaints.add(f"workload.slo.classes have shares of {shares:g}; allowed: shares that add up to 1")
    twice = (name for name, count in names.items() if count > 1)
    complaints.add(*(f"workload.slo.classes has {show(name)} twice; allowed: a name for each" for name in twice))
    return classes


def _remarks(scenario: ServingScenario) -> Iterator[str]:
    """What is answered of a load although it may not be meant."""
    sessions, slo = scenario.workload.sessions, scenario.workload.slo
    if slo is not None and slo.percentile <= 1:
        share = f"{slo.percentile:g}"
        yield f"workload.slo.percentile {share} means {share} % of the requests, not {PERCENT * slo.percentile:g} %"
    classes = () if slo is None else slo.classes
    for key in LIMITED if classes else ():
        if getattr(slo, key) is not None and all(getattr(each, key) is not None for each in classes):
            yield f"workload.slo.{key.removesuffix('_s')} has no effect; all classes have their own"
    timeout_s, names = scenario.workload.timeout_s or inf, [f" of {each.name}" for each in classes] or [""]
    for of, limits in zip(names, () if slo is None else slo.of_classes, strict=False):
        for key in ("ttft_s", "latency_s"):
            if limits.get(key, 0.0) > timeout_s:
                stated = f"workload.timeout {format_quantity(timeout_s, SECONDS)} is shorter than the {key[:-2]}{of}"
                yield f"{stated}, {format_quantity(limits[key], SECONDS)}: clients give up before that limit"
    priorities = {each.priority for each in classes}
    if len(priorities) > 1 and (scenario.plan.scheduler or scenario.plan.engine.serving.order) != "priority":
        yield "priorities of workload.slo.classes have no effect; use plan.scheduler priority"
    if sessions is not None and sessions.prefix_tokens and not scenario.plan.prefix_cache:
        recomputed = f"workload.sessions.prefix_tokens {sessions.prefix_tokens} are recomputed"
        yield f"{recomputed} because plan.prefix_cache is off"


def _without_effect(plan: GenerationPlan, free: frozenset[str]) -> Iterator[str]:
    """What a plan states of a router that changes nothing; where degrees are ``free`` there may be several servers."""
    several = plan.replicas * plan.data_parallel > 1 or plan.disaggregate is not None or free & {*ENGINE_DEGREES}
    if plan.router != "round-robin" and not several:
        yield f"plan.router {plan.router} has no effect: there is one server"
    elif plan.router in ("prefix-aware", "precise-prefix") and not plan.prefix_cache:
        yield f"plan.router {plan.router} finds nothing because plan.prefix_cache is off"


def load_written(workload: Serve) -> dict[str, Any]:
    """Return a load under the keys of a scenario file."""
    written, arrival = as_stated(workload), workload.arrival
    pauses = arrival.process == "closed" or arrival.think_time_s
    used = {"cv": arrival.process == "gamma", "think_time": pauses, "ramp_up": arrival.ramp_up_s, "ramp": arrival.ramp}
    written["arrival"] = {key: value for key, value in written["arrival"].items() if used.get(key, True)}
    return {"task": workload.task, **written}
