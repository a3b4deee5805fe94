"""Times from 12 nm to 1 nm."""

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.exploration.nodes.times import SHARES
from sightline.exploration.request import StudyRequest
from sightline.exploration.studies.technology_nodes import MEMORIES, NODES, SEARCH, study


@pytest.fixture(scope="module")
def answer():
    return study(StudyRequest(view="ideal"))


def _ratio(answer, scaling, network, memory):
    ratios = answer.summary["after_over_before"]["ideal"][scaling]["training"]
    return list(ratios.values())[network][memory]


@pytest.mark.parametrize("scaling", ["vendor", "ideal"])
def test_logic_alone_saturates_and_memory_with_links_restore_it(answer, scaling):
    assert _ratio(answer, scaling, 0, "hbm2") < 0.5
    assert _ratio(answer, scaling, -1, "hbm4") > 0.5


def test_what_binds_goes_from_compute_to_memory_and_the_network_is_next(answer):
    assert answer.summary["sequence"]["ideal"]["training"] == ["compute", "dram"]
    following = answer.summary["runner_up"]["ideal"]["training"]
    assert (following["bound_level"], following["level"]) == ("compute", "network")
    assert following["share"] > 0.1


def test_newer_nodes_are_not_slower(answer):
    columns = {name: np.asarray(values) for name, values in answer.columns.items()}
    keys = ("task", "scaling", "network", "memory")
    for key in {tuple(row) for row in np.stack([columns[name] for name in keys], axis=1)}:
        mine = np.all([columns[name] == value for name, value in zip(keys, key, strict=True)], axis=0)
        time_s = columns["time_s"][mine]
        assert columns["node"][mine].tolist() == list(NODES)
        # Decoding may wait for L2, whose clock falls where the units of a dense node leave it little power: no area is
        # left without units.
        assert (np.diff(time_s) <= time_s[:-1] * (0.1 if "decode" in key else 1e-6)).all()


def test_shares_sum_to_one_and_numbers_are_there(answer):
    assert len(answer) == 3 * 2 * 4 * len(MEMORIES) * len(NODES)
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
    assert set(answer.columns["stacks"]) <= set(SEARCH.choices.stacks)
    assert len(set(answer.columns["stacks"])) > 1


def test_small_version_of_both_views_has_the_same_columns(answer):
    quick = study(StudyRequest(quick=True))
    assert list(quick.columns) == list(answer.columns)
    assert set(quick.columns["view"]) == {"ideal", "calibrated"}
    assert len(quick.reading) == 2 * (2 + 2 + 1 + 1)


def test_points_at_which_nothing_fits_have_no_time():
    found = study(StudyRequest(quick=True, view="calibrated", overrides={"model": "megatron-1t"}))
    unfit = [row for row in found.rows if row["bound_level"] == ""]
    assert unfit
    assert all(np.isnan([row["time_s"], *(row[name] for name in SHARES)]).all() for row in unfit)
    assert found.warnings == [f"no device and plan fits at {len(unfit)} of {len(found)} points"]
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
