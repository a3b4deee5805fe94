"""A scenario of ``task: serve`` into a `ServingScenario`, or every mistake in it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.content import fields_of
from sightline.errors import InputError, nearest
from sightline.kinds import Kind, anything, length_of, quantity, text, tokens, whole
from sightline.loading.arrivals import read_arrival
from sightline.loading.generation import plan_remarks, settled_plan
from sightline.loading.input.checks import Complaints, Keys, Needed, check, each
from sightline.loading.input.no_files import check_file
from sightline.loading.input.paths import stated_path
from sightline.loading.lengths import read_lengths
from sightline.loading.parts import CLUSTER, MODEL, read_parts
from sightline.loading.serving_plan import check_attention_groups
from sightline.loading.traces import open_trace
from sightline.quantities import SECONDS, show
from sightline.scenario import RequestShape, Serve, ServingScenario, Sessions, Slo
from sightline.scenario.lengths import Lengths

PERCENT = 100.0
Values = Mapping[str, Any]


def _percentile(value: Any) -> float:
    """A percentile above 0 and below 100."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < PERCENT:
        raise InputError(f"is {show(value)}; allowed: a number above 0 and below 100")
    return float(value)


SERVE: Keys = {
    "task": text,
    "requests": anything,
    "trace": text,
    **each(anything, "arrival sessions slo"),
    "seed": whole(0),
}
"""``workload`` of serving."""
REQUESTS: Keys = {
    "count": Needed(whole(), "requests of the whole load, a whole number of 1 or more"),
    "prompt_tokens": Needed(anything, "tokens of each prompt: a number or a distribution"),
    "output_tokens": Needed(anything, "tokens of each answer: a number or a distribution"),
}
"""``workload.requests``."""
SESSIONS: Keys = {
    "turns": Needed(anything, "turns of each conversation: a number or a distribution"),
    "prefix_tokens": tokens(0),
    "prefixes": whole(),
}
"""``workload.sessions``."""
SLO: Keys = {**each(quantity(SECONDS), "ttft tpot latency"), "percentile": _percentile}
"""``workload.slo``."""


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
    check_attention_groups(parts.plan, None if parts.model is None else parts.model.model, complaints)
    plan, remarks = settled_plan(parts, {"task": Serve.task}, complaints, free, Serve.task)
    if complaints.problems or parts.model is None or parts.cluster is None or plan is None or workload is None:
        raise InputError(complaints.problems)
    scenario = ServingScenario(
        name=parts.name,
        model=parts.model.model,
        cluster=parts.cluster,
        workload=workload,
        plan=plan,
        measured=parts.measured,
    )
    said = (*remarks, *read, *parts.model.remarks, *_remarks(scenario), *plan_remarks(scenario), *parts.remarks)
    return replace(scenario, warnings=said)


def _workload(stated: object, base: Path, complaints: Complaints, remarks: list[str]) -> Serve | None:
    """The load, or None with every mistake noted; ``remarks`` get what is said of its trace."""
    before = len(complaints.problems)
    values = check(SERVE, stated, "workload", complaints).values
    trace = _trace(values["trace"], base, complaints, remarks) if "trace" in values else None
    if "requests" in values and trace is not None:
        complaints.add("workload has requests and trace; allowed: one of them")
    if "requests" not in values and "trace" not in values:
        complaints.add("workload.requests is missing; needed: count, prompt_tokens and output_tokens, or a trace")
    requests = _requests(values.get("requests"), base, complaints)
    sessions = _sessions(values.get("sessions"), base, complaints)
    if sessions is not None and trace is not None:
        complaints.add("workload.sessions is for requests; a trace states its own, in column session_id")
    arrival = read_arrival(values.get("arrival"), complaints, has_trace="trace" in values, turns="sessions" in values)
    slo = _slo(values.get("slo"), complaints)
    if len(complaints.problems) > before:
        return None
    return Serve(
        requests=requests, trace=trace, arrival=arrival, sessions=sessions, slo=slo, seed=values.get("seed", 0)
    )


def _trace(stated: str, base: Path, complaints: Complaints, remarks: list[str]) -> str:
    """The path of a trace whose columns are known."""
    check_file("workload.trace", stated)
    path = stated_path(base, stated)
    if not path.is_file():
        why = "that is a folder; allowed: a file" if path.is_dir() else f"there is no such file{_near_file(path)}"
        complaints.add(f"workload.trace is {show(stated)}; {why}")
        return str(path)
    trace = complaints.note(open_trace, path, remarks.append)
    if trace is not None and trace.shape.name:
        remarks.append(f"workload.trace {path} is read as {trace.shape.name}")
    return str(path)


def _near_file(path: Path) -> str:
    folder = path.parent
    return nearest(path.name, sorted(file.name for file in folder.iterdir())) if folder.is_dir() else ""


def _number_or_lengths(
    stated: object, key: str, kind: Kind, base: Path, complaints: Complaints
) -> int | Lengths | None:
    """A whole number, or a distribution of them."""
    if isinstance(stated, Mapping | list):
        return read_lengths(stated, key, complaints, base)
    try:
        number: int = kind(length_of(stated))
    except InputError as error:
        complaints.add(f"{key} {error}, or a distribution")
        return None
    return number


def _requests(stated: object, base: Path, complaints: Complaints) -> RequestShape | None:
    if stated is None:
        return None
    values = check(REQUESTS, stated, "workload.requests", complaints).values
    read = {
        name: _number_or_lengths(values[name], f"workload.requests.{name}", whole(), base, complaints)
        for name in ("prompt_tokens", "output_tokens")
        if name in values
    }
    prompt, output = read.get("prompt_tokens"), read.get("output_tokens")
    if prompt is None or output is None or "count" not in values:
        return None
    return RequestShape(count=values["count"], prompt_tokens=prompt, output_tokens=output)


def _sessions(stated: object, base: Path, complaints: Complaints) -> Sessions | None:
    if stated is None:
        return None
    values = check(SESSIONS, stated, "workload.sessions", complaints).values
    if "turns" not in values:
        return None
    turns = _number_or_lengths(values["turns"], "workload.sessions.turns", whole(), base, complaints)
    return None if turns is None else Sessions(**{**values, "turns": turns})


def _slo(stated: object, complaints: Complaints) -> Slo | None:
    values = check(SLO, stated, "workload.slo", complaints).values
    if isinstance(stated, Mapping) and not {"ttft", "tpot", "latency"} & values.keys():
        complaints.add("workload.slo has no limit; needed: ttft, tpot or latency, such as 500 ms")
    percentile = {"percentile": values["percentile"]} if "percentile" in values else {}
    limits = {f"{name}_s": value for name, value in values.items() if name != "percentile"}
    return Slo(**limits, **percentile) if limits else None


def _remarks(scenario: ServingScenario) -> Iterator[str]:
    """What is answered of a load although it may not be meant."""
    sessions, slo = scenario.workload.sessions, scenario.workload.slo
    if slo is not None and slo.percentile <= 1:
        share = f"{slo.percentile:g}"
        yield f"workload.slo.percentile {share} is {share} % of the requests, not {PERCENT * slo.percentile:g} %"
    if sessions is not None and sessions.prefix_tokens and not scenario.plan.prefix_cache:
        yield f"workload.sessions.prefix_tokens {sessions.prefix_tokens} are computed again: plan.prefix_cache is off"


def load_written(workload: Serve) -> dict[str, Any]:
    """Return a load under the keys of a scenario file."""
    parts = {name: getattr(workload, name) for name in ("requests", "arrival", "sessions", "slo")}
    written = {name: _part_written(fields_of(part)) for name, part in parts.items() if part is not None}
    if workload.arrival.process != "gamma":
        del written["arrival"]["cv"]
    if workload.arrival.process != "closed" and not workload.arrival.think_time_s:
        del written["arrival"]["think_time"]
    if not workload.arrival.ramp_up_s:
        del written["arrival"]["ramp_up"]
    return {"task": workload.task, "trace": workload.trace, **written, "seed": workload.seed}


def _part_written(fields: Values) -> dict[str, Any]:
    plain = {name: value.to_dict() if isinstance(value, Lengths) else value for name, value in fields.items()}
    return {name.removesuffix("_s"): value for name, value in plain.items() if value not in (None, ())}
