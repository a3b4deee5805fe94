"""Plan: the best plans for a model on a cluster, and what runs them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sightline.errors import InputError
from sightline.web.downloads import result_files
from sightline.web.fields import GENERATE, TRAINING, Field, Group, completed, groups
from sightline.web.request import Asked
from sightline.web.views import View

if TYPE_CHECKING:
    from sightline.web.jobs import Request

SERVE: Final = ("serve",)
TASKS: Final = (*TRAINING, *GENERATE, *SERVE)
KEPT_OF_PLAN: Final = ("plan.framework", "plan.dtype", "plan.quantization", "plan.adapter", "plan.optimizer")
"""Choices that belong to the question: links to this view take them along."""
_TEXTS: Final = ("objective", "max_memory", "deadline", "budget", "ttft", "tpot", "think_time", "availability")
_LISTS: Final = {"devices": "devices", "pareto": "pareto", "price": "prices"}
"""Fields with a list, and the option that each is."""


def job(asked: Asked) -> "Request":
    """Return the search that is asked for; raise `InputError` for mistakes that show before it."""
    from sightline.web.jobs import Request
    from sightline.web.work.plan import check

    asked = Asked(completed(asked.values, _groups()))
    options: dict[str, Any] = {key: asked.option(key) for key in _TEXTS if asked.option(key)}
    for key, option in _LISTS.items():
        if words := [word.strip() for word in asked.option(key).split(",") if word.strip()]:
            options[option] = words
    if "pareto" in options:
        options.pop("objective", None)
    options["launchable"] = asked.option("launchable") == "yes"
    if top := asked.option("top"):
        options["top"] = int(top) if top.isascii() and top.isdigit() else top
    mapping = asked.mapping
    try:
        check(mapping, options)
    except InputError as error:
        # The list of prices has the name of its field.
        raise InputError([problem.replace("price of", "price: of", 1) for problem in error.problems]) from None
    return Request(kind="plan", mapping=mapping, options=options)


def context(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": _groups()}


@cache
def _groups() -> tuple[Group, ...]:
    what, workload, plan = groups(TASKS)
    free = tuple(_free(field) for field in plan.fields)
    return (
        what,
        replace(workload, fields=(*map(_searchable, workload.fields), *_slo())),
        Group(title="Best", fields=tuple(_objectives())),
        Group(title="Limits, devices, prices", fields=tuple(_limits()), is_open=False),
        Group(title="Choices that are fixed", fields=free, is_open=False),
    )


def _free(field: Field) -> Field:
    """A choice of the plan: what is left empty is searched, and several values restrict it."""
    is_kept = field.key in KEPT_OF_PLAN and field.tasks != GENERATE
    said = "usual" if is_kept else "free"
    return replace(field, choices=(), suggestions=(*field.choices, *field.suggestions), empty=said)


def _searchable(field: Field) -> Field:
    """The number of sequences in flight is searched where nobody says it."""
    if field.key != "workload.batch":
        return field
    return replace(field, start="{any: [1, 4, 16, 64, 256]}", suggestions=("{from: 1, to: 512}", "64"), is_number=False)


def _slo() -> Iterator[Field]:
    for key, start in {"ttft": "1 s", "tpot": "50 ms"}.items():
        yield Field(key=f"workload.slo.{key}", label=f"{key.upper()} at most", tasks=SERVE, start=start, needed=True)


def _objectives() -> Iterator[Field]:
    from sightline.planning.generation_objectives import OBJECTIVES as OF_GENERATION
    from sightline.planning.serving.serving_search import OBJECTIVES as OF_LOADS
    from sightline.planning.training.objectives import OBJECTIVES as OF_TRAINING

    for tasks, words in ((TRAINING, OF_TRAINING), (GENERATE, OF_GENERATION), (SERVE, OF_LOADS)):
        choices = tuple(words)
        yield Field(key="objective", label="best by", tasks=tasks, choices=choices, start=choices[0], needed=True)
    yield Field(key="launchable", label="launchable only", choices=("yes", "no"), start="yes", needed=True)


def _limits() -> Iterator[Field]:
    from sightline import catalog

    devices = tuple(f"8..64x {name}" for name in catalog.names("devices"))
    yield Field(key="devices", label="devices to try", suggestions=devices, empty="the cluster's")
    yield Field(key="max_memory", label="memory at most", tasks=(*TRAINING, *GENERATE), empty="what a device has")
    yield Field(key="deadline", label="deadline", tasks=TRAINING, empty="none, or 30d")
    yield Field(key="budget", label="budget in USD", tasks=TRAINING, empty="none, or 1M")
    yield Field(key="ttft", label="TTFT at most", tasks=GENERATE, empty="any, or 300 ms")
    yield Field(key="tpot", label="TPOT at most", tasks=GENERATE, empty="any, or 20 ms")
    yield Field(key="think_time", label="think time", tasks=SERVE, empty="none, or 30 s")
    yield Field(key="price", label="prices", empty="catalog, or h100-sxm-80gb=2")
    yield Field(key="pareto", label="Pareto front", tasks=(*TRAINING, *GENERATE), empty="none, or time,cost")
    yield Field(key="top", label="plans shown", is_number=True, empty="10")


VIEW: Final = View(
    name="plan",
    title="Plan",
    about="Name a model and a cluster: the best plan is searched among all that are possible.",
    job=job,
    context=context,
    routes=result_files(job, {"plans.json": None, "plans.csv": "plans.csv"}),
    shares_scenario=True,
    tasks=TASKS,
    takes_of_plan=KEPT_OF_PLAN,
)
