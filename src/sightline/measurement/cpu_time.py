"""Whose the CPU was while something ran."""

import os
import resource
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _WAITING = 3, 4
"""Places in the first line of /proc/stat, after its name."""


class CpuWatch:
    """CPU time since the watch was made: of this process and its ended children, and of everybody else.

    The machine's figures are the kernel's own (/proc/stat); in a container they are the whole host's.
    """

    def __init__(self) -> None:
        self._ours, self._busy, self._start = _ours(), _busy(), time.monotonic()

    def ours(self) -> float:
        """Return CPU seconds of this process and of all descendants it has collected."""
        return _ours() - self._ours

    @staticmethod
    def largest_child() -> float:
        """Return the most bytes that one of the collected descendants ever held."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0

    def others(self) -> float:
        """Return the share of all CPUs' time that others had, stolen time included; 0 where the kernel does not say."""
        busy, elapsed = _busy(), time.monotonic() - self._start
        if busy is None or self._busy is None or elapsed <= 0:
            return 0.0
        others = busy - self._busy - self.ours()
        # The kernel counts in ticks of 10 ms per CPU: short spans cannot be told from nothing.
        return max(0.0, others) / (elapsed * (os.cpu_count() or 1)) if elapsed > 0.2 else 0.0


def _ours() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _busy() -> float | None:
    try:
        ticks = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return sum(t for place, t in enumerate(ticks) if place not in (_IDLE, _WAITING)) / os.sysconf("SC_CLK_TCK")
