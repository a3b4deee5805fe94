"""The server: bound to loopback, with what the first page needs made while it starts."""

import signal
import socket
import threading
from collections.abc import Callable
from typing import Final

from sightline.errors import InputError

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
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"--port {port}: {reason}; --port 0 takes a free one") from None
    return found


def serve(listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve the page until somebody stops it; ``ready`` is called once it answers."""
    import uvicorn

    from sightline.web import assets
    from sightline.web.app import create_app
    from sightline.web.jobs import Jobs

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    jobs = Jobs()
    app = create_app(jobs)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    threading.Thread(target=assets.content, args=(assets.VEGA,), daemon=True).start()
    threading.Thread(target=_warm_up, daemon=True).start()
    # Uvicorn shuts down first and then raises the signal again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        jobs.close()


def _warm_up() -> None:
    """Load what the first page needs, so that nobody waits for it."""
    from sightline.web.asked import Asked
    from sightline.web.fields import START
    from sightline.web.views import predict

    predict.answer(Asked(START))
