"""Ask every scenario of a folder of published measurements, and print its errors beside the stored baseline.

    python scripts/published_baseline.py DIR [--store | --today]

The folder holds scenarios with measured.* keys as CSV and YAML. Nothing of it was fitted when the baseline was stored
in docs/accuracy/baseline.json, by source and quantity; --store replaces it, --today keeps the errors of today beside it
(docs/accuracy/published.json), and both write its table in docs/accuracy.md.
"""

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accuracy_page import DOCS, FIGURES, baseline_table, percent
from generated import replace_part

from sightline.cli.progress_bar import progress_bar
from sightline.loading.checks import with_value
from sightline.loading.loader import by_reason
from sightline.loading.sources import read_source
from sightline.progress import Progress
from sightline.quantities import significant
from sightline.validation.cases import Result, publisher
from sightline.validation.evaluation import MeasuredFiles, evaluate, predict_any

STORED = FIGURES / "baseline.json"
TODAY = FIGURES / "published.json"
VARIANTS: Sequence[tuple[str, str, str]] = (
    # What a source does not say, and what else a user may take it to be; the second is what ran it.
    ("aleph-alpha-13b-65b.csv", "plan.tensor_overlap", "backward"),
    ("aleph-alpha-13b-65b.csv", "plan.framework", "scaling"),
    ("aleph-alpha-13b-65b-out-of-memory.csv", "plan.framework", "scaling"),
)
SHOWN = ("mape", "median_ape", "bias", "coverage", "half_width")
Row = dict[str, Any]


def main() -> None:
    """Print the errors of today, and store them if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DIR", help="folder with the measurements")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--store", action="store_const", const=STORED, dest="path", help="store them as the baseline")
    kept.add_argument("--today", action="store_const", const=TODAY, dest="path", help="store them beside the baseline")
    options = parser.parse_args()
    with progress_bar() as progress:
        found = asked(options.data, progress)
    stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {"sources": []}
    for line in compared(found["sources"], stored["sources"]):
        print(line)
    for of in found["out_of_memory"]:
        print(f"{_name(of)}: {of['plans']} ran out of memory, {of['surely']} said to fit, {of['tight']} tight")
    if options.path is not None:
        options.path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        replace_part(DOCS / "accuracy.md", "baseline", baseline_table())


def asked(folder: Path, progress: Progress) -> dict[str, Any]:
    """Return the errors by source and quantity, and how many of the plans that ran out of memory are said to fit."""
    measured, failed = files_of(folder)
    rows = [row for source in (measured, *variants(measured[0])) for row in _rows(*source, progress)]
    return {
        "asked": datetime.now(UTC).date().isoformat(),
        "sources": rows,
        "out_of_memory": [
            _out_of_memory(path.stem, *source, progress)
            for path in failed
            for source in (([path], ""), *variants([path]))
        ],
    }


def files_of(folder: Path) -> tuple[tuple[list[Any], str], list[Path]]:
    """Return the files of scenarios with measured figures, and those of plans of which only the source is stated."""
    tables = {path: _header(path) for path in sorted(folder.rglob("*.csv"))}
    figures = {
        path: [key for key in header if key.startswith("measured.") and key != "measured.source"]
        for path, header in tables.items()
        if "measured.source" in header
    }
    with_figures = [path for path, keys in figures.items() if keys]
    return ([*with_figures, *sorted(folder.rglob("*.yaml"))], ""), [path for path, keys in figures.items() if not keys]


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])


def variants(paths: Sequence[Path]) -> Iterator[tuple[list[Any], str]]:
    """Yield tables asked in another way, and how."""
    for name, key, value in VARIANTS:
        for path in (path for path in paths if path.name == name):
            documents = read_source(path).documents
            yield [[with_value(one.mapping, key, value) for one in documents]], f"{key} {value}"


def _rows(files: Sequence[Any], variant: str, progress: Progress) -> list[Row]:
    """The errors of files by source and quantity, with the plans that ran and are said not to fit."""
    unfit: Counter[tuple[str, str]] = Counter()

    def predict(scenario: Any) -> Any:
        profile = predict_any(scenario)
        unfit[profile.task.name, publisher(str(scenario.measured.get("source", "")))] += profile.fits is False
        return profile

    results = evaluate([MeasuredFiles.read(files, skip_invalid=True, progress=progress)], predict, progress)
    return [_row(result, variant, unfit[result.kind, result.suite]) for result in sorted(results, key=_key)]


def _key(result: Result) -> tuple[str, str, str]:
    return result.kind, result.suite, result.quantity


def _row(result: Result, variant: str, unfit: int) -> Row:
    figures = result.to_dict()
    return {
        "source": result.suite,
        "kind": result.kind,
        "quantity": result.quantity,
        "variant": variant,
        "cases": result.cases,
        "unanswered": by_reason(of.reason for of in result.answers if of.predicted is None),
        "said_not_to_fit": unfit,
        **{key: None if figures[key] is None else significant(figures[key], 4) for key in SHOWN},
    }


def _out_of_memory(name: str, files: Sequence[Any], variant: str, progress: Progress) -> Row:
    """How many of the plans of a file, all of which ran out of memory, are said to fit, surely or at all."""
    from sightline.loading import read_all
    from sightline.prediction import predict

    loaded = read_all(files, skip_invalid=True)
    profiles = loaded.answered_by(predict, progress, "predicting", skip_invalid=True)
    fit = Counter(of.fit for of in profiles)
    return {
        "file": name,
        "variant": variant,
        "plans": len(profiles),
        "said_to_fit": sum(bool(of.fits) for of in profiles),
        "surely": fit["yes"],
        "tight": fit["tight"],
        "unanswered": by_reason(reason for _, reason in loaded.skipped),
    }


def compared(rows: Sequence[Row], stored: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each source and quantity: the errors of today, and the mean error of the baseline."""
    before = {_name(row): row["mape"] for row in stored}
    for row in rows:
        cases = f"{row['cases'] - sum(row['unanswered'].values())} of {row['cases']}"
        errors = (
            f"error {percent(row['mape'])}, bias {percent(row['bias'], signed=True)}, inside {percent(row['coverage'])}"
        )
        yield f"{_name(row)}: {cases}, {errors}, half-width {percent(row['half_width'])}; baseline {percent(before.get(_name(row)))}"


def _name(row: Row) -> str:
    return " ".join(filter(None, (row.get(key) for key in ("source", "file", "kind", "quantity", "variant"))))


if __name__ == "__main__":
    main()
