"""The page in a server of its own and in real Chromium: what tests of all views share."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from waiting import PATIENCE_S

SHOTS = Path(os.environ.get("SIGHTLINE_SHOTS", Path(tempfile.gettempdir()) / "shots"))


@contextmanager
def running(
    *options: str, environment: dict[str, str] | None = None, log: int | IO[str] = subprocess.DEVNULL
) -> Iterator[tuple[str, subprocess.Popen]]:
    """A server as people start it, on a free port: its address without a slash at the end, and its process."""
    command = [sys.executable, "-m", "sightline", "ui", "--port", "0", "--no-browser", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **(environment or {})}
    )
    try:
        found = re.search(r"http://\S+?(?=/?\s)", process.stdout.readline())
        assert found, "the server did not start"
        yield found[0], process
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)
        process.stdout.close()


class Seen:
    """What a page did besides what it was asked: messages of the console, and requests to others."""

    def __init__(self, page, address):
        self.messages, self.foreign = [], []
        page.on("console", lambda one: self.messages.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        host = urlsplit(address).netloc

        def look(request):
            if not request.url.startswith(("data:", "blob:")) and urlsplit(request.url).netloc != host:
                self.foreign.append(request.url)

        page.on("request", look)


@contextmanager
def opened(browser, server, **options):
    """A page of a context with ``options``; at the end nothing was on the console and nothing left the machine."""
    context = browser.new_context(base_url=server, **{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    # Work of the page takes many times longer on a machine that does other work too; only a failure waits this long.
    page.set_default_timeout(1000 * PATIENCE_S)
    seen = Seen(page, server)
    page.seen = seen
    yield page
    context.close()
    assert not seen.foreign
    # A refused answer is told by its status, which Chromium writes to the console.
    assert not [text for text in seen.messages if "status of 422" not in text], seen.messages


def ready(page):
    """Wait until the page has drawn its charts."""
    page.wait_for_selector("html[data-drawn]")


def drawn_again(page):
    """Wait until the page has been drawn twice more: what had come before has been taken up then."""
    return page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def assert_no_sideways_scroll(page):
    """Nothing is wider than the screen; what is scrolls by itself."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def assert_accessible(page):
    """Look at what a page shows with axe in a context of its own, where its script may run: nothing serious is found."""
    context = page.context.browser.new_context(bypass_csp=True, viewport=page.viewport_size)
    try:
        again = context.new_page()
        again.goto(page.url)
        ready(again)
        assert_no_barriers(again)
    finally:
        context.close()


def assert_no_barriers(page):
    """Look at a page of a context with ``bypass_csp`` with axe: nothing serious is found."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in serious]


def screenshot(page, name):
    """Keep a picture of the whole page, to look at."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
