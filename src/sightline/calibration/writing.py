"""Calibrations as files: a folder of the catalog's structure, or one file; nothing is replaced unless asked for."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.calibration.from_tables import Calibration
from sightline.catalog import shipped
from sightline.errors import InputError
from sightline.profile.results import stamped
from sightline.whole_files import unwritable, write_whole

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration

YAML_ENDINGS = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
"""Names of families, which are folders of the catalog."""


def target_paths(out: Path, family: str, parts: Sequence[str], *, overwrite: bool = False) -> dict[str, Path]:
    """Return the file of each part: ``OUT/calibrations/FAMILY/PART.yaml``, or ``OUT`` itself where it is a YAML file.

    Raises `InputError` where a file is there already, where Sightline ships constants under the family's name, or
    where that name is no folder's.
    """
    if not _NAME.fullmatch(family):
        raise InputError(f"--family is '{family}'; allowed: letters, digits, '-', '_' and '.', such as my-a100")
    if out.suffix.lower() in YAML_ENDINGS:
        if len(parts) > 1:
            raise InputError(
                f"--out '{out}' is one file, but there are {len(parts)} parts ({', '.join(parts)}); give a folder"
            )
        if not out.parent.is_dir():
            raise InputError(f"--out '{out}': folder '{out.parent}' does not exist")
        paths = {parts[0]: out}
    else:
        for part in parts:
            if shipped("calibrations", f"{family}/{part}"):
                raise InputError(f"'{family}' is a built-in calibration of {part}; choose another name with --family")
        paths = {part: out / "calibrations" / family / f"{part}.yaml" for part in parts}
    taken = [path for path in paths.values() if path.exists()]
    if taken and not overwrite:
        raise InputError(f"'{taken[0]}' already exists; use --force to overwrite it")
    return paths


def write_yaml(path: Path, content: dict[str, Any]) -> None:
    """Write a catalog entry, whole or not at all."""
    import yaml

    text = yaml.safe_dump(plain(content), sort_keys=False, default_flow_style=None, width=120)
    try:
        write_whole(path, text)
    except OSError as error:
        raise unwritable(path, error) from error


def write_calibrations(calibrations: Sequence[Calibration], paths: dict[str, Path]) -> None:
    """Write every part to its file."""
    for calibration in calibrations:
        write_yaml(paths[calibration.part], calibration.entry(this_month()))


def this_month() -> str:
    """Return year and month, as catalog entries are dated."""
    return f"{datetime.now(UTC):%Y-%m}"


def plain(value: Any) -> Any:
    """Return mappings, lists, strings and numbers of Python's own for what stands for them."""
    if hasattr(value, "items"):
        return {key if isinstance(key, int) else str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value


def calibration_to_dict(calibration: "Calibration", path: str | None = None) -> dict[str, Any]:
    """Return everything a calibration says."""
    fit = calibration.fit
    return stamped(
        {
            "device": calibration.device,
            "part": calibration.part,
            "source": calibration.source,
            "evidence": "calibrated",
            "constants": fit.constants,
            "rows": fit.rows,
            "covered": calibration.covered,
            "residuals": fit.residuals,
            "file": path,
        }
    )
