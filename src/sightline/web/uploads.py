"""Traces that are sent to the page: bounded in size, kept only until their job has read them."""

import os
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sightline.errors import InputError, SightlineError
from sightline.quantities import BYTES, parse_quantity
from sightline.web.request import Asked
from sightline.web.security import Refusal, refused

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sightline.web.jobs import Request as Work

TRACE, NAME, OF_SCENARIO = "trace", "name", "of_scenario"
"""Fields of an address: what stands for a trace's content, its name, and whether it is of the scenario there."""
PATH: Final = "/explain/trace"
VARIABLE: Final = "SIGHTLINE_TRACE_SIZE"
"""Environment variable with another largest size than the usual."""
_USUAL: Final = "64 MB"
_MOST_NAME: Final = 80


def most_bytes() -> int:
    """Return how large a trace that is sent may be, as it is sent: usually packed."""
    try:
        return int(parse_quantity(os.environ.get(VARIABLE) or _USUAL, BYTES))
    except InputError as error:
        raise InputError([f"{VARIABLE} {problem}" for problem in error.problems]) from None


def job(asked: Asked) -> "Work | None":
    """Return the work on the trace that an address stands for; None for an address without one."""
    from sightline.web.jobs import Request as Work

    if TRACE not in asked.values:
        return None
    scenario = {"scenario": asked.mapping} if OF_SCENARIO in asked.values else {}
    name = PurePath(asked.option(NAME, "trace")).name[:_MOST_NAME]
    return Work(kind="trace", mapping={TRACE: asked.option(TRACE), **scenario}, options={"name": name})


def trace_route() -> "BaseRoute":
    """Return the route that takes a trace as the body of a request, and answers with the address that explains it."""

    async def sent(request: Request) -> Response:
        body = await request.body()
        values = Asked.of(request.query_params.multi_items()).values
        asked = Asked({**values, TRACE: sha256(body).hexdigest()})
        try:
            work = await run_in_threadpool(job, asked)
            await run_in_threadpool(request.app.state.jobs.start, work, body)
        except SightlineError as error:
            return refused(error.problems)
        except Refusal as refusal:
            return refused(str(refusal), refusal.status)
        return JSONResponse({"address": f"/explain?{asked.query}"}, 202)

    return Route(PATH.removeprefix("/explain"), sent, methods=["POST"])
