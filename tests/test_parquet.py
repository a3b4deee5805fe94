"""Parquet at which Polars panics, or would end the process, is refused by each reader."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
from parquet_files import FAR_TOO_DEEP, nested, without_rows
from serving_scenarios import serving

from sightline.anchors.corrected import anchored
from sightline.calibration.readers.raw_table import open_table
from sightline.errors import InputError
from sightline.loading import to_mapping
from sightline.loading.traces import open_trace
from sightline.parquet import MOST_LEVELS, refuse_deep_file


def anchor_of_log(path: Path) -> object:
    return anchored({**to_mapping(serving()), "measured": {"requests": str(path)}, "name": "log"})


READERS = (open_trace, open_table, anchor_of_log)


@pytest.mark.parametrize("reader", READERS)
def test_a_column_that_is_nested_too_deep_is_refused(tmp_path: Path, reader: Callable[[Path], Any]) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(nested(FAR_TOO_DEEP))
    with pytest.raises(InputError) as refused:
        reader(path)
    (said,) = refused.value.problems
    assert said.endswith(f"'{path}' has a column nested {FAR_TOO_DEEP} levels deep; allowed: {MOST_LEVELS}")


@pytest.mark.parametrize("reader", READERS)
def test_a_file_whose_rows_are_lost_is_refused(tmp_path: Path, reader: Callable[[Path], Any]) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(without_rows())
    with pytest.raises(InputError, match=r"cannot (be )?read|is not valid") as refused:
        reader(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("cell", [[5], {"tokens": 5}])
def test_a_log_with_a_nested_column_of_numbers_is_refused(tmp_path: Path, cell: object) -> None:
    path = tmp_path / "log.parquet"
    row = {"arrival_s": 1.0, "prompt_tokens": cell, "output_tokens": 5, "first_token_s": 2.0, "last_token_s": 3.0}
    polars.DataFrame([row]).write_parquet(path)
    with pytest.raises(InputError, match=r"prompt_tokens is .*; allowed: a whole number of tokens"):
        anchor_of_log(path)


def test_levels_are_counted_as_polars_writes_them(tmp_path: Path) -> None:
    path, column = tmp_path / "table.parquet", polars.Series("chain", [None], polars.Int64)
    for _ in range(MOST_LEVELS // 2):
        column = polars.Series("chain", [None], polars.List(column.dtype))
    table = polars.DataFrame({"a": [1], "chain": column, "b": ["x"], "day": polars.Series([None], dtype=polars.Date)})
    table.write_parquet(path)
    refuse_deep_file(path)
    polars.DataFrame({"a": [1], "chain": polars.Series([None], dtype=polars.List(column.dtype))}).write_parquet(path)
    with pytest.raises(InputError, match=f"nested {MOST_LEVELS + 2} levels deep"):
        refuse_deep_file(path)


@pytest.mark.parametrize("levels", [1, MOST_LEVELS])
def test_what_is_nested_less_is_read(tmp_path: Path, levels: int) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(nested(levels))
    refuse_deep_file(path)
    assert polars.read_parquet(path).height == 0


@pytest.mark.parametrize("lost", range(1, 40, 3))
def test_a_footer_that_is_cut_is_left_to_the_reader(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(nested(3)[:-lost])
    with pytest.raises(InputError, match="cannot read"):
        open_table(path)
