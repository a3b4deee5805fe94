from dataclasses import fields
from itertools import pairwise
from math import prod

import pytest

from sightline.errors import InputError
from sightline.exploration.run import explore
from sightline.exploration.studies.a100_to_b200 import (
    ALL,
    BASE,
    BEST,
    DEVICES,
    FULLY_RECOMPUTED,
    NAMES,
    NEW,
    OF_2021,
    QUICKLY_SEARCHED,
    Ladder,
)
from sightline.exploration.study_answer import StudyAnswer, study_to_dict
from sightline.loading.clusters.cluster import read_cluster
from sightline.progress import SILENT


@pytest.fixture(scope="module")
def answer() -> StudyAnswer:
    return explore("a100-to-b200", quick=True)


def test_product_of_the_factors_is_the_gain(answer: StudyAnswer) -> None:
    summary = answer.summary
    assert prod(summary["factors"].values()) == pytest.approx(summary["gain"], rel=1e-9)
    for view, factors in summary["factors_by_view"].items():
        assert list(factors) == list(NAMES)
        assert prod(factors.values()) == pytest.approx(summary["gains"][view][OF_2021], rel=1e-9)


def test_rows_multiply_to_the_gain_over_their_baseline(answer: StudyAnswer) -> None:
    for view, gains in answer.summary["gains"].items():
        for baseline in (OF_2021, FULLY_RECOMPUTED):
            steps = [row for row in answer.rows if (row["view"], row["baseline"]) == (view, baseline)]
            assert prod(row["factor"] for row in steps) == pytest.approx(gains[baseline], rel=1e-9)
            assert steps[-1]["gain"] == pytest.approx(gains[baseline], rel=1e-9)
            assert all(row["fits"] for row in steps)


def test_no_change_of_the_ideal_hardware_loses(answer: StudyAnswer) -> None:
    assert all(factor >= 1 - 1e-9 for factor in answer.summary["factors_by_view"]["ideal"].values())


def test_better_baselines_leave_less_to_gain(answer: StudyAnswer) -> None:
    for gains in answer.summary["gains"].values():
        assert gains[OF_2021] > gains[FULLY_RECOMPUTED] > gains[BEST] > 1
    ideal, calibrated = (answer.summary["gains"][view][OF_2021] for view in ("ideal", "calibrated"))
    assert ideal > calibrated


def test_baseline_is_the_plan_of_2021_in_fp16_with_full_recomputation(answer: StudyAnswer) -> None:
    first = next(answer.rows)
    assert (first["device"], first["dtype"], first["recompute"]) == ("a100-sxm-80gb", "fp16", "full")
    assert (first["tensor_parallel"], first["pipeline_parallel"], first["micro_batch"]) == (8, 8, 1)
    assert not first["sequence_parallel"]


def test_each_change_is_made_at_its_step_alone(answer: StudyAnswer) -> None:
    steps = [row for row in answer.rows if (row["view"], row["baseline"]) == ("ideal", OF_2021)]
    changed = {
        key: [after["change"] for before, after in pairwise(steps) if before[key] != after[key]]
        for key in ("dtype", "per_node", "attention")
    }
    assert changed == {"dtype": ["precision"], "per_node": ["domain"], "attention": ["plan"]}


def test_faster_compute_moves_what_binds_off_compute(answer: StudyAnswer) -> None:
    for view in ("ideal", "calibrated"):
        bound = {row["change"]: row["bound_level"] for row in answer.rows if row["view"] == view}
        assert bound["A100"] == "compute"
        assert bound["precision"] == "dram"


def test_published_gain_is_shown_with_its_source(answer: StudyAnswer) -> None:
    published = study_to_dict(answer)["summary"]["published"]
    assert published["gain"] == 35
    assert "2407.14645" in published["source"]


def test_last_system_is_the_one_of_the_catalog() -> None:
    ladder = Ladder(base=BASE, devices=DEVICES, view="ideal", searched=QUICKLY_SEARCHED, progress=SILENT)
    ours, theirs = ladder.at(ALL).scenario.cluster, read_cluster(f"{DEVICES}x {NEW}")
    for part in ("device", "intra_node", "network", "host"):
        one, other = getattr(ours, part), getattr(theirs, part)
        for field in fields(one):
            if field.name != "usd_per_hour":
                assert getattr(one, field.name) == getattr(other, field.name), f"{part}.{field.name}"
    assert ours.per_node == theirs.per_node


def test_one_view_is_answered_on_request() -> None:
    calibrated = explore("a100-to-b200", quick=True, view="calibrated")
    assert set(calibrated.columns["view"]) == {"calibrated"}
    assert calibrated.summary["gain"] == calibrated.summary["gains"]["calibrated"][OF_2021]
    assert calibrated.assumptions[0].startswith("Calibrated view")


def test_what_the_study_varies_is_not_set() -> None:
    with pytest.raises(InputError, match=r"plan\.dtype cannot be set"):
        explore("a100-to-b200", overrides={"plan.dtype": "bf16"})
    with pytest.raises(InputError, match=r"workload\.global_batch of a100-to-b200"):
        explore("a100-to-b200", overrides={"workload.global_batch": {"at_most": 2304}})


@pytest.mark.slow
def test_whole_study_says_what_the_order_and_the_size_change() -> None:
    whole = explore("a100-to-b200", view="ideal")
    made = whole.summary["made_first_and_last"]
    assert list(made) == list(NAMES[1:])
    assert all(factor >= 1 - 1e-9 for both in made.values() for factor in both)
    assert len(whole.summary["other_sizes"]) == 3
