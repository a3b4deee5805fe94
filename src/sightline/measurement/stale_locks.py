"""Locks that a killed build of a PyTorch extension left behind: whoever needs the extension next would wait forever."""

import os
from collections.abc import Iterator
from pathlib import Path

from sightline.errors import WorkError

_PROCESSES = Path("/proc")


def refuse_stale_locks() -> None:
    """Raise `WorkError` with the path where PyTorch's folder of extensions has a lock that no process holds."""
    for lock in stale_locks():
        raise WorkError(
            f"a build of a PyTorch extension was killed and left its lock, for which DeepSpeed would wait forever: "
            f"remove '{lock}' and try again"
        )


def stale_locks(folder: Path | None = None) -> list[Path]:
    """Return the locks below PyTorch's folder of extensions that no living process has open."""
    found = list((folder or _extensions()).glob("**/lock"))
    held = set(_open_files()) if found else set()
    return [lock for lock in found if str(lock.resolve()) not in held]


def _extensions() -> Path:
    stated = os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return Path(stated).expanduser() if stated else cache / "torch_extensions"


def _open_files() -> Iterator[str]:
    """The files that this user's processes have open."""
    for process in _PROCESSES.glob("[0-9]*"):
        try:
            for descriptor in (process / "fd").iterdir():
                yield os.readlink(descriptor)  # noqa: PTH115 - pipes and sockets are no paths
        except OSError:
            continue
