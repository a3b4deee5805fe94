"""The standard suite: sized for the machine, grouped into processes, resumed."""

import pytest

from sightline.errors import InputError
from sightline.loading import load
from sightline.measurement.operators.operator_suite import (
    GROUP,
    KERNELS,
    LONGEST_S,
    asked,
    grouped,
    measure_suite,
    standard_suite,
)
from sightline.prediction import predict
from sightline.runs import open_store


@pytest.fixture(scope="module")
def suite():
    return standard_suite("fp32", quick=False)


def test_every_operator_is_there_often_enough_for_a_fit(suite) -> None:
    kinds = [mapping["workload"]["operator"] for mapping in suite]
    assert kinds.count("matmul") >= 24
    assert kinds.count("attention") >= 48
    assert all(kinds.count(name) >= 6 for name in KERNELS)


def test_no_operator_takes_long(suite) -> None:
    longest = 0.0
    for mapping in suite:
        if "dtype" in mapping["workload"]:
            profile = predict(load(asked(mapping)["scenario"]))
            longest = max(longest, float(profile.flops) / 1e9)
    assert longest * 1e9 <= LONGEST_S * float(load(asked(suite[0])["scenario"]).cluster.device.peak_flops["fp32"])


def test_shapes_are_distinct(suite) -> None:
    said = [str(mapping) for mapping in suite]
    assert len(set(said)) == len(said)


def test_a_quick_suite_is_a_part_of_it(suite) -> None:
    quick = standard_suite("fp32", quick=True)
    assert len(quick) < 0.75 * len(suite)
    assert all(mapping in suite for mapping in quick)


def test_other_devices_have_theirs() -> None:
    suite = standard_suite("bf16", quick=False, cluster="4x h100-sxm-80gb")
    clusters = {mapping["workload"]["operator"]: mapping["cluster"] for mapping in suite}
    assert (clusters["matmul"], clusters["all_gather"]) == ("1x h100-sxm-80gb", "4x h100-sxm-80gb")
    with pytest.raises(InputError, match="--dtype is 'bf16'; allowed on v100"):
        standard_suite("bf16", quick=True, cluster="1x v100-sxm2-32gb")


def test_groups_hold_one_operator_each_and_nothing_is_lost(suite) -> None:
    groups = grouped(suite)
    assert all(len({m["workload"]["operator"] for m in group}) == 1 and len(group) <= GROUP for group in groups)
    assert sum(map(len, groups)) == len(suite)


@pytest.mark.slow
def test_a_suite_goes_on_where_it_stopped_and_says_what_is_missing(tmp_path) -> None:
    pytest.importorskip("torch")
    sizes = [64, 10**12]
    mappings = [
        {
            "cluster": "this-machine",
            "workload": {"task": "operator", "operator": "copy", "elements": n, "dtype": "fp32"},
        }
        for n in sizes
    ]
    store = open_store(str(tmp_path))
    measured, missing = measure_suite("tiny", mappings, store, quick=True)
    assert [m.profile.source for m in measured] == ["measured"]
    assert "of memory" in missing[0]
    again, _ = measure_suite("tiny", mappings, store, quick=True)
    assert [m.run.id for m in again] == [m.run.id for m in measured]
