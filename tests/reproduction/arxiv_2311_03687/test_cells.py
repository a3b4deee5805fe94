"""The study's grid: its scenarios can be read, and are what its rows say."""

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.measurement.machine import Hardware
from sightline.reproduction.arxiv_2311_03687.measured import made_small, suite_tables
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    FINETUNING,
    PRETRAINING,
    QUICK_ROWS,
    plan_of,
    step,
    trained,
)

PROCESSOR = Hardware(device=read_cluster("this-machine").device, count=2)
SERVER = Hardware(device=read_cluster("8x a800-sxm-80gb").device, count=8)


@pytest.mark.parametrize("hardware", [PROCESSOR, SERVER], ids=["processor", "server"])
def test_every_scenario_can_be_read_or_is_refused_for_what_a_framework_lacks(hardware):
    refused = []
    for table in suite_tables(hardware):
        for cell in table.cells:
            try:
                sl.load(dict(cell.scenario))
            except InputError as error:
                refused += error.problems
    assert not [problem for problem in refused if "plan." not in problem]


def test_rows_switch_on_what_they_say():
    assert plan_of("N") == {"zero_stage": 0, "attention": "eager"}
    assert plan_of("F+R+Z3+O") == {
        "zero_stage": 3,
        "attention": "flash",
        "recompute": "full",
        "offload": ["optimizer", "parameters"],
    }
    assert plan_of("QL+Z2")["adapter"] == {"kind": "qlora"}
    assert plan_of("L+Z2+O")["offload"] == "optimizer"


def test_a_measured_cell_asks_what_the_prediction_asks():
    """On the study's own server the measured grid and the predicted tables have the same steps."""
    cells = {(table.name, cell.row, cell.column): cell for table in suite_tables(SERVER) for cell in table.cells}
    for (table, row, column), techniques, asked in (
        (("pretraining", "F+R+Z3+O", "llama-2-7b, batch 1"), "F+R+Z3+O", {}),
        (("finetuning", "QL+F", "llama-2-13b, batch 1"), "QL+F", {"model": "llama-2-13b"}),
        (("frameworks", "megatron", "llama-2-7b, batch 4"), "N", {"framework": "megatron", "batch": 4}),
        (("scaling", "2 devices", "llama-2-7b, batch 2"), "Q", {"devices": 2, "batch": 2}),
    ):
        predicted = trained(A800, techniques, **asked)
        measured = cells[table, row, column].scenario
        assert measured["workload"] == predicted["workload"]
        assert {**measured["plan"], "framework_version": "2023-11"} == predicted["plan"]


def test_megatron_shares_its_only_replica_among_all_devices():
    split, data = (
        step("llama-2-7b", "this-machine", "L", batch=4, devices=8, framework=f) for f in ("megatron", "deepspeed")
    )
    assert (split["workload"]["global_batch"], data["workload"]["global_batch"]) == (4, 32)
    assert (split["plan"]["tensor_parallel"], data["plan"].get("tensor_parallel")) == (8, None)
    assert split["workload"]["task"] == "finetune"


def test_each_switch_stands_alone_and_together_in_a_quick_grid_too():
    for rows in (PRETRAINING, FINETUNING):
        letters = {letter for row in rows for letter in row.split("+")}
        quick = {letter for row in rows if row in QUICK_ROWS for letter in row.split("+")}
        assert {"Z2", "Z3", "R", "F"} <= letters
        assert {"R", "F", "Z2"} <= quick
        assert any("+" in row for row in rows if row in QUICK_ROWS)


def test_a_quick_grid_is_part_of_the_whole_one():
    whole, quick = ({t.name: t for t in suite_tables(PROCESSOR, quick=q)} for q in (False, True))
    assert set(whole) == set(quick)
    for name, table in quick.items():
        cells = {(c.row, c.column) for c in whole[name].cells}
        assert {(c.row, c.column) for c in table.cells} <= cells
    assert sum(len(t.cells) for t in quick.values()) < 0.4 * sum(len(t.cells) for t in whole.values())


def test_small_models_keep_the_order_and_the_kind_of_attention():
    models = [
        sl.load({"model": made_small(name), "cluster": "this-machine", "workload": _step()}).model
        for name in ("llama-2-7b", "llama-2-13b", "llama-2-70b")
    ]
    sizes = [m.parameters for m in models]
    assert sizes == sorted(sizes)
    assert 2e6 < sizes[0] < sizes[-1] < 1e8
    assert [m.kv_heads == m.heads for m in models] == [True, True, False]


def test_one_device_has_no_scaling_table():
    assert "scaling" not in {t.name for t in suite_tables(Hardware(device=PROCESSOR.device, count=1))}


def _step():
    return {"task": "pretrain", "sequence_length": 64, "global_batch": 1}
