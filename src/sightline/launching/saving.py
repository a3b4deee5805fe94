"""A launch written into a folder: its files, and its command as a script."""

import os
import re
import shlex
from pathlib import Path

from sightline.errors import InputError
from sightline.launching.launch import Launch

SCRIPT = "launch.sh"
"""Name of the script that holds the command."""
_NEEDED = re.compile(r"\$\{(\w+):\?\}")
"""A variable without which the shell refuses a command."""
_IN_ITS_FOLDER = 'cd "$(dirname "$0")"\n'


def check_folder(folder: Path | str) -> None:
    """Refuse a folder into which no launch can be written: a file, a protected folder, or one with another script.

    Raises:
        InputError: nothing can be written there.
    """
    root = Path(folder)
    there = next(place for place in (root, *root.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"'{there}' is a file; name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into '{there}': permission denied")
    script = root / SCRIPT
    try:
        is_other = script.exists() and _IN_ITS_FOLDER.encode() not in script.read_bytes()
    except OSError as error:
        raise _unwritable(script, error) from None
    if is_other:
        raise _other_content(script)


def save(launch: Launch, folder: Path | str, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write a launch's files and its command, each whole or not at all, and return their paths, the script first.

    Raises:
        InputError: A file of another content is there already and may not be overwritten, or the folder cannot be
            written.
    """
    root = Path(folder)
    texts = {SCRIPT: script_of(launch), **launch.files}
    others = [] if overwrite else [root / name for name, text in texts.items() if _differs(root / name, text)]
    if others:
        raise InputError([problem for other in others for problem in _other_content(other).problems])
    for name, text in texts.items():
        _write(root / name, text, executable=name == SCRIPT)
    return tuple(root / name for name in texts)


def starting(launch: Launch, folder: Path | str) -> str:
    """Return what to type to run the saved script, with a word to replace for each variable that it needs."""
    needed = [f"{name}={name}" for name in dict.fromkeys(_NEEDED.findall(launch.command))]
    return " ".join([*needed, shlex.join(["bash", str(Path(folder) / SCRIPT)])])


def script_of(launch: Launch) -> str:
    """Return the launch's command as a script that runs in its own folder and passes its arguments on."""
    passed_on = "" if launch.command.startswith("bash ") else ' "$@"'
    said = "".join(f"# {sentence}\n" for sentence in launch.without_counterpart)
    return f"#!/bin/bash\n{said}set -e\n{_IN_ITS_FOLDER}{launch.command}{passed_on}\n"


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


def _other_content(path: Path) -> InputError:
    return InputError(f"'{path}' is there with other content; name another folder, or remove it")


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}")
