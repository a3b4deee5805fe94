"""Which files a user means: one, several, or a folder of them, one per rank."""

from collections.abc import Sequence
from pathlib import Path

from sightline.errors import InputError

ENDINGS = (".pt.trace.json", ".pt.trace.json.gz", ".json", ".json.gz")
MOST = 64
"""Traces of one job that are read; the ranks beyond them are left out."""


def trace_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files that words name, those of a folder sorted by name.

    Raises:
        InputError: A file or folder is missing, or a folder holds no traces.
    """
    found: list[Path] = []
    for word in paths:
        path = Path(word)
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if one.name.endswith(ENDINGS) and one.is_file())
            profiler = [one for one in inside if one.name.endswith(ENDINGS[:2])]
            if not inside:
                raise InputError(f"the folder '{path}' holds no trace: no file ends in {', '.join(ENDINGS)}")
            found += profiler or inside
        elif path.is_file():
            found.append(path)
        else:
            raise InputError(f"there is no file '{path}'")
    if not found:
        raise InputError("no trace is named")
    return found


_PROBE = 2**20


def looks_like_trace(path: str | Path) -> bool:
    """Return whether a file or folder, by its name and first bytes, is a trace rather than a scenario or a result."""
    place = Path(path)
    if place.is_dir():
        return any(one.name.endswith(ENDINGS[:2]) for one in place.iterdir())
    if place.name.endswith((*ENDINGS[:2], ".json.gz")):
        return True
    if place.suffix.lower() != ".json" or not place.is_file():
        return False
    with place.open("rb") as file:
        head = file.read(_PROBE).lstrip()
    return b'"traceEvents"' in head or (head.startswith(b"[") and b'"ph"' in head)
