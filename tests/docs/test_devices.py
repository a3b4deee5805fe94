"""The pages of calibrated devices say what the calibration files say, and their pictures stay small."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "devices"


@pytest.fixture(scope="module")
def update_devices():
    """The script that writes the pages."""
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("update_devices", ROOT / "scripts" / "update_devices.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "scripts"))


def test_every_family_has_its_page_as_the_files_are(update_devices):
    stale = [f for f in update_devices.families() if (PAGES / f"{f}.md").read_text() != update_devices.page(f)]
    assert stale == [], "run scripts/update_devices.py"
    assert (PAGES / "index.md").read_text() == update_devices.index()


@pytest.mark.usefixtures("update_devices")
def test_constants_that_were_not_measured_stand_in_no_table():
    from device_pages import part_page

    measured = {
        "constants": {"latency_s": 2e-6},
        "residuals": {"all": {"rows": 9, "median": 0.02, "p90": 0.1, "bias": 0}},
    }
    kernels = {"16-bit": measured, "fp8": {"of": "h800-sxm", "constants": {"latency_s": 9e-6}}}
    page = part_page("matmul", {"source": "a table", "date": "2026-11", "kernels": kernels})
    assert "| 16-bit all | 9 | 2.0 % | 10.0 % | +0.0 % |" in page
    assert "| 16-bit | 2 us |" in page
    assert "9 us" not in page
    assert "taken from relatives: fp8." in page


def test_pictures_are_small():
    heavy = [p.name for p in (PAGES / "images").glob("*.svg") if p.stat().st_size > 150_000]
    assert heavy == []
