"""Estimate what training frameworks reach from the fit parts of all published series, and write the catalog's file.

    python scripts/fit_training.py --data DIR             writes src/sightline/catalog/data/training/effects.json
    python scripts/fit_training.py --data DIR --left-out  shows each source predicted without itself, writes nothing

A rerun on the same data reproduces the shipped file. The test parts are never looked at.
"""

import argparse
from pathlib import Path

from sightline.calibration.training import shipped_form
from sightline.validation import suites
from sightline.validation.sources import fitted, leave_sources_out, source_steps

EFFECTS = Path(__file__).parents[1] / "src" / "sightline" / "catalog" / "data" / "training" / "effects.json"


def main() -> None:
    """Estimate, then write or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--left-out", action="store_true", help="leave each source out and show its errors")
    options = parser.parse_args()
    steps = source_steps(suites(options.data))
    found = fitted(steps)
    if not options.left_out:
        EFFECTS.write_text(shipped_form(found), encoding="utf-8")
        return
    for source in leave_sources_out(steps, found):
        inside = sum(abs(step.error) <= step.spread for step in source) / len(source)
        mean = sum(abs(2.718281828459045**step.error - 1) for step in source) / len(source)
        print(f"{source[0].of.step.site:20s} {len(source):4d} mean {mean:6.1%}  inside {inside:4.0%}")


if __name__ == "__main__":
    main()
