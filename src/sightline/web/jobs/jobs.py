"""The jobs of a server: one process each, a few at a time, the same request once."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from sightline.web.jobs import worker
from sightline.web.jobs.folder import Folder, default_place
from sightline.web.jobs.request import KINDS, Job, Request
from sightline.web.security import Refusal

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

MOST_RUNNING: Final = 2
MOST_WAITING: Final = 12
_LOOK_S: Final = 0.05


class Jobs:
    """Starts, follows and ends jobs. Any thread may call it."""

    def __init__(self, place: Path | None = None) -> None:
        self.folder = Folder(place or default_place())
        self._known: dict[str, Job] = {}
        self._processes: dict[str, SpawnProcess] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(MOST_RUNNING, thread_name_prefix="job")

    def start(self, request: Request) -> Job:
        """Return the job of a request, started unless it runs or is done already.

        Raises:
            Refusal: Too many wait, or there is no such kind of work.
        """
        if request.kind not in KINDS:
            raise Refusal(404, f"there is no work of the kind '{request.kind}'")
        with self._lock:
            found = self._find(request.id)
            if found is not None and found.state in ("waiting", "running", "done"):
                return found
            if sum(job.state == "waiting" for job in self._known.values()) >= MOST_WAITING:
                raise Refusal(429, "too much work is waiting; ask again when some of it is done")
            attempt = self._known[request.id].attempt + 1 if request.id in self._known else 1
            self._known[request.id] = job = Job(id=request.id, kind=request.kind, attempt=attempt)
        self.folder.keep_request(request)
        self._pool.submit(self._supervise, request, attempt)
        return job

    def get(self, identifier: str) -> Job | None:
        """Return a job, also one of a server before this one; None for an unknown id."""
        with self._lock:
            return self._find(identifier)

    def result(self, identifier: str) -> Mapping[str, Any] | None:
        """Return what a finished job found: ``document`` and ``piece``."""
        return self.folder.result(identifier)

    def cancel(self, identifier: str) -> Job | None:
        """End a job; one that has ended stays as it is."""
        with self._lock:
            job = self._find(identifier)
            if job is None or job.ended:
                return job
            self._known[identifier] = job = job.changed(state="cancelled")
            process = self._processes.get(identifier)
        if process is not None:
            process.kill()
        return job

    def close(self) -> None:
        """End all jobs."""
        for identifier in list(self._known):
            self.cancel(identifier)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _find(self, identifier: str) -> Job | None:
        known = self._known.get(identifier)
        if known is not None and known.state != "done":
            return known
        if self.folder.has_result(identifier):
            kind = known.kind if known else getattr(self.folder.request(identifier), "kind", "")
            return Job(id=identifier, kind=kind, state="done")
        request = self.folder.request(identifier)
        if request is None:
            return None
        said = "the server was stopped before this was finished; ask again"
        return Job(id=identifier, kind=request.kind, state="interrupted", problems=(said,))

    def _supervise(self, request: Request, attempt: int) -> None:
        """Follow an attempt at a job to its end, in a thread."""
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        path = str(self.folder.path(request.id, "result"))
        process = context.Process(target=worker.main, args=(request.to_dict(), path, theirs), daemon=True)
        with self._lock:
            job = self._known[request.id]
            if job.state == "cancelled" or job.attempt != attempt:
                return
            self._known[request.id] = job.changed(state="running")
            process.start()
            self._processes[request.id] = process
        theirs.close()
        try:
            self._listen(request.id, attempt, ours, process)
        finally:
            process.kill()
            process.join()
            ours.close()
            with self._lock:
                if self._processes.get(request.id) is process:
                    del self._processes[request.id]
            self._note(request.id, attempt, state="failed", problems=("the process of this work ended early",))

    def _listen(self, identifier: str, attempt: int, told: "Connection", process: "SpawnProcess") -> None:
        """Note what a process tells until it has ended, or for as long as it may take."""
        until = monotonic() + worker.MOST_SECONDS
        with suppress(EOFError):
            while monotonic() < until:
                if told.poll(_LOOK_S):
                    state, values = told.recv()
                    self._note(identifier, attempt, state=state, **values)
                elif not process.is_alive():
                    return
            said = f"not done after {worker.MOST_SECONDS} seconds: the command line has no limit"
            self._note(identifier, attempt, state="failed", problems=(said,))

    def _note(self, identifier: str, attempt: int, **values: Any) -> None:
        """Keep how far a job is; the first end counts."""
        with self._lock:
            job = self._known[identifier]
            if job.attempt == attempt and not job.ended:
                self._known[identifier] = job.changed(**values)
