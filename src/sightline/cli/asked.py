"""What the files, settings and sweeps of a command ask for."""

from typing import TYPE_CHECKING

from sightline.cli import output
from sightline.progress import SILENT, Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.loading.loader import Loaded


def read(
    files: "Sequence[str]",
    settings: "Sequence[str] | None",
    sweeps: "Sequence[str] | None",
    progress: Progress = SILENT,
    *,
    skip_invalid: bool = False,
) -> "Loaded":
    """Return the scenarios of all files; say on stderr how many cells of sweeps cannot be, and why.

    With ``skip_invalid``, scenarios with mistakes are left out (``Loaded.skipped``).
    """
    from sightline.loading import read_all

    loaded = read_all(
        files, settings or (), sweeps or (), possible_only=True, skip_invalid=skip_invalid, progress=progress
    )
    for remark in loaded.remarks():
        output.print_remark(remark)
    return loaded
