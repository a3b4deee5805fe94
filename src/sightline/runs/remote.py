"""Runs in an object store or behind any other URL that fsspec knows: ``s3://bucket/runs``, ``gs://``, ``sftp://`` ..."""

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from sightline.errors import InputError, WorkError, missing_extra

_WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "r2", "memory"}
"""Stores in which an object appears when its upload has ended; elsewhere it is written beside and renamed."""

_SEND_EVERY_S = 5.0


class RemoteStorage:
    """A folder behind a URL. What is appended is sent every few seconds, since objects cannot grow."""

    def __init__(self, url: str) -> None:
        self.place = url.rstrip("/")
        self._fs, self._root = _file_system(url)
        self._grown: dict[str, bytes] = {}
        self._sent: dict[str, float] = {}

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        return self._names("", "directory")

    def files(self, folder: str) -> list[str]:
        """Return the names of a folder's files, unfinished ones left out."""
        return self._names(folder, "file")

    def _names(self, folder: str, kind: str) -> list[str]:
        path = self._path(folder)
        with self._sentences():
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(path, detail=True)
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
                raise WorkError(f"cannot use the store of runs '{self.place}': it is not there") from error

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
        if "run.json" not in self.files(folder):
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

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, FileExistsError, WorkError):
            raise
        except Exception as error:
            # Every driver has errors of its own: no route, no credentials, no such bucket.
            words = " ".join(str(error).split()) or type(error).__name__
            raise WorkError(f"cannot use the store of runs '{self.place}': {words}") from error


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system that speaks the URL's protocol, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise missing_extra(f"a store at '{url}'", "runs") from error
    try:
        file_system, root = url_to_fs(url)
    except ImportError as error:
        raise WorkError(f"a store at '{url}' needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise InputError(f"'{url}' is no URL of a store: {' '.join(str(error).split())}") from error
    return file_system, str(root).rstrip("/")
