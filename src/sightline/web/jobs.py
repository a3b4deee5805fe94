"""Long work of the page: in processes of its own, which tell how far they are, can be ended, and leave a result."""

import json
import math
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from multiprocessing import forkserver, get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sightline.commands import COMMANDS
from sightline.errors import InputError, SightlineError
from sightline.folders import default_place
from sightline.on_demand import named
from sightline.progress import Cancelled, Progress
from sightline.progress import State as Stage
from sightline.web.security import Refusal, document
from sightline.whole_files import write_whole

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from sightline.web.views import Work

State: TypeAlias = Literal["waiting", "running", "stopping", "done", "failed", "cancelled", "interrupted"]
_SAID: Final = {
    "waiting": "waiting for other work",
    "stopping": "stopping: what was found until now is kept",
    "cancelled": "stopped",
    "done": "done",
}
"""What the page says of work in a state; of work that runs how far it is."""
_NO_STAGE: Final = Stage(what="", done=0, total=None)
OF_FILES: Final = ("trace",)
"""Kinds that need a file, which is sent with the request."""
ENDED: Final = ("done", "failed", "cancelled", "interrupted")
KINDS: Final = tuple(name for name, command in COMMANDS.items() if command.work)


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
    stage: Stage = _NO_STAGE
    """The stage at hand, as the work told it."""
    began_s: float | None = None
    """When it was asked for, by `time.monotonic`; None for one of a server before this one."""
    name: str = ""
    """What the page calls it."""
    address: str = ""
    """Of the view that shows it; empty for one that programs asked for."""
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
        stage = self._stage_now()
        progress = asdict(stage) | {"elapsed_s": round(stage.elapsed_s)}
        found: dict[str, Any] = {"id": self.id, "kind": self.kind, "state": self.state, "progress": progress}
        return found | (document(self.problems) if self.problems else {})

    def for_page(self) -> dict[str, Any]:
        """Return it as the page shows it."""
        words = " ".join(self.problems) or _SAID.get(self.state) or self._stage_now().words
        return {
            "id": self.id,
            "state": self.state,
            "name": self.name or self.kind,
            "address": self.address,
            "share": self.stage.share,
            "words": words,
            "ended": self.ended,
            "failed": bool(self.problems),
        }

    def _stage_now(self) -> Stage:
        return self.stage if self.began_s is None else replace(self.stage, elapsed_s=monotonic() - self.began_s)

    def changed(self, **values: Any) -> "Job":
        """Return it with other values."""
        return replace(self, **values)


_ID: Final = re.compile(r"[0-9a-f]{20}")
RESULT, PARTIAL = "result", "partial"
"""What a job leaves: all that was asked for, or what it had found when it was stopped."""
_PACKED: Final = b"\x1f\x8b"
"""How files packed by gzip begin."""
MOST_SENT_S: Final = 7200
"""For which a file that was sent is left to a job that waits."""
MOST_KEPT: Final = 200
"""Results; the oldest are deleted."""


class Folder:
    """Requests and results by id; what is asked for under anything else than an id is not there."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def request(self, identifier: str) -> Request | None:
        """Return what was asked under an id."""
        found = self._read(identifier, "request")
        return None if found is None else Request(**found)

    def found(self, identifier: str) -> dict[str, Any] | None:
        """Return what was found, ``document`` for programs and ``piece`` for the page; or a part of it until a stop."""
        return self._read(identifier, RESULT) or self._read(identifier, PARTIAL)

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
        # Of a server, or a job, that was killed before it ended.
        for path in (*self.place.glob("*.sent.json*"), *self.place.glob(".*.part")):
            if time.time() - path.stat().st_mtime > MOST_SENT_S:
                path.unlink(missing_ok=True)
        kept = sorted(self.place.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in kept[: -2 * MOST_KEPT]:
            path.unlink(missing_ok=True)


MOST_SECONDS: Final = 900
MOST_MEMORY_BYTES: Final = 4 * 2**30
"""Of one job."""


def work_in_process(request: Mapping[str, Any], paths: Mapping[str, str], sent: str, told: Connection) -> None:
    """Do what a request asks, also after the server that asked is gone.

    ``paths`` are those of a result, and of what was found when the server asked to stop; ``sent`` is that of the file
    that was sent with the request, if any, which is deleted.
    """
    _limit()

    def tell(*message: Any) -> None:
        with suppress(OSError):
            told.send(message)

    def stage(state: Stage) -> None:
        tell("running", {"stage": state})

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
    kind = request["kind"]
    work: Work = named(f"sightline.{COMMANDS[kind].work}")
    try:
        return work.run(request["mapping"], work.checked(kind, request["options"]), progress, *([sent] if sent else []))
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


MOST_RUNNING: Final = 2
MOST_WAITING: Final = 12
MOST_STOPPING_S: Final = 10
"""For which work that was asked to stop may finish what it has."""
_LOOK_S: Final = 0.05
_LOADED: Final = ["sightline.web.search_views", "sightline.web.serve_view", "sightline.planning.serving.serving_search"]


class Jobs:
    """Starts, follows and ends jobs. Any thread may call it."""

    def __init__(self, place: Path | None = None, *, prepared: bool = False) -> None:
        """Take a folder; ``prepared`` begins processes as copies of one that has loaded what work needs."""
        self.folder = Folder(place or default_place())
        self._copies = prepared and "forkserver" in get_all_start_methods()
        self._is_prepared = False
        self._context = get_context("forkserver") if self._copies else get_context("spawn")
        if self._copies:
            self._context.set_forkserver_preload(_LOADED)
        self._known: dict[str, Job] = {}
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(MOST_RUNNING, thread_name_prefix="job")

    def start(self, request: Request, sent: bytes | None = None, *, name: str = "", address: str = "") -> Job:
        """Return the job of a request, started unless it runs or is done already.

        Args:
            request: What is asked.
            sent: The file that some kinds are about, kept until the job has ended.
            name: What the page calls it.
            address: Of the view that shows it.

        Raises:
            Refusal: Too many wait, there is no such kind of work, or its file is missing.
        """
        if request.kind not in KINDS:
            raise Refusal(404, f"there is no work of the kind '{request.kind}'")
        with self._lock:
            found = self._find(request.id)
            if found is not None and found.state in ("waiting", "running", "done"):
                return found
            if request.kind in OF_FILES and sent is None:
                raise Refusal(409, "files are not kept: choose the file again")
            if sum(job.state == "waiting" for job in self._known.values()) >= MOST_WAITING:
                raise Refusal(429, "too much work is waiting; ask again when some of it is done")
            self._kill(request.id)  # it was asked to stop, and may take a while
            attempt = self._known[request.id].attempt + 1 if request.id in self._known else 1
            job = Job(id=request.id, kind=request.kind, name=name, address=address, began_s=monotonic())
            self._known[request.id] = job = job.changed(attempt=attempt)
        self.folder.keep_request(request)
        if sent is not None:
            self.folder.keep_sent(request.id, attempt, sent)
        self._pool.submit(self._supervise, request, attempt)
        return job

    def prepare(self) -> None:
        """Load what work needs, once, as it may begin soon."""
        if self._copies and not self._is_prepared:
            self._is_prepared = True
            self._pool.submit(forkserver.ensure_running)

    def get(self, identifier: str) -> Job | None:
        """Return a job, also one of a server before this one; None for an unknown id."""
        with self._lock:
            return self._find(identifier)

    def listed(self, named: Sequence[str] = ()) -> list[Job]:
        """Return the jobs that run, those of the page that ended and were not looked at since, and those named."""
        with self._lock:
            asked = {one.id: one for name in named if (one := self._find(name))}
            return list(
                (asked | {one.id: one for one in self._known.values() if not one.ended or one.address}).values()
            )

    def look_at(self, identifier: str) -> None:
        """Note that somebody saw how a job ended: it is not listed any more."""
        with self._lock:
            if (job := self._known.get(identifier)) and job.ended:
                self._known[identifier] = job.changed(address="")

    def found(self, identifier: str) -> Mapping[str, Any] | None:
        """Return what a job left: all of its result or, where it was ``stopped``, a part."""
        return self.folder.found(identifier)

    def cancel(self, identifier: str, *, forget: bool = False) -> Job | None:
        """Ask a job to stop and to leave what it has found; one that has ended stays as it is.

        Nobody wants to hear of one that is to be forgotten.
        """
        with self._lock:
            job = self._find(identifier)
            if job is None or job.ended:
                return job
            running = self._running.get(identifier)
            self._known[identifier] = job = job.changed(
                state="stopping" if running else "cancelled", address="" if forget else job.address
            )
        if running:
            running.ask_to_stop()
        return job

    def close(self) -> None:
        """End all jobs at once."""
        with self._lock:
            for identifier, job in self._known.items():
                if not job.ended:
                    self._known[identifier] = job.changed(state="cancelled")
                self._kill(identifier)
        for identifier, job in self._known.items():
            self.folder.forget_sent(identifier, job.attempt)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _kill(self, identifier: str) -> None:
        if running := self._running.get(identifier):
            running.process.kill()

    def _find(self, identifier: str) -> Job | None:
        known = self._known.get(identifier)
        if known is not None and known.state != "done":
            return known
        request = self.folder.request(identifier)
        kind = known.kind if known else getattr(request, "kind", "")
        if self.folder.has(RESULT, identifier):
            return Job(id=identifier, kind=kind, state="done")
        if self.folder.has(PARTIAL, identifier):
            return Job(id=identifier, kind=kind, state="cancelled")
        if request is None:
            return None
        said = "the server was stopped before this was finished; ask again"
        return Job(id=identifier, kind=request.kind, state="interrupted", problems=(said,))

    def _supervise(self, request: Request, attempt: int) -> None:
        """Follow an attempt at a job to its end, in a thread; then its file is of no use any more."""
        try:
            self._run(request, attempt)
        finally:
            self.folder.forget_sent(request.id, attempt)

    def _run(self, request: Request, attempt: int) -> None:
        ours, theirs = self._context.Pipe()
        paths = {what: str(self.folder.path(request.id, what)) for what in (RESULT, PARTIAL)}
        sent = str(self.folder.sent(request.id, attempt) or "")
        process = self._context.Process(
            target=work_in_process, args=(request.to_dict(), paths, sent, theirs), daemon=True
        )
        with self._lock:
            job = self._known[request.id]
            if job.state == "cancelled" or job.attempt != attempt:
                return
            self._known[request.id] = job.changed(state="running")
        process.start()  # which may take a while
        running = _Running(process, ours)
        with self._lock:
            if self._known[request.id].ended or self._known[request.id].attempt != attempt:
                process.kill()
            else:
                self._running[request.id] = running
        theirs.close()
        try:
            self._listen(request.id, attempt, running)
        finally:
            process.kill()
            process.join()
            ours.close()
            with self._lock:
                if self._running.get(request.id) is running:
                    del self._running[request.id]
            self._note(request.id, attempt, state="failed", problems=("the process of this work ended early",))

    def _listen(self, identifier: str, attempt: int, running: "_Running") -> None:
        """Note what a process tells until it has ended, or for as long as it may take."""
        until = monotonic() + MOST_SECONDS
        with suppress(EOFError):
            while monotonic() < until:
                if running.told.poll(_LOOK_S):
                    state, values = running.told.recv()
                    self._note(identifier, attempt, state=state, **values)
                elif not running.process.is_alive():
                    return
                if running.is_asked_to_stop:
                    until = min(until, running.stops_by)
            if running.is_asked_to_stop:
                self._note(identifier, attempt, state="cancelled")
            said = f"not done after {MOST_SECONDS} seconds: the command line has no limit"
            self._note(identifier, attempt, state="failed", problems=(said,))

    def _note(self, identifier: str, attempt: int, **values: Any) -> None:
        """Keep how far a job is; the first end counts."""
        with self._lock:
            job = self._known[identifier]
            if job.attempt != attempt or job.ended:
                return
            if job.state == "stopping" and values["state"] == "running":
                values["state"] = "stopping"
            self._known[identifier] = job.changed(**values)


class _Running:
    """The process of a job, and the way to it."""

    def __init__(self, process: "BaseProcess", told: Connection) -> None:
        self.process, self.told = process, told
        self.stops_by = math.inf

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether somebody asked it to stop."""
        return self.stops_by < math.inf

    def ask_to_stop(self) -> None:
        """Ask it to stop, and to leave what it has found."""
        self.stops_by = monotonic() + MOST_STOPPING_S
        with suppress(OSError):
            self.told.send("stop")
