"""Write docs/coverage.md from the answers of `sightline validate --coverage`.

    python scripts/coverage_page.py

Every cell of the page is what a prediction says, and nobody types one by hand.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from generated import markdown_table, replace_part

from sightline.report.coverage import MEANINGS, NAMES
from sightline.validation.coverage import Cell, Status, coverage

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
MARKS: Mapping[Status, str] = {"calibrated": "**C**", "extrapolated": "E", "datasheet-only": "D", "unsupported": "-"}
HALF = ("bf16", "fp16")
"""16-bit types of which a device has one or both."""
COLUMNS: Mapping[str, tuple[str, Sequence[str]]] = {
    "matmul 16-bit": ("matmul", HALF),
    "fp8": ("matmul", ["fp8"]),
    "fp8 by blocks": ("matmul", ["fp8-block"]),
    "int8": ("matmul", ["int8"]),
    "nvfp4": ("matmul", ["nvfp4"]),
    "4-bit weights": ("matmul", ["w4a16"]),
    "experts 16-bit": ("experts of prompts", HALF),
    "fp8 by blocks, prompts": ("experts of prompts", ["fp8-block"]),
    "fp8 by blocks, decoding": ("experts of decoding", ["fp8-block"]),
    "attention of prompts": ("attention of prompts", HALF),
    "of decoding": ("attention of decoding", HALF),
    "cache in fp8": ("attention of decoding", [f"{half}+kv-fp8" for half in HALF]),
    "latent": ("latent attention of decoding", HALF),
    "norm": ("norm", HALF),
    "optimizer": ("adam", HALF),
    "all-reduce": ("all_reduce", [""]),
    "all-to-all": ("all_to_all", [""]),
    "host copy": ("copy host-to-device", HALF),
}
"""Of the table of devices: an operator, and its formats of which the best known counts."""


def main() -> None:
    """Ask for everything and write the page's parts."""
    cells = coverage()
    replace_part(PAGE, "meanings", meanings())
    replace_part(PAGE, "counts", counts(cells))
    replace_part(PAGE, "devices", devices(cell for cell in cells if cell.table == "operators"))
    replace_part(PAGE, "frameworks", choices([cell for cell in cells if cell.table == "techniques"]))
    replace_part(PAGE, "engines", choices([cell for cell in cells if cell.table == "features"]))


def meanings() -> str:
    """Return what each mark means."""
    return markdown_table(["", "", ""], [[MARKS[status], status, MEANINGS[status]] for status in MARKS])


def counts(cells: Sequence[Cell]) -> str:
    """Return how many cells of each table there are of each status."""
    rows = []
    for table, (title, *_) in NAMES.items():
        found = [cell.status for cell in cells if cell.table == table]
        rows.append([title, *(f"{found.count(status):,}" for status in MARKS)])
    return markdown_table(["", *MARKS], rows)


def devices(cells: Iterable[Cell]) -> str:
    """Return the table of devices: a mark for each operator and format that has a column."""
    by_name: dict[str, list[Cell]] = {}
    for cell in cells:
        by_name.setdefault(cell.of, []).append(cell)
    return markdown_table(["device", *COLUMNS], [device_row(name, own) for name, own in by_name.items()])


def device_row(name: str, cells: Iterable[Cell]) -> list[str]:
    """Return the line of one device."""
    of = {(cell.what, cell.dtype): cell.status for cell in cells}
    best: Callable[[tuple[str, Sequence[str]]], Status] = lambda column: min(  # noqa: E731 - used in one place
        (of[column[0], dtype] for dtype in column[1] if (column[0], dtype) in of), key=list(MARKS).index
    )
    return [name, *(MARKS[best(column)] for column in COLUMNS.values())]


def choices(cells: Sequence[Cell]) -> str:
    """Return a table with a line for each technique or feature and a column for each framework or engine."""
    names = list(dict.fromkeys(cell.of for cell in cells))
    _, _, what = NAMES[cells[0].table]
    lines: dict[str, dict[str, str]] = {}
    for cell in cells:
        lines.setdefault(cell.what, {})[cell.of] = choice_cell(cell)
    return markdown_table([what, *names], [[line, *(of[name] for name in names)] for line, of in lines.items()])


def choice_cell(cell: Cell) -> str:
    """Return the mark of a technique or feature, and its published cases."""
    cases = cell.published.cases if cell.published is not None and cell.status != "unsupported" else 0
    return f"{MARKS[cell.status]} {cases:,}" if cases else MARKS[cell.status]


if __name__ == "__main__":
    main()
