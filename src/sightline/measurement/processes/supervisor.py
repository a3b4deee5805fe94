"""The process between a suite and one case: it starts the case, holds it to its limits, and leaves no process behind.

It outlives a suite that is killed just long enough to end the case: its stdin is a pipe whose other end only the suite
holds. The case's own processes may start sessions and daemons as they like; orphans become children of the supervisor.
Started as ``python -m sightline.measurement.processes.supervisor FD`` with the request as one line of JSON on stdin; FD
receives what the case says and, as the last line, what the supervisor saw.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sightline.measurement.hardware import CpuWatch
from sightline.measurement.processes import tree

_LOOK_EVERY_S = 0.1
_OUTPUT_KEPT = 8000


def main() -> None:
    """Keep one case."""
    messages = int(sys.argv[1])
    request = json.loads(_first_line())
    scratch = Path(request["scratch"])
    scratch.mkdir(mode=0o700)
    try:
        seen = _Supervisor(request, messages, scratch).run()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    with contextlib.suppress(BrokenPipeError):
        # On a line of its own, even where the case was killed in the middle of one.
        os.write(messages, b"\n" + json.dumps({"end": seen}).encode() + b"\n")


class _Supervisor:
    """One case and what is known of it."""

    def __init__(self, request: dict[str, Any], messages: int, scratch: Path) -> None:
        self.request, self.messages, self.scratch = request, messages, scratch
        self.log = scratch / "output.txt"
        self.verdict: tuple[str, str] | None = None
        self.peak = 0.0
        self.case = 0

    def run(self) -> dict[str, Any]:
        """Run the case to its end, whatever that is, and return what was seen."""
        tree.adopt_orphans()
        kills, cpu, start = tree.kernel_kills(), CpuWatch(), time.monotonic()
        wake = _wake_on_ended_child()
        self.case = self._start()
        status = self._watch(wake, start + self.request["limit_s"])
        stuck = tree.end_all(lambda: tree.Descendants(os.getpid()).look(), group=self.case)
        return {
            "verdict": self.verdict,
            "exit": None if status is None else os.waitstatus_to_exitcode(status),
            "kernel_killed": tree.kernel_kills() > kills,
            "stuck": stuck,
            "seconds": time.monotonic() - start,
            "peak_memory_bytes": max(self.peak, cpu.largest_child()),
            "cpu_s": cpu.ours(),
            "others_cpu_fraction": cpu.others(),
            "output": self._output(),
        }

    def _start(self) -> int:
        """Fork the case: this process is small and has loaded nothing that a case would care about."""
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            tree.die_with_parent(supervisor)
            tree.be_first_out_of_memory()
            self._redirect()
            from sightline.measurement.processes.isolation import run_entry

            run_entry(self.request, self.messages)
        finally:
            os._exit(1)

    def _redirect(self) -> None:
        """Give the case an empty stdin, a file as stdout and stderr, and a scratch folder that goes with it."""
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        written = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(written, 1)
        os.dup2(written, 2)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.scratch)

    def _watch(self, wake: int, deadline: float) -> int | None:
        """Return the case's wait status once it has ended, or None where a verdict ended it."""
        family = tree.Descendants(os.getpid())
        while True:
            wait = min(_LOOK_EVERY_S, max(0.0, deadline - time.monotonic()))
            ready, _, _ = select.select([0, wake], [], [], wait)
            if wake in ready:
                os.read(wake, 4096)
            status = self._ended()
            if status is not None:
                return status
            self.peak = max(self.peak, tree.memory_held(family.look()))
            if 0 in ready:
                self.verdict = ("interrupted", "interrupted")
            elif time.monotonic() >= deadline:
                self.verdict = ("timeout", f"not finished within {self.request['limit_s']:g} s")
            if self.verdict is not None:
                return None

    def _ended(self) -> int | None:
        """Collect whoever has ended; the case's wait status when it is among them."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self.case:
                    return status
                if pid == 0:
                    break
        return None

    def _output(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _OUTPUT_KEPT))
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def _first_line() -> bytes:
    """Read the request without reading past it: what follows on stdin is only its end."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            sys.exit(1)
        line += piece
    return line


def _wake_on_ended_child() -> int:
    """Return a descriptor that becomes readable when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


if __name__ == "__main__":
    main()
