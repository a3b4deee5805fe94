"""Suites of devices that are predicted as if they had never been measured: leave one device out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import device_of, has_tables, manifest, samples
from sightline.calibration.parts.collective_systems import System, system_tables, systems
from sightline.calibration.parts.collectives import CollectiveTable, measured_node
from sightline.calibration.parts.grouped import predicted_seconds as grouped_seconds
from sightline.calibration.parts.leave_out import (
    attention_without,
    collectives_without,
    elementwise_without,
    grouped_without,
    matmul_without,
    server_shares,
)
from sightline.calibration.parts.matmul import predicted_seconds
from sightline.calibration.parts.serving_attention import HOST, ServingAttentionTable
from sightline.calibration.parts.serving_joint import Measured, beside_seconds
from sightline.catalog import entry
from sightline.cost.collectives.families import PCIE
from sightline.cost.families import UNMEASURED
from sightline.errors import InputError
from sightline.validation.operators.collectives import compared as collectives_compared
from sightline.validation.operators.collectives import is_measured
from sightline.validation.operators.suite import Compared, OperatorSuite
from sightline.validation.operators.tables import (
    PHASES,
    Products,
    attention_compared,
    attention_tables,
    elementwise_compared,
    grouped_compared,
    grouped_products,
    matmul_compared,
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
    for name, source, read in _all(data):
        yield _suite(f"{name} {NAME}", source, read)
    for system in systems():
        if not is_measured(data, system):
            continue
        read = partial(_collectives, data, system)
        yield _suite(f"nccl {system.family} {NAME}", NCCL_SOURCE, read, SERVER_DECISION, SPACING_DECISION)
        if measured_node(system.interconnect).intra_node.topology == PCIE:
            unknown = partial(_collectives, data, system, server_known=False)
            yield _suite(f"nccl {system.family} {UNKNOWN}", NCCL_SOURCE, unknown, goal="")


def _suite(name: str, source: str, read: Callable[[], Compared], *decisions: str, goal: str = GOAL) -> OperatorSuite:
    return OperatorSuite(
        name=name, source=source, decisions=(DECISION, *decisions), compare=partial(_compare, read), goal=goal
    )


def _compare(read: Callable[[], Compared]) -> Mapping[Split, Compared]:
    try:
        return {"test": read()}
    except (InputError, FileNotFoundError):  # the folder lacks the table
        return {}


Reading = tuple[str, str, Callable[[], Compared]]
"""Name of a suite, its source, and what reads and predicts it."""


def _all(data: Path) -> Iterator[Reading]:
    for products in matmul_products(data):
        yield f"matmul-{products.kernel} {products.family}", products.source, partial(_matmul, products)
    for name, part, family, measured in attention_tables(data):
        yield name, measured.source, partial(_attention, data, part, family, measured)
    for family, suite in manifest("elementwise")["suites"].items():
        if has_tables(data, suite["tables"]):
            yield f"element-wise {family}", suite["source"], partial(_elementwise, data, family, suite)
    for products in grouped_products(data):
        name = f"grouped-matmul-{PHASES[products.kernel]} {products.family}"
        yield name, products.source, partial(_grouped, products)


def _matmul(products: Products) -> Compared:
    table = products.matmuls()
    _, constants = matmul_without(products.family, products.kernel)
    predicted = predicted_seconds(table, device_of(products.family), constants, products.kernel)
    return matmul_compared(table, predicted)


def _attention(data: Path, part: str, family: str, measured: Measured) -> Compared:
    table = ServingAttentionTable.of(samples(data, part, measured.tables))
    own, device = entry("calibrations", f"{family}/{part}")["constants"], device_of(family)
    lender, constants = attention_without(family, part)
    predicted = measured.kernel.predict(table, device, {**constants, HOST: own.get(HOST, 0.0)})
    if lender == UNMEASURED:  # what relatives lend holds the kernels beside their attention
        predicted = predicted + beside_seconds(table, device, measured.beside)
    return attention_compared(table, predicted)


def _elementwise(data: Path, family: str, suite: Mapping[str, Any]) -> Compared:
    _, constants = elementwise_without(family, suite["generation"])
    return elementwise_compared(data, family, suite, constants)


def _grouped(products: Products) -> Compared:
    table = products.grouped()
    _, constants = grouped_without(products.family, products.kernel, tuple(manifest("grouped")["families"]))
    return grouped_compared(table, grouped_seconds(table, device_of(products.family), constants))


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
