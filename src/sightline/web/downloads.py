"""Further addresses of views: parts of an answer, and answers as files."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sightline.errors import SightlineError
from sightline.web.asked import Asked
from sightline.web.bounded import bounded
from sightline.web.problems import refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.report.pieces import Piece

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
