"""Print the processor time that Sightline takes for the cases of a document: ``sightline_speed.py cases.json``.

It predicts what `sightline predict` prints, intervals included, from a scenario that is read anew each time.
"""

import sys
import time
from statistics import median
from typing import Any

from comparison import cases_of, keep

import sightline as sl


def main(cases: str) -> None:
    """Predict every case once, and print the time of the first, which loads what it needs, and the median of the others."""
    first, *others = [processor_s(case["scenario"]) for case in cases_of(cases)]
    print(f"Sightline: processor time {1e3 * first:.1f} ms the first, median {1e3 * median(others):.2f} ms")
    keep("Sightline", cases, {"first": first, "median": median(others)})


def processor_s(scenario: dict[str, Any]) -> float:
    """Return the processor time of reading and predicting a scenario."""
    begun = time.process_time()
    asked: Any = sl.load(scenario)
    profile = sl.predict(asked)
    _ = profile.interval, profile.memory_bytes
    return time.process_time() - begun


if __name__ == "__main__":
    main(sys.argv[1])
