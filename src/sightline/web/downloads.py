"""Further addresses of views: parts of an answer, and answers as files."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sightline.errors import SightlineError
from sightline.web.request import Asked
from sightline.web.security import bounded, refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.render.html import Piece
    from sightline.web.jobs import Request as Work

_KINDS: Final = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "yaml": "application/yaml",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Media types by ending."""


def download(path: str, answer: Callable[[Asked], Response]) -> "BaseRoute":
    """Return a route below a view's address, answered in a thread; mistakes are told as sentences."""

    async def respond(request: Request) -> Response:
        asked = Asked.of(request.query_params.multi_items())
        try:
            return await bounded(partial(answer, asked))
        except SightlineError as error:
            return refused(error.problems)

    return Route(path, respond)


def later(path: str, answer: Callable[[Asked], "Piece"]) -> "BaseRoute":
    """Return a route of a part that the script puts into an element with its address as ``data-later``."""
    from sightline.web.pages import render_piece

    return download(path, lambda asked: HTMLResponse(render_piece(answer(asked))))


def attached(text: str, name: str) -> Response:
    """Return a text as a file that browsers save."""
    kept = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text, media_type=_KINDS[name.rpartition(".")[2]], headers=kept)


NOT_DONE = "this is not done yet, or was forgotten: start it again"
"""What is said where there is no result."""


def result_files(job: Callable[[Asked], "Work | None"], names: Mapping[str, str | None]) -> Sequence["BaseRoute"]:
    """Return a route for each file of a result: by its name, which of the ``files``; None for the document as JSON."""
    return [_route(job, name, file) for name, file in names.items()]


def _route(job: Callable[[Asked], "Work | None"], name: str, file: str | None) -> "BaseRoute":
    async def respond(request: Request) -> Response:
        asked = Asked.of(request.query_params.multi_items())
        try:
            work = await run_in_threadpool(job, asked)
        except SightlineError as error:
            return refused(error.problems)
        result = await run_in_threadpool(request.app.state.jobs.found, work.id) if work else None
        if result is None or (file is not None and file not in result.get("files", {})):
            return refused(NOT_DONE, 404)
        text = json.dumps(result["document"], indent=2) if file is None else result["files"][file]
        return attached(text, name)

    return Route(f"/{name}", respond)
