"""The command that makes the shipped constants again: the same tables give the same entries."""

import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from sightline.calibration.__main__ import main
from sightline.calibration.manifest import manifest, paths, samples
from sightline.calibration.parts import SHIPPED, matmul, shipped_entries
from sightline.calibration.writing import plain
from sightline.catalog import names
from sightline.errors import InputError

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")
CATALOG = Path(__file__).parents[2] / "src" / "sightline" / "catalog" / "data" / "calibrations"
with_tables = pytest.mark.skipif(
    not (DATA / "aiconfigurator").is_dir(), reason=f"no public tables in {DATA}; SIGHTLINE_DATA names their folder"
)
SLOW = ("matmul", "attention", "prefill_attention", "decode_attention", "elementwise", "collectives")


def test_files_that_are_there_stay(tmp_path, capsys):
    (tmp_path / "h20").mkdir()
    (tmp_path / "h20" / "grouped.yaml").write_text("mine")
    assert main(["grouped", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert (tmp_path / "h20" / "grouped.yaml").read_text() == "mine"
    assert "--overwrite" in capsys.readouterr().err


def test_all_is_every_part_that_is_shipped_but_of_frameworks_and_processors():
    # A processor's constants are remade by `calibrate --measure`, not from tables.
    shipped = {path.stem for path in CATALOG.glob("*/*.yaml")}
    assert set(SHIPPED) == shipped - {"generation", "processor", "sites", "training"}


@pytest.mark.parametrize("part", SHIPPED)
def test_a_manifest_names_families_that_are_shipped(part):
    assert {f"{family}/{part}" for family in (*manifest(part)["families"], "generic")} <= set(names("calibrations"))


@pytest.mark.parametrize("part", SHIPPED)
def test_a_folder_without_the_tables_is_named(part, tmp_path):
    with pytest.raises(InputError, match=r"\.csv is not in"):
        shipped_entries(part, tmp_path)


@with_tables
@pytest.mark.parametrize("part", [pytest.param(p, marks=pytest.mark.slow if p in SLOW else ()) for p in SHIPPED])
def test_the_shipped_constants_are_what_the_tables_give(part):
    for family, entry in shipped_entries(part, DATA).items():
        shipped = yaml.safe_load((CATALOG / family / f"{part}.yaml").read_text())
        remade = plain(entry)
        if part == "matmul":
            # Many constants fit the tables equally well, and which of them the optimizer reaches depends on how the
            # processor rounds. How well they fit does not: errors agree to a percentage point.
            for ours, theirs in zip(remade["kernels"].values(), shipped["kernels"].values(), strict=True):
                for kernel in (ours, theirs):
                    del kernel["constants"]
                    kernel.get("surface", {}).pop("steps", None)
                for errors in ("residuals", "surface_residuals"):
                    pair = ours.pop(errors, {}), theirs.pop(errors, {})
                    assert differing(*pair, tolerance=0.01) == [], (family, errors)
        assert differing(remade, shipped) == [], family


@with_tables
@pytest.mark.slow
def test_the_shipped_constants_of_products_have_the_errors_that_are_shipped(monkeypatch):
    judged = {}
    fit = matmul.fit_matmul

    def judge(table, device, given, kernel):
        family = next(name for name in names("calibrations") if name.endswith("/matmul") and has(name, device))
        shipped = yaml.safe_load((CATALOG / f"{family}.yaml").read_text())["kernels"][kernel]
        # Given every constant, the fit only judges them.
        judged[family, kernel] = fit(table, device, {**given, **shipped["constants"]}, kernel), shipped
        return judged[family, kernel][0]

    def has(name, device):
        return device.name.startswith(f"{name.removesuffix('/matmul')}-")

    monkeypatch.setattr(matmul, "fit_matmul", judge)
    shipped_entries("matmul", DATA)
    assert len(judged) > 10
    for place, (result, shipped) in judged.items():
        assert differing(plain(dict(result.residuals)), shipped["residuals"], tolerance=1e-3) == [], place


def differing(one, other, place="", *, tolerance=1e-15):
    """Return the places where two entries differ: numbers by more than 1 % and more than the absolute tolerance."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [p for key in one for p in differing(one[key], other[key], f"{place}/{key}", tolerance=tolerance)]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [p for i, (a, b) in pairs for p in differing(a, b, f"{place}[{i}]", tolerance=tolerance)]
    numbers = isinstance(one, float | int) and isinstance(other, float | int)
    return [] if (np.isclose(one, other, rtol=1e-2, atol=tolerance) if numbers else one == other) else [place]


@with_tables
def test_rerunning_writes_the_same_bytes(tmp_path):
    assert main(["sparse", "--data", str(DATA), "--out", str(tmp_path)]) == 0
    for path in tmp_path.glob("*/*.yaml"):
        assert path.read_text() == (CATALOG / path.relative_to(tmp_path)).read_text(), path


def test_tables_are_named_by_patterns_and_kept_by_their_columns(tmp_path):
    for name, m in (("a_one.csv", 16), ("a_two.csv", 32), ("b.csv", 64)):
        (tmp_path / name).write_text(f"m,n,k,latency_us,layer\n{m},8,8,1,up_x\n{m},8,8,2,down\n")
    assert [p.name for p in paths(tmp_path, {"files": ["a_*.csv"], "without": "*two.csv"})] == ["a_one.csv"]
    rows = samples(tmp_path, "matmul", {"files": ["a_*.csv"], "where": {"layer": "up_*"}})
    assert rows.select("m", "seconds").rows() == [(16, 1e-6), (32, 1e-6)]
    stated = {"files": ["b.csv"], "state": {"dtype": {"column": "layer", "up_x": "fp8", "down": "bf16"}}}
    assert samples(tmp_path, "matmul", stated)["kernel"].to_list() == ["fp8", "16-bit"]
    kept = samples(tmp_path, "matmul", stated | {"only": {"kernel": ["16-bit"]}})
    assert kept["seconds"].to_list() == [2e-6]
