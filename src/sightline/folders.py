"""Folders: the examples that come with Sightline, one of this user among the temporary ones, and that of the page."""

import os
from getpass import getuser
from pathlib import Path
from stat import S_IMODE
from tempfile import gettempdir, mkdtemp
from typing import Final

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


VARIABLE: Final = "SIGHTLINE_JOBS"
"""Environment variable with another folder of the page than that of this user's caches."""


def default_place() -> Path:
    """Return the folder of the page's jobs, which the environment names, else one of this user's caches."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "sightline" / "jobs"


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
