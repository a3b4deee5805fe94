"""Runs out of one store and into another."""

import zipfile

import pytest

from sightline.errors import InputError
from sightline.runs import open_store
from sightline.runs.exchange import exportable, from_archive, to_archive
from sightline.runs.store import as_parquet, as_table


@pytest.fixture
def archive(store, tmp_path):
    """Two runs in a file."""
    for name in ("one", "two"):
        writer = store.begin(name, key=name)
        writer.sample({"turn": 0})
        writer.finish(result={"time_s": 0.5}, rows=[{"operator": name}])
    path = tmp_path / "runs.zip"
    path.write_bytes(to_archive(store, store.runs()))
    return path


def test_imported_runs_are_the_exported_ones(any_store, store, archive):
    others = open_store(f"{any_store.place}-elsewhere")
    new, there = from_archive(others, archive)
    assert (new, there) == ([run.id for run in store.runs()], [])
    assert others.runs() == store.runs()
    for run in store.runs():
        assert others.samples(run).equals(store.samples(run))
        assert others.rows(run).equals(store.rows(run))
    assert from_archive(others, archive) == ([], new)


def test_a_run_that_goes_on_is_not_exported(store):
    store.begin("goes on")
    with pytest.raises(InputError, match="is still running"):
        exportable(store.runs())


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"../evil/run.json": "{}"}, "'../evil/run.json'"),
        ({"/etc/passwd": ""}, "'/etc/passwd'"),
        ({"a-run/program.py": ""}, "'a-run/program.py'"),
        ({"a-run/rows.parquet": ""}, "'a-run' has no run.json"),
        ({"a-run/run.json": "{"}, "cannot be read"),
        ({"a-run/run.json": "[" * 99_999}, "cannot be read: nested too deeply"),
        (
            {"a-run/run.json": '{"id": "a-run", "name": 3, "created": "c", "scenario": []}'},
            "cannot be read: name, scenario ",
        ),
        ({"a-run/run.json": '{"id": "a-run", "name": "n", "created": "c", "format": 9}'}, "newer version"),
    ],
)
def test_what_is_no_archive_is_refused_whole(store, tmp_path, entries, problem):
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good/run.json", '{"id": "good", "name": "n", "created": "c"}')
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match=problem.replace(".", r"\.")):
        from_archive(store, path)
    assert store.runs() == []


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ('{"step_time_s": -1}', "step_time_s is -1"),
        ('{"step_time_s": NaN}', "step_time_s is nan"),
        ('{"ttft_s": {"p90": Infinity}}', "ttft_s.p90 is inf"),
        ('{"step_time_s": "fast"}', "step_time_s is 'fast'"),
        ('{"phases": {"forward": -0.5}}', "phases.forward is -0.5"),
        ('{"memory_bytes": {"total": 1e18}}', "memory_bytes.total is 1e\\+18"),
        ('{"tokens_per_s": true}', "tokens_per_s is True"),
        ('{"fits": "yes"}', "fits is 'yes'"),
        ('{"results": [{"time_s": -3}]}', "results.time_s is -3"),
    ],
)
def test_figures_that_cannot_be_are_refused(store, tmp_path, result, problem):
    path = tmp_path / "impossible.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run/run.json", f'{{"id": "run", "name": "n", "created": "c", "result": {result}}}')
    with pytest.raises(InputError, match=problem):
        from_archive(store, path)
    assert store.storage.folders() == []


@pytest.mark.parametrize("table", [b"PAR1 cut PAR1", as_parquet(as_table([{"time_s": -1.0}]))])
def test_tables_that_cannot_be_are_refused(store, tmp_path, table):
    path = tmp_path / "impossible.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run/run.json", '{"id": "run", "name": "n", "created": "c"}')
        archive.writestr("run/rows.parquet", table)
    with pytest.raises(InputError, match=r"rows\.parquet of 'run'"):
        from_archive(store, path)


def test_a_file_that_is_none_is_refused(store, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        from_archive(store, tmp_path / "none.zip")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(InputError, match="is not a runs archive"):
        from_archive(store, tmp_path / "text.zip")


@pytest.mark.parametrize("place", [60, -30])
def test_a_damaged_archive_is_refused(tmp_path, archive, place):
    content = bytearray(archive.read_bytes())
    content[place] ^= 0x55
    (tmp_path / "bad.zip").write_bytes(content)
    with pytest.raises(InputError, match="is not a runs archive"):
        from_archive(open_store(str(tmp_path / "others")), tmp_path / "bad.zip")
