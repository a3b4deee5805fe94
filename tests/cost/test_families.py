"""Intervals of operators follow from what the calibrations state."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sightline import catalog
from sightline.cost import families
from sightline.cost.families import BETWEEN, OUTSIDE, covers, family_half_width, first_stated, half_width
from sightline.loading.clusters import read_cluster
from sightline.prediction.single_operators import RANGES

SERVING = ("residuals",)
DEVICES = {name: read_cluster(f"1x {name}").device for name in ("h100-pcie-80gb", "h100-sxm-80gb", "t4", "mi300x")}
IMAGINED = replace(DEVICES["h100-sxm-80gb"], name="mine", calibration="generic", relatives=(), architecture="unknown")


def stated(family, part, *path):
    place = catalog.entry("calibrations", f"{family}/{part}")
    for key in path:
        place = place[key]
    return math.log1p(place["median"] ** (1 - BETWEEN) * place["p90"] ** BETWEEN)


@pytest.mark.parametrize("quantiles", [(0.6745, 1.2816, 1.6449), (math.log(2), math.log(5), math.log(10))])
def test_the_80th_percentile_lies_where_normal_and_laplace_errors_have_it(quantiles):
    median, wanted, p90 = quantiles
    assert median ** (1 - BETWEEN) * p90**BETWEEN == pytest.approx(wanted, rel=0.02)


def test_left_out_shapes_count_before_those_that_were_fitted():
    width = family_half_width(IMAGINED, "h100-sxm", "prefill_attention", SERVING, RANGES, "calibrated")
    assert width == stated("h100-sxm", "prefill_attention", "residuals", "head shapes left out")
    only = family_half_width(IMAGINED, "rtx-4090", "prefill_attention", SERVING, RANGES, "calibrated")
    assert only == stated("rtx-4090", "prefill_attention", "residuals", "formula")


def test_of_several_kernels_the_widest_counts():
    width = family_half_width(IMAGINED, "a100-sxm", "decode_attention", SERVING, RANGES, "calibrated")
    both = [
        stated("a100-sxm", "decode_attention", "residuals", f"{kernel}, head shapes left out")
        for kernel in ("own", "shared")
    ]
    assert width == max(both)


def test_percentages_of_collectives_are_fractions():
    place = ("residuals", "held_out", "all_reduce")
    width = family_half_width(IMAGINED, "h100-sxm", "collectives", place, ("every other size",), "calibrated")
    figures = catalog.entry("calibrations", "h100-sxm/collectives")["residuals"]["held_out"]["all_reduce"]
    _, median, p90, _ = figures["every other size"]
    assert width == pytest.approx(math.log1p((median / 100) ** 0.3 * (p90 / 100) ** 0.7))


def test_the_first_place_that_states_residuals_counts():
    newest, older = (("residuals", "held_out", r) for r in ("vllm 0.24.0", "vllm 0.14.0"))
    fitted = ("residuals", "fitted", "vllm 0.14.0")
    assert first_stated("h100-sxm", "collectives", newest, fitted) == newest
    assert first_stated("h100-sxm", "collectives", older, fitted) == fitted
    assert family_half_width(IMAGINED, "h100-sxm", "collectives", fitted, (), "calibrated") < OUTSIDE["collectives"]


@pytest.mark.parametrize("part", sorted(set(OUTSIDE) - {"latent_decode_attention"}))
def test_an_own_family_is_wider_where_it_was_not_measured(part):
    device, family = DEVICES["h100-sxm-80gb"], "h100-sxm"
    assert family_half_width(device, family, part, ("nothing",), (), "extrapolated") == OUTSIDE[part]
    assert family_half_width(device, family, part, ("nothing",), (), "calibrated") == OUTSIDE[part]


@pytest.mark.parametrize("part", sorted(OUTSIDE))
def test_half_widths_grow_with_the_distance_from_what_was_measured(part):
    def width(name, family="h800-sxm" if part == "latent_decode_attention" else "h100-sxm"):
        return family_half_width(DEVICES[name], family, part, ("nothing",), (), "extrapolated")

    sibling, generation = width("h100-pcie-80gb"), width("t4")
    assert sibling <= generation < width("mi300x")
    assert width("t4", "generic") == generation
    assert width("mi300x", "generic") == width("mi300x")
    nobody = family_half_width(IMAGINED, "generic", part, ("nothing",), (), "datasheet")
    assert nobody == width("mi300x")


def test_a_device_takes_its_own_familys():
    device = read_cluster("1x a100-sxm-80gb").device
    place = ("kernels", "16-bit", "surface_residuals")
    own = half_width(device, "matmul", place, ("families left out",), "calibrated")
    assert own == stated("a100-sxm", "matmul", *place, "families left out")
    assert 0.02 < own < OUTSIDE["matmul"]


STATED = {"covered": {"16-bit": {"m": [1.0, 4096.0], "n": [32.0, 8192.0]}}}


@pytest.fixture
def ranges(monkeypatch):
    monkeypatch.setattr(families, "entry", lambda kind, name: {"mine/matmul": STATED, "old/matmul": {}}[name])


@pytest.mark.usefixtures("ranges")
def test_the_ends_are_inside():
    assert covers("mine", "matmul", "16-bit", {"m": 1, "n": 8192})
    assert not covers("mine", "matmul", "16-bit", {"m": 1, "n": 8193})
    assert not covers("mine", "matmul", "16-bit", {"m": 0.5, "n": 64})


@pytest.mark.usefixtures("ranges")
def test_sizes_broadcast():
    inside = covers("mine", "matmul", "16-bit", {"m": np.array([[1], [5000]]), "n": np.array([16, 32, 9000])})
    assert inside.tolist() == [[False, True, False], [False, False, False]]


@pytest.mark.usefixtures("ranges")
def test_what_is_not_stated_limits_nothing():
    assert covers("mine", "matmul", "16-bit", {"k": 1e9})
    assert covers("mine", "matmul", "fp8", {"m": 1e9})
    assert covers("old", "matmul", "16-bit", {"m": 1e9})
