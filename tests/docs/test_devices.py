"""The page of calibrated devices and its tables say what the calibration files say, and its pictures stay small."""

import csv
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "devices"
NOW = "run scripts/update_devices.py"


@pytest.fixture(scope="module")
def script():
    """The script that writes the page."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("update_devices")
    sys.path.remove(str(ROOT / "scripts"))


def test_the_tables_are_as_the_files_are(script):
    written = script.tables()
    assert [name for name in written if (DOCS / name).read_text(encoding="utf-8") != written[name]] == [], NOW


def test_the_page_is_as_the_files_are(script):
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    assert script.family_table() in page, NOW
    assert script.pictures() in page, NOW


def test_every_family_is_in_every_table(script):
    for name in ("sources.csv", "constants.csv"):
        rows = csv.DictReader((DOCS / name).read_text(encoding="utf-8").splitlines())
        assert {row["family"] for row in rows} == set(script.families()), name


@pytest.mark.usefixtures("script")
def test_constants_that_were_not_measured_are_in_no_table():
    import device_pages

    measured = {
        "constants": {"latency_s": 2e-6},
        "residuals": {"all": {"rows": 9, "median": 0.02, "p90": 0.1, "bias": 0}},
    }
    kernels = {"16-bit": measured, "fp8": {"of": "h800-sxm", "constants": {"latency_s": 9e-6}}}
    entry = {"source": "a table", "date": "2026-11", "kernels": kernels}
    assert list(device_pages.errors("a", "matmul", entry)) == [("a", "matmul", "16-bit all", 9, 0.02, 0.1, 0)]
    assert list(device_pages.constants("a", "matmul", entry)) == [("a", "matmul", "16-bit", "latency_s", "2e-06")]


def test_pictures_are_small():
    heavy = [p.name for p in (DOCS / "images").glob("*.svg") if p.stat().st_size > 150_000]
    assert heavy == []
