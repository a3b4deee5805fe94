"""What long products keep of the peak on devices whose products nobody measured."""

from dataclasses import replace

import numpy as np
import pytest

from sightline.calibration.manifest import manifest
from sightline.calibration.parts.matmul import fit_sustained
from sightline.cost.attention_constants import load_prefill_attention, prefill_constants
from sightline.cost.clock import SustainedLaw, shipped_law, sustained_share
from sightline.cost.matmul import at_power, borrowed_matmul, load_matmul, matmul_constants
from sightline.loading.clusters import read_cluster

LAW = SustainedLaw(scale=0.2, exponent=1.0, process_energy=2.0, makers={"nvidia": 1.0, "amd": 0.7})


def device(name):
    return read_cluster(f"1x {name}").device


def kept(constants):
    """Share of the peak that a product keeps which runs for long."""
    return constants.peak_fraction * (1 - constants.throttled_share)


def test_the_share_follows_from_watts_per_flop():
    a100 = device("a100-sxm-80gb")
    watts = 400 / 312
    assert sustained_share(a100, LAW) == pytest.approx(1 / (1 + 0.2 / watts))
    assert sustained_share(replace(a100, tdp_w=200), LAW) < sustained_share(a100, LAW)


def test_older_silicon_and_other_makers_reach_less():
    a100 = device("a100-sxm-80gb")
    assert sustained_share(replace(a100, architecture="sm_75"), LAW) == pytest.approx(1 / (1 + 0.2 / (400 / 312 / 2)))
    assert sustained_share(replace(a100, architecture="gfx942"), LAW) == pytest.approx(0.7 * sustained_share(a100, LAW))


def test_devices_of_makers_that_nobody_measured_have_no_rule():
    assert sustained_share(device("tpu-v4"), LAW) is None
    assert sustained_share(replace(device("t4"), architecture="unknown"), LAW) is None


def test_shares_broadcast_over_a_mesh_of_devices():
    a100 = replace(device("a100-sxm-80gb"), tdp_w=np.array([250.0, 400.0]))
    shares = sustained_share(a100, LAW)
    assert shares.shape == (2,)
    assert shares[0] < shares[1]


def test_the_fit_finds_the_law_that_shares_were_made_with():
    best = {n: float(sustained_share(device(n), LAW)) for n in ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb")}
    best |= {n: float(sustained_share(device(n), LAW)) for n in ("t4", "v100-sxm2-32gb", "mi210", "mi300x")}
    found = fit_sustained({"source": "made", "makers": ["amd"], "best": best})
    assert found["scale"] == pytest.approx(0.2, rel=0.02)
    assert found["exponent"] == pytest.approx(1.0, rel=0.02)
    assert found["process_energy"] == pytest.approx(2.0, rel=0.03)
    assert found["makers"]["amd"] == pytest.approx(0.7, rel=0.02)


def test_every_device_left_out_is_within_a_quarter():
    """The rule without a device's architecture, against the best products that were published of it."""
    stated = manifest("matmul")["sustained"]
    for name, share in stated["best"].items():
        law = SustainedLaw.from_mapping(fit_sustained(stated, {device(name).architecture}))
        assert sustained_share(device(name), law) == pytest.approx(share, rel=0.25), name


def test_less_power_slows_long_products_and_more_frees_them():
    c = load_matmul("a100-sxm")
    assert kept(at_power(c, 0.8)) == pytest.approx(0.8 * kept(c))
    assert at_power(c, 0.8).peak_fraction == c.peak_fraction
    assert kept(at_power(c, 1.05)) == pytest.approx(1.05 * kept(c))
    assert at_power(c, 2.0).peak_fraction == 1.0


def test_a_library_slows_short_products_as_much_as_long_ones():
    c = load_matmul("a100-sxm")
    slower = at_power(c, 0.7, 0.7)
    assert (slower.peak_fraction, slower.throttled_share) == pytest.approx((0.7 * c.peak_fraction, c.throttled_share))


def test_a_device_whose_best_product_was_published_has_its_own_library():
    stated = manifest("matmul")["sustained"]["best"]
    for name in ("mi300x", "mi355x", "gaudi3"):
        assert sustained_share(device(name), shipped_law()) == pytest.approx(stated[name], rel=0.01)


@pytest.mark.parametrize(("name", "library"), [("mi300x", 0.659), ("v100-sxm2-32gb", 1.0)])
def test_attention_reaches_what_products_do_of_the_usual_library(name, library):
    prefill, generic = prefill_constants(device(name)), load_prefill_attention("generic")
    assert prefill.peak_fraction == pytest.approx(library * generic.peak_fraction)
    assert prefill.memory_fraction == generic.memory_fraction


def test_boards_of_little_power_keep_less_of_the_peak_than_the_family_that_lends():
    assert kept(matmul_constants(device("l4"))) < 0.85 * kept(load_matmul("rtx-4090"))
    assert kept(matmul_constants(device("a100-pcie-40gb"))) < kept(load_matmul("a100-sxm"))
    assert kept(matmul_constants(device("mi300x"))) < 0.8 * kept(load_matmul("generic"))


def test_a_measured_device_and_one_without_a_rule_keep_the_constants_as_they_are():
    assert matmul_constants(device("a100-sxm-80gb"), "fp8") is load_matmul("a100-sxm", "fp8")
    assert borrowed_matmul("generic", device("tpu-v4"), "fp8") is load_matmul("generic", "fp8")


def test_the_shipped_rule_knows_three_makers():
    assert set(shipped_law().makers) == {"nvidia", "amd", "intel"}
