"""A switch for who must not make this program open files: scenarios that come over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sightline.errors import InputError
from sightline.quantities import show

_forbidden: ContextVar[bool] = ContextVar("_forbidden", default=False)


@contextmanager
def without_files() -> Iterator[None]:
    """Read scenarios meanwhile without opening, or looking for, any file that they name."""
    before = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(before)


def files_allowed() -> bool:
    """Return whether what a scenario names may be a file."""
    return not _forbidden.get()


def check_file(key: str, value: object) -> None:
    """Raise `InputError` for a ``key`` that names a file where none is opened."""
    if not files_allowed():
        raise InputError(f"{key} is {show(value)}; files are not opened here: use the command line for it")
