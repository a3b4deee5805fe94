"""Templates, and how a view's answer becomes a page or the part of one that changed."""

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from sightline.errors import SightlineError
from sightline.render.html import joined
from sightline.web import assets
from sightline.web.fields import START
from sightline.web.jobs import Job, Jobs
from sightline.web.jobs import Request as Work
from sightline.web.opened import most_bytes
from sightline.web.request import Asked
from sightline.web.security import Refusal, bounded
from sightline.web.views import View, piece_of, views

if TYPE_CHECKING:
    from jinja2 import Environment

    from sightline.render.html import Piece


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sightline.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals |= {"static": assets.address, "embedded": embedded, "drawings_of": _drawings}
    environment.globals["most_bytes"] = most_bytes
    environment.filters["key_id"] = lambda key: key.replace(".", "-")
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template with its values."""
    return _templates().get_template(template).render(**values)


def render_piece(piece: "Piece") -> str:
    """Return the HTML of a piece with its charts for the script."""
    return render("piece.html", piece=piece)


def embedded(value: Any) -> str:
    """Return JSON that can stand inside of a script element, which ``</`` and ``<!--`` would end or change."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - nothing is left that ends the element


def _drawings(piece: "Piece") -> Mapping[str, Any]:
    """The charts of a piece by the id of their element: wide and narrow."""
    return {identifier: [one.wide, one.narrow] for identifier, one in piece.charts.items()}


async def respond(view: View, request: Request) -> Response:
    """Answer the address of a view: the whole page, or with ``fragment=1`` the answer alone."""
    asked = Asked.of(request.query_params.multi_items())
    is_fragment = "fragment" in request.query_params
    if view.shares_scenario and "workload.task" not in asked.values and "more" not in asked.values:
        start = {key: value for key, value in (view.start or START).items() if view.takes(key)}
        if asked.scenario_values:
            start = {key: value for key, value in start.items() if key.startswith("workload.")}
        asked = Asked({**start, **asked.values}, is_wide=asked.is_wide)
    jobs: Jobs = request.app.state.jobs
    try:
        html, status = await bounded(partial(_html, view, asked, jobs, is_fragment=is_fragment))
    except Refusal as refusal:  # it takes too long
        html, status = render("problem.html", problem=str(refusal)), refusal.status
    return HTMLResponse(html, status, {"cache-control": "no-store"})


def _html(view: View, asked: Asked, jobs: Jobs, *, is_fragment: bool) -> tuple[str, int]:
    """A page and its status. A page with mistakes is one that says so; of fragments the script has to know."""
    values: dict[str, Any] = {"piece": None, "waiting": None, "problems": {}, "general": [], "form": {}, "files": {}}
    try:
        values |= _answered(view, asked, jobs)
        values["form"] = view.form(asked)
    except SightlineError as error:
        values["problems"] = _by_key(error.problems, asked)
        values["general"] = [problem for problem in error.problems if problem not in values["problems"].values()]
    values |= {"view": view, "asked": asked, "links": _links(view, asked)}
    values["sentence"] = sentence(asked.values) if view.shares_scenario else ()
    if is_fragment:
        return render("fragment.html", **values), 422 if values["problems"] or values["general"] else 200
    template = f"{view.name}.html" if f"{view.name}.html" in _templates().list_templates() else "view.html"
    values["views"] = views()
    return render(template, **values, **view.context(asked)), 200


_VERBS: Final = {"pretrain": "Train", "finetune": "Fine-tune", "generate": "Generate with", "serve": "Serve"}
_SIZES: Final = {
    "workload.global_batch": "{} x",
    "workload.batch": "{} x",
    "workload.sequence_length": "{} tokens",
    "workload.prompt_tokens": "{} +",
    "workload.requests.prompt_tokens": "{} +",
    "workload.output_tokens": "{} tokens",
    "workload.requests.output_tokens": "{} tokens",
    "workload.arrival.rate": "at {} requests/s",
    "workload.arrival.concurrency": "for {} clients",
    "workload.total_tokens": "for {} tokens in all",
    "plan.framework": "with {}",
}
"""How the sentence tells each field."""


def sentence(values: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Return a scenario as one sentence: its words, each with the key of the field that it tells; empty for none."""
    model = "your config.json" if "config" in values else values.get("model", "a model")
    devices, times, device = values.get("cluster", "some devices").partition("x ")
    return [
        (_VERBS.get(values.get("workload.task", "pretrain"), "Run"), "workload.task"),
        (model, "config" if "config" in values else "model"),
        ("on", ""),
        (f"{devices} x {device.strip()}" if times else devices, "cluster"),
        *((told.format(_grouped(values[key])), key) for key, told in _SIZES.items() if key in values),
    ]


def _grouped(text: str) -> str:
    """A number with its thousands apart; any other text as it is."""
    return f"{int(text):,}" if text.isascii() and text.isdigit() else text


def _links(view: View, asked: Asked) -> Mapping[str, str]:
    """The query with which each view shows the scenario at hand; none from a view that has no scenario."""
    return {one.name: asked.query_for(one.takes) for one in views() if one.shares_scenario and view.shares_scenario}


def _answered(view: View, asked: Asked, jobs: Jobs) -> Mapping[str, Any]:
    """What a view answers at once, and what its job found or how far it is."""
    request = view.job(asked) if view.job else None
    if request:
        jobs.prepare()
    at_once = view.answer(asked) if view.answer else None
    found = _of_job(view, request, jobs) if request else {}
    pieces = [piece for piece in (at_once, found.get("piece")) if piece]
    return {**found, "piece": joined(*pieces) if pieces else None}


def _of_job(view: View, request: Work, jobs: Jobs) -> Mapping[str, Any]:
    """What a job found, with its files that are not empty, and how far it is until it has found all."""
    jobs.look_at(request.id)
    result = jobs.found(request.id)
    found: dict[str, Any] = {}
    if result is not None:
        files = {name: says for name, says in view.files.items() if name.endswith(".json") or result["files"].get(name)}
        found = {"piece": piece_of(result), "files": files}
    if result is None or "stopped" in result:
        waiting = jobs.get(request.id) or Job(id=request.id, kind=request.kind)
        found |= {"waiting": waiting, "begins": view.begins(request)}
    return found


async def start(view: View, request: Request) -> Response:
    """Start the work that a view's address asks for; a browser without the script is sent back to the view."""
    asked = Asked.of(request.query_params.multi_items())
    jobs: Jobs = request.app.state.jobs

    def started() -> Any:
        work = view.job(asked) if view.job else None
        address = f"/{view.name}?{asked.query}"
        return jobs.start(work, name=f"{view.title}: {_name(asked)}", address=address).for_page() if work else {}

    found = await run_in_threadpool(started)
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(found, 202)
    return RedirectResponse(f"/{view.name}?{asked.query}", 303)


def _name(asked: Asked) -> str:
    """What work is about, in a few words."""
    model, cluster = asked.option("model", "own model"), asked.option("cluster", "own cluster")
    study = asked.option("study", "own")
    return asked.option("suite") or (study if study != "own" else f"{model} on {cluster}")


def _by_key(problems: Sequence[str], asked: Asked) -> Mapping[str, str]:
    """The first problem that begins with each dotted key, which is the field that it is shown next to."""
    found: dict[str, str] = {}
    for problem in problems:
        key = problem.partition(" ")[0].rstrip(":")
        if "." in key or key in ("model", "cluster") or key in asked.values:
            found.setdefault(key, problem)
    return found
