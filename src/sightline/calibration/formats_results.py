"""Readers of Sightline's own results of single operators: nested keys joined by dots, SI units."""

from typing import TYPE_CHECKING

from sightline.calibration.formats_matmul import KERNELS, kernels, named
from sightline.calibration.raw_table import RawTable
from sightline.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_WORKLOAD = "scenario.workload."
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")


def matmul(table: RawTable) -> "pl.DataFrame":
    """Measured products; a batch of equal ones counts as one product with as many rows."""
    part = _of(table, ("matmul",))
    if part.frame.height == 0:
        return _none(part)
    return named(
        part,
        kernel=kernels(part, f"{_WORKLOAD}dtype", KERNELS),
        **{name: part.numbers(_WORKLOAD + name) for name in ("m", "n", "k")},
        **_said(part),
    )


def attention(table: RawTable) -> "pl.DataFrame":
    """Measured attention over a cache of 16-bit elements."""
    part = _of(table, ("attention",))
    if part.frame.height == 0:
        return _none(part)
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    shape = {name: part.numbers(_WORKLOAD + name) for name in names}
    return named(part, kernel="16-bit cache", **shape, value_dim=shape["head_dim"], **_said(part))


def collectives(table: RawTable) -> "pl.DataFrame":
    """Measured collectives over a whole cluster."""
    part = _of(table, _COLLECTIVES)
    if part.frame.height == 0:
        return _none(part)
    ranks = part.numbers("scenario.cluster.devices", least=2)
    return named(
        part,
        kernel=part.text(f"{_WORKLOAD}operator"),
        ranks=ranks,
        ranks_per_node=part.numbers("scenario.cluster.per_node"),
        bytes=part.numbers(f"{_WORKLOAD}bytes"),
        **_said(part),
    )


def _of(table: RawTable, operators: tuple[str, ...]) -> RawTable:
    """The measured results of some operators; predictions are refused, which would be fitted to themselves."""
    mine = table.where(table.text(f"{_WORKLOAD}operator").is_in(operators).fill_null(value=False))
    if "source" in mine.columns and (mine.frame["source"] == "predicted").any():
        raise InputError(f"'{table.path}' holds predicted times; constants are fitted to measured ones")
    return mine


def _said(part: RawTable) -> "dict[str, pl.Series | str]":
    device = "scenario.cluster.device.name"
    return {
        "seconds": part.times("time_s", 1.0),
        "library": "",
        "device": part.text(device) if device in part.columns else "",
    }


def _none(part: RawTable) -> "pl.DataFrame":
    return named(part, seconds=0.0)
