"""The server: bound to loopback, with what the first page needs made while it starts."""

import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from sightline.errors import InputError, SightlineError, reason
from sightline.web import assets
from sightline.web.fields import START
from sightline.web.jobs import Jobs
from sightline.web.opened import PATH, most_bytes, open_route
from sightline.web.pages import respond, start
from sightline.web.request import Asked
from sightline.web.security import App, Guard, Receive, Refusal, Scope, Send, tell
from sightline.web.views import views

HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8750


def bound(port: int) -> socket.socket:
    """Return a socket on loopback; port 0 is any free one. Raise `InputError` for one that is taken."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise InputError(f"--port {port}: {reason(error).lower()}; --port 0 takes a free one") from None
    return found


def serve(listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve the page until somebody stops it; ``ready`` is called once it answers."""
    import uvicorn

    from sightline.web.connections import ACCEPTED_AT_ONCE, MOST_WAITING, Connection, limit_log

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.listen(MOST_WAITING)  # the loop knows only how many it accepts at once
            ready()

    jobs = Jobs(prepared=True)
    app = create_app(jobs)
    config = uvicorn.Config(
        app,
        http=Connection,
        backlog=ACCEPTED_AT_ONCE,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    limit_log()
    threading.Thread(target=assets.content, args=(assets.VEGA,), daemon=True).start()
    threading.Thread(target=_warm_up, daemon=True).start()
    # Uvicorn shuts down first and then raises the signal again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):  # the usual end
            Server(config).run(sockets=[listening])
    finally:
        jobs.close()


def _warm_up() -> None:
    """Load what the first page needs, so that nobody waits for it."""
    from sightline.web.scenario_views import show_prediction
    from sightline.web.stored_views import catalog_index

    show_prediction(Asked(START))
    catalog_index()


def create_app(jobs: Jobs | None = None) -> App:
    """Return the application, for any server of the ASGI kind that is bound to loopback."""
    kept = jobs or Jobs()
    routes: list[BaseRoute] = [
        Route("/", _home),
        Route("/static/{version}/{name}", _file),
        Route("/jobs", _jobs),
        Route("/jobs/{identifier}", _stop_job, methods=["DELETE"]),
        open_route(),
        *(Route(f"/{view.name}", partial(respond, view), methods=["GET"]) for view in views()),
        *(Route(f"/{view.name}/start", partial(start, view), methods=["POST"]) for view in views() if view.job),
        Mount("/api/v1", _OnDemand(kept)),
        *(Mount(f"/{view.name}", routes=list(view.routes)) for view in views() if view.routes),
    ]
    application = Starlette(
        routes=routes, exception_handlers={SightlineError: tell, Refusal: tell, HTTPException: _nothing_there}
    )
    application.state.jobs = kept
    return Guard(application, {PATH: most_bytes()})


class _OnDemand:
    """The interface for programs, made when first asked: FastAPI takes longer to load than everything else."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._made: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await (await run_in_threadpool(self.make))(scope, receive, send)

    def make(self) -> App:
        """Return the interface, made once."""
        with self._lock:
            if self._made is None:
                from sightline.web.api import create_api

                self._made = create_api(self._jobs)
            return self._made


async def _nothing_there(request: Request, error: Exception) -> Response:
    """Answer an address that is none of the pages: programs get JSON."""
    if request.url.path.startswith("/api/"):
        return await tell(request, error)
    return PlainTextResponse(
        f"{getattr(error, 'detail', error)}\n", getattr(error, "status_code", 400), getattr(error, "headers", None)
    )


async def _home(_: Request) -> Response:
    return RedirectResponse("/predict")


def _jobs(request: Request) -> Response:
    """How far jobs are: those that run, that ended and nobody looked at, and those that are named."""
    found = request.app.state.jobs.listed(request.query_params.getlist("id"))
    return JSONResponse([job.for_page() for job in found], headers={"cache-control": "no-store"})


def _stop_job(request: Request) -> Response:
    """Ask a job to stop."""
    request.app.state.jobs.cancel(request.path_params["identifier"], forget="forget" in request.query_params)
    return _jobs(request)


def _file(request: Request) -> Response:
    """A file that pages name; not a coroutine, as the first one that asks for Vega waits until it is made."""
    name = request.path_params["name"]
    try:
        body = assets.content(name)
    except FileNotFoundError:
        return PlainTextResponse("there is no such file\n", 404)
    kept = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(body, media_type=assets.media_type(name), headers=kept)
