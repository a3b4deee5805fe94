"""``sightline ui``: the page in a browser."""

import os
from typing import Annotated

from sightline.cli import output
from sightline.cli.options import RunStore, described
from sightline.errors import InputError


def ui(
    port: Annotated[str | None, described("Port to listen on; 0 picks a free one. Default: 8750.", metavar="N")] = None,
    no_browser: Annotated[bool, described("Do not open a browser.")] = False,
    store: RunStore = None,
) -> None:
    """Start the web interface: predictions update with every change, and every view has a link.

    The server listens on this machine only. Press Ctrl-C to stop.

    \b
    Examples:
      sightline ui
      sightline ui --port 0 --no-browser
    """
    from sightline.web.server import DEFAULT_PORT, HOST, bound, serve

    if store is not None:
        # Views and processes of jobs look there too.
        os.environ["SIGHTLINE_RUNS"] = store
    listening = bound(DEFAULT_PORT if port is None else _number(port))
    address = f"http://{HOST}:{listening.getsockname()[1]}/"

    def ready() -> None:
        output.print_text(f"Sightline is running at {address} (press Ctrl-C to stop)\n")
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    serve(listening, ready)


def _number(text: str) -> int:
    """What --port says; a number option would load pydantic."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise InputError(f"--port is '{text}'; allowed: a whole number from 0 to 65535")
    return int(text)
