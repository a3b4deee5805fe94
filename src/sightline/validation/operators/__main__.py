"""Errors of devices left out, and the half-widths that follow: ``python -m sightline.validation.operators --data DIR``.

``--json`` prints rows; ``--write`` replaces the table that intervals of devices never measured are read from.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import yaml

import sightline.cost
from sightline.validation.operators.families import never_fitted_suites
from sightline.validation.operators.left_out import half_widths, left_out, rows, summary

HEAD = (
    "# Half-widths of 80 % intervals on devices that nobody measured, in logarithms, by part and distance; `without`:\n"
    "# from all other architectures than a suite's own. Made by\n"
    "# `python -m sightline.validation.operators --data DIR --write`.\n"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Leave every device out and print, or store, what that says."""
    parser = argparse.ArgumentParser(prog="python -m sightline.validation.operators", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--json", action="store_true", help="rows and summary as JSON")
    parser.add_argument("--write", action="store_true", help="replace the half-widths of devices never measured")
    options = parser.parse_args(arguments)
    rows_left_out = left_out(never_fitted_suites(options.data))
    table = rows(rows_left_out)
    if options.write:
        text = yaml.safe_dump(half_widths(rows_left_out), sort_keys=False, width=1000)
        path = Path(str(files(sightline.cost) / "left_out.yaml"))
        path.write_text(HEAD + text, encoding="utf-8")
    if options.json:
        sys.stdout.write(json.dumps({"rows": table, "summary": summary(table)}, indent=1) + "\n")
        return
    for row in summary(table):
        covered = "-" if row["coverage"] is None else f"{row['coverage']:.0%}"
        sys.stdout.write(
            f"{row['part']:24} {row['distance']:18} {row['devices']:3} devices"
            f"  median {row['median']:6.1%}  mean {row['mean']:6.1%}  inside {covered:>4}\n"
        )


if __name__ == "__main__":
    main()
