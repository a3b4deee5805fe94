"""``python -m sightline.calibration PART --data DIR --out DIR``: make the shipped calibrations of operators again.

``all`` in place of a part makes every one; the same data give the same bytes. What frameworks reach beyond operators is
fitted to the suites of training by ``scripts/fit_training.py``.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sightline.calibration.manifest import manifest
from sightline.calibration.parts import SHIPPED, shipped_entries
from sightline.calibration.writing import write_yaml
from sightline.errors import InputError

ALL = "all"


def write_part(part: str, data: Path, out: Path, *, overwrite: bool) -> None:
    """Fit one part to the tables under ``data``, write ``OUT/<device family>/<part>.yaml`` and print the paths."""
    taken = [path for family in manifest(part)["families"] if (path := out / family / f"{part}.yaml").exists()]
    if taken and not overwrite:
        raise InputError(f"{taken[0]} already exists; use --overwrite to replace it")
    for family, content in shipped_entries(part, data).items():
        path = out / family / f"{part}.yaml"
        write_yaml(path, content)
        sys.stdout.write(f"{path}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sightline.calibration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=[ALL, *SHIPPED])
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--out", type=Path, required=True, help="folder that receives one folder per device family")
    parser.add_argument("--overwrite", action="store_true", help="replace existing entries")
    options = parser.parse_args(arguments)
    parts = tuple(SHIPPED) if options.part == ALL else (options.part,)
    for number, part in enumerate(parts, 1):
        sys.stderr.write(f"fitting {part} ({number} of {len(parts)})\n")
        try:
            write_part(part, options.data, options.out, overwrite=options.overwrite)
        except InputError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
