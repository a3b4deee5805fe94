"""The command that makes the shipped constants again."""

import os
from pathlib import Path

import pytest

from sightline.calibration.__main__ import PARTS, main

DATA = Path(os.environ.get("SIGHTLINE_DATA", Path(__file__).parents[3] / "shared" / "data"))
SHIPPED = Path(__file__).parents[2] / "src" / "sightline" / "catalog" / "data" / "calibrations"


def test_files_that_are_there_stay(tmp_path, capsys):
    (tmp_path / "h20").mkdir()
    (tmp_path / "h20" / "grouped.yaml").write_text("mine")
    assert main(["grouped", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert (tmp_path / "h20" / "grouped.yaml").read_text() == "mine"
    assert "grouped_gemm_decode_h20_data.csv" in capsys.readouterr().err


def test_all_is_every_part_that_is_shipped_but_of_frameworks_and_processors():
    # A processor's constants are remade by `calibrate --measure`, not from tables.
    shipped = {path.stem for path in SHIPPED.glob("*/*.yaml")}
    assert set(PARTS) == shipped - {"training", "processor"}


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the public tables")
@pytest.mark.parametrize("part", ["linear", "sparse"])
def test_the_same_tables_give_the_same_bytes(tmp_path, part):
    assert main([part, "--data", str(DATA), "--out", str(tmp_path)]) == 0
    remade = sorted(tmp_path.glob("*/*.yaml"))
    assert remade
    for path in remade:
        assert path.read_text() == (SHIPPED / path.relative_to(tmp_path)).read_text(), path
