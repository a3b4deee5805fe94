"""What the tests of running cases share: looking for processes that were left behind."""

import time
from pathlib import Path


def alive(mark):
    """The processes whose command line holds ``mark``, zombies left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line, state = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
            except OSError:
                continue
            if mark.encode() in line and state.rpartition(")")[2].split()[0] != "Z":
                found.append(int(folder.name))
    return found


def gone(mark, within_s=15):
    """Whether no such process is left, now or a little later."""
    deadline = time.monotonic() + within_s
    while alive(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
