"""Choose how errors are alike between plans (``anchors`` of the catalog's training constants), on fit parts alone.

python scripts/choose_anchor_spreads.py --data DIR

Every source is predicted without itself. Of its fit part, each step is an anchor once, and three are, as often as in
`anchored_errors.py`. What counts is the absolute logarithm that the anchors leave of the others' errors, averaged over
sources. All of ``TRIED`` are tried. Rows of test parts are not looked at.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path

import numpy as np
from anchor_trials import Rows, error_left, rows_of_sources

from sightline.prediction.anchoring.posterior import Spreads
from sightline.validation.evaluation import suites
from sightline.validation.left_out import shipped, source_steps

TRIED: Mapping[str, Sequence[float]] = {
    "shared": (0.3, 0.5, 0.7, 0.9),
    "constants": (0.0, 0.5, 1.0, 1.5, 2.0),
    "doublings": (2.0, 4.0, 8.0, 16.0),
    "choices": (0.5, 1.0, 2.0, 4.0, 8.0),
}


def main() -> None:
    """Print what every combination costs, and which costs least."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    steps = source_steps(suites(parser.parse_args().data))
    sources = [rows for _, rows in rows_of_sources(steps, shipped(steps), "fit") if len(rows.steps) > 1]
    every = []
    for values in product(*TRIED.values()):
        spreads = Spreads(**dict(zip(TRIED, values, strict=True)))
        every.append((cost(sources, spreads), spreads))
        print("{:.5f}  {}".format(*every[-1]), flush=True)
    print("least: {:.5f}  {}".format(*min(every, key=itemgetter(0))))


def cost(sources: Sequence[Rows], spreads: Spreads) -> float:
    """Return what one and three anchors leave of errors, averaged over both and over sources."""
    return float(np.mean([np.nanmean([error_left(rows, spreads, anchors) for rows in sources]) for anchors in (1, 3)]))


if __name__ == "__main__":
    main()
