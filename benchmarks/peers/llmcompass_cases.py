"""Print LLMCompass's measured A100 matmuls as cases, with Sightline's predictions: ``llmcompass_cases.py LLMCompass``.

Sightline's A100 constants of matmuls are fitted to other tables, so none of these rows is among what it learned from.
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sightline as sl

TABLE = Path("ae") / "figure5" / "ab" / "real_hardware" / "matmul_A100.csv"


def main(root: str) -> None:
    """Print the document."""
    suite = {"suite": "llmcompass-matmul-a100", "split": "test", "answers": list(answers(Path(root) / TABLE))}
    print(json.dumps({"suites": [suite]}, indent=1))


def answers(table: Path) -> Iterator[dict[str, Any]]:
    """Yield each line as a scenario with both times; its columns are m, k, n, milliseconds, TFLOP/s."""
    with table.open(encoding="utf-8", newline="") as lines:
        for m, k, n, milliseconds, _ in csv.reader(lines, skipinitialspace=True):
            scenario = {
                "cluster": "1x a100-sxm-80gb",
                "workload": {
                    "task": "operator",
                    "operator": "matmul",
                    "m": int(m),
                    "n": int(n),
                    "k": int(k),
                    "dtype": "fp16",
                },
            }
            asked: Any = sl.load(scenario)
            predicted = float(sl.predict(asked).time_s)
            yield {
                "scenario": scenario,
                "measured": float(milliseconds.removesuffix("ms")) / 1e3,
                "predicted": predicted,
            }


if __name__ == "__main__":
    main(sys.argv[1])
