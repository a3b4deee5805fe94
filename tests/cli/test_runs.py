"""``sightline runs``."""

import json
import re
import zipfile

import pytest
from parquet_files import FAR_TOO_DEEP, nested, without_rows

import sightline as sl
from sightline.parquet import MOST_LEVELS
from sightline.runs import open_store
from sightline.runs.exchange import to_archive


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with a run that ended well, one that did not, and one whose samples hold a NaN."""
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    store = open_store()
    writer = store.begin("matmul", suite="standard", scenario={"workload": {"task": "operator"}})
    writer.sample({"time_s": 0.5})
    writer.finish(result={"time_s": 0.5}, rows=[{"operator": "matmul", "time_s": 0.5}])
    store.begin("too large").finish(status="out_of_memory", reason="it held 9 GB of the 8 GB it may take", output="no!")
    writer = store.begin("odd", suite="standard")
    writer.sample({"loss": float("nan")})
    writer.finish(environment={"contended": True})
    return store


def test_runs_are_listed(in_process, store):
    code, out, err = in_process("runs", "list")
    assert (code, err) == (0, "")
    ids = [word for word in out.split() if re.match(r"\d{8}-\d{6}", word)]
    assert len(ids) == 3
    assert [run.id for run in store.runs()] == [store.find(shown).id for shown in ids]
    for said in ("time 500 ms", "out of memory", "it held 9 GB", "ok, contended"):
        assert said in " ".join(out.split()), said


def test_a_run_that_failed_says_why(in_process, store):
    out = in_process("runs", "show", store.runs()[1].id)[1]
    assert re.search(r"status +out of memory: ", out)
    assert "9 GB of the 8 GB" in out
    assert "sightline compare" not in out


TRAINING = {
    "name": "a small step",
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    "plan": {"framework": "deepspeed", "zero_stage": 2},
}


def test_a_run_of_training_is_a_page_with_its_time_its_machine_and_its_prediction(in_process, store):
    predicted = sl.predict(sl.load(TRAINING))
    result = predicted.replace(source="measured", step_time_s=1.5 * predicted.step_time_s).to_dict()
    gpus = [{"name": "A800", "memory_bytes": 80 * 2**30, "driver": "550.1"}] * 8
    environment = {"gpus": gpus, "libraries": {"torch": "2.9"}, "contended": True, "contention": ["others computed"]}
    rows = predicted.table.to_dicts()
    store.begin("a small step", scenario=result.pop("scenario")).finish(
        result=result, rows=rows, environment=environment
    )
    out = in_process("runs", "show", "latest", "-v")[1]
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    for said in (
        "8 x A800 (80.0 GiB), driver 550.1",
        "torch 2.9",
        "busy machine: others computed",
        "50 % slower than the predicted",
        "Device time by module",
        "Memory of the fullest device",
    ):
        assert said in words, said
    assert re.search(r"sightline compare \S+ predicted", out)


def test_a_run_of_many_operators_shows_the_best_and_the_worst(in_process, store):
    results = [
        {
            "time_s": 1e-3,
            "flops": 1e9 * size,
            "bytes": 1e6,
            "scenario": {"workload": {"task": "operator", "operator": "matmul", "m": size}},
        }
        for size in range(1, 41)
    ]
    store.begin("suite matmul").finish(result={"results": [*results, {"reason": "no memory for it"}]})
    out = in_process("runs", "show", "latest")[1]
    assert "matmul: 40 measured" in out
    listed = [line.split()[1] for line in out.splitlines() if line.startswith("  m ")]
    assert listed == ["40", "39", "38", "37", "36", "5", "4", "3", "2", "1"]
    assert "no memory for it" in out
    assert "40 operators" not in out
    assert "41 operators" in in_process("runs", "list")[1]


def test_lists_can_be_narrowed(in_process, store):
    listed = json.loads(in_process("runs", "list", "--suite", "standard", "--json")[1])
    assert [run["name"] for run in listed] == ["matmul", "odd"]
    assert [run["contended"] for run in listed] == [False, True]
    assert all({"version", "schema"} <= run.keys() for run in listed)
    listed = json.loads(in_process("runs", "list", "--status", "out_of_memory", "--json")[1])
    assert listed[0]["reason"] == store.find(listed[0]["id"]).reason


def test_an_empty_store_is_no_error(in_process, tmp_path):
    code, out, _ = in_process("runs", "list", "--store", tmp_path / "none")
    assert (code, f"{tmp_path / 'none'}" in out) == (0, True)
    assert in_process("runs", "list", "--store", tmp_path / "none", "--json")[:2] == (0, "[]\n")
    assert not (tmp_path / "none").exists()


def test_a_run_is_shown(in_process, store):
    run = store.runs()[0]
    code, out, _ = in_process("runs", "show", run.id)
    assert code == 0
    assert "500 ms" in out
    code, out, _ = in_process("runs", "show", run.id, "--full")
    assert code == 0
    for said in (run.id, "standard", "result.time_s", "scenario.workload.task", "matmul"):
        assert said in out
    shown = json.loads(in_process("runs", "show", run.id, "--json")[1])
    assert (shown["result"], shown["rows"]) == ({"time_s": 0.5}, [{"operator": "matmul", "time_s": 0.5}])
    assert shown["samples"] == [{"time_s": 0.5}]


def test_what_a_run_printed_last_is_shown(in_process, store):
    assert "no!" in in_process("runs", "show", store.runs()[1].id)[1]


def test_json_has_no_nan(in_process, store):
    assert store.find("latest").name == "odd"
    assert json.loads(in_process("runs", "show", "latest", "--json")[1])["samples"] == [{"loss": None}]


@pytest.mark.usefixtures("store")
def test_a_query_is_answered(in_process):
    pytest.importorskip("duckdb")
    sql = "SELECT name, time_s, now() AS moment FROM runs ORDER BY created"
    code, out, _ = in_process("runs", "query", sql, "--json")
    assert code == 0
    answer = json.loads(out)
    assert [(row["name"], row["time_s"]) for row in answer] == [("matmul", 0.5), ("too large", None), ("odd", None)]
    assert isinstance(answer[0]["moment"], str)
    assert "matmul" in in_process("runs", "query", sql)[1]
    assert in_process("runs", "query", "SELEC")[0] == 2


def test_runs_go_from_store_to_store(in_process, store, tmp_path):
    code, out, _ = in_process("runs", "export", "--out", tmp_path / "runs.zip", "--json")
    assert code == 0
    ids = [run.id for run in store.runs()]
    assert json.loads(out) == {"file": str(tmp_path / "runs.zip"), "runs": ids}
    elsewhere = ("--store", tmp_path / "elsewhere", "--json")
    assert json.loads(in_process("runs", "import", tmp_path / "runs.zip", *elsewhere)[1])["imported"] == ids
    assert json.loads(in_process("runs", "import", tmp_path / "runs.zip", *elsewhere)[1])["there"] == ids
    assert open_store(str(tmp_path / "elsewhere")).runs() == store.runs()


def test_one_run_can_be_exported(in_process, store, tmp_path):
    out = in_process("runs", "export", "latest", "--out", tmp_path / "one.zip", "--json")[1]
    assert json.loads(out)["runs"] == [store.find("latest").id]


def test_runs_are_deleted(in_process, store):
    first = store.runs()[0]
    assert json.loads(in_process("runs", "delete", first.id, "--json")[1]) == {"deleted": [first.id]}
    assert in_process("runs", "delete", "--status", "out_of_memory")[1] == "deleted 1 runs\n"
    assert [run.name for run in store.runs()] == ["odd"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "20200101"], "no run '20200101'"),
        (["delete"], "--suite or --status"),
        (["delete", "x", "--suite", "y"], "--suite or --status"),
        (["delete", "x", "y"], "no run 'y'"),
        (["export", "--out", "runs.tar"], ".zip"),
        (["import", "none.zip"], "'none.zip'"),
        (["list", "--store", "nowhere://x"], "'nowhere://x'"),
        (["lst"], "no such command"),
    ],
)
def test_wrong_requests_are_sentences(in_process, arguments, said):
    code, out, err = in_process("runs", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert all(line.startswith("sightline: ") for line in err.splitlines())


def test_without_a_command_there_is_help(in_process):
    code, out, err = in_process("runs")
    assert (code, err) == (0, "")
    assert "Examples:" in out


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (nested(FAR_TOO_DEEP), f"has a column nested {FAR_TOO_DEEP} levels deep; allowed: {MOST_LEVELS}"),
        (without_rows(), "cannot be read: "),
    ],
)
def test_samples_that_cannot_be_read_are_refused(in_process, store, tmp_path, content, why):
    run = store.runs()[1]
    archive = tmp_path / "samples.zip"
    archive.write_bytes(to_archive(store, [run]))
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(f"{run.id}/samples.parquet", content)
    store.storage.write(f"{run.id}/samples.parquet", content)
    importing = ("import", archive, "--store", tmp_path / "others")
    for words, name in (
        (importing, f"'{archive}': samples.parquet of '{run.id}'"),
        (("show", run.id), f"run '{run.id}': its samples.parquet"),
    ):
        code, out, err = in_process("runs", *words)
        assert (code, out) == (2, "")
        assert err.startswith(f"sightline: {name} {why}")
        assert err.count("\n") == 1
