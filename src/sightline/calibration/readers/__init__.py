"""One reader per format of measured tables: a file becomes rows of samples in one vocabulary and in SI units."""

from sightline.calibration.readers import simulators, tables_of_kernels
from sightline.calibration.readers.raw_table import FORMATS, Format, RawTable
from sightline.errors import InputError


def formats_of(table: RawTable) -> list[Format]:
    """Return the formats that a table has, at most one per part.

    Raises `InputError` naming the nearest one's columns.
    """
    fitting: dict[str, Format] = {}
    for known in FORMATS:
        if set(known.columns) <= table.columns:
            fitting.setdefault(known.part, known)
    if not fitting:
        raise InputError(f"'{table.path}' {_nearest(table)}")
    return list(fitting.values())


def _nearest(table: RawTable) -> str:
    best = max(FORMATS, key=lambda f: len(set(f.columns) & table.columns) / len(f.columns))
    missing = [c for c in best.columns if c not in table.columns]
    if len(missing) == len(best.columns):
        return f"has no known columns; known formats: {', '.join(dict.fromkeys(f.name for f in FORMATS))}"
    return (
        f"lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; nearest format: {best.name}, which needs "
        f"{', '.join(best.columns)}"
    )
