"""A folder of this user among the temporary ones, for where there is no home or none that can be written."""

import os
from getpass import getuser
from pathlib import Path
from stat import S_IMODE
from tempfile import gettempdir, mkdtemp


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
