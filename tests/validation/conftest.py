"""The folder with the public data sets, where there is one."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(scope="session")
def data():
    if not DATA.is_dir():
        pytest.skip(f"no public data sets in {DATA}; SIGHTLINE_DATA names their folder")
    return DATA
