"""Stores that behave alike, wherever they lie."""

import uuid

import pytest

from sightline.runs import open_store


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "runs"))


@pytest.fixture(params=["folder", "memory"])
def any_store(request, tmp_path):
    """A local folder, and an object store that fsspec keeps in memory."""
    if request.param == "folder":
        return open_store(str(tmp_path / "runs"))
    pytest.importorskip("fsspec")
    return open_store(f"memory://{uuid.uuid4().hex}/runs")
