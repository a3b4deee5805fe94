"""Serve: what users of an engine wait for under a load, and the highest rate that keeps its objective."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sightline.web.downloads import result_files
from sightline.web.fields import Field, Group, completed, groups
from sightline.web.request import Asked
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.web.jobs import Request

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


def job(asked: Asked) -> "Request":
    """Return the simulation that is asked for; raise `InputError` for mistakes that show before it."""
    from sightline.web.jobs import Request
    from sightline.web.work.simulate import check

    asked = Asked(completed(asked.values, _groups()))
    goal, mapping = asked.option("find", LOAD), dict(asked.mapping)
    options: dict[str, Any] = {"capacity": goal == CAPACITY, "intervals": asked.option("intervals") != "no"}
    if goal == CURVE:
        mapping["sweep"] = {**mapping.get("sweep", {}), **_rates(asked)}
    if think := asked.option("think_time"):
        options["think_time"] = think
    check(mapping, options)
    return Request(kind="simulate", mapping=mapping, options=options)


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
    requests = tuple(_request(field) for field in workload.fields if field.key.startswith("workload.requests."))
    return (
        what,
        Group(title="Find", fields=tuple(_find())),
        Group(title="Load", fields=(*requests, *_arrival())),
        Group(title="What users are promised", fields=tuple(_slo())),
        Group(title="Engine and plan", fields=engine, is_open=False),
    )


def _request(field: Field) -> Field:
    """Lengths may be distributions."""
    name = field.label.removeprefix("requests: ")
    if field.key.endswith("count"):
        return replace(field, label="requests")
    mean = 1024 if "prompt" in name else 256
    spread = (str(mean), f"{{distribution: lognormal, mean: {mean}, cv: 0.8}}")
    return replace(field, label=name, suggestions=spread, is_number=False)


def _find() -> Iterator[Field]:
    yield Field(key="find", label="find", choices=(LOAD, CAPACITY, CURVE), start=LOAD, needed=True)
    yield Field(key="rates", label="rates", empty="1, 2, 4, 8, 16")
    yield Field(key="intervals", label="intervals", choices=("yes", "no"), start="yes", needed=True)


def _arrival() -> Iterator[Field]:
    from sightline.loading.serving import PROCESSES

    yield Field(key="workload.arrival.process", label="arrivals", choices=PROCESSES, start="poisson", needed=True)
    yield Field(key="workload.arrival.rate", label="requests per second", is_number=True, empty="such as 4")
    yield Field(key="workload.arrival.cv", label="cv of the gaps", is_number=True, empty="such as 2")
    yield Field(key="workload.arrival.concurrency", label="clients", is_number=True, empty="such as 16")
    yield Field(key="workload.arrival.think_time", label="think time", empty="none, or 10 s")
    yield Field(key="workload.seed", label="seed", is_number=True, empty="0")


def _slo() -> Iterator[Field]:
    for key, label in {"ttft": "TTFT at most", "tpot": "TPOT at most", "latency": "latency at most"}.items():
        yield Field(key=f"workload.slo.{key}", label=label, empty="no limit, or 1 s")
    yield Field(key="workload.slo.percentile", label="% of requests", is_number=True, empty="90")
    yield Field(key="think_time", label="users think for", empty="no time, or 30 s")


VIEW: Final = View(
    name="serve",
    title="Serve",
    about="Put a load on an engine: what users wait for, and how much it can take.",
    job=job,
    context=context,
    routes=result_files(job, {"answer.json": None, "requests.csv": "requests.csv"}),
    shares_scenario=True,
    tasks=TASKS,
    start=START,
)
