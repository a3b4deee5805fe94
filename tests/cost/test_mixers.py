"""Costs of mixers beyond softmax attention: backward passes, and scalars against arrays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.collectives.libraries import cluster_collectives, whole_group
from sightline.cost.device_model import device_model
from sightline.cost.prices import OperatorCost, Ranks, price
from sightline.loading.clusters import read_cluster
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution, StateSpaceScan

ADDRESS: dict[str, Any] = {"module": "core", "part": "core", "element_bytes": 2.0}
SIZES = st.fixed_dictionaries({"sequences": st.integers(1, 8), "new_tokens": st.integers(128, 65536)})


def of_each_kind(sizes: dict[str, Any], *, backward: bool) -> list[Any]:
    common = ADDRESS | sizes | {"direction": "backward" if backward else "forward"}
    mixed = common | {"decode": False, "dtype": "bf16"}
    indexer = {k: v for k, v in common.items() if k != "element_bytes"}
    return [
        GatedDelta(key_heads=32.0, value_heads=32.0, key_dim=128.0, value_dim=128.0, **mixed),
        StateSpaceScan(heads=64.0, head_dim=64.0, groups=8.0, state=128.0, **mixed),
        ShortConvolution(channels=8192.0, width=4.0, decode=False, **common),
        SelectedAttention(
            context_tokens=sizes["new_tokens"],
            selected_tokens=np.minimum(2048.0, sizes["new_tokens"]),
            heads=128.0,
            key_dim=576.0,
            value_dim=512.0,
            cache_bytes=2.0,
            **mixed,
        ),
        Indexer(context_tokens=sizes["new_tokens"], heads=64.0, head_dim=128.0, dtype="bf16", key_bytes=2.0, **indexer),
    ]


def costs(operators: list[Any]) -> list[OperatorCost]:
    cluster = read_cluster("1x h100-sxm-80gb")
    ranks = Ranks(
        device_model=device_model(cluster.device),
        cluster=cluster,
        library=cluster_collectives(cluster),
        group=lambda _: whole_group(1, cluster),
    )
    prices = price(operators, ranks)
    return [prices[id(op)] for op in operators]


@given(sizes=SIZES)
def test_a_backward_pass_costs_more_than_a_forward_pass_and_less_than_seven(sizes: dict[str, Any]) -> None:
    for forward, backward in zip(of_each_kind(sizes, backward=False), of_each_kind(sizes, backward=True), strict=True):
        there, back = costs([forward, backward])
        assert forward.flops <= backward.flops
        assert there.time_s <= back.time_s < 7 * there.time_s
        for cost in (there, back):
            assert cost.time_s >= max(cost.compute_s, cost.memory_s) * (1 - 1e-9)


def test_arrays_cost_what_each_number_costs() -> None:
    lengths = np.array([512.0, 4096.0, 32768.0])
    for i in range(5):
        together = of_each_kind({"sequences": 2.0, "new_tokens": lengths}, backward=True)[i]
        alone = [of_each_kind({"sequences": 2.0, "new_tokens": n}, backward=True)[i] for n in lengths]
        one_by_one = [cost.time_s for cost in costs(alone)]
        assert list(costs([together])[0].time_s) == pytest.approx(one_by_one)


@given(sizes=SIZES, backward=st.booleans())
def test_no_mixer_is_faster_than_its_flops(sizes: dict[str, Any], backward: bool) -> None:
    device = read_cluster("1x h100-sxm-80gb").device
    operators = of_each_kind(sizes, backward=backward)
    for op, cost in zip(operators, costs(operators), strict=True):
        assert cost.time_s >= op.flops / device.peak_flops["bf16"] * (1 - 1e-9)
