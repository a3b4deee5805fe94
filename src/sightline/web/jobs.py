"""Long work of the page: in processes of its own, which tell how far they are and can be ended."""

import math
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from sightline.web import worker
from sightline.web.security import Refusal
from sightline.web.worker import KINDS, OF_FILES, PARTIAL, RESULT, Folder, Job, Request, default_place

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

__all__ = ["Job", "Jobs", "Request"]


MOST_RUNNING: Final = 2
MOST_WAITING: Final = 12
MOST_STOPPING_S: Final = 10
"""For which work that was asked to stop may finish what it has."""
_LOOK_S: Final = 0.05


class Jobs:
    """Starts, follows and ends jobs. Any thread may call it."""

    def __init__(self, place: Path | None = None) -> None:
        self.folder = Folder(place or default_place())
        self._known: dict[str, Job] = {}
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(MOST_RUNNING, thread_name_prefix="job")

    def start(self, request: Request, sent: bytes | None = None) -> Job:
        """Return the job of a request, started unless it runs or is done already.

        Args:
            request: What is asked.
            sent: The file that some kinds are about, kept until the job has ended.

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
            self._known[request.id] = job = Job(id=request.id, kind=request.kind, attempt=attempt)
        self.folder.keep_request(request)
        if sent is not None:
            self.folder.keep_sent(request.id, attempt, sent)
        self._pool.submit(self._supervise, request, attempt)
        return job

    def get(self, identifier: str) -> Job | None:
        """Return a job, also one of a server before this one; None for an unknown id."""
        with self._lock:
            return self._find(identifier)

    def result(self, identifier: str) -> Mapping[str, Any] | None:
        """Return what a finished job found: ``document`` and ``piece``."""
        return self.folder.result(identifier)

    def partial(self, identifier: str) -> Mapping[str, Any] | None:
        """Return what a job that was stopped had found, in the form of a result."""
        return self.folder.partial(identifier)

    def found(self, identifier: str) -> Mapping[str, Any] | None:
        """Return what a job left: all of its result or, where it was stopped, a part."""
        return self.result(identifier) or self.partial(identifier)

    def cancel(self, identifier: str) -> Job | None:
        """Ask a job to stop and to leave what it has found; one that has ended stays as it is."""
        with self._lock:
            job = self._find(identifier)
            if job is None or job.ended:
                return job
            running = self._running.get(identifier)
            self._known[identifier] = job = job.changed(state="stopping" if running else "cancelled")
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
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        paths = {what: str(self.folder.path(request.id, what)) for what in (RESULT, PARTIAL)}
        sent = str(self.folder.sent(request.id, attempt) or "")
        process = context.Process(target=worker.main, args=(request.to_dict(), paths, sent, theirs), daemon=True)
        with self._lock:
            job = self._known[request.id]
            if job.state == "cancelled" or job.attempt != attempt:
                return
            self._known[request.id] = job.changed(state="running")
            process.start()
            self._running[request.id] = running = _Running(process, ours)
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
        until = monotonic() + worker.MOST_SECONDS
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
            said = f"not done after {worker.MOST_SECONDS} seconds: the command line has no limit"
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

    def __init__(self, process: "SpawnProcess", told: "Connection") -> None:
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
