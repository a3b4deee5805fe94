"""The process of one job: it does the work, tells how far it is, and leaves the result as a file."""

import json
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from sightline.errors import InputError, SightlineError
from sightline.progress import Cancelled, Progress
from sightline.progress import State as Stage
from sightline.web.jobs.folder import PARTIAL, RESULT, write_whole

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
