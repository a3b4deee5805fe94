"""Logic nodes: two scaling models that agree at 7 nm, newer nodes that are denser, and nodes as an axis."""

from itertools import pairwise

import numpy as np
import pytest

from sightline.catalog import index, names
from sightline.errors import InputError
from sightline.technology.parts import NODE_NUMBERS as NUMBERS
from sightline.technology.parts import SCALINGS, nearest_nodes, node, node_names, nodes_along

STEPS = {"10nm": -1, "7nm": 0, "5nm": 1, "3nm": 2, "2nm": 3, "1nm": 4}
"""Classical steps after 7 nm."""


def test_nodes_run_from_16_to_1_nm():
    assert node_names()[0] == "16nm"
    assert node_names()[-1] == "1nm"
    assert set(node_names()) == set(names("nodes"))


def test_both_models_agree_at_7_nm():
    vendor, ideal = (node("7nm", scaling) for scaling in SCALINGS)
    assert all(getattr(vendor, name) == pytest.approx(getattr(ideal, name), rel=1e-3) for name in NUMBERS)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_newer_nodes_are_denser_and_need_less_energy(scaling):
    for older, newer in pairwise(node(name, scaling) for name in node_names()):
        assert older.logic_density <= newer.logic_density
        assert older.energy >= newer.energy
        assert older.interface_area >= newer.interface_area


@pytest.mark.parametrize(("name", "steps"), STEPS.items())
def test_the_ideal_model_takes_the_same_factors_at_each_step(name, steps):
    stated, base = node(name, "ideal"), node("7nm", "ideal")
    assert stated.logic_density == pytest.approx(base.logic_density / 0.67**steps, rel=2e-3)
    assert stated.sram_density == pytest.approx(base.sram_density / 0.67**steps, rel=2e-3)
    assert stated.energy == pytest.approx(0.54**steps, rel=2e-3)
    assert stated.voltage == pytest.approx(base.voltage * 0.9**steps, rel=2e-3)
    assert stated.interface_area == pytest.approx(0.9**steps, rel=2e-3)


def test_sram_stalls_after_5_nm_as_vendors_say_and_not_in_the_ideal():
    logic, sram = (
        getattr(node("3nm"), density) / getattr(node("5nm"), density) for density in ("logic_density", "sram_density")
    )
    assert sram < 1.05 < logic
    assert node("3nm", "ideal").sram_density > 1.4 * node("5nm", "ideal").sram_density


def test_nodes_along_an_axis_are_those_nodes():
    listed = ["12nm", "7nm", "1.6nm"]
    axis = nodes_along(listed)
    for place, name in enumerate(listed):
        assert all(getattr(axis, number)[place] == getattr(node(name), number) for number in NUMBERS)
    table = axis.at(np.array([[0], [2]]))
    assert table.energy.shape == (2, 1)
    assert table.energy[1, 0] == node("1.6nm").energy


@pytest.fixture
def own_nodes(tmp_path, monkeypatch):
    """A folder of nodes of one's own, and the catalog's caches emptied before and after."""
    monkeypatch.setenv("SIGHTLINE_CATALOG", str(tmp_path))
    caches = (index.names, index.entry, index._paths, node)
    for cache in caches:
        cache.cache_clear()
    (tmp_path / "nodes").mkdir()
    yield tmp_path / "nodes"
    for cache in caches:
        cache.cache_clear()


def test_a_node_of_ones_own_builds_on_another(own_nodes):
    (own_nodes / "mine.yaml").write_text("same_as: 2nm\nwafer_price: 25000 USD\n")
    assert node("mine").wafer_price == 25000
    assert node("mine").logic_density == node("2nm").logic_density


def test_a_node_without_all_figures_is_refused(own_nodes):
    (own_nodes / "mine.yaml").write_text("same_as: 2nm\nvendor: {energy: 0.3}\n")
    with pytest.raises(InputError, match=r"catalog.nodes.mine.vendor is .*; allowed: a mapping with logic_density"):
        node("mine")


@pytest.mark.parametrize(
    ("size", "hint"),
    {
        "6nm": "'7nm' or '5nm'",
        "6": "'7nm' or '5nm'",
        "8 nm": "'7nm' or '10nm'",
        "22nm": "'16nm'",
        "0.5nm": "'1nm'",
    }.items(),
)
def test_the_nodes_next_to_a_size_are_suggested(size, hint):
    assert nearest_nodes(size) == f" - did you mean {hint}?"
    with pytest.raises(InputError, match=f"did you mean {hint}"):
        node(size)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(InputError, match="did you mean '3nm'"):
        node("3 mn")
    with pytest.raises(InputError, match="scaling is 'vender'; allowed: vendor, ideal - did you mean 'vendor'"):
        node("3nm", "vender")


def test_a_size_beyond_all_numbers_has_no_node_next_to_it() -> None:
    assert nearest_nodes("9" * 400 + "nm") == ""
