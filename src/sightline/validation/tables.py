"""Rows of a suite: those the catalog restates, or those of the source's table in a data folder when it holds more."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from sightline.catalog import entry, names
from sightline.errors import InputError
from sightline.validation.adapters import LINES, READERS
from sightline.validation.cells import lines_of, row_of_cells
from sightline.validation.rows import LeftOutError, Row, case_of
from sightline.validation.suite import Case, Kind, Suite

KINDS: Mapping[str, Kind] = {"pretrain": "training", "finetune": "training", "generate": "generation"}


def suites(
    data: Path | str | None = None, chosen: Collection[str] | None = None, *, locked: bool = False
) -> tuple[Suite, ...]:
    """Return the suites with cases: those of the catalog, and those read from the ``data`` folder when it is given.

    ``chosen`` names the ones to read; None reads all. Those ``locked`` as test are never among the others.
    """
    folder = None if data is None else Path(data)
    if folder is not None and not folder.is_dir():
        raise InputError(f"the data folder '{folder}' is not a folder")
    wanted = [name for name in names("published") if (chosen is None or name in chosen) and is_locked(name) == locked]
    found = [_suite(name, folder) for name in wanted]
    kinds = get_args(Kind)
    return tuple(sorted((suite for suite in found if suite.cases), key=lambda suite: kinds.index(suite.kind)))


def is_locked(name: str) -> bool:
    """Say whether a published suite is locked as test."""
    return bool(entry("published", name).get("locked", False))


def _suite(name: str, folder: Path | None) -> Suite:
    """Return the suite from the catalog's rows, or from the data folder's table when more of its rows are usable."""
    stated = entry("published", name)
    cases, left_out = _cases(_restated(stated), stated)
    if folder is not None and "csv" in stated:
        read, not_read = _cases(_from_folder(stated["csv"], folder), stated)
        if len(read) > len(cases):
            cases, left_out = read, not_read
    return Suite(
        name=name,
        kind=KINDS[stated["scenario"]["workload"]["task"]],
        quantity=stated["quantity"],
        source=stated["source"],
        decisions=tuple(stated["decisions"]),
        cases=tuple(_averaged(cases) if stated.get("average") else cases),
        left_out=left_out,
        site=stated.get("site", name),
        goal=stated.get("goal", ""),
        locked=is_locked(name),
    )


def _cases(rows: Iterable[Row | LeftOutError], suite: Mapping[str, Any]) -> tuple[list[Case], Counter[str]]:
    """Return the usable rows as cases, and how many were not, by reason."""
    cases: list[Case] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        try:
            if isinstance(row, LeftOutError):
                raise row
            cases.append(case_of(row, suite))
        except LeftOutError as reason:
            left_out[str(reason)] += 1
    return cases, left_out


def _averaged(cases: Iterable[Case]) -> list[Case]:
    """Return one case for all that ask the same question, with the mean of what was measured."""
    asked: dict[str, list[Case]] = {}
    for case in cases:
        asked.setdefault(json.dumps([case.scenario, case.stage], sort_keys=True), []).append(case)
    return [replace(same[0], measured=fmean(case.measured for case in same)) for same in asked.values()]


def _restated(suite: Mapping[str, Any]) -> Iterator[Row]:
    for values in suite.get("rows", ()):
        yield dict(zip(suite["columns"], values, strict=True))


def _from_folder(spec: Mapping[str, Any], folder: Path) -> Iterator[Row | LeftOutError]:
    read = READERS[spec["reader"]] if "reader" in spec else row_of_cells
    for path in sorted(folder.glob(spec["files"])):
        for line in lines_of(path):
            for cells in LINES[spec["lines"]](line) if "lines" in spec else (line,):
                try:
                    yield read(cells, spec, line.place)
                except LeftOutError as reason:
                    yield reason
                except (ValueError, ArithmeticError) as error:
                    raise InputError(f"{line.place} cannot be read: {str(error)[:200]}") from None
