"""Paths that a file states, relative to its own folder."""

from pathlib import Path

from sightline.loading.input.no_files import files_allowed


def stated_path(folder: Path, stated: str) -> Path:
    """Return the path that a file in a folder states; one with the backslashes of Windows is found everywhere."""
    path = folder / stated
    if "\\" in stated and files_allowed() and not path.exists():
        return folder / stated.replace("\\", "/")
    return path
