"""``sightline validate FILE``: one's own measurements, by source and quantity."""

import csv
import io
import json

import pytest

HEADER = (
    "name,model,cluster.devices,workload.task,workload.sequence_length,workload.global_batch,plan.framework,"
    "plan.zero_stage,measured.step_time_s,measured.tokens_per_s,measured.source"
)
GOOD = "good,llama-2-7b,8x a800-sxm-80gb,pretrain,350,16,deepspeed,2,0.5,,our/cluster@1 day one"
MS = "in ms,llama-2-7b,8x a800-sxm-80gb,pretrain,350,32,deepspeed,2,900 ms,,our/cluster@1 day two"
RATE = "rate,llama-2-7b,8x a800-sxm-80gb,pretrain,350,32,deepspeed,2,,12000,another team, a page"
NO_STAGE = "no such stage,llama-2-7b,8x a800-sxm-80gb,pretrain,350,16,deepspeed,9,0.5,,our/cluster@1"
NOTHING = "nothing measured,llama-2-7b,8x a800-sxm-80gb,pretrain,350,16,deepspeed,2,,,our/cluster@1"
GENERATION = """
name: a batch
model: llama-2-7b
cluster: 1x a100-sxm-80gb
workload: {task: generate, batch: 1, prompt_tokens: 128, output_tokens: 16}
measured: {ttft_s: {mean: 0.02}, tpot_s: 0.01, source: our/cluster}
"""
LOAD = """
name: a load
model: llama-3.1-8b
cluster: 1x h100-sxm-80gb
workload: {task: serve, requests: {count: 8, prompt_tokens: 64, output_tokens: 8}, arrival: {process: all_at_once}}
plan: {framework: vllm}
measured: {ttft_s: {mean: 0.1}, tpot_s: 0.01, requests_per_s: 50, source: our/cluster}
"""


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("SIGHTLINE_DATA", raising=False)


@pytest.fixture
def table(tmp_path):
    def write(*rows):
        path = tmp_path / "measured.csv"
        path.write_text("\n".join((HEADER, *rows)) + "\n")
        return path

    return write


def suites_of(out):
    return {(one["suite"], one["quantity"]): one for one in json.loads(out)["suites"]}


def test_rows_are_errors_by_source_and_quantity(in_process, table):
    code, out, err = in_process("validate", table(GOOD, MS, RATE.replace(", a page", "")), "--json", "--cases")
    assert (code, err) == (0, "")
    suites = suites_of(out)
    assert set(suites) == {("our/cluster", "step_time_s"), ("another team", "tokens_per_s")}
    ours = suites["our/cluster", "step_time_s"]
    assert (ours["cases"], ours["unanswered"], ours["reasons"]) == (2, 0, {})
    assert 0 <= ours["coverage"] <= 1
    assert ours["half_width"] > 0
    errors = [answer["predicted"] / answer["measured"] - 1 for answer in ours["answers"]]
    assert ours["bias"] == pytest.approx(sum(errors) / 2)


def test_units_of_measurements_are_read(in_process, table):
    answers = json.loads(in_process("validate", table(MS), "--json", "--cases")[1])["suites"][0]["answers"]
    assert [answer["measured"] for answer in answers] == [0.9]


def test_csv_and_tables_have_the_same_figures(in_process, table):
    path = table(GOOD)
    (row,) = csv.DictReader(io.StringIO(in_process("validate", path, "--csv")[1]))
    assert (row["suite"], row["cases"]) == ("our/cluster", "1")
    assert float(row["half_width"]) > 0
    code, out, _ = in_process("validate", path, "--cases")
    assert code == 0
    assert all(said in out for said in ("our/cluster, step time", "half-width", "good"))


def test_a_bad_row_is_refused_with_its_place(in_process, table):
    code, out, err = in_process("validate", table(GOOD, NO_STAGE))
    assert (code, out) == (2, "")
    assert "measured.csv, row 2: plan.zero_stage is 9" in err


def test_bad_rows_are_skipped_and_counted_by_reason(in_process, table):
    rows = (GOOD, NO_STAGE, NO_STAGE.replace(",9,", ",8,"), NOTHING, GOOD + ",surplus")
    code, out, err = in_process("validate", table(*rows), "--skip-invalid", "--json")
    assert code == 0
    (ours,) = suites_of(out).values()
    assert (ours["cases"], ours["unanswered"]) == (3, 2)
    assert sorted(ours["reasons"].values()) == [2]
    counted, *reasons = err.splitlines()
    assert "4 of 5 scenarios skipped" in counted
    assert "2 x plan.zero_stage is 9" in reasons[0]
    assert any("12 cells for 11 columns" in reason for reason in reasons)
    assert any("no measured figure" in reason for reason in reasons)


@pytest.mark.parametrize("options", [(), ("--skip-invalid",)])
def test_a_file_of_which_nothing_can_be_answered_is_refused(in_process, table, options):
    code, out, err = in_process("validate", table(NOTHING), *options)
    assert (code, out) == (2, "")
    assert "no measured figure" in err


def test_a_plan_that_ran_out_of_memory_leads_to_the_option_that_reads_it(in_process, table):
    rows = table(GOOD, NOTHING)
    code, _, err = in_process("validate", rows)
    assert code == 2
    assert {"--plans", "--skip-invalid"} <= {word.rstrip(";,") for word in err.split()}
    assert in_process("validate", rows, "--plans")[0] == 0


def test_no_part_of_ones_own_table_was_held_out(in_process, table):
    code, out, _ = in_process("validate", table(GOOD))
    assert code == 0
    assert "held out" not in " ".join(out.split())
    (ours,) = suites_of(in_process("validate", table(GOOD), "--json")[1]).values()
    assert ours["split"] == "own"


def test_files_of_every_task_go_together_and_beside_suites(in_process, table, tmp_path):
    batch, load = tmp_path / "batch.yaml", tmp_path / "load.yaml"
    batch.write_text(GENERATION)
    load.write_text(LOAD)
    code, out, _ = in_process("validate", "narayanan", table(GOOD), batch, load, "--json")
    assert code == 0
    suites = suites_of(out)
    assert ("narayanan-2021-table1", "step_time_s") in suites
    ours = {quantity: one for (suite, quantity), one in suites.items() if suite == "our/cluster"}
    assert {"step_time_s", "requests_per_s", "ttft_s.mean", "tpot_s"} == set(ours)
    assert all(one["unanswered"] == 0 for one in ours.values())


@pytest.mark.parametrize("option", ["--left-out", "--locked"])
def test_files_have_no_published_parts(in_process, table, option):
    code, _, err = in_process("validate", table(GOOD), option)
    assert code == 2
    assert option in err
    assert "measured.csv" in err


def test_skipping_needs_a_file(in_process):
    code, _, err = in_process("validate", "--skip-invalid")
    assert (code, "--skip-invalid" in err) == (2, True)
