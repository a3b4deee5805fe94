"""Who may ask the local server, and what a browser may do with its answers."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio

from sightline.errors import SightlineError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def document(problems: str | Sequence[str]) -> dict[str, Any]:
    """Return what programs read of mistakes: ``error``, the first sentence, and ``problems``, all of them."""
    found = [problems] if isinstance(problems, str) else list(problems)
    return {"error": found[0], "problems": found}


def as_json(problems: str | Sequence[str]) -> bytes:
    """Return the document as JSON; what of a request is no text, and is repeated, becomes question marks."""
    return json.dumps(document(problems), ensure_ascii=False).encode("utf-8", "replace")


def refused(problems: str | Sequence[str], status: int = 422, headers: Mapping[str, str] | None = None) -> "Response":
    """Return the answer to a request with mistakes."""
    from starlette.responses import Response

    return Response(as_json(problems), status, dict(headers or {}), media_type="application/json")


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""What this machine is called by its own browser. A name of the network that leads here is another site's trick."""
MOST_BYTES: Final = 2_000_000
"""Of the body of a request."""
_READING: Final = ("GET", "HEAD", "OPTIONS")
_OWN: Final = ("same-origin", "none")
"""What browsers say of requests from our own pages, and from the address bar."""
_SITE_RULES: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data: blob:",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "form-action": "'self'",
}
_HEADERS: Final = {
    "content-security-policy": "; ".join(f"{what} {where}" for what, where in _SITE_RULES.items()),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """A request that is not answered: its status, and a sentence that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


async def tell(_: "Request", error: Exception) -> "Response":
    """Answer mistakes of a request, what is refused, and what Starlette says of an address."""
    if isinstance(error, SightlineError):
        return refused(error.problems)
    status: int = getattr(error, "status", 0) or getattr(error, "status_code", 400)
    return refused(str(getattr(error, "detail", error)), status, getattr(error, "headers", None))


class Guard:
    """Lets through what this machine's own browser asks, up to a size, and adds the headers that keep pages safe.

    Another site can make a browser send requests to a local server. It cannot choose the headers that say so: ``Host``
    under DNS rebinding, ``Origin`` and ``Sec-Fetch-Site`` otherwise.
    """

    def __init__(self, app: App, larger: Mapping[str, int] | None = None) -> None:
        self.app = app
        self.larger = larger or {}
        """Paths whose requests may be larger than others, and bytes of each."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_encoded()]
            await send(message)

        try:
            _check(scope)
            body = await _whole_body(scope, receive, self.larger.get(scope["path"], MOST_BYTES))
        except Refusal as refusal:
            await refused(str(refusal), refusal.status)(scope, receive, guarded)
            return
        await self.app(scope, _replayed(body, receive), guarded)


def _encoded() -> Iterator[tuple[bytes, bytes]]:
    return ((name.encode(), value.encode()) for name, value in _HEADERS.items())


def _check(scope: Scope) -> None:
    """Raise `Refusal` for a request that came under a foreign name or from another site."""
    headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    port = (scope.get("server") or ("", 80))[1]
    hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())
    if headers.get("host") not in hosts:
        raise Refusal(421, f"this server answers under {NAMES[0]}:{port} and {NAMES[1]}:{port} alone")
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    if scope["method"] in _READING:
        if site not in _OWN and headers.get("sec-fetch-mode", "navigate") != "navigate":
            raise Refusal(403, "another site asked; only pages of this server may")
    elif site not in _OWN or (origin is not None and origin not in {f"http://{host}" for host in hosts}):
        raise Refusal(403, "another site asked; only pages of this server may")


async def _whole_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body of a request; its stated size may be missing or wrong."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    too_large = Refusal(413, f"the request is larger than {most:,} bytes")
    if not stated.isdigit() or int(stated) > most:
        raise too_large
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise too_large
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the body once, then whatever follows."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


Result = TypeVar("Result")
MOST_SECONDS: Final = 30
_MOST_AT_ONCE: Final = 8
"""Answers that are worked on at the same time, those that nobody waits for any more among them."""


async def bounded(answer: Callable[[], Result]) -> Result:
    """Return what a function answers in a thread; raise `Refusal` once it takes too long."""
    with anyio.move_on_after(MOST_SECONDS):
        return await anyio.to_thread.run_sync(answer, limiter=_working(), abandon_on_cancel=True)
    raise Refusal(503, f"the answer takes longer than {MOST_SECONDS} seconds; the command line has no limit")


@cache
def _working() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(_MOST_AT_ONCE)
