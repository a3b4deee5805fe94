"""Devices predicted as if nobody had measured them: whose constants they take, and how far those are off."""

from dataclasses import replace

import numpy as np
import pytest

from sightline.calibration.manifest import device_of
from sightline.calibration.parts.collectives import CollectiveTable, measured_node, predicted
from sightline.catalog import entry
from sightline.cost.clock import clock_hz
from sightline.cost.collectives.libraries import load_collectives
from sightline.cost.families import known_spreads as known
from sightline.validation.operators.families import never_fitted_suites
from sightline.validation.operators.left_out import (
    LeftOut,
    distance_of,
    half_widths,
    left_out,
    part_of,
    rows,
    summary,
)
from sightline.validation.operators.never_fitted import (
    attention_without,
    collectives_without,
    elementwise_without,
    lender_of,
    matmul_without,
    server_shares,
)


@pytest.mark.parametrize(
    ("family", "part", "lender"),
    [
        ("h100-sxm", "matmul", "b200-sxm"),  # neither H200 nor H800, which have the same silicon
        ("rtx-4090", "matmul", "rtx-3090"),  # which names it as a relative
        ("a100-sxm", "matmul", "generic"),  # what A800's small tables moved were A100's constants
        ("h800-sxm", "latent_decode_attention", "generic"),  # B200's is made from H800's
    ],
)
def test_a_device_left_out_takes_constants_made_without_it(family, part, lender):
    assert lender_of(family, part)[: len(lender)] == lender


@pytest.mark.parametrize(
    ("family", "part", "lender"),
    [
        ("a800-sxm", "prefill_attention", "generic"),  # A100 is the same silicon
        ("h20", "prefill_attention", "generic"),  # fewer and slower compute units than H800's
        ("b200-sxm", "decode_attention", "generic"),
        ("h100-sxm", "decode_attention", "generic"),
    ],
)
def test_attention_is_lent_by_equal_compute_units_or_all_devices(family, part, lender):
    assert attention_without(family, part)[0] == lender


def test_a_device_left_out_keeps_the_form_of_its_kernel():
    _, hopper = attention_without("h100-sxm", "prefill_attention")
    _, blackwell = attention_without("b200-sxm", "prefill_attention")
    assert hopper["packed_heads"]
    assert (hopper["query_block"], blackwell["query_block"]) == (128, 256)


def test_siblings_lend_where_they_are_not_left_out_too():
    assert lender_of("h100-sxm", "matmul", siblings=True) == "h200-sxm"
    assert attention_without("a800-sxm", "prefill_attention", siblings=True)[0] == "a100-sxm"
    assert collectives_without("b200-sxm", siblings=True)[0] in ("b300-sxm", "gb200", "gb300")
    assert collectives_without("a800-sxm", siblings=True)[0] == "a100-sxm"


def test_links_of_other_generations_lend_collectives():
    assert collectives_without("b200-sxm")[0] == "a100-sxm and h100-sxm"
    assert collectives_without("a800-sxm")[0] == "h100-sxm and b200-sxm"


def test_launches_are_lent_as_cycles():
    """A100's clock is 1.41 GHz, those of its lenders 1.37 to 2.5."""
    _, kinds = collectives_without("a100-sxm")
    families = ("h100-sxm", "b200-sxm", "l40s", "rtx-pro-6000", "v100-pcie")
    lent = [load_collectives(f).kinds["all_reduce"].protocols[0].launch_s for f in families]
    cycles = [launch * clock_hz(device_of(f)) for launch, f in zip(lent, families, strict=True)]
    launch = kinds["all_reduce"].protocols[0].launch_s
    assert launch * clock_hz(device_of("a100-sxm")) == pytest.approx(np.exp(np.log(cycles).mean()))


def test_one_long_message_for_each_number_of_ranks_tells_a_servers_shares():
    node, kinds = measured_node("pcie4"), load_collectives("rtx-pro-6000").kinds
    shares = {2: 0.9, 4: 0.3, 8: 0.1}
    n, size = (x.ravel() for x in np.meshgrid([2.0, 4.0, 8.0], 2.0 ** np.arange(10, 31)))
    table = CollectiveTable(kind="all_reduce", ranks=n, ranks_per_node=n, bytes=size, seconds=np.ones(63))
    served = {"all_reduce": replace(kinds["all_reduce"], shares=shares)}
    found, told = server_shares(replace(table, seconds=predicted(table, node, served)), node, kinds)
    assert found == pytest.approx(shares, rel=0.01)
    assert (told == (size == 2.0**30)).all()


def test_a_server_that_nobody_knows_has_a_suite_without_a_goal(data):
    goals = {s.name: s.goal for s in never_fitted_suites(data) if s.name.startswith("nccl l40s")}
    assert goals == {"nccl l40s never fitted": "median 20 %", "nccl l40s never fitted, server unknown": ""}


def test_the_joint_set_without_a_device_is_another():
    _, without = attention_without("a100-sxm", "decode_attention")
    assert without != {
        n: v for n, v in entry("calibrations", "generic/decode_attention")["constants"].items() if n != "surface"
    }


def test_no_family_lends_to_itself():
    assert "b200-sxm" not in matmul_without("b200-sxm", "fp8")[0]
    assert "a100-sxm" not in matmul_without("a100-sxm", "w8a8")[0]
    assert "a100-sxm" not in collectives_without("a100-sxm")[0]
    assert elementwise_without("a40", "scalar")[0] != "a40"


@pytest.fixture(scope="module")
def all_left_out(data):
    return left_out(never_fitted_suites(data))


@pytest.mark.slow
def test_every_device_left_out_has_a_figure_to_report(all_left_out):
    assert all_left_out
    for one in all_left_out:
        assert np.isfinite(one.errors).all(), one.suite


def made(device, part, distance, factor, count=100):
    measured = np.ones(count)
    suite = f"{part} {device}"
    return LeftOut(
        suite=suite, part=part, device=device, distance=distance, predicted=measured * factor, measured=measured
    )


def test_an_interval_never_knows_the_device_that_it_is_held_against():
    """H200 has H100's silicon, so that both are judged by A100 and A40 alone."""
    found = [made(n, "matmul", "same maker", f) for n, f in (("h100-sxm", 2.0), ("h200-sxm", 2.0), ("a40", 1.1))]
    by_device = {row["device"]: row for row in rows(found)}
    assert by_device["h100-sxm"]["half_width"] == pytest.approx(np.log(1.1), rel=0.02)
    assert by_device["h100-sxm"]["coverage"] == 0
    assert by_device["a40"]["half_width"] == pytest.approx(np.log(2.0), rel=0.02)
    assert by_device["a40"]["coverage"] == 1


def test_devices_count_the_same_whatever_the_size_of_their_tables():
    few, many = made("a40", "matmul", "same maker", 1.5, 10), made("v100-pcie", "matmul", "same maker", 1.1, 10_000)
    assert half_widths([few, many])["matmul"]["same maker"]["half_width"] == pytest.approx(np.log(1.5), rel=0.02)


def test_a_suites_name_tells_its_part_device_and_distance():
    names = ["matmul-16-bit h100-sxm sibling fitted", "nccl l40s never fitted, server unknown", "element-wise mi210 x"]
    assert [distance_of(name) for name in names] == ["same architecture", "server unknown", "other"]
    assert [part_of(name) for name in names] == ["matmul", "collectives", "elementwise"]


def test_parts_are_summed_up_by_distance():
    table = rows([made("h100-sxm", "matmul", "same maker", 1.2), made("a40", "matmul", "same maker", 1.1)])
    (row,) = summary(table)
    assert row == {
        "part": "matmul",
        "distance": "same maker",
        "devices": 2,
        "median": pytest.approx(0.15),
        "mean": pytest.approx(0.15),
        "coverage": 0.5,
    }


@pytest.mark.slow
def test_shipped_half_widths_are_those_of_the_tables(all_left_out):
    found = half_widths(all_left_out)
    shipped = {part: {d: x["half_width"] for d, x in told.items()} for part, told in known().items()}
    today = {part: {d: x["half_width"] for d, x in told.items()} for part, told in found.items()}
    for part, told in today.items():
        assert shipped[part] == pytest.approx(told, abs=0.03), "python -m sightline.validation.operators --write"


@pytest.mark.slow
def test_devices_left_out_are_within_a_fifth_and_their_intervals_hold(all_left_out):
    for row in summary(rows(all_left_out)):
        if row["distance"] == "same maker":
            assert row["median"] <= 0.20, row
            assert row["coverage"] >= 0.70, row
