"""Serve: what users of an engine wait for under a load, and the highest rate that keeps its objective."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from sightline.answers.outline import Outline
from sightline.errors import InputError
from sightline.loading.serving import PROCESSES
from sightline.progress import Progress
from sightline.quantities import SECONDS
from sightline.render.html import joined, outline_piece
from sightline.web.fields import Field, Group, completed, groups
from sightline.web.jobs import Request
from sightline.web.opened import anchors_for, learned
from sightline.web.pages import render
from sightline.web.request import ANCHOR, BASELINE, Asked, read
from sightline.web.views import View, Work, found

if TYPE_CHECKING:
    from sightline.loading.loader import Loaded
    from sightline.profile import Profile
    from sightline.scenario import ServingScenario

TASKS: Final = ("serve",)
LOAD, CAPACITY, CURVE = "this load", "highest rate", "several rates"
START: Final[Mapping[str, str]] = {
    "model": "llama-3.1-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload.task": "serve",
    "workload.arrival.process": "poisson",
    "workload.arrival.rate": "8",
    "workload.slo.ttft": "1 s",
    "workload.slo.tpot": "50 ms",
    "workload.slo.percentile": "90",
}
"""What is shown before anybody asked."""
_ENGINE: Final = (
    *("framework", "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "dtype"),
    *("quantization", "max_batched_tokens", "max_sequences", "chunked_prefill", "prefix_cache", "memory_fraction"),
    *("cuda_graphs", "speculative"),
)


def job(asked: Asked) -> Request:
    """Return the simulation that is asked for; raise `InputError` for mistakes that show before it."""
    asked = Asked(completed(asked.values, _groups()))
    goal, mapping = asked.option("find", LOAD), dict(asked.mapping)
    options: dict[str, Any] = {"capacity": goal == CAPACITY, "intervals": asked.option("intervals") != "no"}
    if goal == CURVE:
        mapping["sweep"] = {**mapping.get("sweep", {}), **_rates(asked)}
    if think := asked.option("think_time"):
        options["think_time"] = think
    if anchors := anchors_for(asked):
        options[ANCHOR] = anchors
    if is_load(pinned := asked.option(BASELINE)):
        options[BASELINE] = pinned
    check(mapping, options)
    return Request(kind="simulate", mapping=mapping, options=options)


def is_load(query: str) -> bool:
    """Return whether a query asks for a load, which differences of another one can be told to."""
    return dict(parse_qsl(query)).get("workload.task") in TASKS


def _rates(asked: Asked) -> Mapping[str, Any]:
    """The rates of arrivals of a curve, or of a closed loop the numbers of clients."""
    is_closed = asked.values.get("workload.arrival.process") == "closed"
    key = "workload.arrival.concurrency" if is_closed else "workload.arrival.rate"
    listed = Asked({f"sweep.{key}": asked.option("rates", "1, 2, 4, 8, 16")})
    return dict(listed.mapping["sweep"])


def context(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": _groups()}


@cache
def _groups() -> tuple[Group, ...]:
    what, workload, plan = groups(TASKS)
    engine = tuple(field for field in plan.fields if field.key.removeprefix("plan.") in _ENGINE)
    requests = tuple(
        _request(field) for field in workload.fields if field.key.startswith(("workload.requests.", "workload.trace"))
    )
    return (
        what,
        Group(title="Find", fields=tuple(_find())),
        Group(title="Load", fields=(*requests, *_arrival())),
        Group(title="What users are promised", fields=tuple(_slo())),
        Group(title="Engine", fields=engine, left_out="automatic"),
    )


def _request(field: Field) -> Field:
    """Lengths may be distributions."""
    name = field.label.removeprefix("requests: ")
    if field.key == "workload.trace":
        return field
    field = replace(field, when="workload.trace|")
    if field.key.endswith("count"):
        return replace(field, label="requests")
    mean = 1024 if "prompt" in name else 256
    spread = (str(mean), f"{{distribution: lognormal, mean: {mean}, cv: 0.8}}")
    return replace(field, label=name, suggestions=spread, is_number=False)


def _find() -> Iterator[Field]:
    yield Field(key="find", label="find", choices=(LOAD, CAPACITY, CURVE), start=LOAD, needed=True)
    yield Field(key="rates", label="rates", when=f"find|{CURVE}", empty="1, 2, 4, 8, 16")
    yield Field(key="intervals", label="intervals", choices=("yes", "no"), start="yes", needed=True)


def _arrival() -> Iterator[Field]:
    yield Field(key="workload.arrival.process", label="arrivals", choices=PROCESSES, start="poisson", needed=True)
    for key, label, processes, empty in (
        ("rate", "requests per second", "poisson|gamma|constant|trace", "such as 4"),
        ("cv", "cv of the gaps", "gamma", "such as 2"),
        ("concurrency", "clients", "closed", "such as 16"),
        ("think_time", "think time", "closed", "none, or 10 s"),
    ):
        named, when = f"workload.arrival.{key}", f"workload.arrival.process|{processes}"
        yield Field(key=named, label=label, when=when, is_number=key != "think_time", empty=empty)
    yield Field(key="workload.seed", label="seed", is_number=True, step=1, empty="0")


def _slo() -> Iterator[Field]:
    for key, label in {"ttft": "TTFT at most", "tpot": "TPOT at most", "latency": "latency at most"}.items():
        yield Field(key=f"workload.slo.{key}", label=label, empty="no limit, or 1 s")
    yield Field(key="workload.slo.percentile", label="% of requests", is_number=True, step=1, empty="90")
    yield Field(key="think_time", label="users think for", when=f"find|{CAPACITY}", empty="no time, or 30 s")


MOST_LOADS: Final = 16
MOST_REQUESTS: Final = 100_000
"""Of all loads together."""
_MOST_ROWS: Final = 20_000
"""Requests up to which there is a file of them."""


def simulate_loads(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the figures of one load, or of a sweep of them."""
    from sightline.anchors.corrected import loads_of, simulated
    from sightline.answers.launched import launch_parts
    from sightline.answers.loads import serving_outline

    loaded, loads = check(mapping, options)
    capacity, intervals = bool(options.get("capacity")), bool(options.get("intervals", True))
    known = learned(options[ANCHOR]) if options.get(ANCHOR) else None
    answers, capacities = simulated(loads, progress, known, capacity=capacity, intervals=intervals)
    documents = [answer.to_dict() for answer in answers]
    document = documents if loaded.is_list else documents[0]
    think_s, pinned = _think_s(options), options.get(BASELINE, "")
    if len(loads) > 1:
        piece = outline_piece(serving_outline(answers, capacities, loaded.cells[: len(answers)], think_s=think_s))
    else:
        baseline = simulated(loads_of(Asked.of(parse_qsl(pinned)).loaded.scenarios), progress)[0][0] if pinned else None
        outline = serving_outline(answers, capacities, think_s=think_s, baseline=baseline)
        launch = outline_piece(Outline(parts=launch_parts(loads[0], "Serve")))
        piece = joined(render("baseline.html", baseline=pinned, view=VIEW.name), outline_piece(outline), launch)
    return {**found(document, piece), "files": _files(answers)}


def check(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> "tuple[Loaded, list[ServingScenario]]":
    """Return the loads that are asked for; raise `InputError` with the mistakes that are found before they run."""
    from sightline.anchors.corrected import loads_of

    loaded = read([mapping], MOST_LOADS)
    loads = loads_of(loaded.scenarios)
    count = _count(loads)
    if count > MOST_REQUESTS:
        said = f"workload.requests.count comes to {count:,} requests of all loads"
        raise InputError(f"{said}; allowed here: up to {MOST_REQUESTS:,}; the command line has no limit")
    if options.get("capacity") and any(one.workload.slo is None for one in loads):
        raise InputError("workload.slo is missing; the highest rate needs a limit: ttft, tpot or latency")
    _think_s(options)
    return loaded, loads


def _count(loads: "Sequence[ServingScenario]") -> int:
    return sum(int(shape.count) for load in loads if (shape := load.workload.requests) is not None)


def _think_s(options: Mapping[str, Any]) -> float:
    from sightline.planning.plan_limits import read_amount

    stated = options.get("think_time")
    return 0.0 if stated is None else read_amount("think_time", stated, SECONDS, zero=True)


def _files(answers: "list[Profile]") -> Mapping[str, str]:
    """What became of each request, where one load was asked for and its rows were kept."""
    outcome = answers[0].outcome if len(answers) == 1 else None
    if outcome is None or len(outcome.requests) > _MOST_ROWS:
        return {}
    from sightline.simulation.results.summary import request_table

    return {"requests.csv": request_table(outcome).write_csv()}


MOST_BY_ITSELF: Final = 2_000
"""Requests of a load that is simulated without being asked."""


def is_short(request: Request) -> bool:
    """Return whether a simulation takes a few seconds at most."""
    return not request.options["capacity"] and _count(check(request.mapping, request.options)[1]) <= MOST_BY_ITSELF


WORK: Final = Work(simulate_loads, ("capacity", "intervals", "think_time", ANCHOR, BASELINE))
VIEW: Final = View(
    name="serve",
    job=job,
    begins=is_short,
    context=context,
    files={"answer.json": "JSON", "requests.csv": "Requests (CSV)"},
    shares_scenario=True,
    tasks=TASKS,
    start=START,
)
