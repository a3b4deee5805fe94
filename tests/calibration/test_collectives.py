"""Fitting collectives: known constants are found again, and the shipped entries describe the public tables."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sightline.calibration.manifest import samples
from sightline.calibration.parts.collective_entries import (
    engine_tables,
    entry_of,
    mean_kernels,
    mean_kinds,
    system_tables,
    systems,
)
from sightline.calibration.parts.collectives import (
    TYPICAL_NETWORK,
    CollectiveTable,
    errors,
    fit_collectives,
    fit_kernels,
    measured_node,
    predicted,
)
from sightline.cost.collectives.libraries import (
    CollectiveConstants,
    CustomAllReduce,
    load_collectives,
    load_custom,
    sharing_half,
)

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (DATA / "aiconfigurator").is_dir(), reason=f"no public tables in {DATA}; SIGHTLINE_DATA names their folder"
)
READ = partial(samples, DATA, "collectives")
NODE = measured_node("nvlink3")


def all_reduces(file: str) -> CollectiveTable:
    return CollectiveTable.of_kind("all_reduce", READ({"files": [file]}))


def synthetic(kind: str, noise: float) -> CollectiveTable:
    """Measurements as the shipped A100 constants predict them, with noise."""
    n, size = (x.ravel() for x in np.meshgrid([2.0, 4.0, 8.0], 2.0 ** np.arange(10, 30)))
    table = CollectiveTable(kind=kind, ranks=n, ranks_per_node=n, bytes=size, seconds=np.ones_like(n))
    exact = predicted(table, NODE, load_collectives("a100-sxm").kinds)
    spread = np.exp(noise * np.random.default_rng(1).standard_normal(len(n)))
    return CollectiveTable(kind=kind, ranks=n, ranks_per_node=n, bytes=size, seconds=exact * spread)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all"])
def test_constants_are_found_again(kind: str) -> None:
    found = fit_collectives(synthetic(kind, 0.01), NODE, hold_out=False)
    assert found.fitted["median"] < 0.015
    assert errors(synthetic(kind, 0.0), NODE, found.constants)["p90"] < 0.03


def test_a_spike_does_not_move_the_fit() -> None:
    table = synthetic("all_gather", 0.005)
    table.seconds[::10] *= 3
    found = fit_collectives(table, NODE, hold_out=False)
    assert errors(synthetic("all_gather", 0.0), NODE, found.constants)["median"] < 0.02


def test_an_entry_reads_back_as_it_was_written() -> None:
    kinds = load_collectives("a100-sxm").kinds
    kernels = load_custom("a100-sxm", "vllm")
    written = entry_of(
        source="test",
        evidence="fitted",
        topology="switch",
        network=TYPICAL_NETWORK,
        versions={"1.0": kinds},
        engines={"vllm": {"0.1": kernels}},
    )
    assert CustomAllReduce.from_mapping(written["custom"]["vllm"]["0.1"], name=kernels.name) == kernels
    again = CollectiveConstants.from_mapping(written)
    assert again.kinds == kinds
    assert again.network == TYPICAL_NETWORK


def test_the_mean_of_equal_sets_is_the_set() -> None:
    kinds = load_collectives("h100-sxm").kinds
    mean = mean_kinds([kinds, kinds])
    assert mean["nvls"].protocols[0].launch_s == pytest.approx(kinds["nvls"].protocols[0].launch_s)
    assert mean["all_reduce"].local == pytest.approx(kinds["all_reduce"].local)
    kernels = load_custom("h100-sxm", "trtllm")
    assert mean_kernels([kernels, kernels]).most_bytes == kernels.most_bytes


@pytest.mark.parametrize("multicast", [False, True])
def test_kernels_and_their_limits_are_found_again(multicast: bool) -> None:
    node, nccl = measured_node("nvlink4"), load_collectives("h100-sxm").kinds
    known = load_custom("h100-sxm", "vllm 0.24.0" if multicast else "sglang 0.5.10")
    n, size = (x.ravel() for x in np.meshgrid([2.0, 4.0, 8.0], 2.0 ** np.arange(8, 31)))
    table = CollectiveTable(kind="all_reduce", ranks=n, ranks_per_node=n, bytes=size, seconds=np.ones_like(n))
    table.seconds[:] = predicted(table, node, nccl, custom=known)
    found = fit_kernels(table, node, nccl, hold_out=False)
    assert found.fitted["p90"] < 0.05
    assert ("multicast" in found.constants.algorithms) is multicast
    assert found.constants.most_bytes[8] == pytest.approx(known.most_bytes[8], rel=1.01)


@needs_data
@pytest.mark.parametrize("system", systems(), ids=lambda s: s.family)
def test_shipped_constants_describe_the_tables(system) -> None:  # type: ignore[no-untyped-def]
    constants = load_collectives(system.family)
    node = measured_node(system.interconnect)
    noisy = system.family == "l40s"  # its runs of 8 differ by half at equal sizes
    for kind, table in system_tables(READ, system)[constants.version].items():
        found = errors(table, node, constants.kinds)
        in_whole_us = (system.family, kind) == ("a100-sxm", "send_recv")
        assert found["median"] < (0.12 if in_whole_us else 0.05), kind
        assert found["p90"] < (0.25 if noisy or in_whole_us else 0.15), kind
    for (engine, release), table in engine_tables(READ, system).items():
        kernels = load_custom(system.family, f"{engine} {release}")
        if kernels.name == f"{engine} {release}":
            assert errors(table, node, constants.kinds, custom=kernels)["median"] < (0.1 if noisy else 0.055), (
                kernels.name
            )


@needs_data
def test_a_system_is_foreseen_from_its_relative() -> None:
    for family, relative in (("h200-sxm", "h100-sxm"), ("b300-sxm", "b200-sxm"), ("gb200", "b200-sxm")):
        system = next(s for s in systems() if s.family == family)
        for kind in ("all_reduce", "all_gather", "all_to_all"):
            table = system_tables(READ, system)[load_collectives(family).version][kind]
            found = errors(table, measured_node(system.interconnect), load_collectives(relative).kinds)
            assert found["median"] < 0.06, (family, kind)


@needs_data
def test_a100_constants_hold_on_the_slower_links_of_a800() -> None:
    table = all_reduces("frontier/network_a800_pairwise_nvlink_all_reduce.csv")
    found = errors(table, measured_node("nvlink3-a800"), load_collectives("a100-sxm").kinds)
    assert found["rows"] > 1000
    assert found["median"] < 0.06


@needs_data
def test_four_cards_in_bridged_pairs_are_foreseen_from_other_boxes() -> None:
    table = all_reduces("vidur/network_a100_pairwise_nvlink_all_reduce.csv")
    large = table.where((table.ranks == 4) & (table.bytes > 2**22))
    found = errors(large, measured_node("pcie4"), sharing_half(load_collectives("pcie")).kinds)
    assert found["median"] < 0.2


@needs_data
def test_the_shipped_fit_can_be_repeated() -> None:
    table = system_tables(READ, systems()[0])["2.27.3"]["all_reduce"]
    again = fit_collectives(table, NODE, hold_out=False).constants["all_reduce"]
    for new, shipped in zip(again.protocols, load_collectives("a100-sxm").kinds["all_reduce"].protocols, strict=True):
        assert new.launch_s == pytest.approx(shipped.launch_s, rel=0.01)
        assert new.efficiency == pytest.approx(shipped.efficiency, rel=0.01)
