"""The process of one job, what it is asked, and where it leaves what it found."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

from sightline.errors import InputError, SightlineError
from sightline.progress import Cancelled, Progress
from sightline.progress import State as Stage
from sightline.web.security import document

State: TypeAlias = Literal["waiting", "running", "stopping", "done", "failed", "cancelled", "interrupted"]
OF_FILES: Final = ("trace",)
"""Kinds that need a file, which is sent with the request."""
ENDED: Final = ("done", "failed", "cancelled", "interrupted")
KINDS: Final = ("plan", "simulate", "explore", "validate", "trace")
"""Modules of `sightline.web.work`, each with a function ``work``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Long work that is asked for: a scenario or study as a mapping, and options. Equal requests are one job."""

    kind: str
    mapping: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """A name made of the content and of this release, whose answers may differ from those of another."""
        from sightline import __version__

        content = [__version__, self.kind, self.mapping, self.options]
        try:
            text = json.dumps(content, sort_keys=True, default=str)
        except (TypeError, ValueError, RecursionError):
            raise InputError("the scenario is not one of plain values: texts, numbers, lists and mappings") from None
        return sha256(text.encode()).hexdigest()[:20]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"kind": self.kind, "mapping": self.mapping, "options": self.options}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How far work is."""

    id: str
    kind: str
    state: State = "waiting"
    what: str = ""
    """The stage at hand."""
    done: int = 0
    total: int | None = None
    problems: Sequence[str] = ()
    """Why it failed, a sentence for each mistake."""
    attempt: int = 0
    """Counts how often this server began it: what an ended attempt still says is not heard."""
    was_refused: bool = False
    """Whether the request was wrong, and not the work."""

    @property
    def ended(self) -> bool:
        """Whether nothing more happens."""
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        """Return it as the interface for programs shows it."""
        found: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "progress": {"what": self.what, "done": self.done, "total": self.total},
        }
        return found | (document(self.problems) if self.problems else {})

    def changed(self, **values: Any) -> "Job":
        """Return it with other values."""
        return replace(self, **values)


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


MOST_SECONDS: Final = 900
MOST_MEMORY_BYTES: Final = 4 * 2**30
"""Of one job."""


def main(request: Mapping[str, Any], paths: Mapping[str, str], sent: str, told: Connection) -> None:
    """Do what a request asks, also after the server that asked is gone.

    ``paths`` are those of a result, and of what was found when the server asked to stop; ``sent`` is that of the file
    that was sent with the request, if any, which is deleted.
    """
    _limit()

    def tell(*message: Any) -> None:
        with suppress(OSError):
            told.send(message)

    def stage(state: Stage) -> None:
        tell("running", {"what": state.what, "done": state.done, "total": state.total})

    progress = _Stoppable(stage)
    threading.Thread(target=_stop_when_asked, args=(told, progress), daemon=True).start()
    try:
        found = _worked(request, progress, Path(sent) if sent else None)
        if progress.cancelled:
            stopped = {"stopped": asdict(progress.stopped_at)}
            write_whole(Path(paths[PARTIAL]), json.dumps({**found, **stopped}, allow_nan=False))
            tell("cancelled", {})
        else:
            write_whole(Path(paths[RESULT]), json.dumps(found, allow_nan=False))
            tell("done", {})
    except Cancelled:
        tell("cancelled", {})
    except SightlineError as error:
        tell("failed", {"problems": list(error.problems), "was_refused": isinstance(error, InputError)})
    except MemoryError:
        tell("failed", {"problems": [f"the work needs more than {MOST_MEMORY_BYTES >> 30} GiB of memory"]})


class _Stoppable(Progress):
    """Remembers how far the work was when it was asked to stop: what it found is told in stages of their own."""

    @property
    def stopped_at(self) -> Stage:
        """How far the work was."""
        return self._stopped_at

    def cancel(self) -> None:
        """Ask the work to stop where it next can."""
        self._stopped_at = self.state
        super().cancel()


def _worked(request: Mapping[str, Any], progress: Progress, sent: Path | None) -> Mapping[str, Any]:
    """Do the work; the file that was sent is gone before anybody hears of the end."""
    work = import_module(f"sightline.web.work.{request['kind']}").work
    try:
        return work(request["mapping"], request["options"], progress, *([sent] if sent else []))  # type: ignore[no-any-return]
    finally:
        if sent:
            sent.unlink(missing_ok=True)


def _stop_when_asked(told: Connection, progress: Progress) -> None:
    """Wait for the server's wish, which is the only thing that it says."""
    with suppress(EOFError, OSError):
        told.recv()
        progress.cancel()


def _limit() -> None:
    """Bound what this process may take; nobody else would end it once the server is gone."""
    # Ctrl-C of the server's terminal reaches this process too: the server ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError, AttributeError, ValueError, OSError):  # other systems than Linux
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
        signal.alarm(MOST_SECONDS)
