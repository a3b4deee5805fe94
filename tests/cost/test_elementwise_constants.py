"""Constants of bandwidth-bound kernels by class: every family has every class; several at once equal each alone."""

import numpy as np
import pytest
from operators import stream

from sightline.catalog import names
from sightline.cost.elementwise import STREAMED, elementwise_constants, elementwise_cost, load_elementwise, memory_share
from sightline.loading.clusters import read_cluster

FAMILIES = [name.split("/")[0] for name in names("calibrations") if name.endswith("/elementwise")]
CLASSES = {
    "norm",
    "rope",
    "activation",
    "residual",
    "copy",
    "embedding",
    "softmax",
    "cache write",
    "sampling",
    "conv",
    "scalar activation",
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("generation", [None, "scalar", "vectorized"])
def test_every_family_has_every_class(family, generation):
    constants = load_elementwise(family, generation)
    assert set(constants) == CLASSES
    for c in constants.values():
        assert 0.1 < c.memory_fraction < 1
        assert 0 <= c.cache_gain <= 1
        assert 1e-7 < c.kernel_latency_s < 6e-5


def test_kernels_of_2023_are_slower_than_later_ones():
    before, after = (load_elementwise("a100-sxm", generation)["norm"] for generation in ("scalar", "vectorized"))
    assert before.memory_fraction < 0.5 * after.memory_fraction
    assert load_elementwise("a100-sxm")["norm"].memory_fraction == before.memory_fraction


def test_a_scalar_activation_is_that_of_2023_beside_later_kernels():
    device = read_cluster("1x a100-sxm-80gb").device
    constants = elementwise_constants(["activation", "scalar activation"], "a100-sxm", "vectorized")
    later, scalar = memory_share(constants, device)
    assert scalar == load_elementwise("a100-sxm", "scalar")["activation"].memory_fraction < later


def test_several_kernels_in_one_call_cost_what_each_costs():
    device = read_cluster("1x a100-sxm-80gb").device
    kinds, traffic = ["norm", "rope", "unheard of"], np.array([1e6, 1e8, 1e7])
    together = elementwise_cost(stream(traffic), device, elementwise_constants(kinds, "a100-sxm")).time_s
    known = load_elementwise("a100-sxm")
    for i, kind in enumerate(kinds):
        alone = elementwise_cost(stream(traffic[i]), device, known.get(kind, known["copy"])).time_s
        assert together[i] == pytest.approx(float(alone), rel=1e-12)


def test_kernels_bound_by_instructions_move_bytes_per_cycle():
    a100, a40, h100 = (read_cluster(f"1x {name}").device for name in ("a100-sxm-80gb", "a40", "h100-sxm-80gb"))
    norm = load_elementwise("a100-sxm", "scalar")["norm"]
    assert memory_share(norm, a100) == norm.memory_fraction
    # A40's memory gives a unit a third per cycle, so that instructions hardly matter; H100's as much as A100's
    assert 2 * norm.memory_fraction < memory_share(norm, a40) < STREAMED
    assert memory_share(norm, h100) == pytest.approx(norm.memory_fraction, rel=0.1)


def test_kernels_bound_by_memory_keep_their_share():
    norm = load_elementwise("a100-sxm", "vectorized")["norm"]
    assert memory_share(norm, read_cluster("1x a40").device) == norm.memory_fraction
