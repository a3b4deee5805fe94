"""Chunks are done once, kept whole, and gone on with."""

import json
import os
import uuid

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import FAR_TOO_DEEP, nested, without_rows
from sweep_work import refuse, square

from sightline.errors import InputError, WorkError
from sightline.progress import Progress
from sightline.sweeps.chunks import run_chunks

CHUNKS = [{"n": n, "name": f"n={n}"} for n in range(5)]
SQUARES = {n: n * n for n in range(5)}

done = []
"""What `counting` has done."""


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@pytest.fixture(params=["folder", "memory"])
def place(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "sweep")
    pytest.importorskip("fsspec")
    return f"memory://{uuid.uuid4().hex}/sweep"


def counting(chunk):
    done.append(chunk["n"])
    return square(chunk)


def squares(parts):
    return {row["n"]: row["square"] for part in parts for row in part.table.to_dicts()}


@given(count=st.integers(0, 9))
def test_every_chunk_has_its_table(count):
    parts = list(run_chunks(square, [{"n": n} for n in range(count)]))
    assert [part.chunk for part in parts] == list(range(count))
    assert squares(parts) == {n: n * n for n in range(count)}


def test_a_sweep_that_was_stopped_goes_on_where_it_was(place):
    stopping = Progress(lambda state: stopping.cancel() if state.done == 2 else None, every_s=0)
    assert squares(run_chunks(counting, CHUNKS, where=place, progress=stopping)) == {0: 0, 1: 1}
    progress = Progress()
    assert squares(run_chunks(counting, CHUNKS, where=place, progress=progress)) == SQUARES
    assert done == [0, 1, 2, 3, 4]
    assert progress.state.done == progress.state.total == 5
    assert squares(run_chunks(counting, CHUNKS, where=place)) == SQUARES
    assert done == [0, 1, 2, 3, 4]


def test_parts_are_one_table_to_any_reader(tmp_path):
    list(run_chunks(square, CHUNKS, where=str(tmp_path / "sweep")))
    table = pl.read_parquet(tmp_path / "sweep" / "parts" / "*.parquet")
    assert dict(table.select("n", "square").iter_rows()) == SQUARES
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text())["chunks"] == 5


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_torn_part_is_done_again(tmp_path, keep):
    list(run_chunks(counting, CHUNKS, where=str(tmp_path)))
    part = tmp_path / "parts" / "part-000003.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:keep])
    assert squares(run_chunks(counting, CHUNKS, where=str(tmp_path))) == SQUARES
    assert done == [0, 1, 2, 3, 4, 3]
    assert pl.read_parquet(part)["square"].item() == 9


@pytest.mark.parametrize("content", [nested(FAR_TOO_DEEP), without_rows()], ids=["nested", "without rows"])
def test_a_part_that_cannot_be_read_is_done_again(tmp_path, content):
    list(run_chunks(counting, CHUNKS[:1], where=str(tmp_path)))
    part = tmp_path / "parts" / "part-000000.parquet"
    part.write_bytes(content)
    assert squares(run_chunks(counting, CHUNKS[:1], where=str(tmp_path))) == {0: 0}
    assert done == [0, 0]
    assert pl.read_parquet(part)["square"].item() == 0


def test_what_is_hidden_or_foreign_among_the_parts_is_left_alone(tmp_path):
    list(run_chunks(counting, CHUNKS[:2], where=str(tmp_path)))
    for name in (".part-000001.parquet.abc.part", "notes.txt", "part-000007.parquet"):
        (tmp_path / "parts" / name).write_text("")
    assert squares(run_chunks(counting, CHUNKS[:2], where=str(tmp_path))) == {0: 0, 1: 1}
    assert done == [0, 1]


@pytest.mark.parametrize(
    ("work", "chunks", "why"),
    [
        (counting, CHUNKS, "of sweep_work.square"),
        (square, CHUNKS[:4], "of 5 chunks"),
        (square, [*CHUNKS[:4], {"n": 4, "name": "another"}], "other scenarios"),
    ],
)
def test_another_sweep_in_the_same_folder_is_refused(place, work, chunks, why):
    list(run_chunks(square, CHUNKS, where=place))
    with pytest.raises(InputError, match=rf"\({why}\)"):
        list(run_chunks(work, chunks, where=place))
    assert not done


def test_other_entries_of_the_catalog_make_another_sweep(tmp_path, monkeypatch):
    own = tmp_path / "catalog" / "devices"
    own.mkdir(parents=True)
    monkeypatch.setenv("SIGHTLINE_CATALOG", str(own.parent))
    (own / "mine.yaml").write_text("tdp: 300")
    list(run_chunks(square, CHUNKS, where=str(tmp_path / "sweep")))
    (own / "mine.yaml").write_text("tdp: 400")
    with pytest.raises(InputError, match="another sweep"):
        list(run_chunks(square, CHUNKS, where=str(tmp_path / "sweep")))


@pytest.mark.parametrize("manifest", ["{", "[]", "{}"])
def test_a_folder_of_something_else_is_refused(tmp_path, manifest):
    (tmp_path / "sweep.json").write_text(manifest)
    with pytest.raises(InputError, match="use another folder"):
        list(run_chunks(square, CHUNKS, where=str(tmp_path)))


def test_a_disk_that_fills_keeps_what_there_is_and_goes_on_later(tmp_path, monkeypatch):
    where = str(tmp_path / "sweep")
    parts = run_chunks(counting, CHUNKS, where=where)
    assert squares([next(parts), next(parts)]) == {0: 0, 1: 1}

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkError, match="no space left on device; 2 of 5 parts"):
        next(parts)
    monkeypatch.undo()
    assert len(pl.read_parquet(tmp_path / "sweep" / "parts" / "*.parquet")) == 2
    assert squares(run_chunks(counting, CHUNKS, where=where)) == SQUARES
    assert done == [0, 1, 2, 2, 3, 4]


def test_a_wrong_chunk_ends_the_sweep_and_keeps_the_others(place):
    chunks = [{**chunk, "wrong": 2} for chunk in CHUNKS]
    parts = run_chunks(refuse, chunks, where=place)
    assert squares([next(parts), next(parts)]) == {0: 0, 1: 1}
    with pytest.raises(InputError, match="n is wrong"):
        next(parts)


@pytest.mark.parametrize("place", ["nowhere://x", "s3:/bucket"])
def test_a_place_that_is_none_is_refused(place):
    with pytest.raises(InputError, match="the sweep folder"):
        list(run_chunks(square, CHUNKS, where=place))
