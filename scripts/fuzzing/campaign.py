"""Inputs of one reader after another in a worker, each defect confirmed in a fresh one and kept."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from fuzzing.inputs import Input
from fuzzing.worker import CPU_S, Outcome, serve

Maker: TypeAlias = Callable[[Random], Input]
"""Returns an input for a seeded generator."""
INPUTS_PER_WORKER: Final = 400
"""A fresh worker follows, so that what one keeps does not add up."""
IDLE_S: Final = 120.0
"""A worker that has neither answered nor worked for so long waits for something that does not come."""


class Worker:
    """A process that answers inputs; another takes its place when it has died or has answered many."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self._process: BaseProcess | None = None
        self._answered = 0

    def ask(self, asked: Input) -> Outcome:
        """Return what comes of an input."""
        if self._process is None or self._answered >= INPUTS_PER_WORKER:
            self.renew()
        self._answered += 1
        try:
            self._pipe.send(asked)
            if self._has_answered():
                outcome: Outcome = self._pipe.recv()
                return outcome
            return self._dead("no answer")
        except (EOFError, OSError):
            return self._dead("the process died")

    def _has_answered(self) -> bool:
        """Wait for an answer: as long as others leave this machine's processors to it, but not for ever."""
        begun_s = used_s = self._used_s()
        moved = time.monotonic()
        while not self._pipe.poll(0.5):
            before_s, used_s = used_s, self._used_s()
            if used_s > before_s:
                moved = time.monotonic()
            # The worker's own alarm is heard between two lines of Python only.
            if used_s - begun_s > 2.0 * CPU_S or time.monotonic() - moved > IDLE_S:
                return False
        return True

    def _used_s(self) -> float:
        """Seconds of processors that the process has had; 0 where nobody knows."""
        try:
            said = Path(f"/proc/{self._process.pid if self._process else 0}/stat").read_text(encoding="utf-8")
        except OSError:
            return 0.0
        user, system = said.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def renew(self) -> None:
        """Start a fresh process."""
        self.close()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, str(self._folder)), daemon=True)
        self._process.start()
        theirs.close()
        self._answered = 0

    def _dead(self, how: str) -> Outcome:
        """What a process left behind that is ended here, by a signal that makes it say where it was."""
        process = self._process
        if process is not None and process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGABRT)
            process.join(10.0)
        self._process = None
        left = (self._folder / "died").read_text(errors="replace") if (self._folder / "died").exists() else ""
        ours = [line.strip() for line in left.splitlines() if "/sightline/" in line][:1]
        return Outcome(word="defect", problem=f"{how}\n{left[:4000]}", signature=f"{how} {''.join(ours)}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None

    def remove(self) -> None:
        """End the process, and remove its files."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def worker() -> Iterator[Worker]:
    """Give a worker that is ended after use."""
    one = Worker()
    try:
        yield one
    finally:
        one.remove()


@dataclass(slots=True)
class Tally:
    """What came of the inputs of a reader."""

    outcomes: Counter[str] = field(default_factory=Counter)
    defects: Counter[str] = field(default_factory=Counter)
    """By signature."""
    unstable: Counter[str] = field(default_factory=Counter)
    """By signature, inputs that a fresh process answered: what came before them has its part in the defect."""
    kept: dict[str, tuple[Path, str]] = field(default_factory=dict)
    """By signature, the folder with the first input that showed it, and the problem."""


def search(
    reader: str, maker: Maker, seed: int, seconds: float, inputs: int | None, out: Path, tell: Callable[[Tally], None]
) -> Tally:
    """Return what came of inputs number 0, 1, 2, ... of a reader: so many, or until the time is up.

    Input n depends on the reader, the seed and n alone.
    """
    tally, end, number = Tally(), time.monotonic() + seconds, 0
    with worker() as asked:
        while not number or (time.monotonic() < end if inputs is None else number < inputs):
            one = maker(Random(f"{reader} {seed} {number}"))  # noqa: S311 - reproducible, not secret
            outcome = asked.ask(one)
            if outcome.word == "defect" and outcome.signature not in tally.defects:
                # A fresh process knows nothing of the inputs before: what it shows, the input alone shows.
                asked.renew()
                again = asked.ask(one)
                tally.unstable[outcome.signature] += again.word != "defect"
                outcome = again
            tally.outcomes[outcome.word] += 1
            if outcome.word == "defect":
                tally.defects[outcome.signature] += 1
                if outcome.signature not in tally.kept:
                    folder = out / f"{reader}-{seed}-{number}"
                    tally.kept[outcome.signature] = folder, outcome.problem
                    one.save(folder, outcome.problem)
            number += 1
            tell(tally)
    return tally
