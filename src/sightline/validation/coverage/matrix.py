"""The whole coverage, or the part of it that a name or a pattern asks for."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from sightline.catalog import names
from sightline.errors import InputError, nearest
from sightline.loading.clusters.cluster import read_device
from sightline.progress import SILENT, Cancelled, Progress
from sightline.validation.coverage.cell import Cell, Table
from sightline.validation.coverage.features import feature_cells
from sightline.validation.coverage.operators import operator_cells
from sightline.validation.coverage.techniques import technique_cells

KINDS: Mapping[Table, str] = {"operators": "devices", "techniques": "frameworks", "features": "engines"}
"""The catalog's kind of what each table's rows are of."""


def subjects() -> Iterator[tuple[Table, str]]:
    """Yield every table and name of it: devices, frameworks and engines; a name may be both of the latter."""
    return ((table, name) for table, kind in KINDS.items() for name in names(kind))


def coverage(chosen: str | None = None, progress: Progress = SILENT) -> list[Cell]:
    """Return the cells of the devices, frameworks and engines of a name or a pattern with ``*``; of all without one.

    If stopped, those that are done.

    Raises:
        InputError: There is none of that name.
    """
    wanted = [(table, name) for table, name in subjects() if chosen is None or fnmatchcase(name, chosen)]
    if not wanted:
        known = sorted({name for _, name in subjects()})
        allowed = "a device, framework or engine of the catalog, or a pattern with *"
        raise InputError(f"--coverage: '{chosen}' is unknown; allowed: {allowed}{nearest(chosen, known)}")
    found: list[Cell] = []
    progress.begin(len(wanted), "predicting")
    with suppress(Cancelled):
        for table, name in wanted:
            progress.check()
            found += cells_of(table, name)
            progress.advance()
    return found


def cells_of(table: Table, name: str) -> Iterator[Cell]:
    """Yield the cells of one device, framework or engine."""
    match table:
        case "operators":
            return operator_cells(read_device(name))
        case "techniques":
            return technique_cells(name)
        case "features":
            return feature_cells(name)
