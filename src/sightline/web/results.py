"""What finished work left, as files below a view's address."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sightline.errors import SightlineError
from sightline.web.asked import Asked
from sightline.web.downloads import attached
from sightline.web.problems import refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.web.jobs import Request as Work

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
