"""Show what a measured step of the own cluster is worth: each source left out, then anchored with some of its steps.

python scripts/anchored_errors.py --data DIR [--json]
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from anchor_trials import AnchoredError, anchored_errors

from sightline.validation.evaluation import suites
from sightline.validation.left_out import shipped, source_steps


def main() -> None:
    """Print the errors of each source without and with anchors, and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--json", action="store_true", help="print the figures of each source as JSON")
    options = parser.parse_args()
    steps = source_steps(suites(options.data))
    found = shipped(steps)
    every = {}
    for title, anchors, alike in (
        ("one anchor", 1, False),
        ("three anchors", 3, False),
        ("one anchor of the same model and cluster", 1, True),
    ):
        every[title] = list(anchored_errors(steps, found, anchors=anchors, alike=alike))
        if not options.json:
            print(title)
            print_errors(every[title])
    if options.json:
        print(json.dumps({title: [asdict(one) for one in errors] for title, errors in every.items()}, indent=1))


def print_errors(errors: Sequence[AnchoredError]) -> None:
    """Print a line for each source and one for all."""
    for one in errors:
        kind = " MoE" if one.experts else ""
        change = f"{one.unanchored:6.1%} -> {one.anchored:6.1%}"
        known = f"best factor {one.best_factor:5.1%}"
        print(f"  {one.source:20s} {one.rows:4d} rows  {change}  inside {one.covered:4.0%}  {known}{kind}", flush=True)
    before, after = (fmean(getattr(one, key) for one in errors) for key in ("unanchored", "anchored"))
    covered = fmean(one.covered for one in errors)
    best = fmean(one.best_factor for one in errors)
    change = f"{before:6.1%} -> {after:6.1%} ({after / before:.2f} x)"
    print(f"  mean over sources {change}  inside {covered:4.0%}  best factor {best:5.1%} ({best / before:.2f} x)")


if __name__ == "__main__":
    main()
