"""The interface for programs: the command line's answers over HTTP, described by an OpenAPI document."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Final

import anyio
from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from sightline.commands import COMMANDS
from sightline.errors import SightlineError, refuse
from sightline.on_demand import named
from sightline.quantities import show
from sightline.web.jobs import Job, Jobs
from sightline.web.jobs import Request as JobRequest
from sightline.web.request import read
from sightline.web.security import MOST_SECONDS, Refusal, bounded, refused, tell
from sightline.web.views import Work

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


async def _states(jobs: Jobs, identifier: str) -> AsyncIterator[str]:
    told: dict[str, Any] | None = None
    while (found := jobs.get(identifier)) is not None:
        if (document := found.to_dict()) != told:
            told = document
            yield f"data: {json.dumps(document)}\n\n"
        if found.ended:
            return
        await asyncio.sleep(_EVERY_S)


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str = Field(description="The first problem, as a sentence.")
    problems: list[str] = Field(description="A sentence for each mistake.")


class Progressed(BaseModel):
    """How far the stage at hand is."""

    what: str
    done: int
    total: int | None = Field(description="Null where nobody knows.")
    share: float | None = Field(default=None, description="Share of the work that is done; null where nobody knows.")
    elapsed_s: float = Field(default=0.0, description="Seconds since it was asked for.")
    left_s: float | None = Field(default=None, description="Estimate of the seconds left; null where nobody knows.")
    best: str = Field(default="", description="The best that was found until now.")


class JobState(BaseModel):
    """How far long work is."""

    id: str
    kind: str
    state: str = Field(description="waiting, running, stopping, done, failed, cancelled or interrupted")
    progress: Progressed
    result: Any = Field(
        default=None, description="Of one that is done: the answer of the command line. Of a cancelled one: a part."
    )
    error: str | None = Field(default=None, description="Why it failed.")
    problems: list[str] | None = Field(default=None, description="A sentence for each mistake.")


Asked = Annotated[
    dict[str, Any],
    Body(
        description="A scenario as a file states it, or `scenario` with `options` beside it.",
        examples=[
            {
                "model": "llama-3-8b",
                "cluster": "8x h100-sxm-80gb",
                "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
            }
        ],
    ),
]
_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem, "description": said}
    for status, said in {
        400: "The body is no JSON.",
        403: "Another site asked.",
        413: "The request is larger than 2 MB.",
        415: "The body is not application/json.",
        421: "The server was called by another name than that of this machine.",
        422: "The request is wrong: a sentence for each mistake.",
        429: "Too much work is waiting.",
    }.items()
}
_TOO_SLOW: Final[dict[int | str, dict[str, Any]]] = {
    503: {"model": Problem, "description": f"The answer takes longer than {MOST_SECONDS} seconds."}
}
_STALE_JOB: Final[dict[int | str, dict[str, Any]]] = {404: {"model": Problem, "description": "There is no such job."}}


class _Json(JSONResponse):
    """JSON as the command line prints it."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")


def create_api(jobs: Jobs) -> FastAPI:
    """Return the interface, to be mounted at ``/api/v1``."""
    from sightline import __version__

    api = FastAPI(
        title="Sightline",
        version=__version__,
        description="How fast a large language model trains and generates, where time and memory go, whether it fits.",
        docs_url=None,
        redoc_url=None,
        default_response_class=_Json,
        redirect_slashes=False,
    )
    api.state.jobs = jobs
    for kind in (SightlineError, Refusal, HTTPException):
        api.add_exception_handler(kind, tell)
    api.add_exception_handler(RequestValidationError, _invalid)
    for name, command in COMMANDS.items():
        if command.at_once:
            _question(api, name, named(f"sightline.{command.at_once}"), is_job=False)
        elif command.work and command.is_in_api:
            _question(api, name, named(f"sightline.{command.work}"), is_job=True)
    _jobs(api)
    return api


def _question(api: FastAPI, name: str, work: Work, *, is_job: bool) -> None:
    """Add a question that is answered at once, in a thread, or as long work; equal requests are the same job."""

    async def asked(request: Request, body: Asked) -> Response:
        _check_type(request)
        scenario, options = _parts(body)
        checked = work.checked(name, options)
        if not is_job:
            return _Json(await bounded(lambda: work.run(read([scenario]), checked)))
        jobs: Jobs = request.app.state.jobs
        job = await anyio.to_thread.run_sync(jobs.start, JobRequest(kind=name, mapping=scenario, options=options))
        return _Json(_state(jobs, job), 200 if job.state == "done" else 202)

    said = "Starts `sightline {} FILE --json` as a job, or returns the one that was asked the same."
    accepted: dict[int | str, dict[str, Any]] = {
        202: {"model": JobState, "description": "The job was started or runs."}
    }
    api.post(
        f"/{name}",
        summary=f"{name} as a job" if is_job else f"{name} a scenario",
        description=(said if is_job else "What `sightline {} FILE --json` prints.").format(name),
        responses=_REFUSALS | (accepted if is_job else _TOO_SLOW),
        response_model=JobState if is_job else dict[str, Any] | list[dict[str, Any]],
        name=name,
    )(asked)


def _jobs(api: FastAPI) -> None:
    """Add how far jobs are, and their end."""
    refusals: dict[int | str, dict[str, Any]] = {status: _REFUSALS[status] for status in (403, 413, 421)}

    @api.get("/jobs/{identifier}", summary="how far a job is", responses=_STALE_JOB | refusals, response_model=JobState)
    def job(request: Request, identifier: str) -> Response:
        """Return state, progress and, of one that is done, the result."""
        return _job(request.app.state.jobs, request.app.state.jobs.get(identifier))

    @api.delete("/jobs/{identifier}", summary="end a job", responses=_STALE_JOB | refusals, response_model=JobState)
    def cancel(request: Request, identifier: str) -> Response:
        """Ask a job to stop and to keep what it has found; one that has ended stays as it is."""
        return _job(request.app.state.jobs, request.app.state.jobs.cancel(identifier))

    @api.get(
        "/jobs/{identifier}/events",
        summary="a job as it goes",
        responses={**_STALE_JOB, **refusals, 200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
        response_class=Response,
    )
    async def events(request: Request, identifier: str) -> Response:  # noqa: ARG001 - it is in the path
        """Return server-sent events: the state of the job at each change, until it has ended."""
        return await job_events(request)


def _job(jobs: Jobs, job: Job | None) -> Response:
    if job is None:
        return refused(STALE, 404)
    return _Json(_state(jobs, job))


def _state(jobs: Jobs, job: Job) -> dict[str, Any]:
    result = jobs.found(job.id) if job.state in ("done", "cancelled") else None
    return job.to_dict() | ({"result": result["document"]} if result else {})


def _parts(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The scenario or study, and options; raise `InputError` where they are no mappings."""
    if "scenario" not in body:
        return body, {}
    scenario, options = body["scenario"], body.get("options") or {}
    unknown = sorted(body.keys() - {"scenario", "options"})
    wrong = [f"{name} is not a known key; allowed: scenario, options" for name in unknown]
    for name, value in {"scenario": scenario, "options": options}.items():
        if not isinstance(value, Mapping):
            wrong.append(f"{name} is of type {type(value).__name__}; allowed: a mapping")
    refuse(wrong)
    return scenario, options


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"content-type is {show(kind)}; allowed: application/json")


async def _invalid(request: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    try:
        _check_type(request)
    except Refusal as refusal:
        return refused(str(refusal), refusal.status)
    is_no_json = any(one["type"] == "json_invalid" for one in found)
    said = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found] or ["the request is wrong"]
    return refused(said, 400 if is_no_json else 422)
