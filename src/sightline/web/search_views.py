"""Plan and Explore: the best plans for a model on a cluster, and studies of hardware and technology.

Each is a job: the form, what is refused before it begins, and the work itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from sightline.answers.labels import asked_with
from sightline.answers.plan_sentences import asked_alone
from sightline.answers.study import study_outline
from sightline.errors import InputError, nearest
from sightline.exploration import BUILT_IN
from sightline.exploration.base import VIEWS
from sightline.exploration.study_answer import study_to_dict
from sightline.loading.sources import as_options, as_text, without_files
from sightline.progress import Progress
from sightline.quantities import show
from sightline.render import html
from sightline.render.csv import plans_to_csv, study_to_csv
from sightline.render.html import Piece, outline_piece
from sightline.web.fields import GENERATE, TRAINING, Field, Group, completed, groups
from sightline.web.jobs import Request
from sightline.web.opened import anchors_for, learned
from sightline.web.request import ANCHOR, CONFIG, Asked, lines
from sightline.web.views import View, Work, found

if TYPE_CHECKING:
    from sightline.planning.plan_answer import PlanAnswer

SERVE: Final = ("serve",)
TASKS: Final = (*TRAINING, *GENERATE, *SERVE)
KEPT_OF_PLAN: Final = ("plan.framework", "plan.dtype", "plan.quantization", "plan.adapter", "plan.optimizer")
"""Choices that belong to the question: links to this view take them along."""
_TEXTS: Final = ("objective", "max_memory", "deadline", "budget", "ttft", "tpot", "think_time", "availability")
_LISTS: Final = {"devices": "devices", "pareto": "pareto", "price": "prices"}
"""Fields with a list, and the option that each is."""


def plan_job(asked: Asked) -> Request:
    """Return the search that is asked for; raise `InputError` for mistakes that show before it."""
    stated = {key: _restricting(key, text) for key, text in asked.values.items()}
    asked = Asked(completed(stated, _plan_groups()))
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
    if asked.values["workload.task"] not in SERVE and (anchors := anchors_for(asked)):  # no search of loads takes any
        options[ANCHOR] = anchors
    try:
        check_plan(mapping, options)
    except InputError as error:
        # The list of prices has the name of its field.
        raise InputError([problem.replace("price of", "price: of", 1) for problem in error.problems]) from None
    return Request(kind="plan", mapping=mapping, options=options)


def _restricting(key: str, text: str) -> str:
    """Several values of a choice, as ``megatron, torchtitan``, stand for any of them."""
    return f"{{any: [{text}]}}" if key.startswith("plan.") and "," in text and text[0] not in "{[" else text


def plan_form(_: Asked) -> Mapping[str, Any]:
    """Return the fields of the form."""
    return {"groups": _plan_groups()}


@cache
def _plan_groups() -> tuple[Group, ...]:
    what, workload, plan = groups(TASKS)
    free = tuple(_free(field) for field in plan.fields)
    return (
        what,
        replace(workload, fields=(*map(_searchable, workload.fields), *_slo())),
        Group(title="Best", fields=tuple(_objectives())),
        Group(title="Limits, devices, prices", fields=tuple(_limits()), is_open=False),
        Group(title="Fixed choices", fields=free, left_out="free"),
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
    yield Field(key="devices", label="devices to try", entries="devices", empty="the cluster's")
    yield Field(key="max_memory", label="memory at most", tasks=(*TRAINING, *GENERATE), empty="what a device has")
    yield Field(key="deadline", label="deadline", tasks=TRAINING, empty="none, or 30d")
    yield Field(key="budget", label="budget in USD", tasks=TRAINING, empty="none, or 1M")
    yield Field(key="ttft", label="TTFT at most", tasks=GENERATE, empty="any, or 300 ms")
    yield Field(key="tpot", label="TPOT at most", tasks=GENERATE, empty="any, or 20 ms")
    yield Field(key="think_time", label="think time", tasks=SERVE, empty="none, or 30 s")
    yield Field(key="price", label="prices", empty="catalog, or h100-sxm-80gb=2")
    yield Field(key="pareto", label="Pareto front", tasks=(*TRAINING, *GENERATE), empty="none, or time,cost")
    yield Field(key="top", label="plans shown", is_number=True, empty="10")


PLAN_OPTIONS: Final = (*_TEXTS, *_LISTS.values(), "top", "launchable", ANCHOR)
"""Arguments of `sightline.plan` that a request may give."""
MOST_TOP: Final = 50
"""Plans of an answer."""
MOST_SPACES: Final = 64
"""Questions that restricted fields outside of the mesh may stand for."""


def search_plans(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return the best plans."""
    from sightline.answers.best_plans import plan_outline
    from sightline.planning.plan_answer import launches, plans_to_dict
    from sightline.planning.search import plan

    check_plan(mapping, options)
    anchors = options.get(ANCHOR)
    known = learned(anchors) if anchors else None
    with without_files():
        answer = plan(mapping, **{**options, ANCHOR: known}, progress=progress)
        addresses, tries = _addresses(answer, mapping, anchors), _tries(answer, mapping, options)
        piece = outline_piece(plan_outline(answer, addresses=addresses, tries=tries))
        document = plans_to_dict(answer, launches(answer))
        return {**found(document, piece), "files": {"plans.csv": plans_to_csv(answer) if answer.plans else ""}}


def check_plan(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise `InputError` with the mistakes that are found before the search."""
    from sightline.planning.request_spaces import check_request

    top = options.get("top")
    if top is not None and (not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= MOST_TOP):
        raise InputError(f"top is {top}; allowed: a whole number from 1 to {MOST_TOP}")
    with without_files():
        check_request(mapping, options, most=MOST_SPACES)


def _addresses(answer: "PlanAnswer", mapping: Mapping[str, Any], anchors: str | None) -> Mapping[int, str]:
    """The page of each plan's prediction, or of its load."""
    view = "serve" if answer.plans and answer.plans[0].profile.task.name == "serving" else "predict"
    return {
        one.rank: f"/{view}?{_query({**asked_alone(answer, one, mapping), ANCHOR: anchors})}" for one in answer.plans
    }


def _tries(answer: "PlanAnswer", mapping: Mapping[str, Any], options: Mapping[str, Any]) -> Sequence[str]:
    """The search that finds each of the nearest plans."""

    def address(settings: Mapping[str, Any]) -> str:
        of_scenario = {key: value for key, value in settings.items() if key.replace("-", "_") not in PLAN_OPTIONS}
        limits = {key.replace("-", "_"): value for key, value in settings.items() if key not in of_scenario}
        asked = {} if "cluster" not in of_scenario else {"devices": ""}
        stated = {**_as_fields(options), **asked, **limits}
        return f"/plan?{_query({**asked_with(mapping, of_scenario), **stated})}"

    return [address(one.set) for one in answer.nearest]


def _as_fields(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options as the fields of the page's form."""
    fields = {key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in options.items()}
    fields["price"] = fields.pop("prices", None)
    fields["launchable"] = "yes" if options.get("launchable", True) else "no"
    return fields


def _query(values: Mapping[str, Any]) -> str:
    model = values.get("model")
    stated = {key: as_text(value) for key, value in values.items() if key != "model" and value not in (None, "")}
    named = {CONFIG: json.dumps(model)} if isinstance(model, Mapping) else {"model": str(model)}
    return urlencode({**named, **stated})


PLAN_WORK: Final = Work(search_plans, PLAN_OPTIONS)
PLAN: Final = View(
    name="plan",
    job=plan_job,
    context=plan_form,
    files={"plans.json": "JSON", "plans.csv": "CSV"},
    shares_scenario=True,
    tasks=TASKS,
    takes_of_plan=KEPT_OF_PLAN,
)


OWN: Final = "own"
"""The word for a study of one's own, which has a scenario and axes."""
AXES: Final = """\
cluster.device.memory_bandwidth: [0.5x, 1x, 2x, 4x]
cluster.device.peak_flops: [1x, 2x, 4x]"""
"""What a study of one's own varies before anybody said so."""
TITLE: Final = "A study of my own"


def study_job(asked: Asked) -> Request:
    """Return the study that is asked for; raise `InputError` for mistakes that show before it."""
    options: dict[str, Any] = {"quick": asked.option("quick") != "no"}
    if view := asked.option("view"):
        options["view"] = view
    name = _study(asked)
    mapping = _own(asked) if name == OWN else {"study": name, "set": lines("set", asked.option("set"))}
    check_own(mapping, options)
    return Request(kind="explore", mapping=mapping, options=options)


def _study(asked: Asked) -> str:
    return asked.option("study") or next(iter(BUILT_IN))


def _own(asked: Asked) -> Mapping[str, Any]:
    """The study that the fields state, as a file of it would."""
    base = Asked(completed(asked.values, groups())).mapping
    named = asked.option("title", TITLE)
    found: dict[str, Any] = {"study": named, "base": base, "axes": lines("axes", asked.option("axes", AXES))}
    for key in ("search", "report"):
        if words := [word.strip() for word in asked.option(key).split(",") if word.strip()]:
            found[key] = words
    for key in ("prices", "electricity"):
        if stated := lines(key, asked.option(key)):
            found[key] = stated
    return found


def study_form(asked: Asked) -> Mapping[str, Any]:
    """Return the studies to choose from, and the fields of the form."""
    chosen = _study(asked)
    what, workload, plan = groups()
    studies = {**BUILT_IN, OWN: "a study of your own: axes over a scenario"}
    return {
        "studies": studies,
        "chosen": chosen,
        "is_own": chosen == OWN,
        "device_views": (*VIEWS, "both"),
        "axes": asked.option("axes", AXES),
        "title": TITLE,
        "groups": (what, workload, replace(plan, is_open=False)),
    }


MOST_POINTS: Final = 100_000
"""Points of a study of one's own; a result of more is slow to read again."""


def run_study(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return what the study finds; ``mapping`` is a study, or of a built-in one ``{study: NAME}`` and ``set``."""
    from sightline.exploration.run import explore

    check_own(mapping, options)
    source, overrides = source_of(mapping)
    with without_files():
        answer = explore(source, **options, overrides=overrides, progress=progress)
        piece = html.section(answer.title, html.outline_piece(study_outline(answer), level=3), _again(mapping, options))
        return {**found(study_to_dict(answer), piece), "files": {"study.csv": study_to_csv(answer)}}


def check_own(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise `InputError` with the mistakes that are found before the study.

    Those of a built-in study's settings begin with ``set``, and those of what is varied with ``axes``.
    """
    from sightline.exploration.run import check as check_study
    from sightline.exploration.run import read_view

    read_view(options.get("view"))
    source, overrides = source_of(mapping)
    try:
        with without_files():
            check_study(source, most=MOST_POINTS, overrides=overrides, **options)
    except InputError as error:
        axes = {} if isinstance(source, str) else source.get("axes")
        raise InputError([_placed(problem, overrides, axes) for problem in error.problems]) from None


def _placed(problem: str, settings: Mapping[str, Any], axes: Any) -> str:
    """A sentence after the name of the field that its key stands in."""
    if settings:
        return f"set: {problem}"
    is_axis = isinstance(axes, Mapping) and problem.partition(" ")[0].rstrip(":") in axes
    return f"axes: {problem}" if is_axis else problem


def source_of(mapping: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the name of a built-in study with its settings, or the study itself."""
    if not mapping.keys() <= {"study", "set"}:
        return mapping, {}
    name, settings = mapping.get("study"), mapping.get("set") or {}
    if name not in BUILT_IN:
        raise InputError(f"study is {show(name)}; allowed: {', '.join(BUILT_IN)}{nearest(name, tuple(BUILT_IN))}")
    if not isinstance(settings, Mapping):
        raise InputError(f"set is {show(settings)}; allowed: a mapping of dotted keys and values")
    return name, settings


def _again(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> "Piece":
    """The same study for the command line: its command, and the file of one of one's own."""
    import yaml

    source, overrides = source_of(mapping)
    own = not isinstance(source, str)
    words = ["sightline explore", "study.yaml" if own else source]
    words += ["--quick"] if options.get("quick") else []
    words += ["--view", options["view"]] if "view" in options else []
    command = html.text(" ".join((*words, *as_options(overrides))), "command", file="explore.sh")
    file = yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True, width=100) if own else ""
    written = html.text(file, "study", file="study.yaml") if own else ""
    return html.folded("The same on the command line", command, written)


EXPLORE_WORK: Final = Work(run_study, ("quick", "view"))
EXPLORE: Final = View(
    name="explore",
    about="Make hardware a variable: what a device, memory, network or node would bring, and what binds where.",
    job=study_job,
    context=study_form,
    files={"study.json": "JSON", "study.csv": "CSV"},
    shares_scenario=True,
)
