"""Process trees on Linux: who descends from whom, what they hold in memory, and how to end them all.

Elsewhere there is no /proc: memory is not watched, and a case's processes are ended by their group alone.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PROC = Path("/proc")
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_PATIENCE_S = 10.0


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants' orphans, so that none can leave the tree."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent dies; ``parent`` is who that was before asking."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def be_first_out_of_memory() -> None:
    """Ask the kernel to end this process and its children before any other when memory runs out."""
    with contextlib.suppress(OSError):
        (PROC / "self/oom_score_adj").write_text("1000")


class Descendants:
    """The descendants of a process, looked at again and again: only processes that are new since cost anything.

    Who once was no descendant never becomes one; who was stays one, since the root adopts orphans.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: set[int] = set()
        self._strangers: set[int] = {root}

    def look(self) -> set[int]:
        """Return the process ids of all living descendants, without the root itself."""
        there = set(_pids())
        self._members &= there
        self._strangers &= there
        new = {pid: _parent(pid) for pid in there - self._members - self._strangers}
        while born := {pid for pid, parent in new.items() if parent in self._members or parent == self._root}:
            self._members |= born
            for pid in born:
                del new[pid]
        # One whose parent has just died is looked at again when it has been adopted.
        self._strangers |= {pid for pid, parent in new.items() if parent in there}
        return self._members


def memory_held(pids: Iterable[int]) -> float:
    """Return bytes the processes hold together: each one's private pages, plus the most that one of them shares.

    Private is resident less shared pages of /proc/PID/statm; pages a fork has not yet copied count once per process.
    """
    page, private, shared = os.sysconf("SC_PAGE_SIZE"), 0, 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            resident, common = map(int, (PROC / str(pid) / "statm").read_text().split()[1:3])
            private += resident - common
            shared = max(shared, common)
    return float((private + shared) * page)


def end_all(find: Callable[[], Iterable[int]], group: int | None = None) -> list[int]:
    """Kill every process ``find`` gives, again and again until it gives none; return those that would not die."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        if group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        alive = list(find())
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.005)


def marked(variable: str, value: str) -> list[int]:
    """Return the processes that were started with this environment variable, however they were started since."""
    mark, found = f"{variable}={value}".encode(), []
    for pid in _pids():
        with contextlib.suppress(OSError):
            if mark in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def kernel_kills() -> int:
    """Return how many processes the kernel has ended for want of memory since it started."""
    try:
        lines = (PROC / "vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _reap() -> None:
    """Collect children that have ended, adopted ones too."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208 - ten times a second
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        # The name, in parentheses, may hold anything, spaces and parentheses too.
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
