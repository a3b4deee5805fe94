"""Estimate what training frameworks reach from the fit parts of all published series, and write the catalog's file.

    python scripts/fit_training.py --data DIR

writes src/sightline/catalog/data/training/effects.json. `sightline validate --left-out` shows each source without itself.

A rerun on the same data reproduces the shipped file. The test parts are never looked at.
"""

import argparse
from pathlib import Path

from sightline.calibration.training_constants import shipped_form
from sightline.validation.evaluation import suites
from sightline.validation.left_out import fitted, source_steps

EFFECTS = Path(__file__).parents[1] / "src" / "sightline" / "catalog" / "data" / "training" / "effects.json"


def main() -> None:
    """Estimate and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    EFFECTS.write_text(shipped_form(fitted(source_steps(suites(options.data)))), encoding="utf-8")


if __name__ == "__main__":
    main()
