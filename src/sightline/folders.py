"""Folders: the examples that come with Sightline, and one of this user among the temporary ones."""

import os
from getpass import getuser
from pathlib import Path
from stat import S_IMODE
from tempfile import gettempdir, mkdtemp

_PACKAGE = Path(__file__).parent
EXAMPLES = next((one for one in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples") if one.is_dir()), _PACKAGE)
"""The examples, as they are installed or lie in a clone."""


def located(path: Path) -> Path:
    """Return a path; of ``examples/NAME``, where there is no such file here, that of the example."""
    shipped = EXAMPLES.joinpath(*path.parts[1:])
    return shipped if path.parts[:1] == ("examples",) and not path.exists() and shipped.exists() else path


def example_files() -> list[str]:
    """Return the examples by their paths below the folder of all, those of its top first; notebooks left out."""
    endings = (".yaml", ".csv", ".py")
    files = (one.relative_to(EXAMPLES) for one in EXAMPLES.rglob("*") if one.suffix in endings)
    return sorted((one.as_posix() for one in files), key=lambda one: (one.count("/"), one))


def temporary() -> Path:
    """Return the folder, which lasts; a new one where somebody else has taken its name, for what it holds is trusted.

    Raises:
        OSError: There is no folder for temporary files.
    """
    user = os.getuid() if hasattr(os, "getuid") else getuser()
    folder = Path(gettempdir()) / f"sightline-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_own = not hasattr(os, "getuid") or (found.st_uid == user and not S_IMODE(found.st_mode) & 0o022)
    return folder if is_own and not folder.is_symlink() else Path(mkdtemp(prefix="sightline-"))
