"""A job as it goes, over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sightline.web.problems import refused

if TYPE_CHECKING:
    from sightline.web.jobs import Jobs

_EVERY_S: Final = 0.1
STALE: Final = "there is no such job; it was forgotten, or belongs to another release: ask again"
"""What is said of an unknown job."""


async def job_events(request: Request) -> Response:
    """Answer with server-sent events, one for each change until the job has ended."""
    jobs: Jobs = request.app.state.jobs
    identifier = request.path_params["identifier"]
    if jobs.get(identifier) is None:
        return refused(STALE, 404)
    return StreamingResponse(
        _states(jobs, identifier), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _states(jobs: "Jobs", identifier: str) -> AsyncIterator[str]:
    told: dict[str, Any] | None = None
    while (found := jobs.get(identifier)) is not None:
        if (document := found.to_dict()) != told:
            told = document
            yield f"data: {json.dumps(document)}\n\n"
        if found.ended:
            return
        await asyncio.sleep(_EVERY_S)
