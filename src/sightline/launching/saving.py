"""A launch written into a folder: its files, and its command as a script."""

import os
from pathlib import Path

from sightline.errors import InputError
from sightline.launching.launch import Launch

SCRIPT = "launch.sh"
"""Name of the script that holds the command."""


def save(launch: Launch, folder: Path | str, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write a launch's files and its command, each whole or not at all, and return their paths, the script first.

    Raises:
        InputError: A file of another content is there already and may not be overwritten, or the folder cannot be
            written.
    """
    root = Path(folder)
    texts = {SCRIPT: script_of(launch), **launch.files}
    others = [] if overwrite else [str(root / name) for name, text in texts.items() if _differs(root / name, text)]
    if others:
        raise InputError(
            [f"'{name}' is there with other content; name another folder, or remove it" for name in others]
        )
    for name, text in texts.items():
        _write(root / name, text, executable=name == SCRIPT)
    return tuple(root / name for name in texts)


def script_of(launch: Launch) -> str:
    """Return the launch's command as a script that runs in its own folder."""
    said = "".join(f"# {sentence}\n" for sentence in launch.without_counterpart)
    return f'#!/bin/bash\n{said}set -e\ncd "$(dirname "$0")"\n{launch.command}\n'


def _differs(path: Path, text: str) -> bool:
    try:
        return path.exists() and path.read_bytes() != text.encode()
    except OSError as error:
        raise _unwritable(path, error) from None


def _write(path: Path, text: str, *, executable: bool) -> None:
    """Write next to the target, then rename."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        if executable:
            part.chmod(0o755)
        part.replace(path)
    except OSError as error:
        if part.exists():
            part.unlink()
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}")
