"""Suites of devices that are predicted as if they had never been measured: leave one device out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.attention_beside import beside_seconds
from sightline.calibration.attention_kernels import Measured
from sightline.calibration.attention_serving import HOST
from sightline.calibration.collective_systems import SYSTEMS, System, system_tables
from sightline.calibration.collective_tables import CollectiveTable
from sightline.calibration.collectives import measured_node
from sightline.calibration.entries import device_of
from sightline.calibration.grouped_matmul import predicted_seconds as grouped_seconds
from sightline.calibration.grouped_matmul_entries import GROUPED_TABLES, PHASES
from sightline.calibration.grouped_matmul_tables import read_infersim_grouped
from sightline.calibration.leave_out import (
    attention_without,
    collectives_without,
    elementwise_without,
    grouped_without,
    matmul_without,
    server_shares,
)
from sightline.calibration.matmul import possible, predicted_seconds
from sightline.calibration.matmul_entries import DTYPES, FAMILIES
from sightline.calibration.matmul_tables import MatmulTable, read_aiconfigurator_matmul
from sightline.catalog import entry
from sightline.cost.collectives.families import PCIE
from sightline.cost.families import UNMEASURED
from sightline.cost.matmul.grouped import GroupedLayout
from sightline.errors import InputError
from sightline.validation.operator_attention import PHASES as ATTENTION_PHASES
from sightline.validation.operator_collectives import compared as collectives_compared
from sightline.validation.operator_collectives import has_tables
from sightline.validation.operator_kernels import PROFILES, Profile, kernels_compared
from sightline.validation.operator_suite import Compared, OperatorSuite
from sightline.validation.suite import Split

GOAL = "median 15 %"
DECISION = (
    "The device is predicted as if nobody had measured it: with constants of its nearest relative, or of all other"
    " devices, that are made without its table, and without a surface of residuals."
)
NAME = "never fitted"
SERVER_DECISION = (
    "Over PCIe, how a server's links share their bandwidth is the server's and not the device's: the longest sum for each"
    " number of ranks tells it, as a cluster's `shares` may state it, and is left out of the errors. The suites with an"
    " unknown server do without."
)
SPACING_DECISION = (
    "Of messages less than 3 % apart one counts: point-to-point transfers in even steps of 64 KiB, of another library,"
    " would outweigh all other kinds on A100."
)
NCCL_SOURCE = "NCCL inside a node"
SPACING = 0.03
UNKNOWN = f"{NAME}, server unknown"


def never_fitted_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield a suite for every measured family and kind of operator whose tables are in the data folder."""
    for name, source, read in _all(data):
        yield _suite(f"{name} {NAME}", source, read)
    for system in SYSTEMS:
        if not has_tables(data, system):
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
    yield from _matmuls(data)
    for phase, (part, families) in ATTENTION_PHASES.items():
        for family, measured in families.items():
            if (data / "aiconfigurator").is_dir():
                yield f"{phase} {family}", measured.source, partial(_attention, data, family, part, measured)
    for profile in PROFILES:
        if all((data / file).is_file() for file in profile.files):
            yield f"element-wise {profile.family}", profile.source, partial(_elementwise, data, profile)
    yield from _experts(data)


def _matmuls(data: Path) -> Iterator[Reading]:
    for family, told in FAMILIES.items():
        path = data / "aiconfigurator" / told.grid.file if told.grid else data / "none"
        for kernel in told.grid.kernels if told.grid and path.is_file() else ():
            read = partial(read_aiconfigurator_matmul, path, DTYPES[kernel])
            yield f"matmul-{kernel} {family}", path.name, partial(_matmul, family, kernel, read)
        for layers in told.layers:
            if all((data / file).is_file() for file in layers.files):
                read_layers = partial(layers.read, [data / file for file in layers.files])
                compare = partial(_matmul, family, layers.kernel, read_layers)
                yield f"matmul-{layers.kernel} {family}", layers.source, compare


def _experts(data: Path) -> Iterator[Reading]:
    layouts: tuple[GroupedLayout, ...] = ("masked", "contiguous")
    for family, name in GROUPED_TABLES.items():
        for layout in layouts:
            path = data / "infersim" / f"grouped_gemm_{PHASES[layout]}_{name}_data.csv"
            if path.is_file():
                yield f"grouped-matmul-{PHASES[layout]} {family}", path.name, partial(_grouped, path, family, layout)


def _matmul(family: str, kernel: str, read: Callable[[], MatmulTable]) -> Compared:
    table, device = read(), device_of(family)
    table = table.where(possible(table, device, kernel))
    _, constants = matmul_without(family, kernel)
    predicted = predicted_seconds(table, device, constants, kernel)
    return Compared(predicted=predicted, measured=table.seconds, sizes={"m": table.m, "n": table.n, "k": table.k})


def _attention(data: Path, family: str, part: str, measured: Measured) -> Compared:
    table = measured.read(data)
    own, device = entry("calibrations", f"{family}/{part}")["constants"], device_of(family)
    lender, constants = attention_without(family, part)
    predicted = measured.kernel.predict(table, device, {**constants, HOST: own.get(HOST, 0.0)})
    if lender == UNMEASURED:  # what relatives lend holds the kernels beside their attention
        predicted = predicted + beside_seconds(table, device, measured.beside)
    sizes = {
        "batch": table.batch,
        "heads": table.heads,
        "kv": table.kv_heads,
        "queries": table.query_tokens,
        "context": table.context_tokens,
    }
    return Compared(predicted=predicted, measured=table.seconds, sizes=sizes)


def _elementwise(data: Path, profile: Profile) -> Compared:
    _, constants = elementwise_without(profile.family, profile.generation)
    return kernels_compared(data, profile, constants)


def _grouped(path: Path, family: str, layout: GroupedLayout) -> Compared:
    device = device_of(family)
    table = read_infersim_grouped(path, float(device.peak_flops["fp8"]))
    _, constants = grouped_without(family, layout, tuple(GROUPED_TABLES))
    sizes = {"rows": table.rows, "experts": table.active, "n": table.n, "k": table.k}
    predicted = grouped_seconds(table, device, constants)
    return Compared(predicted=predicted, measured=np.asarray(table.seconds), sizes=sizes)


def _collectives(data: Path, system: System, *, server_known: bool = True) -> Compared:
    """The newest version of NCCL, all kinds that both the table and the lender have."""
    tables = dict(system_tables(data, system)[entry("calibrations", f"{system.family}/collectives")["default"]])
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
    for ranks in np.unique(table.size):
        own = table.size == ranks
        sizes = np.unique(table.bytes[own])
        _, first = np.unique(np.floor(np.log(sizes) / np.log1p(SPACING)), return_index=True)
        kept |= own & np.isin(table.bytes, sizes[first])
    return kept
