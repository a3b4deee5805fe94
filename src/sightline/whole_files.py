"""Files that others see whole or not at all, and what is said where one cannot be written."""

import errno
import re
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from sightline.errors import InputError, SightlineError, WorkError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What no other path of the same disk would mend."""
_NUMBER = re.compile(r"(.*: )?(.*) \(os error (\d+)\)")


def write_whole(path: Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Write a file next to its path, then rename it; whatever stops this leaves nothing behind.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        if mode is not None:
            part.chmod(mode)
        part.replace(path)
    finally:
        with suppress(OSError):  # a file system that is read-only refuses that too
            part.unlink(missing_ok=True)


def unwritable(path: Path | str, error: BaseException) -> SightlineError:
    """Return what is raised for a file that the system, or Polars, did not write: a wrong request, or failed work."""
    number, why = getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)
    if found := _NUMBER.search(why):
        number, why = int(found[3]), found[2]
    kind = WorkError if number in _FULL else InputError
    return kind(f"cannot write '{path}': {why.lower()}")
