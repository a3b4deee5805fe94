"""Where jobs leave what they found: files that appear whole or not at all, so that a killed server loses nothing."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from sightline.web.jobs.request import Request

_ID: Final = re.compile(r"[0-9a-f]{20}")
VARIABLE: Final = "SIGHTLINE_JOBS"
"""Environment variable with another folder than that of this user's caches."""
RESULT, PARTIAL = "result", "partial"
"""What a job leaves: all that was asked for, or what it had found when it was stopped."""
_PACKED: Final = b"\x1f\x8b"
"""How files packed by gzip begin."""
MOST_SENT_S: Final = 7200
"""For which a file that was sent is left to a job that waits."""
MOST_KEPT: Final = 200
"""Results; the oldest are deleted."""


def default_place() -> Path:
    """Return the folder that the environment names, else one of this user's caches."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "sightline" / "jobs"


class Folder:
    """Requests and results by id; what is asked for under anything else than an id is not there."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def request(self, identifier: str) -> Request | None:
        """Return what was asked under an id."""
        found = self._read(identifier, "request")
        return None if found is None else Request(**found)

    def result(self, identifier: str) -> dict[str, Any] | None:
        """Return what was found: ``document`` for programs and ``piece`` for the page."""
        return self._read(identifier, RESULT)

    def partial(self, identifier: str) -> dict[str, Any] | None:
        """Return what a job that was stopped had found until then, in the form of a result."""
        return self._read(identifier, PARTIAL)

    def has(self, what: str, identifier: str) -> bool:
        """Return whether a job left a ``result``, or what it had ``partial``, to this server or one before it."""
        return _ID.fullmatch(identifier) is not None and self.path(identifier, what).is_file()

    def keep_request(self, request: Request) -> None:
        """Keep what is asked, in place of what was found of it before it was stopped."""
        self.path(request.id, PARTIAL).unlink(missing_ok=True)
        write_whole(self.path(request.id, "request"), json.dumps(request.to_dict(), default=str))
        self._forget_oldest()

    def keep_sent(self, identifier: str, attempt: int, content: bytes) -> None:
        """Keep a file that was sent with a request for an attempt at it; its own name is not used."""
        packed = ".gz" if content.startswith(_PACKED) else ""
        write_whole(self.place / f"{identifier}.{attempt}.sent.json{packed}", content)

    def sent(self, identifier: str, attempt: int) -> Path | None:
        """Return the file that was sent with a request."""
        return next(self.place.glob(f"{identifier}.{attempt}.sent.json*"), None)

    def forget_sent(self, identifier: str, attempt: int) -> None:
        """Delete the file that was sent with a request."""
        if path := self.sent(identifier, attempt):
            path.unlink(missing_ok=True)

    def path(self, identifier: str, what: str) -> Path:
        """Return the file of a job."""
        return self.place / f"{identifier}.{what}.json"

    def _read(self, identifier: str, what: str) -> dict[str, Any] | None:
        if not _ID.fullmatch(identifier):
            return None
        try:
            found: dict[str, Any] = json.loads(self.path(identifier, what).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def _forget_oldest(self) -> None:
        for path in self.place.glob("*.sent.json*"):  # of a server that was killed before it began
            if time.time() - path.stat().st_mtime > MOST_SENT_S:
                path.unlink(missing_ok=True)
        kept = sorted(self.place.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in kept[: -2 * MOST_KEPT]:
            path.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that others see whole or not at all, whoever else writes it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{uuid4().hex}.part")
    try:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
