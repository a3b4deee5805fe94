"""A search in a process of its own, beside a job that must not notice it."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any


class Replanner:
    """One search at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Any = None

    @property
    def is_busy(self) -> bool:
        """Whether a search runs, or its answer has not been read."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def start(self, question: Mapping[str, Any]) -> None:
        """Start a search."""
        # Files, not pipes: nobody here waits until the other side has read or written.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the answer has been read
        with tempfile.TemporaryFile() as said:
            said.write(json.dumps(question).encode())
            said.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sightline.watching.replanning"],
                stdin=said,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                env=_quiet(),
                start_new_session=True,
            )

    def answer(self, wait_s: float = 0.0) -> dict[str, Any] | None:
        """Return what was found, or ``error``; None while it is still searched or where nothing is.

        Args:
            wait_s: Seconds to wait for it.
        """
        process = self._process
        if process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        if process.poll() is None:
            return None
        self._output.seek(0)
        text = self._output.read()
        self._forget()
        try:
            found = json.loads(text)
        except ValueError:
            return {"error": f"the search for a better plan ended early (exit status {process.returncode})"}
        return found if isinstance(found, dict) else None

    def stop(self) -> None:
        """End the search that runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        self._process = None
        self._output.close()


def _quiet() -> dict[str, str]:
    """The environment of a search: one thread, no device, nothing of the job's group of processes."""
    others = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {key: value for key, value in os.environ.items() if key not in others}
    return (
        kept
        | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        | {"CUDA_VISIBLE_DEVICES": ""}
    )
