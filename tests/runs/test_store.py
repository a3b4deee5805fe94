"""Runs are written, listed, found and deleted, by many at once."""

import json
import multiprocessing
import os
import subprocess
import sys

import pytest

from sightline.errors import InputError, WorkError
from sightline.progress import listening
from sightline.runs import open_store
from sightline.runs.exchange import exportable, query
from sightline.runs.store import to_json

SCENARIO = {"model": "llama-2-7b", "workload": {"task": "pretrain"}}
ROWS = [
    {"phase": "forward", "operator": "matmul", "time_s": 0.25},
    {"phase": "forward", "operator": "norm", "time_s": 1},
]


def written(store, name="a run", **figures):
    writer = store.begin(name, scenario=SCENARIO, suite=figures.pop("suite", ""), key=figures.pop("key", ""))
    for turn in range(3):
        writer.sample({"turn": turn, "step_time_s": 0.5 + turn})
    return writer.finish(result={"step_time_s": 1.5, "memory_bytes": {"total": 8e9}}, rows=ROWS, **figures)


def test_a_run_is_read_as_it_was_written(any_store):
    run = written(any_store, "Llama 2, 7B!", suite="paper", environment={"cpu": {"model": "A CPU"}})
    found = any_store.find(run.id)
    assert found == run
    assert "-llama-2-7b-" in run.id
    assert (found.status, found.suite, found.scenario) == ("ok", "paper", SCENARIO)
    assert found.command
    assert found.version
    assert found.created < found.ended
    assert any_store.samples(found)["step_time_s"].to_list() == [0.5, 1.5, 2.5]
    assert any_store.rows(found).to_dicts() == [{**row, "time_s": float(row["time_s"])} for row in ROWS]


def test_a_run_can_be_followed(any_store):
    writer = any_store.begin("slow")
    writer.sample({"turn": 0})
    run = any_store.find("latest")
    assert (run.status, run.ended, run.result) == ("running", "", {})
    assert any_store.samples(run).to_dicts() == [{"turn": 0}]
    assert any_store.rows(run).is_empty()
    writer.finish(status="out_of_memory", reason="it held 9 GB of the 8 GB it may take")
    assert any_store.find("latest").status == "out_of_memory"


def test_only_whole_files_are_left(store, tmp_path):
    run = written(store)
    assert sorted(p.name for p in (tmp_path / "runs" / run.id).iterdir()) == [
        "rows.parquet",
        "run.json",
        "samples.parquet",
    ]
    json.loads((tmp_path / "runs" / run.id / "run.json").read_text())


def test_runs_are_listed_oldest_first_and_found_by_their_beginning(any_store):
    runs = [written(any_store, f"run {n}") for n in range(3)]
    assert [run.id for run in any_store.runs()] == [run.id for run in runs]
    assert any_store.find("latest").id == runs[-1].id
    assert any_store.find(runs[0].id[:-2]).id == runs[0].id
    with pytest.raises(InputError, match="matches 3 runs"):
        any_store.find(runs[0].id[:4])


@pytest.mark.parametrize("asked", ["latest", "20200101-nothing", "", "../../etc", "."])
def test_what_is_not_there_is_said(any_store, asked):
    with pytest.raises(InputError, match=r"empty|no run"):
        any_store.find(asked)


def test_a_misspelt_id_gets_its_nearest(any_store):
    run = written(any_store)
    with pytest.raises(InputError, match=f"did you mean '{run.id}'"):
        any_store.find(run.id.replace("-a-run-", "-a-rum-"))


def test_deleted_runs_are_gone_and_the_others_stay(any_store):
    gone, kept = written(any_store, "gone"), written(any_store, "kept")
    any_store.delete([gone])
    any_store.delete([gone])
    assert [run.id for run in any_store.runs()] == [kept.id]


def test_the_newest_run_of_a_key_counts(any_store):
    written(any_store, key="k", status="ok")
    newest = written(any_store, key="k", status="ok")
    written(any_store, key="other", status="crashed")
    written(any_store)
    assert {key: run.id for key, run in any_store.ended({"ok"}).items()} == {"k": newest.id}


def test_a_folder_that_is_no_run_is_left_alone(store, tmp_path):
    run = written(store)
    for name, file in (("notes", "notes.txt"), (".hidden.deleted", "run.json")):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / file).write_text("{")
    assert [r.id for r in store.runs()] == [run.id]


def test_numbers_json_cannot_say_become_null(store):
    run = store.begin("a loss that is none").finish(result={"loss": float("nan"), "list": [1.0, float("inf")]})
    assert store.find(run.id).result == {"loss": None, "list": [1.0, None]}


def test_samples_may_differ(store):
    writer = store.begin("mixed")
    for sample in ({"a": 1}, {"a": 2.5, "b": "x"}, {"c": {"d": 1}}, {"a": float("nan")}):
        writer.sample(sample)
    table = store.samples(writer.finish())
    assert table.columns == ["a", "b", "c"]
    assert table["a"].to_list()[:2] == [1.0, 2.5]


def test_a_line_cut_short_is_left_out(store, tmp_path):
    writer = store.begin("cut")
    writer.sample({"turn": 0})
    with (tmp_path / "runs" / writer.run.id / "samples.jsonl").open("a") as journal:
        journal.write('{"turn": 1, "ti')
    assert store.samples(store.find("latest")).to_dicts() == [{"turn": 0}]


def test_a_dead_writer_is_an_interruption(tmp_path):
    script = (
        "import os, sys; from sightline.runs import open_store\n"
        "writer = open_store(sys.argv[1]).begin('killed', key='k'); writer.sample({'turn': 0}); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    store = open_store(str(tmp_path))
    run = store.find("latest")
    assert (run.status, run.reason) == ("interrupted", "the process that wrote the run ended early")
    assert store.samples(run).to_dicts() == [{"turn": 0}]
    assert store.ended({"ok"}) == {}


def test_a_writer_elsewhere_is_believed(store, tmp_path):
    writer = store.begin("far away")
    path = tmp_path / "runs" / writer.run.id / "run.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"writer": {"host": "another", "machine": "m", "pid": 1, "started": "1"}}))
    assert store.find("latest").status == "running"


def test_a_run_of_a_newer_format_is_named_and_hides_no_other(store, tmp_path):
    other, run = written(store), written(store)
    path = tmp_path / "runs" / run.id / "run.json"
    path.write_text(json.dumps(json.loads(to_json(run)) | {"format": 99, "more": 1}))
    assert {one.id: one.status for one in store.runs()} == {other.id: "ok", run.id: "newer"}
    assert "newer version" in store.find(run.id).reason
    assert store.find("latest").id == other.id
    with pytest.raises(InputError, match="newer version"):
        exportable(store.runs())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 99_999,
        '{"id": "x", "name": 3, "created": "c"}',
        '{"id": "x", "name": "n", "created": "c", "scenario": {"workload": 3}}',
        '{"id": "x", "name": "n", "created": "c", "result": {"results": 3}}',
        '{"id": "x", "name": "n", "created": "c", "result": {"step_time_s": -1}}',
        None,
    ],
)
def test_a_damaged_run_is_listed_as_such_can_be_deleted_and_hides_no_other(any_store, content):
    other, run = written(any_store), written(any_store, "a broken run")
    if content is None:
        any_store.storage.remove(f"{run.id}/run.json")
    else:
        any_store.storage.write(f"{run.id}/run.json", content.encode())
    assert {one.id: one.status for one in any_store.runs()} == {other.id: "ok", run.id: "damaged"}
    found = any_store.find(run.id)
    assert found.reason
    assert found.created[:10].replace("-", "") == run.id[:8]
    assert any_store.find("latest").id == other.id
    assert any_store.ended({"ok"}) == {}
    any_store.delete([found])
    assert [one.id for one in any_store.runs()] == [other.id]


@pytest.mark.parametrize("content", [b"{", b'{"id": "x"}', b'{"id": ' + b"9" * 5000 + b"}"])
def test_a_folder_of_any_name_with_a_damaged_run_is_listed_and_can_be_deleted(any_store, content):
    any_store.storage.create("20250101-x")
    any_store.storage.write("20250101-x/run.json", content)
    any_store.storage.create("notes")
    (run,) = any_store.runs()
    assert "sys." not in run.reason
    assert (run.id, run.status, any_store.find("20250101").id) == ("20250101-x", "damaged", "20250101-x")
    with pytest.raises(InputError, match="no run 'notes'") as refused:
        any_store.find("notes")
    assert "mean" not in str(refused.value)
    any_store.delete([run])
    assert any_store.runs() == []


def test_a_damaged_table_is_left_out_of_queries_with_a_remark(store, tmp_path):
    pytest.importorskip("duckdb")
    kept, broken = written(store), written(store)
    (tmp_path / "runs" / broken.id / "rows.parquet").write_bytes(b"PAR1 cut PAR1")
    remarks = []
    with listening(remarks.append):
        _, rows = query(store, "SELECT DISTINCT run FROM rows")
        _, others = query(store, "SELECT DISTINCT run FROM samples")
    assert rows == [(kept.id,)]
    assert {run for (run,) in others} == {kept.id, broken.id}
    assert broken.id in remarks[0]


def write_some(place, count):
    store = open_store(place)
    for number in range(count):
        written(store, f"{os.getpid()} {number}", key=f"{os.getpid()}-{number}")


def test_several_write_at_once(tmp_path):
    place = str(tmp_path / "runs")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_some, args=(place, 8)) for _ in range(3)]
    for writer in writers:
        writer.start()
    store, seen = open_store(place), 0
    while any(writer.is_alive() for writer in writers):
        runs = store.runs()
        assert len(runs) >= seen, "what was there stays there"
        seen = len(runs)
        assert {run.status for run in runs} <= {"ok", "running", "interrupted"}
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(store.ended({"ok"})) == 24
    assert all(store.samples(run).height == 3 for run in store.runs())


def test_the_place_is_asked_for_or_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SIGHTLINE_RUNS", raising=False)
    assert open_store().place == str(tmp_path / "data/sightline/runs")
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "variable"))
    assert open_store().place == str(tmp_path / "variable")
    assert open_store(str(tmp_path / "asked")).place == str(tmp_path / "asked")
    assert open_store(f"file://{tmp_path}/url").place == f"{tmp_path}/url"


def test_a_store_that_cannot_be_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        open_store(str(tmp_path / "file"))
    with pytest.raises(WorkError, match=r"'.*': not a directory"):
        open_store(str(tmp_path / "file" / "below")).begin("x")
    with pytest.raises(InputError, match="Protocol not known"):
        open_store("nowhere://x")


def test_a_full_disk_is_a_sentence_and_keeps_what_there_is(store, monkeypatch):
    kept = written(store)
    writer = store.begin("too much")
    writer.sample({"turn": 0})

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkError, match="no space left on device"):
        writer.finish()
    monkeypatch.undo()
    assert store.find(kept.id) == kept
    assert not [p for p in (store.storage.root / writer.run.id).iterdir() if p.name.endswith(".part")]


def test_without_fsspec_a_url_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(WorkError, match=r"pip install '\.\[runs\]'"):
        open_store("s3://bucket/runs")


@pytest.mark.parametrize(("typed", "meant"), [("s3:/bucket/runs", "s3://bucket/runs"), ("gs:bucket", "gs://bucket")])
def test_a_url_that_lacks_a_slash_makes_no_folder(typed, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        open_store(typed)
    assert not list(tmp_path.iterdir())
    assert open_store("./s3:runs").place.endswith("s3:runs")


def test_a_damaged_table_is_a_sentence(store, tmp_path):
    writer = store.begin("a run")
    writer.finish(rows=[{"operator": "matmul", "time_s": 0.5}])
    (tmp_path / "runs" / writer.run.id / "rows.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(InputError, match=r"its rows\.parquet cannot be read"):
        store.rows(writer.run)
