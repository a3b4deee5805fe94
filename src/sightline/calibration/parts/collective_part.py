"""Constants of collectives from anybody's table of times inside a node."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.calibration.collective_tables import CollectiveTable
from sightline.calibration.parts.collectives import Errors, MeasuredNode, fit_collectives, predicted
from sightline.calibration.parts.part import PartFit, Points
from sightline.calibration.samples import Array, by_kernel, columns
from sightline.catalog import entry
from sightline.cost.collectives.constants import PROTOCOLS, KindConstants
from sightline.cost.collectives.families import cluster_collectives
from sightline.errors import InputError
from sightline.quantities import significant
from sightline.scenario import Cluster

if TYPE_CHECKING:
    import polars as pl

SHARED = ("topology", "network", "bounce", "pcie")
"""What a table of one node cannot tell, taken from the nearest family."""


def bound(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """Sending what a rank must send over its link: the switch may add on the way, so all-reduce counts once."""
    c = columns(rows, "ranks", "bytes")
    share = np.where(rows["kernel"].is_in(["send_recv", "broadcast"]).to_numpy(), 1.0, (c["ranks"] - 1) / c["ranks"])
    return np.asarray(share * c["bytes"] / cluster.intra_node.bandwidth)


def fit(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of every kind of collective in the rows; the others come from the nearest family."""
    import polars as pl

    inside = rows.filter(pl.col("ranks") <= pl.col("ranks_per_node"))
    if inside.height == 0:
        raise InputError(
            "no row stands for a collective inside one node; constants of the network are not fitted from tables yet"
        )
    node = _node(cluster)
    nearest = cluster_collectives(cluster)
    kinds = dict(nearest.kinds)
    constants: dict[str, dict[str, Any]] = {}
    counted: dict[str, dict[str, int]] = {}
    residuals: dict[str, dict[str, dict[str, float]]] = {}
    drawn = []
    for kind, part in by_kernel(inside).items():
        table = _table(kind, part)
        result = fit_collectives(table, node)
        kinds |= result.kinds
        constants |= {name: _plain(k) for name, k in result.kinds.items()}
        counted[kind] = {"table": rows.filter(pl.col("kernel") == kind).height, "fitted": part.height}
        residuals[kind] = {"fit": _statistics(result.fitted)}
        residuals[kind] |= {f"{name} left out": _statistics(e) for name, e in result.held_out.items()}
        drawn.append(_points(table, node, result.kinds))
        done()
    return PartFit(
        content=_entry(cluster, nearest.name, kinds, residuals),
        constants=constants,
        rows=counted,
        residuals=residuals,
        points=drawn,
    )


def points(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict, inside a node and for the library's newest version."""
    kinds = cluster_collectives(cluster).kinds
    return [_points(_table(kind, part), _node(cluster), kinds) for kind, part in by_kernel(rows).items()]


def _node(cluster: Cluster) -> MeasuredNode:
    return MeasuredNode(
        per_node=cluster.per_node, intra_node=cluster.intra_node, network=cluster.network, host=cluster.host
    )


def _table(kind: str, rows: "pl.DataFrame") -> CollectiveTable:
    c = columns(rows, "ranks", "ranks_per_node", "bytes", "seconds")
    return CollectiveTable(
        kind=kind,
        size=c["ranks"],
        ranks_per_node=c["ranks_per_node"],
        bytes=c["bytes"],
        seconds=c["seconds"],
        source="table",
    )


def _points(table: CollectiveTable, node: MeasuredNode, kinds: Mapping[str, KindConstants]) -> Points:
    times = predicted(table, node, kinds)
    return Points(kernel=table.kind, size=table.bytes, unit="B", predicted=times, measured=table.seconds)


def _entry(
    cluster: Cluster, nearest: str, kinds: Mapping[str, KindConstants], residuals: Mapping[str, Any]
) -> dict[str, Any]:
    shipped = entry("calibrations", nearest)
    version = {kind: _written(k) for kind, k in sorted(kinds.items())}
    return {
        **{name: shipped[name] for name in SHARED if name in shipped},
        "measured": list(residuals),
        "default": "measured",
        "interconnect": cluster.intra_node.name,
        "versions": {"measured": version},
        "residuals": {"held_out": dict(residuals)},
    }


def _written(kind: KindConstants) -> dict[str, Any]:
    """The constants as a catalog entry holds them, to three digits."""
    out: dict[str, Any] = {"local": significant(kind.local)}
    for name, protocol in zip(PROTOCOLS[-len(kind.protocols) :], kind.protocols, strict=True):
        out[name] = {key: significant(value) for key, value in asdict(protocol).items()}
    shares = getattr(kind, "shares", None)
    return {**out, "shares": {n: significant(x) for n, x in shares.items()}} if shares else out


def _plain(kind: KindConstants) -> dict[str, Any]:
    written = _written(kind)
    flat = {"local": written["local"]}
    for name in PROTOCOLS:
        flat |= {f"{name} {key}": value for key, value in written.get(name, {}).items()}
    return flat


def _statistics(found: Errors) -> dict[str, float]:
    figures = {"rows": found.cases, "median": found.median, "p90": found.p90, "bias": found.bias}
    return {name: round(float(value), 4) for name, value in figures.items()}
