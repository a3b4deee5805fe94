"""What a view of the page is made of: its answer at once, its job, further addresses, and answers as files.

`sightline.commands.COMMANDS` lists the views. A view turns what an address asks into a piece of HTML with its charts.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sightline.answers.outline import PERHAPS
from sightline.commands import COMMANDS
from sightline.errors import InputError, nearest
from sightline.on_demand import named
from sightline.render import html
from sightline.render.html import Drawing, Piece
from sightline.web.assets import media_type
from sightline.web.request import Asked
from sightline.web.security import bounded, refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.web.jobs import Request as Job


def _nothing(_: Asked) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One page of the page.

    Its template is ``NAME.html``, which extends ``base.html``; without one ``view.html`` shows title, text and answer.
    """

    name: str
    """First part of its address; its title, but for the case."""
    about: str = ""
    """One sentence below the title, where no sentence tells the scenario."""
    answer: Callable[[Asked], "Piece"] | None = None
    """What is shown for what an address asks. Runs in a thread. Raises `InputError` for mistakes, which are shown next
    to the fields that they name."""
    job: Callable[[Asked], "Job | None"] | None = None
    """The long work that is asked for, if any. The page shows how far it is, then what it found, below the answer of a
    view that has both."""
    begins: Callable[["Job"], bool] = lambda _: False
    """Whether a job is so short that it begins by itself, at opening and after each change."""
    context: Callable[[Asked], Mapping[str, Any]] = _nothing
    """Further values of the template."""
    form: Callable[[Asked], Mapping[str, Any]] = _nothing
    """What the script tells the form after each answer: ``{"resolved": {key: text}, "offers": {key: [text]}}``."""
    further: Sequence["BaseRoute"] = ()
    """Further addresses, below its own."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Names of files of what its job found, and what links to them say: the document as JSON, or the result's."""
    shares_scenario: bool = False
    """Whether it asks about the scenario that other views show too, so that links take it along."""
    is_further: bool = False
    """Whether the navigation has it below "More"."""
    start: Mapping[str, str] | None = None
    """The scenario that is shown before anybody asked, if it is another than that of all views."""
    takes_of_plan: tuple[str, ...] | None = None
    """Keys of the plan that links to it take along; None for all. A search leaves the others free."""

    tasks: tuple[str, ...] = ()
    """Those that it answers; links to it take only the model and the cluster of others along. Empty for all."""

    @property
    def title(self) -> str:
        """What the page calls it."""
        return self.name.capitalize()

    @property
    def routes(self) -> Sequence["BaseRoute"]:
        """All addresses below its own."""
        of_job = [result_file(self.job, name) for name in self.files] if self.job else []
        return [*self.further, *of_job]

    def takes(self, key: str, task: str = "") -> bool:
        """Whether links to it take a key of a scenario of a task along."""
        if task and self.tasks and task not in self.tasks:
            return key.partition(".")[0] in ("model", "cluster", "config")
        return self.takes_of_plan is None or not key.startswith("plan.") or key in self.takes_of_plan


def views() -> list[View]:
    """Return the views in the order of the navigation."""
    return [named(f"sightline.{command.view}") for command in COMMANDS.values() if command.view]


class Work(NamedTuple):
    """What a kind of job does."""

    run: Callable[..., Mapping[str, Any]]
    """``run(mapping, options, progress)`` returns what `found` returns."""
    options: Sequence[str] = ()
    """Names of the options that a request may give."""

    def checked(self, kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that say anything; raise `InputError` for those that this kind of work does not have."""
        unknown = [name for name in options if name not in self.options]
        if unknown:
            known = ", ".join(self.options)
            raise InputError(
                [f"{name} is no option of {kind}; allowed: {known}{nearest(name, self.options)}" for name in unknown]
            )
        return {name: value for name, value in options.items() if value not in (None, "", [], {})}


def found(document: Any, piece: "Piece") -> Mapping[str, Any]:
    """Return a result: the command line's JSON, and what the page shows."""
    charts = {name: [one.wide, one.narrow, one.label] for name, one in piece.charts.items()}
    return {"document": document, "piece": {"html": piece.html, "charts": charts}}


def piece_of(result: Mapping[str, Any]) -> "Piece":
    """Return what the page shows of a result; that of work which was stopped begins with how far it was."""
    stored = result["piece"]
    charts = {
        name: Drawing(wide=wide, narrow=narrow, label=label) for name, (wide, narrow, label) in stored["charts"].items()
    }
    piece = Piece(html=stored["html"], charts=charts)
    if "stopped" not in result:
        return piece
    what, done, total = (result["stopped"][key] for key in ("what", "done", "total"))
    far = f", at {done:,} of {total:,}" if total else ""
    when = f"after {what}" if done == total else f"while {what}{far}"
    said = f"A part of the answer: stopped {when if what else 'at the start'}. It shows what was found until then."
    return html.joined(html.paragraphs([said], PERHAPS), piece)


def download(path: str, answer: Callable[[Asked], Response]) -> "BaseRoute":
    """Return a route below a view's address, answered in a thread."""

    async def respond(request: Request) -> Response:
        return await bounded(lambda: answer(Asked.of(request.query_params.multi_items())))

    return Route(path, respond)


def later(path: str, answer: Callable[[Asked], "Piece"]) -> "BaseRoute":
    """Return a route of a part that the script puts into an element with its address as ``data-later``."""
    from sightline.web.pages import render_piece

    return download(path, lambda asked: HTMLResponse(render_piece(answer(asked))))


def attached(text: str, name: str) -> Response:
    """Return a text as a file that browsers save."""
    kept = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text, media_type=media_type(name), headers=kept)


NOT_DONE = "this is not done yet, or was forgotten: start it again"
"""What is said where there is no result."""


def result_file(job: Callable[[Asked], "Job | None"], name: str) -> "BaseRoute":
    """Return a route of a file of a job's result."""

    async def respond(request: Request) -> Response:
        def answer() -> Response:
            work = job(Asked.of(request.query_params.multi_items()))
            result = request.app.state.jobs.found(work.id) if work else None
            if not result or not (name.endswith(".json") or name in result["files"]):
                return refused(NOT_DONE, 404)
            text = json.dumps(result["document"], indent=2) if name.endswith(".json") else result["files"][name]
            return attached(text, name)

        return await bounded(answer)

    return Route(f"/{name}", respond)
