"""How well measured operators repeat: ``python benchmarks/bench_repeatability.py``, on an idle machine.

Every so many-th operator of the standard suite is measured twice, as ``calibrate --measure`` measures it, each time with
processes of its own. What counts is how far the two medians of an operator are apart; the goal is asserted.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from sightline.measurement.operators.operator_suite import measure_suite, standard_suite
from sightline.runs import open_store

GOAL = 0.03
"""Median difference between the two times of an operator, over their mean."""


def main() -> int:
    """Print differences by kind of operator; the exit status is 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--every", type=int, default=12, help="of so many operators of the suite, one is measured")
    arguments = parser.parse_args()
    first, second = (_times(arguments.every) for _ in range(2))
    by_kind: dict[str, list[float]] = defaultdict(list)
    for asked, seconds in first.items():
        again = second.get(asked, seconds)
        by_kind[asked[0]].append(2 * abs(seconds - again) / (seconds + again))
    every = [difference for kind in by_kind.values() for difference in kind]
    found = {kind: _statistics(differences) for kind, differences in {**by_kind, "all": every}.items()}
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        for kind, figures in found.items():
            numbers = f"median {figures['median']:6.2%}  p90 {figures['p90']:6.2%}  largest {figures['largest']:6.2%}"
            print(f"{kind:16} {figures['operators']:4.0f} operators  {numbers}")
    return int(found["all"]["median"] > GOAL)


def _times(every: int) -> Mapping[tuple[str, int], float]:
    """Seconds by operator and place in the suite."""
    suite = standard_suite("fp32", quick=True)[::every]
    with tempfile.TemporaryDirectory() as folder:
        measured, _ = measure_suite("standard", suite, open_store(folder), quick=False, brief=False)
    profiles = [m.profile for m in measured if m.profile is not None]
    return {(p.scenario.workload.operator, number): float(p.time_s) for number, p in enumerate(profiles)}


def _statistics(differences: list[Any]) -> dict[str, float]:
    quantiles = np.quantile(differences, [0.5, 0.9, 1.0])
    return {
        "operators": float(len(differences)),
        **dict(zip(("median", "p90", "largest"), map(float, quantiles), strict=True)),
    }


if __name__ == "__main__":
    raise SystemExit(main())
