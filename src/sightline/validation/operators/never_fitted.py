"""Suites of devices that are predicted as if they had never been measured: leave one device out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import samples
from sightline.calibration.parts.collective_systems import System, system_tables, systems
from sightline.calibration.parts.collectives import CollectiveTable, measured_node
from sightline.calibration.parts.leave_out import collectives_without, server_shares
from sightline.catalog import entry
from sightline.cost.collectives.families import PCIE
from sightline.errors import InputError
from sightline.validation.operators.collectives import compared as collectives_compared
from sightline.validation.operators.collectives import is_measured
from sightline.validation.operators.suite import Compared, OperatorSuite
from sightline.validation.operators.tables import (
    Reading,
    attention_readings,
    elementwise_readings,
    grouped_readings,
    matmul_products,
)
from sightline.validation.suite import Split

GOAL = "median 15 %"
DECISION = (
    "The device is predicted as if nobody had measured it: with constants of the most similar device, or of all other"
    " devices, fitted without its table, and without a residual surface."
)
NAME = "never fitted"
SERVER_DECISION = (
    "With PCIe, the sharing of link bandwidth depends on the server, not on the device. The longest all-reduce for each"
    " number of ranks gives it, as a cluster's `shares` may state it, and is left out of the errors. The suites with an"
    " unknown server do not use it."
)
SPACING_DECISION = (
    "Of messages that differ by less than 3 % one counts. Otherwise the point-to-point transfers of another library in"
    " even steps of 64 KiB would outweigh all other kinds on A100."
)
NCCL_SOURCE = "NCCL inside a node"
SPACING = 0.03
UNKNOWN = f"{NAME}, server unknown"


def never_fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield a suite for every measured family and kind of operator whose tables are in the data folder."""
    for reading in _readings(data):
        yield _suite(f"{reading.name} {NAME}", reading.source, partial(reading.compare, True))
    for system in systems():
        if not is_measured(data, system):
            continue
        read = partial(_collectives, data, system)
        yield _suite(f"nccl {system.family} {NAME}", NCCL_SOURCE, read, SERVER_DECISION, SPACING_DECISION)
        if measured_node(system.interconnect).intra_node.topology == PCIE:
            unknown = partial(_collectives, data, system, server_known=False)
            yield _suite(f"nccl {system.family} {UNKNOWN}", NCCL_SOURCE, unknown, goal="")


def _readings(data: Path) -> Iterator[Reading]:
    for products in matmul_products(data):
        kind, source = f"matmul-{products.kernel}", products.tables["source"]
        yield Reading(kind=kind, family=products.family, source=source, compare=products.compare)
    yield from attention_readings(data)
    yield from elementwise_readings(data)
    yield from grouped_readings(data)


def _suite(name: str, source: str, read: Callable[[], Compared], *decisions: str, goal: str = GOAL) -> OperatorSuite:
    def compare() -> Mapping[Split, Compared]:
        return {"test": read()}

    return OperatorSuite(name=name, source=source, decisions=(DECISION, *decisions), compare=compare, goal=goal)


def _collectives(data: Path, system: System, *, server_known: bool = True) -> Compared:
    """The newest version of NCCL, all kinds that both the table and the lender have."""
    tables = dict(
        system_tables(partial(samples, data, "collectives"), system)[
            entry("calibrations", f"{system.family}/collectives")["default"]
        ]
    )
    _, kinds = collectives_without(system.family)
    node = measured_node(system.interconnect)
    if server_known and node.intra_node.topology == PCIE:
        sums = tables["all_reduce"]
        shares, told = server_shares(sums, node, kinds)
        tables["all_reduce"] = sums.where(~told)
        kinds = {kind: replace(k, shares=shares) for kind, k in kinds.items()}
    part = collectives_compared([table.where(_apart(table)) for table in tables.values()], node, kinds)
    if part is None:
        raise InputError(f"no collective of {system.family} is in the table")
    return part


def _apart(table: CollectiveTable) -> NDArray[np.bool_]:
    """The rows with the smallest message of every step of ``SPACING``, for each number of ranks."""
    kept = np.zeros(len(table), dtype=bool)
    for ranks in np.unique(table.ranks):
        own = table.ranks == ranks
        sizes = np.unique(table.bytes[own])
        _, first = np.unique(np.floor(np.log(sizes) / np.log1p(SPACING)), return_index=True)
        kept |= own & np.isin(table.bytes, sizes[first])
    return kept
