"""SQL over runs."""

import json
import sys

import pytest

from sightline.errors import InputError, WorkError
from sightline.runs.exchange import query

pytest.importorskip("duckdb")


@pytest.fixture
def filled(any_store):
    for number in range(1, 4):
        writer = any_store.begin(f"run {number}", scenario={"plan": {"micro_batch": number}}, suite="s")
        writer.sample({"step_time_s": float(number)})
        writer.sample({"step_time_s": float(number), "note": "second"})
        result = {"step_time_s": float(number), "memory_bytes": {"total": number * 1e9}, "warnings": ["w"]}
        rows = [{"module": "mlp", "time_s": 0.1 * number}, {"module": "norm", "time_s": 0.2}]
        writer.finish(result=result, rows=rows, environment={"contended": number == 2})
    any_store.begin("goes on").sample({"step_time_s": 9.0})
    return any_store


def test_runs_have_their_results_as_columns(filled):
    columns, rows = query(
        filled, "SELECT name, step_time_s, memory_bytes_total, contended FROM runs WHERE status = 'ok' ORDER BY created"
    )
    assert columns == ["name", "step_time_s", "memory_bytes_total", "contended"]
    assert rows == [(f"run {n}", float(n), n * 1e9, n == 2) for n in (1, 2, 3)]


def test_scenarios_are_json(filled):
    _, rows = query(filled, "SELECT scenario FROM runs WHERE name = 'run 2'")
    assert json.loads(rows[0][0]) == {"plan": {"micro_batch": 2}}
    _, rows = query(filled, "SELECT sum(CAST(scenario->>'$.plan.micro_batch' AS INT)) FROM runs")
    assert rows == [(6,)]


def test_rows_and_samples_join_runs(filled):
    sql = "SELECT name, sum(time_s) FROM rows JOIN runs ON run = id GROUP BY name ORDER BY name"
    assert [(name, round(s, 6)) for name, s in query(filled, sql)[1]] == [
        ("run 1", 0.3),
        ("run 2", 0.4),
        ("run 3", 0.5),
    ]
    sql = "SELECT count(*), count(note), max(step_time_s) FROM samples"
    assert query(filled, sql)[1] == [(7, 3, 9.0)]


def test_an_empty_store_has_empty_tables(any_store):
    assert query(any_store, "SELECT id, status, contended FROM runs") == (["id", "status", "contended"], [])
    assert query(any_store, "SELECT count(*) FROM samples, rows")[1] == [(0,)]


def test_a_query_changes_nothing(filled):
    before = filled.runs()
    query(filled, "DELETE FROM runs")
    assert filled.runs() == before


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT nothing FROM runs", "SELECT * FROM tables_that_are_not", ""])
def test_a_wrong_query_is_a_sentence(filled, sql):
    with pytest.raises(InputError, match=r"query"):
        query(filled, sql)


def test_without_duckdb_it_says_what_to_install(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(WorkError, match=r"pip install '\.\[runs\]'"):
        query(store, "SELECT 1")
