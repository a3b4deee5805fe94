"""Parquet files that no reader takes: with columns nested deep, and without the rows that they speak of."""

import io
import sys
from pathlib import Path

import polars

__all__ = ["FAR_TOO_DEEP", "nested", "without_rows"]

SCRIPTS = Path(__file__).parents[1] / "scripts"
sys.path.insert(0, str(SCRIPTS))
from fuzzing.raw import nested  # noqa: E402 - found by the path before it

sys.path.remove(str(SCRIPTS))

FAR_TOO_DEEP = 100_000
"""Levels of which no library makes a file."""


def without_rows() -> bytes:
    """A file whose rows are lost and whose footer is whole, at which Polars panics."""
    file = io.BytesIO()
    polars.DataFrame({"n": range(9_999)}).write_parquet(file)
    content = file.getvalue()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    return content[:4] + content[-footer:]
