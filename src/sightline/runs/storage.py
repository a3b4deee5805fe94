"""Where results lie: a local folder, or whatever fsspec reaches. Files appear whole or not at all."""

import contextlib
import os
import re
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sightline.errors import InputError, WorkError, missing_extra

RUNS = "the run store"
NEARLY_URL = re.compile(r"([a-z][a-z0-9+.-]+):/?(?!/)", re.ASCII)
"""A scheme without its two slashes; one letter is a drive."""


def storage_at(place: str, what: str = RUNS) -> "Storage":
    """Return the storage at a folder or URL, of which nothing need be there yet; ``what`` is its name for people.

    Raises:
        InputError: The place is no folder and no URL, or a URL that lacks a slash.
        WorkError: It needs a package that is not installed.
    """
    scheme, separator, path = place.partition("://")
    if separator and scheme != "file":
        return RemoteStorage(place, what)
    folder = Path(path if separator else place).expanduser()
    if not separator and (typo := NEARLY_URL.match(place)) and not folder.exists():
        meant = f"{typo[1]}://{place[typo.end() :]}"
        raise InputError(f"{what} '{place}' is not a valid URL; did you mean '{meant}'? Write a folder as './{place}'")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{what} '{folder}' is a file; give a folder or a URL")
    return LocalStorage(folder, what)


class Storage(ABC):
    """Folders of small files. A path is ``folder/file``; what is missing raises FileNotFoundError."""

    place: str
    """The folder or URL."""
    what: str
    """What the place is, for people."""
    failures: type[Exception] = OSError
    """What may go wrong with the place."""

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        return self.names("", folders=True)

    def files(self, folder: str) -> list[str]:
        """Return the names of a folder's files, unfinished ones left out."""
        return self.names(folder, folders=False)

    @abstractmethod
    def names(self, folder: str, *, folders: bool) -> list[str]:
        """Return the names in a folder that begin with no dot: of folders, or of files."""

    @abstractmethod
    def create(self, folder: str) -> None:
        """Create a folder; FileExistsError when somebody has."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return a file's content."""

    @abstractmethod
    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """Return the file of this name of each folder that has one."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all, replacing what was there."""

    @abstractmethod
    def append(self, path: str, data: bytes) -> None:
        """Add to a file; a reader may find the last piece cut."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file; none is no error."""

    @abstractmethod
    def remove_folder(self, folder: str) -> None:
        """Remove a folder at once: nobody reads half of it."""

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        """Say what went wrong with the place; what is missing or there already is the caller's to say."""
        try:
            yield
        except (FileNotFoundError, FileExistsError, WorkError):
            raise
        except self.failures as error:
            words = (getattr(error, "strerror", None) or "").lower() or " ".join(str(error).split())
            raise WorkError(f"cannot use {self.what} '{self.place}': {words or type(error).__name__}") from error


class LocalStorage(Storage):
    """A folder of this machine, or of a file system mounted here."""

    def __init__(self, root: Path, what: str = RUNS) -> None:
        self.root, self.place, self.what = root, str(root), what
        self._open: dict[str, int] = {}

    def names(self, folder: str, *, folders: bool) -> list[str]:
        """Return the names in a folder that begin with no dot: of folders, or of files."""
        kind = Path.is_dir if folders else Path.is_file
        with self._sentences():
            try:
                found = (self.root / folder).iterdir()
                return sorted(path.name for path in found if not path.name.startswith(".") and kind(path))
            except FileNotFoundError:
                return []

    def create(self, folder: str) -> None:
        """Create a folder; FileExistsError when somebody has."""
        with self._sentences():
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:
                raise WorkError(f"cannot use {self.what} '{self.place}': it cannot be created") from error
            (self.root / folder).mkdir()

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        with self._sentences():
            return (self.root / path).read_bytes()

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """Return the file of this name of each folder that has one."""
        found = {}
        for folder in folders:
            try:
                found[folder] = (self.root / folder / name).read_bytes()
            except FileNotFoundError:
                continue
            except OSError:  # one that cannot be read must not hide the others
                found[folder] = b""
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write next to the target, flush to the disk, then rename: the file system swaps names in one step."""
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


def _flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk too."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "r2", "memory"}
"""Stores in which an object appears when its upload has ended; elsewhere it is written nearby and renamed."""

_SEND_EVERY_S = 5.0


class RemoteStorage(Storage):
    """A folder behind a URL. What is appended is sent every few seconds, since objects cannot grow."""

    failures = Exception  # of every driver its own: no route, no credentials, no such bucket

    def __init__(self, url: str, what: str = RUNS) -> None:
        self.place, self.what = url.rstrip("/"), what
        self._fs, self._root = _file_system(url, what)
        self._grown: dict[str, bytes] = {}
        self._sent: dict[str, float] = {}

    def names(self, folder: str, *, folders: bool) -> list[str]:
        """Return the names in a folder that begin with no dot: of folders, or of files."""
        kind = "directory" if folders else "file"
        with self._sentences():
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(self._path(folder), detail=True)
            except FileNotFoundError:
                return []
        names = (entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == kind)
        return sorted(name for name in names if name and not name.startswith("."))

    def create(self, folder: str) -> None:
        """Create a folder where there are folders; run ids are too random to meet."""
        with self._sentences():
            if self._fs.exists(f"{self._path(folder)}/run.json"):
                raise FileExistsError(folder)
            # In an object store this would create a bucket that somebody only misspelt.
            if not self._is_whole_at_once:
                self._fs.makedirs(self._path(folder), exist_ok=True)

    def read(self, path: str) -> bytes:
        """Return a file's content."""
        with self._sentences():
            return bytes(self._fs.cat_file(self._path(path)))

    def read_each(self, folders: Iterable[str], name: str) -> dict[str, bytes]:
        """Return the file of this name of each folder that has one; all are asked for at once."""
        paths = {self._path(f"{folder}/{name}"): folder for folder in folders}
        if not paths:
            return {}
        with self._sentences():
            answers = self._fs.cat(list(paths), on_error="return")
        found = {}
        for path, answer in answers.items():
            if isinstance(answer, FileNotFoundError):
                continue
            with self._sentences():
                if isinstance(answer, Exception):
                    raise answer
            found[paths[path]] = bytes(answer)
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all, replacing what was there."""
        target = self._path(path)
        folder, _, name = target.rpartition("/")
        part = target if self._is_whole_at_once else f"{folder}/.{name}.{uuid.uuid4().hex}.part"
        with self._sentences():
            try:
                self._fs.pipe_file(part, data)
                if part != target:
                    self._fs.mv(part, target)
            except FileNotFoundError as error:
                raise WorkError(f"cannot use {self.what} '{self.place}': it does not exist") from error

    def append(self, path: str, data: bytes) -> None:
        """Add to a file; it is sent whole, not more often than every few seconds."""
        self._grown[path] = self._grown.get(path, b"") + data
        if time.monotonic() - self._sent.get(path, -_SEND_EVERY_S) >= _SEND_EVERY_S:
            self.write(path, self._grown[path])
            self._sent[path] = time.monotonic()

    def remove(self, path: str) -> None:
        """Remove a file; none is no error."""
        self._grown.pop(path, None)
        with self._sentences(), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(path))

    def remove_folder(self, folder: str) -> None:
        """Remove ``run.json`` first: without it there is no run."""
        if not self.files(folder):
            raise FileNotFoundError(folder)
        self.remove(f"{folder}/run.json")
        with self._sentences(), contextlib.suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            self._fs.rm(self._path(folder), recursive=True)

    @property
    def _is_whole_at_once(self) -> bool:
        spoken = self._fs.protocol
        return not _WHOLE_AT_ONCE.isdisjoint({spoken} if isinstance(spoken, str) else spoken)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")


def _file_system(url: str, what: str) -> tuple[Any, str]:
    """Return the file system that speaks the URL's protocol, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise missing_extra(f"{what} at '{url}'", "runs") from error
    try:
        file_system, root = url_to_fs(url)
    except ImportError as error:
        raise WorkError(f"{what} at '{url}' needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise InputError(f"{what} '{url}' is not a valid URL: {' '.join(str(error).split())}") from error
    return file_system, str(root).rstrip("/")
