"""Searches in a process of their own, beside a job that must not notice them."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from typing import Any

from sightline.watching import machine
from sightline.watching.detector import BASELINE, Departure, DepartureDetector
from sightline.watching.expected import as_mapping
from sightline.watching.steps import median


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


class Searches:
    """Searches for a better plan after departures: one at a time, and the next one for the last departure."""

    def __init__(self) -> None:
        self._replanner, self._asked, self._count = Replanner(), deque[Departure](maxlen=1), 0

    def ask(self, departure: Departure) -> None:
        """Search once nothing else is searched; an earlier departure that still waits is forgotten."""
        self._asked.append(departure)

    def forget(self) -> None:
        """Drop what is searched and what waits: the situation has passed."""
        self._asked.clear()
        self._replanner.stop()

    def tend(self, detector: DepartureDetector, folder: str) -> dict[str, Any] | None:
        """Return the answer of a search that has ended, and begin the one that was asked for last."""
        answer = self._replanner.answer()
        # What a step takes on other devices is known once some have been measured there.
        is_early = bool(self._asked) and self._asked[0].cause == "devices" and len(detector.steady) < BASELINE
        if self._asked and not is_early and not self._replanner.is_busy:
            self._count += 1
            question = _question(self._asked.popleft(), detector)
            self._replanner.start({**question, "folder": folder, "name": f"replan-{self._count}"})
        return answer

    def end(self, wait_s: float) -> dict[str, Any] | None:
        """Return the answer of the search that runs if it comes in time, and end it."""
        answer = self._replanner.answer(wait_s) if wait_s else None
        self._replanner.stop()
        return answer


def _question(departure: Departure, detector: DepartureDetector) -> dict[str, Any]:
    """What a search has to know of a departure."""
    assert detector.expected is not None  # noqa: S101 - nothing is asked without a scenario
    steady = [step.time_s for step in detector.steady]
    return {
        "scenario": as_mapping(detector.expected.scenario),
        "cause": departure.cause,
        "devices": detector.devices,
        "sequence_length": detector.sequence_length,
        "link_factor": detector.link_factor,
        "measured_s": median(steady) if steady and departure.cause == "devices" else departure.measured_s,
        "memory": machine.memory_bytes()[0] if departure.cause == "memory" else None,
    }


def _quiet() -> dict[str, str]:
    """The environment of a search: one thread, no device, nothing of the job's group of processes."""
    others = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {key: value for key, value in os.environ.items() if key not in others}
    return (
        kept
        | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        | {"CUDA_VISIBLE_DEVICES": ""}
    )
