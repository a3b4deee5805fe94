"""A measured case: within which limits it runs, how it may end, and what runs inside its own process."""

import contextlib
import faulthandler
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from sightline.errors import InputError, SightlineError
from sightline.measurement.processes import tree
from sightline.on_demand import named

Status = Literal["ok", "out_of_memory", "timeout", "crashed", "unsupported", "interrupted"]

FINISHED: tuple[Status, ...] = ("ok", "out_of_memory", "timeout", "unsupported")
"""Ends that say something about the case; after the others a rerun tries again."""


FORCED = "use --force to run it anyway"
"""End of a sentence that says why something predicted not to fit was not run."""


def was_refused(reason: str) -> bool:
    """Whether that is why a run ended: it was predicted not to fit."""
    return reason.endswith(FORCED)


class UnsupportedCaseError(SightlineError):
    """Raised inside a case: this machine or this framework cannot do what is asked; the message says why."""


class OutOfMemoryError(SightlineError, MemoryError):
    """Raised inside a case when one of its processes ran out of memory; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a case ended."""

    status: Status
    reason: str = ""
    """One sentence; empty when ok."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """What the case returned; empty unless ok."""
    seconds: float = 0.0
    """From the start of the case's process to the end of its last one."""
    peak_memory_bytes: float = 0.0
    """Most host memory its processes held together when looked at, ten times a second."""
    cpu_s: float = 0.0
    """CPU time of all its processes."""
    others_cpu_fraction: float = 0.0
    """Share of the machine's CPU time that went to processes outside the case, or that a hypervisor took."""
    output: str = ""
    """The end of what the case wrote to stdout and stderr."""


Emit = Callable[[Mapping[str, Any]], None]
Entry = Callable[[Mapping[str, Any], Emit], Mapping[str, Any] | None]
"""A case: gets its arguments and a function that takes a sample away; returns its result."""


def run_entry(request: Mapping[str, Any], messages: int) -> NoReturn:
    """Call the request's entry, send its samples and its end as lines of JSON, and leave the process."""
    lock = threading.Lock()

    def send(message: Mapping[str, Any]) -> None:
        data = json.dumps(message, default=_plain).encode() + b"\n"
        with lock:
            while data:
                data = data[os.write(messages, data) :]

    faulthandler.enable()
    sys.path[:] = request["path"]
    try:
        entry: Entry = named(request["entry"])
        result = entry(request["arguments"], lambda sample: send({"sample": sample}))
        send({"status": "ok", "result": result or {}})
    except BaseException as error:  # noqa: BLE001 - whatever ends a case is its outcome
        traceback.print_exc()
        send({"status": _status(error), "reason": _reason(error)})
    # Threads, exit handlers and groups of processes may hang here; there is nothing left that they could be good for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _status(error: BaseException) -> str:
    # What the request asks for and the machine or a library cannot do.
    if isinstance(error, UnsupportedCaseError | InputError | NotImplementedError):
        return "unsupported"
    text = str(error).lower()
    # PyTorch's allocators: an error type of its own on devices, a bare RuntimeError on the host.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text:
        return "out_of_memory"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "crashed"


def _reason(error: BaseException) -> str:
    if isinstance(error, InputError):
        return "; ".join(error.problems)
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else ""
    if isinstance(error, SightlineError):
        return first
    name = type(error).__name__
    return f"{name}: {first}" if first else name


def _plain(value: Any) -> Any:
    """Return numbers and arrays of NumPy and PyTorch as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


_MARK = "SIGHTLINE_CASE"
_LISTEN_S = 0.2
LIMIT_S = 600.0

OnSample = Callable[[Mapping[str, Any]], None]


def run_case(
    entry: str,
    arguments: Mapping[str, Any],
    limit_s: float = LIMIT_S,
    on_sample: OnSample | None = None,
    *,
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Run ``package.module:function`` in its own processes and return how it ended; it never raises for the case.

    The function is called with ``(arguments, emit)``: each ``emit(sample)`` reaches ``on_sample`` here while the case
    runs, and what it returns is the outcome's result. Arguments, samples and result are what JSON can say.

    Args:
        entry: The function, by its import path; modules are found as they are here.
        arguments: Its arguments.
        limit_s: Seconds that it may take; then all its processes are ended.
        on_sample: Called with each sample as it comes.
        variables: Environment variables to set for the case, such as ``OMP_NUM_THREADS``.
    """
    mark = uuid.uuid4().hex
    request: dict[str, Any] = {
        "scratch": str(Path(tempfile.gettempdir()) / f"sightline-case-{mark}"),
        "entry": entry,
        "arguments": arguments,
        "limit_s": limit_s,
        "path": [path or os.getcwd() for path in sys.path],  # noqa: PTH109 - as the import system writes it
    }
    supervisor, messages = _start_supervisor({**os.environ, **(variables or {}), _MARK: mark})
    said: dict[str, Any] = {}
    interrupted = False
    try:
        try:
            _send(supervisor, request)
            said = _listen(messages, on_sample)
        except KeyboardInterrupt:
            interrupted = True
            _close(supervisor)
            said = _listen(messages, None)
    finally:
        _close(supervisor)
        os.close(messages)
        _wait(supervisor, mark, request["scratch"])
    outcome = _outcome(said, supervisor.returncode)
    return _as_interrupted(outcome) if interrupted else outcome


def _start_supervisor(environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    reading, writing = os.pipe()
    try:
        supervisor = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "sightline.measurement.processes.supervisor", str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(writing,),
            env=environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            # Ctrl-C at the terminal reaches the suite, which then ends the case; not every process at once.
            start_new_session=True,
        )
    finally:
        os.close(writing)
    return supervisor, reading


def _send(supervisor: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
    assert supervisor.stdin is not None  # noqa: S101 - it was asked for
    with contextlib.suppress(BrokenPipeError):
        supervisor.stdin.write(json.dumps(request).encode() + b"\n")
        supervisor.stdin.flush()


def _listen(messages: int, on_sample: OnSample | None) -> dict[str, Any]:
    """Pass samples on until the supervisor says the end; return what was said besides."""
    said: dict[str, Any] = {}
    for message in _lines(messages):
        if "sample" in message:
            if on_sample is not None:
                on_sample(message["sample"])
        else:
            said |= message
        if "end" in message:
            break
    return said


def _lines(messages: int) -> Iterator[dict[str, Any]]:
    """Yield what is said until the other end is closed.

    Never waits for long: a Ctrl-C that comes just before a wait begins is only seen when the wait is over.
    """
    rest = b""
    while True:
        if not select.select([messages], [], [], _LISTEN_S)[0]:
            continue
        piece = os.read(messages, 65536)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            # A case that is killed while it writes leaves a piece of a line.
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    yield message


def _close(supervisor: subprocess.Popen[bytes]) -> None:
    """End the supervisor's stdin: it then ends the case."""
    if supervisor.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            supervisor.stdin.close()


def _wait(supervisor: subprocess.Popen[bytes], mark: str, scratch: str) -> None:
    """Wait for the supervisor. If it was killed itself, end every process that has the case's mark."""
    try:
        clean = supervisor.wait() == 0
    except KeyboardInterrupt:
        supervisor.kill()
        supervisor.wait()
        clean = False
    if not clean:
        tree.end_all(lambda: tree.marked(_MARK, mark))
        shutil.rmtree(scratch, ignore_errors=True)


def _outcome(said: Mapping[str, Any], supervisor_exit: int) -> Outcome:
    """Put together what the case and the supervisor said; the case's own word counts first."""
    end = said.get("end")
    if end is None:
        return Outcome(status="crashed", reason=f"the supervisor process exited with {supervisor_exit}")
    figures = {k: end[k] for k in ("seconds", "peak_memory_bytes", "cpu_s", "others_cpu_fraction", "output")}
    stuck = f"; {len(end['stuck'])} of its processes could not be stopped" if end["stuck"] else ""
    if "status" in said:
        reason = said.get("reason", "") + stuck
        return Outcome(status=said["status"], reason=reason, result=said.get("result", {}), **figures)
    status: Status
    status, reason = end["verdict"] or _death(end)
    return Outcome(status=status, reason=reason + stuck, **figures)


def _death(end: Mapping[str, Any]) -> tuple[Status, str]:
    """Say what an end without a last word was."""
    code = end["exit"]
    if code == -signal.SIGKILL and end["kernel_killed"]:
        return "out_of_memory", "killed by the kernel: out of memory"
    if code < 0:
        return "crashed", f"killed by {signal.strsignal(-code) or 'a signal'} ({signal.Signals(-code).name})"
    return "crashed", f"exited with code {code} before it returned"


def _as_interrupted(outcome: Outcome) -> Outcome:
    return Outcome(status="interrupted", reason="interrupted", seconds=outcome.seconds, output=outcome.output)
