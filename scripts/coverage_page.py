"""Write docs/coverage.md and the data tables in docs/coverage from the answers of `sightline validate --coverage`.

    python scripts/coverage_page.py

Every cell is what a prediction says, and nobody types one by hand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from generated import csv_text, markdown_table, replace_part

from sightline.answers.validation import MEANINGS, NAMES
from sightline.validation.coverage import Cell, Status, coverage

DOCS = Path(__file__).parents[1] / "docs"
PAGE, TABLES = DOCS / "coverage.md", DOCS / "coverage"
STATUSES: Sequence[Status] = ("calibrated", "extrapolated", "datasheet-only", "unsupported")
"""The best known first."""
HALF = ("bf16", "fp16")
"""16-bit types of which a device has one or both."""
COLUMNS: Mapping[str, tuple[str, Sequence[str]]] = {
    "matmul 16-bit": ("matmul", HALF),
    "matmul fp8": ("matmul", ["fp8"]),
    "matmul fp8 by blocks": ("matmul", ["fp8-block"]),
    "matmul int8": ("matmul", ["int8"]),
    "matmul nvfp4": ("matmul", ["nvfp4"]),
    "matmul 4-bit weights": ("matmul", ["w4a16"]),
    "experts 16-bit": ("experts of prompts", HALF),
    "experts fp8 by blocks, prompts": ("experts of prompts", ["fp8-block"]),
    "experts fp8 by blocks, decoding": ("experts of decoding", ["fp8-block"]),
    "attention of prompts": ("attention of prompts", HALF),
    "attention of decoding": ("attention of decoding", HALF),
    "attention of decoding, fp8 cache": ("attention of decoding", [f"{half}+kv-fp8" for half in HALF]),
    "latent attention of decoding": ("latent attention of decoding", HALF),
    "norm": ("norm", HALF),
    "optimizer": ("adam", HALF),
    "all-reduce": ("all_reduce", [""]),
    "all-to-all": ("all_to_all", [""]),
    "host copy": ("copy host-to-device", HALF),
}
"""Of the table of devices: an operator, and its formats of which the best known counts."""

CHOOSERS = {"techniques": "framework", "features": "engine"}
"""Tables of choices, and what makes the choice."""


def main() -> None:
    """Ask for everything and write the page's parts and the tables."""
    cells = coverage()
    replace_part(PAGE, "meanings", meanings())
    replace_part(PAGE, "counts", counts(cells))
    replace_part(PAGE, "devices", devices(cells))
    replace_part(PAGE, "choices", choices(cells))
    TABLES.mkdir(exist_ok=True)
    for name, text in tables(cells).items():
        (TABLES / name).write_text(text, encoding="utf-8")


def meanings() -> str:
    """Return what each status means."""
    return markdown_table(["status", "meaning"], [[status, MEANINGS[status]] for status in STATUSES])


def counts(cells: Sequence[Cell]) -> str:
    """Return how many cells of each table there are of each status."""
    rows = []
    for table, (title, *_) in NAMES.items():
        statuses = [cell.status for cell in cells if cell.table == table]
        rows.append([title, *(f"{statuses.count(status):,}" for status in STATUSES)])
    return markdown_table(["", *STATUSES], rows)


def devices(cells: Iterable[Cell]) -> str:
    """Return for each operator the devices on which it is calibrated, and how many others have each status."""
    by_device = _by_device(cells)
    rows = []
    for place, column in enumerate(COLUMNS):
        statuses = {name: device_row(name, own)[1 + place] for name, own in by_device.items()}
        calibrated = [f"`{name}`" for name, status in statuses.items() if status == "calibrated"]
        others = [str(list(statuses.values()).count(status)) for status in STATUSES[1:]]
        rows.append([column, ", ".join(calibrated) or "-", *others])
    return markdown_table(["operator", *STATUSES], rows)


def choices(cells: Sequence[Cell]) -> str:
    """Return how many techniques or features of each framework or engine have each status."""
    statuses: dict[tuple[str, str], list[Status]] = {}
    for cell in cells:
        if cell.table in CHOOSERS:
            statuses.setdefault((CHOOSERS[cell.table], f"`{cell.of}`"), []).append(cell.status)
    rows = [[*of, *(str(own.count(status)) for status in STATUSES)] for of, own in statuses.items()]
    return markdown_table(["", "name", *STATUSES], rows)


def tables(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the text of each data table, by file name."""
    by_device = _by_device(cells)
    return {
        "devices.csv": csv_text(["device", *COLUMNS], (device_row(name, own) for name, own in by_device.items())),
        "frameworks.csv": csv_text(
            ["framework", "technique", "status", "published_cases"], choice_rows(cells, "techniques")
        ),
        "engines.csv": csv_text(["engine", "feature", "status", "published_cases"], choice_rows(cells, "features")),
    }


def _by_device(cells: Iterable[Cell]) -> Mapping[str, Sequence[Cell]]:
    by_device: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.table == "operators":
            by_device.setdefault(cell.of, []).append(cell)
    return by_device


def device_row(name: str, cells: Iterable[Cell]) -> list[str]:
    """Return a device and its status in each column."""
    statuses = {(cell.what, cell.dtype): cell.status for cell in cells}
    best: Callable[[tuple[str, Sequence[str]]], Status] = lambda column: min(  # noqa: E731 - used in one place
        (statuses[column[0], dtype] for dtype in column[1] if (column[0], dtype) in statuses), key=STATUSES.index
    )
    return [name, *(best(column) for column in COLUMNS.values())]


def choice_rows(cells: Iterable[Cell], table: str) -> list[list[str]]:
    """Return a line for each technique or feature of a table: its status and its published cases."""
    return [
        [cell.of, cell.what, cell.status, str(cell.published.cases if cell.published is not None else 0)]
        for cell in cells
        if cell.table == table
    ]


if __name__ == "__main__":
    main()
