"""Fits of recurrent mixers and sparse attention: they rewrite what is shipped, and say where tables are missing."""

import os
from pathlib import Path

import pytest

from sightline.calibration.linear_attention_entries import linear_entries
from sightline.calibration.sparse_attention_entries import sparse_entries
from sightline.catalog import entry
from sightline.errors import InputError

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")
with_tables = pytest.mark.skipif(
    not (DATA / "infersim").is_dir(), reason=f"no public tables in {DATA}; SIGHTLINE_DATA names their folder"
)


@pytest.mark.parametrize("entries", [linear_entries, sparse_entries])
def test_a_folder_without_the_tables_is_named(entries, tmp_path):
    with pytest.raises(InputError, match=r"\.csv is not in"):
        entries(tmp_path)


@with_tables
def test_the_shipped_constants_of_linear_attention_are_what_the_tables_give():
    for family, content in linear_entries(DATA).items():
        shipped = entry("calibrations", f"{family}/linear")["mixers"]
        for mixer, constants in content["mixers"].items():
            for name in ("update_fraction", "step_s", "peak_fraction", "conv_fraction"):
                assert constants[name] == pytest.approx(shipped[mixer][name], rel=0.03)
    assert linear_entries(DATA)["h20"]["mixers"]["gated-delta"]["residuals"]["large batches left out"]["median"] < 0.05


@with_tables
def test_the_shipped_constants_of_sparse_attention_are_what_the_tables_give():
    remade = sparse_entries(DATA)
    for family, content in remade.items():
        assert content["constants"] == pytest.approx(entry("calibrations", f"{family}/sparse")["constants"], rel=0.03)
    assert all(r["median"] < 0.08 for r in remade["h800-sxm"]["residuals"].values())
