"""What the shipped calibrations are made from: a YAML file for each part.

It says which tables are whose, which constants are given, and where those that are fitted may lie. Tables are named
by a mapping with ``files``, patterns below the data folder, of which ``without`` leaves some out. Where the files do
not say all, it has ``where`` (values of columns that rows must have: one, several or a pattern), ``state`` (columns
that the files lack: a value, or values by another ``column``), ``model`` and ``shape`` (as for ``sightline calibrate``)
and ``only`` (values of the samples' columns).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from sightline.calibration.readers import formats_of
from sightline.calibration.readers.raw_table import RawTable, open_table
from sightline.errors import InputError
from sightline.loading.clusters import read_device
from sightline.loading.models import resolve_model
from sightline.scenario import Device

Stated = Mapping[str, Any]
"""What a manifest says of one table, one family or one part."""
Read = Callable[[Stated], pl.DataFrame]
"""Samples of the tables that a manifest names."""


@lru_cache
def manifest(part: str) -> Stated:
    """What the calibrations of a part are made from."""
    stated: Stated = yaml.safe_load((files(__package__) / f"{part}.yaml").read_text(encoding="utf-8"))
    return stated


def device_of(family: str) -> Device:
    """The device of the catalog that a family was measured on."""
    return read_device(manifest("devices").get(family, family))


def samples(data: Path, part: str, tables: Stated) -> pl.DataFrame:
    """Return the samples of a part in the tables that a manifest names.

    Raises:
        InputError: a table is not there.
    """
    rows = pl.concat([_read(path, part, tables) for path in paths(data, tables)], how="diagonal_relaxed")
    for column, values in tables.get("only", {}).items():
        rows = rows.filter(_among(rows[column], values))
    return rows


def paths(data: Path, tables: Stated) -> list[Path]:
    """The files that hold the tables; raises `InputError` where one is missing."""
    found: list[Path] = []
    for name in tables["files"]:
        matching = sorted(data.glob(name))
        if not matching:
            path = data / name
            raise InputError(f"table {path.name} is not in '{path.parent}'; set --data to the folder with the tables")
        without = tables.get("without")
        found += [path for path in matching if not (without and path.match(without))]
    return found


def has_tables(data: Path, tables: Stated) -> bool:
    """Whether the data folder holds all the files."""
    return all(any(data.glob(name)) for name in tables["files"])


def _read(path: Path, part: str, tables: Stated) -> pl.DataFrame:
    table = _stated(open_table(path), tables.get("state", {}))
    for column, values in tables.get("where", {}).items():
        table = table.where(_among(table.text(column), values))
    model = resolve_model(tables["model"], Path()).model if "model" in tables else None
    table = replace(table, shape=tables.get("shape", ""), model=model)
    return next(known for known in formats_of(table) if known.part == part).read(table)


def _stated(table: RawTable, state: Stated) -> RawTable:
    """The table with the columns that its file lacks."""
    frame = table.frame
    for name, value in state.items():
        said = pl.lit(str(value))
        if isinstance(value, Mapping):
            known = {k: str(v) for k, v in value.items() if k != "column"}
            said = pl.col(value["column"]).replace_strict(known, default=None, return_dtype=pl.String)
        frame = frame.with_columns(said.alias(name))
    return replace(table, frame=frame)


def _among(column: pl.Series, values: Any) -> pl.Series:
    """Which cells match one of the values, in which ``*`` stands for anything."""
    patterns = [str(value) for value in (values if isinstance(values, list) else [values])]
    matching = [word for word in column.unique().drop_nulls() if any(fnmatch(str(word), p) for p in patterns)]
    return column.is_in(pl.Series(matching, dtype=column.dtype)).fill_null(value=False)
