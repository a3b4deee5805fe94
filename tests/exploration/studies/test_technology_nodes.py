"""Times from 12 nm to 1 nm."""

import warnings

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest
from sightline.exploration.node_times import ONE_PLAN, SHARES
from sightline.exploration.studies.technology_nodes import MEMORIES, NODES, SEARCH, study
from sightline.progress import Cancelled, Progress


@pytest.fixture(scope="module")
def answer():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # No device without a clock is predicted.
        return study(StudyRequest(view="ideal"))


def _ratio(answer, scaling, network, memory, task="training"):
    ratios = answer.summary["after_over_before"]["ideal"][scaling][task]
    return list(ratios.values())[network][memory]


@pytest.mark.parametrize("task", ["training", ONE_PLAN])
def test_logic_alone_saturates_and_memory_with_links_bring_back_more(answer, task):
    for scaling in ("vendor", "ideal"):
        alone, together = _ratio(answer, scaling, 0, "hbm2", task), _ratio(answer, scaling, -1, "hbm4", task)
        assert alone < 0.5
        # By vendors' claims the peak itself gains less than half after 3 nm of what it gains before.
        assert alone < together
        assert (together >= 0.5) == (scaling == "ideal")


def test_compute_memory_and_network_bind_in_this_order_with_one_plan(answer):
    sequences = answer.summary["sequence"]["ideal"]["vendor"]
    first = next(iter(sequences[ONE_PLAN]))
    assert sequences[ONE_PLAN][first] == ["compute", "memory", "network"]
    assert sequences["training"][first] == ["compute", "memory"]
    assert any(f"is that of one plan at all nodes with {first}" in line for line in answer.reading)


def test_the_one_plan_is_that_of_the_oldest_node_and_is_never_faster(answer):
    rows = list(answer.rows)
    degrees = ("tensor_parallel", "pipeline_parallel", "micro_batch")
    for kept, searched in zip(
        *([row for row in rows if row["task"] == task] for task in (ONE_PLAN, "training")), strict=True
    ):
        assert kept["time_s"] >= searched["time_s"] * (1 - 1e-12)
        if (kept["node"], kept["memory"]) == ("12nm", "hbm2"):
            assert kept["time_s"] == searched["time_s"]
            plan = [kept[name] for name in degrees]
        assert [kept[name] for name in degrees] == plan


def test_newer_nodes_are_not_slower(answer):
    columns = {name: np.asarray(values) for name, values in answer.columns.items()}
    keys = ("task", "scaling", "network", "memory")
    for key in {tuple(row) for row in np.stack([columns[name] for name in keys], axis=1)}:
        mine = np.all([columns[name] == value for name, value in zip(keys, key, strict=True)], axis=0)
        time_s = columns["time_s"][mine]
        assert columns["node"][mine].tolist() == list(NODES)
        # Decoding may wait for L2, whose clock falls where the units of a dense node leave it little power: no area is
        # left without units, and L2 has at most 60 % of the logic. With HBM4 5 nm is 6.2 % slower than 7 nm, the most.
        assert (np.diff(time_s) <= time_s[:-1] * (0.065 if "decode" in key else 1e-6)).all()


def test_shares_sum_to_one_and_numbers_are_there(answer):
    assert len(answer) == 4 * 2 * 4 * len(MEMORIES) * len(NODES)
    assert np.sum([answer.columns[name] for name in SHARES], axis=0) == pytest.approx(np.ones(len(answer)))
    assert np.isfinite(answer.columns["time_s"]).all()


def test_speedup_is_over_the_oldest_device_of_each_task_and_scaling(answer):
    for key in {(row["task"], row["scaling"]) for row in answer.rows}:
        mine = [row for row in answer.rows if (row["task"], row["scaling"]) == key]
        oldest = [row for row in mine if (row["node"], row["memory"]) == ("12nm", "hbm2")]
        assert oldest[0]["speedup"] == 1.0
        # The faster, the larger the speed-up, whatever the units.
        assert sorted(mine, key=lambda row: row["time_s"]) == sorted(mine, key=lambda row: -row["speedup"])


def test_best_designs_are_among_those_searched(answer):
    assert set(answer.columns["area_of_l2"]) <= set(SEARCH.choices.l2_shares)
    for stacks, most in zip(answer.columns["stacks"], answer.columns["most_stacks"], strict=True):
        assert stacks == most or (stacks in SEARCH.choices.stacks and stacks < most)
    assert len(set(answer.columns["stacks"])) > 1


def test_best_designs_at_an_end_of_the_search_are_counted(answer):
    counts = answer.summary["at_ends_of_search"]["ideal"]["training"]
    mine = [row for row in answer.rows if row["task"] == "training"]
    assert counts["points"] == len(mine)
    assert counts["most_stacks"] == sum(row["stacks"] == row["most_stacks"] for row in mine)
    assert counts["least_l2"] == sum(row["area_of_l2"] == SEARCH.choices.l2_shares[0] for row in mine)


def test_small_version_of_both_views_has_the_same_columns(answer):
    quick = study(StudyRequest(quick=True))
    assert list(quick.columns) == list(answer.columns)
    assert set(quick.columns["view"]) == {"ideal", "calibrated"}
    assert len(quick.reading) == 2 * (2 + 2 + 1 + 1 + 1 + 1)


def test_points_at_which_nothing_fits_have_no_time():
    found = study(StudyRequest(quick=True, view="calibrated", overrides={"model": "megatron-1t"}))
    unfit = [row for row in found.rows if row["bound_level"] == ""]
    assert unfit
    assert all(np.isnan([row["time_s"], *(row[name] for name in SHARES)]).all() for row in unfit)
    assert found.warnings == [f"no device and plan fit at {len(unfit)} of {len(found)} points"]
    assert not found.reading


def test_what_the_study_searches_is_not_set():
    with pytest.raises(InputError, match=r"plan\.micro_batch cannot be set"):
        study(StudyRequest(overrides={"plan.micro_batch": 2}))


def test_both_tasks_take_what_is_set_of_them():
    settings = {"model": "llama-2-13b", "cluster.devices": 256, "workload.batch": 4, "workload.global_batch": 512}
    found = study(StudyRequest(quick=True, view="ideal", overrides=settings))
    assert any("256 devices train llama-2-13b, 512 seq" in said and ", 4 prompts" in said for said in found.assumptions)
    usual = study(StudyRequest(quick=True, view="ideal"))
    for task in ("training", "prefill", "decode"):
        times = ([row["time_s"] for row in one.rows if row["task"] == task] for one in (found, usual))
        assert next(times) != next(times)


@pytest.mark.parametrize("count", [12, 0, "many", 64.0])
def test_devices_come_in_whole_nodes(count):
    with pytest.raises(InputError, match=r"cluster\.devices of technology-nodes is .*a multiple of 8"):
        study(StudyRequest(quick=True, overrides={"cluster.devices": count}))


def test_a_study_counts_every_prediction_and_stops_after_the_first():
    states = []

    def tell(state):
        states.append(state)
        if state.done:
            progress.cancel()

    progress = Progress(tell, every_s=0.0)
    with pytest.raises(Cancelled):
        study(StudyRequest(quick=True, progress=progress))
    assert [state.done for state in states] == [0, 1]
    assert states[0].total >= 40
