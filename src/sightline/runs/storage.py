"""Where runs lie: a local folder, or (``remote``) whatever fsspec reaches. Files appear whole or not at all."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from sightline.errors import WorkError


class Storage(Protocol):
    """Folders of small files. A path is ``folder/file``; what is missing raises FileNotFoundError."""

    place: str

    def folders(self) -> list[str]:
        """Return the names of all folders."""

    def files(self, folder: str) -> list[str]:
        """Return the names of a folder's files, unfinished ones left out."""

    def create(self, folder: str) -> None:
        """Create a folder; FileExistsError when somebody has."""

    def read(self, path: str) -> bytes:
        """Return a file's content."""

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """Return the file of this name of each folder that has one."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all, replacing what was there."""

    def append(self, path: str, data: bytes) -> None:
        """Add to a file; a reader may find the last piece cut."""

    def remove(self, path: str) -> None:
        """Remove a file; none is no error."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder at once: nobody reads half of it."""


class LocalStorage:
    """A folder of this machine, or of a file system mounted here."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, str(root)
        self._open: dict[str, int] = {}

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        return self._names(self.root, Path.is_dir)

    def files(self, folder: str) -> list[str]:
        """Return the names of a folder's files, unfinished ones left out."""
        return self._names(self.root / folder, Path.is_file)

    def _names(self, folder: Path, kind: Callable[[Path], bool]) -> list[str]:
        with self._sentences():
            try:
                return sorted(p.name for p in folder.iterdir() if not p.name.startswith(".") and kind(p))
            except FileNotFoundError:
                return []

    def create(self, folder: str) -> None:
        """Create a folder; FileExistsError when somebody has."""
        with self._sentences():
            self.root.mkdir(parents=True, exist_ok=True)
            (self.root / folder).mkdir()

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        with self._sentences():
            return (self.root / path).read_bytes()

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """Return the file of this name of each folder that has one."""
        found = {}
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                found[folder] = self.read(f"{folder}/{name}")
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write beside the target, flush to the disk, then rename: the file system swaps names in one step."""
        target = self.root / path
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        with self._sentences():
            try:
                with part.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(target)
                _flush_folder(target.parent)
            except BaseException:
                part.unlink(missing_ok=True)
                raise

    def append(self, path: str, data: bytes) -> None:
        """Add to a file, which stays open until it is removed."""
        with self._sentences():
            if path not in self._open:
                self._open[path] = os.open(self.root / path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            while data:
                data = data[os.write(self._open[path], data) :]

    def remove(self, path: str) -> None:
        """Remove a file; none is no error."""
        if path in self._open:
            os.close(self._open.pop(path))
        with self._sentences():
            (self.root / path).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        """Rename the folder out of sight, then empty it."""
        hidden = self.root / f".{folder}.{uuid.uuid4().hex}.deleted"
        with self._sentences():
            (self.root / folder).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise WorkError(f"cannot use the store of runs '{self.place}': {_words(error)}") from error


def _flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk too."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
