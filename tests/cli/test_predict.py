"""``sightline predict``."""

import csv
import io
import json

import pytest

from sightline.profile import BOUNDS, MEMORY_PARTS, REFERENCE, TRAINING
from sightline.render.terminal import SCREEN_LINES


def test_a_prediction_is_a_short_table(in_process, example):
    code, out, err = in_process("predict", example)
    assert (code, err) == (0, "")
    for said in ("Llama-2-7B, ZeRO-2, 8 x A800", "Step time", "tokens/s", "MFU", "forward", "GiB", "-v also shows"):
        assert said in out
    assert all(len(line) <= 80 for line in out.splitlines())
    full = in_process("predict", example, "-v")[1]
    assert len(out.splitlines()) <= SCREEN_LINES < len(full.splitlines())
    assert "Evidence of constants" in full


def test_json_is_one_document_with_the_documented_keys(in_process, example):
    code, out, err = in_process("predict", example, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert isinstance(result, dict)
    assert result["source"] == "predicted"
    assert result["bottleneck"] in BOUNDS
    assert set(result["phases"]) == set(TRAINING.phases) - {REFERENCE}
    assert set(result["memory_bytes"]) == {*MEMORY_PARTS, "total"}
    assert sum(result["phases"].values()) == pytest.approx(result["step_time_s"])
    assert sum(result["memory_bytes"][part] for part in MEMORY_PARTS) == pytest.approx(result["memory_bytes"]["total"])
    assert result["tokens_per_s"] == pytest.approx(350 * 16 / result["step_time_s"])
    assert 0 < result["mfu"] <= result["hfu"] < 1
    assert result["scenario"]["plan"]["zero_stage"] == 2


def test_the_resolved_scenario_predicts_the_same(in_process, run, example):
    first = json.loads(in_process("predict", example, "--json")[1])
    again = run("predict", "-", "--json", stdin=json.dumps(first["scenario"]))
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["step_time_s"] == pytest.approx(first["step_time_s"])


def test_several_scenarios_are_a_list_in_the_order_asked(in_process, example):
    code, out, _ = in_process("predict", example, "--sweep", "plan.zero_stage=3,0,2", "--json")
    assert code == 0
    assert [r["scenario"]["plan"]["zero_stage"] for r in json.loads(out)] == [3, 0, 2]


def test_bad_rows_of_a_table_are_skipped_and_counted_by_reason(in_process, tmp_path):
    header = "model,cluster.devices,workload.task,workload.sequence_length,workload.global_batch,plan.zero_stage\n"
    rows = "".join(f"llama-2-7b,8x a800-sxm-80gb,{task},350,16,{stage}\n" for task, stage in TABLE)
    (tmp_path / "rows.csv").write_text(header + rows)
    code, out, err = in_process("predict", tmp_path / "rows.csv", "--json")
    assert (code, out) == (2, "")
    code, out, err = in_process("predict", tmp_path / "rows.csv", "--skip-invalid", "--json")
    assert code == 0
    assert [(one["scenario"]["name"], one["scenario"]["plan"]["zero_stage"]) for one in json.loads(out)] == [
        ("row 1", 2),
        ("row 4", 3),
    ]
    assert "2 of 4 scenarios skipped" in err
    assert "1 x plan.zero_stage is 9" in err


TABLE = (("pretrain", 2), ("pretrain", 9), ("generate", 1), ("pretrain", 3))


def test_several_files_are_a_list_too(in_process, example):
    code, out, _ = in_process("predict", example, example, "--json")
    assert code == 0
    assert len(json.loads(out)) == 2


def test_set_overrides_any_key(in_process, example):
    arguments = ("--set", "plan.zero_stage=3", "--set", "workload.sequence_length=1024", "--json")
    scenario = json.loads(in_process("predict", example, *arguments)[1])["scenario"]
    assert (scenario["plan"]["zero_stage"], scenario["workload"]["sequence_length"]) == (3, 1024)


def test_csv_has_a_line_per_scenario(in_process, example):
    code, out, _ = in_process("predict", example, "--sweep", "plan.micro_batch=1,2", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["plan.micro_batch"] for row in rows] == ["1", "2"]
    assert all(float(row["step_time_s"]) > 0 for row in rows)


def test_stdin_is_a_dash(run, example):
    answer = run("predict", "-", stdin=example.read_text())
    assert answer.returncode == 0
    assert "Llama-2-7B" in answer.stdout


def test_every_example_is_answered(in_process, example):
    # What leaves the cluster itself open is a question for plan.
    files = [path for path in example.parent.iterdir() if path.is_file() and not path.name.startswith("plan-")]
    for file in sorted(files):
        command = "simulate" if "task: serve" in file.read_text() else "predict"
        code, out, err = in_process(command, file, "--json")
        assert code == 0, err
        json.loads(out)


def test_what_does_not_fit_is_a_result_that_says_what_would(in_process, example):
    file = example.parent / "llama-2-7b-does-not-fit.yaml"
    code, out, _ = in_process("predict", file, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["fits"] is False
    assert result["step_time_s"] > 0
    assert result["advice"]
    assert "x the memory of these devices" in in_process("predict", file)[1]


def test_a_sequence_beyond_the_context_is_a_warning_on_stderr(in_process, example):
    code, out, err = in_process("predict", example, "--set", "workload.sequence_length=8192", "--json")
    assert code == 0
    assert json.loads(out)["warnings"]
    assert "warning" in err


def test_of_many_warnings_the_first_few_are_said(in_process, example):
    lengths = ",".join(str(4096 + 256 * n) for n in range(1, 11))
    code, out, err = in_process("predict", example, "--sweep", f"workload.sequence_length={lengths}", "--json")
    assert code == 0
    assert all(result["warnings"] for result in json.loads(out))
    assert len(err.splitlines()) == 6
    assert " 5 more" in err


@pytest.mark.parametrize(
    ("option", "name", "start"),
    [
        ("--chart", "a.svg", b"<svg"),
        ("--chart", "a.png", b"\x89PNG"),
        ("--chart", "a.html", b"<!doctype html>"),
        ("--html", "report.html", b"<!doctype html>"),
        ("--trace", "trace.json", b"{"),
    ],
)
def test_files_are_written_beside_the_answer(in_process, example, tmp_path, option, name, start):
    code, out, err = in_process("predict", example, option, tmp_path / name, "--json")
    assert code == 0, err
    json.loads(out)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert err.splitlines()[-1] == f"sightline: wrote {tmp_path / name}"


def test_a_trace_is_what_chrome_reads(in_process, example, tmp_path):
    in_process("predict", example, "--trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert spans
    assert all(e["dur"] >= 0 and {"name", "ts", "pid", "tid"} <= set(e) for e in spans)


def test_impossible_cells_of_a_sweep_are_counted_and_the_others_answered(in_process, example):
    sweep = ("--sweep", "plan.micro_batch=1,4,2", "--sweep", "plan.zero_stage=0,2")
    code, out, err = in_process("predict", example, *sweep, "--json")
    assert code == 0
    plans = [result["scenario"]["plan"] for result in json.loads(out)]
    assert [(plan["micro_batch"], plan["zero_stage"]) for plan in plans] == [(1, 0), (1, 2), (2, 0), (2, 2)]
    assert "2 of 6" in err
    assert "workload.global_batch is 16; allowed: " in err
    code, out, err = in_process("predict", example, *sweep, "--csv")
    assert (code, len(out.splitlines())) == (0, 5)
    assert "2 of 6" in err


def test_a_sweep_in_which_nothing_is_possible_is_refused(in_process, example):
    code, out, err = in_process("predict", example, "--sweep", "plan.micro_batch=4,8")
    assert (code, out) == (2, "")
    assert [line.rpartition(" = ")[2] for line in err.splitlines()] == ["32", "64"]


def test_a_single_possible_cell_is_a_list_of_one(in_process, example):
    assert len(json.loads(in_process("predict", example, "--sweep", "plan.micro_batch=2,4", "--json")[1])) == 1


def test_a_table_is_sorted_and_cut_off_where_asked(in_process, example):
    sweep = ("--sweep", "plan.zero_stage=0,1,2,3")
    code, out, _ = in_process("predict", example, *sweep)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[-4:]] == ["1", "2", "3", "0"]
    _, out, _ = in_process("predict", example, *sweep, "--sort", "memory_bytes.total", "--top", "2")
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["3", "2"]
    assert "2 of 4" in out


def test_documents_keep_the_order_of_the_question_unless_asked(in_process, example):
    def stages(*options):
        found = json.loads(in_process("predict", example, "--sweep", "plan.zero_stage=3,0,2", "--json", *options)[1])
        return [result["scenario"]["plan"]["zero_stage"] for result in found]

    assert stages() == [3, 0, 2]
    assert stages("--top", "1") == [2]
    assert stages("--sort", "zero_stage") == [0, 2, 3]
    assert stages("--sort", "asked", "--top", "2") == [3, 0]


@pytest.mark.parametrize("options", [("--top", "0"), ("--top", "x"), ("--top", "12345678901"), ("--sort", "speed")])
def test_a_wrong_order_is_a_sentence(in_process, example, options):
    code, out, err = in_process("predict", example, "--sweep", "plan.zero_stage=0,1", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"sightline: {options[0]} is '{options[1]}'; allowed: ")


def test_a_sweep_of_the_cluster_is_told_apart_in_csv(in_process, example):
    sweep = "cluster.network.bandwidth_per_node=400 Gbit/s,800 Gbit/s"
    rows = list(csv.DictReader(io.StringIO(in_process("predict", example, "--sweep", sweep, "--csv")[1])))
    assert [row["cluster.network.bandwidth_per_node"] for row in rows] == ["400 Gbit/s", "800 Gbit/s"]


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("file", ["operators.yaml", "many.csv", "sweep-llama-2-7b.yaml"])
def test_tables_of_several_are_readable_in_narrow_terminals(in_process, example, monkeypatch, file, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = in_process("predict", example.parent / file)
    assert code == 0
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= width


def test_json_has_the_tables_of_operators_and_stages(in_process, example):
    result = json.loads(in_process("predict", example, "--json")[1])
    keys = "phase block module operator count flops bytes network_bytes time_s exposed_s bound bound_level"
    assert all(set(row) == set(keys.split()) for row in result["rows"])
    assert sum(row["exposed_s"] for row in result["rows"]) == pytest.approx(result["step_time_s"])
    (stage,) = result["stages"]
    assert stage["memory_bytes"]["total"] == pytest.approx(result["memory_bytes"]["total"])
    assert stage["peak"] in stage["moments"]
    assert "rows" not in in_process("predict", example, "--csv")[1].splitlines()[0].split(",")
