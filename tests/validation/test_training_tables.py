"""Lines of Galvatron's memory profile under our keys."""

import csv

import pytest

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.validation.adapters import galvatron as row_of_cells
from sightline.validation.evaluation import suites
from sightline.validation.tables import LeftOutError, Line

SPEC = {"tokens_per_sample": 4096}


def cells(strategy="1_4_2_vtp_sp", key="layernum[2]_bsz8_seq2048_rank7_act_peak", memory="1651.93"):
    return {"strategy_pp_tp_dp": strategy, "key": key, "memory_mb": memory}


def test_a_line_says_plan_layers_and_what_was_read():
    row = row_of_cells(Line(cells(), "here"), SPEC)
    assert (row["plan.pipeline_parallel"], row["plan.tensor_parallel"], row["plan.data_parallel"]) == (1, 4, 2)
    assert (row["devices"], row["model.num_hidden_layers"], row["plan.micro_batch"]) == (8, 2, 4)
    assert row["workload.sequence_length"] == 4096
    assert row["measured.rise_bytes"] == pytest.approx(1651.93 * 2**20)
    assert row["stage"] == -1
    assert row["plan.vocabulary_parallel"] is True


def test_marks_of_a_strategy():
    row = row_of_cells(Line(cells("1_8_1_sp"), "here"), SPEC)
    assert row["plan.vocabulary_parallel"] is False
    assert row["plan.sequence_parallel"] is True
    again = row_of_cells(Line(cells("1_1_8_c_sp", "layernum[1]_bsz8_seq2048_rank0_act"), "here"), SPEC)
    assert (again["plan.recompute"], again["plan.sequence_parallel"], again["stage"]) == ("full", False, 0)
    assert "measured.kept_bytes" in again


def test_derived_lines_are_left_out_and_missing_columns_refused():
    with pytest.raises(LeftOutError, match="calculated"):
        row_of_cells(Line(cells("layertype_0_sp/2048", "parameter_size"), "here"), SPEC)
    with pytest.raises(InputError, match="here: column 'key'"):
        row_of_cells(Line({"strategy_pp_tp_dp": "1_1_8"}, "here"), SPEC)


def test_the_two_ends_of_a_pipeline_are_two_cases(tmp_path):
    lines = [
        cells("2_2_2_sp", f"layernum[2]_bsz8_seq2048_rank{rank}_ms", memory)
        for rank, memory in ((0, "1422.45"), (7, "1421.47"))
    ] + [cells("1_1_8_sp", f"layernum[1]_bsz8_seq2048_rank{rank}_ms", "904.3") for rank in (0, 0)]
    with (tmp_path / "galvatron_llama2_7b_memory_mb.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    (suite,) = suites(tmp_path, ["galvatron-memory-states"])
    assert sorted((case.stage, round(case.measured / 2**20, 2)) for case in suite.cases) == [
        (-1, 1421.47),
        (0, 904.3),
        (0, 1422.45),
    ]
    for case in suite.cases:
        scenario_from_mapping(case.scenario)
