"""Fit the engines' constants of the catalog to the fit parts of the published suites, and write the catalog's files.

    python scripts/fit_inference.py --data DIR

writes the sets that the manifest names (src/sightline/calibration/manifest/inference.yaml) under
src/sightline/catalog/data/inference, and generation/effects.yaml there: how far off cases are that no fit saw, and what
the measured sites do to the constants. A rerun on the same data reproduces the shipped files. The test parts are never
looked at.
"""

import argparse
from pathlib import Path
from typing import Any

import yaml
from engine_cases import cases_of
from engine_fit import engine_entries

from sightline.validation.evaluation import suites
from sightline.validation.serving.aiconfigurator import aiconfigurator_pools, aiconfigurator_runs

CATALOG = Path(__file__).parents[1] / "src" / "sightline" / "catalog" / "data"


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that comes twice in full each time."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's own name
        """Every value."""
        return True


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    known = suites(options.data)
    logs = (aiconfigurator_pools(options.data), aiconfigurator_runs(options.data))
    pools, loads = ([run for run in log.read() if run.split == "fit"] for log in logs)
    for name, entry in engine_entries(lambda of: cases_of(of, known), pools, loads).items():
        text = yaml.dump(entry, Dumper=_PlainDumper, sort_keys=False, default_flow_style=None, width=120)
        (CATALOG / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
