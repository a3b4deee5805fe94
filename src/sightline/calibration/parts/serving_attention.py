"""Constants of serving engines' attention kernels, fitted to measured prefills or decoding steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import Array, FitResult, Prior, Table, fit_with_priors, share_of
from sightline.calibration.readers.vocabulary import NO_WINDOW
from sightline.calibration.residuals import axis_over, fit_surface
from sightline.cost.attention.constants import SURFACE_SIZES, AttentionConstants, AttentionSurface
from sightline.cost.attention.decode import DecodeAttentionConstants, decode_attention_cost
from sightline.cost.attention.fused import attention_cost
from sightline.program import CachedAttention
from sightline.scenario import Device

Constants = Mapping[str, Any]

SAMPLE = 1500
"""Measurements that a fit of the constants uses; the surface and the residuals take all."""
SECOND_START = 1.3
"""The search starts at the priors, and again at this multiple of them: whole tiles make steps that stop a search."""
HELD_OUT = 0.25
"""Share of many head shapes that is left out to judge a fit."""
MANY_SHAPES = 12
"""Head shapes from which on a share is left out once, instead of each in turn."""

HOST = "host_s"
"""Name of what a launch took the host of a table's benchmark: a figure of the table, not of the device."""
HOST_PRIOR = Prior(value=2e-5, spread=0.5, low=2e-6, high=5e-5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingAttentionTable(Table):
    """Measured attentions of new tokens over themselves and what is cached before them."""

    batch: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    value_dim: Array
    query_tokens: Array
    context_tokens: Array
    """Tokens that the last query sees: those cached and the new ones."""
    kv_bytes: Array
    window: Array

    @property
    def size(self) -> Array:
        """FLOPs, whether masked or not."""
        return 4 * self.batch * self.heads * self.query_tokens * self.context_tokens * self.head_dim

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Self:
        """The samples' columns; the kernel says the bytes of the cache's elements."""
        kv_bytes = np.where(rows["kernel"].to_numpy().astype(str) == "fp8 cache", 1.0, 2.0)
        return super(ServingAttentionTable, cls).of(rows.with_columns(kv_bytes=kv_bytes))

    def operator(self, *, decode: bool = False, latent: bool = False) -> CachedAttention:
        """The measured operators, whose sizes are the table's columns."""
        return self.operators(
            CachedAttention,
            "attention core",
            "flash attention",
            window=self.window if (self.window < NO_WINDOW).any() else None,
            shared_kv=latent,
            decode=decode,
            dtype="bf16",
            element_bytes=2.0,
            cache_bytes=self.kv_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """How an engine's kernel is fitted: what is known of it, what is not, and what a surface may correct."""

    decode: bool
    given: Mapping[str, Any]
    priors: Mapping[str, Prior]
    latent: bool = False
    """Decoding against one latent that serves as key and value."""
    launched: bool = False
    """The table times launches from the host one after another, which take ``host_s`` each where kernels are
    shorter."""
    repeated_share: float = 0.0
    """Share of the cache that a table's executions find in L2 whatever its size: pages read twice."""
    surface: Mapping[str, int] | None = None
    """Knots of a residual surface by the size along each axis; None where there is no surface."""

    def predict(self, table: ServingAttentionTable, device: Device, constants: Constants) -> Array:
        """Predicted seconds of every measurement."""
        if self.decode:
            x = table.operator(decode=True, latent=self.latent)
            decode = DecodeAttentionConstants.from_mapping({**constants, "repeated_share": self.repeated_share})
            # Benchmarks repeat one layer, whose cache stays in L2 if it fits.
            cost = decode_attention_cost(x, device, decode, in_l2=True)
        else:
            cost = attention_cost(table.operator(), device, AttentionConstants.from_mapping(constants))
        return self._timed(np.asarray(cost.time_s, dtype=float), constants)

    def _timed(self, kernel_s: Array, constants: Constants) -> Array:
        """What the table times: no less than launching takes."""
        return np.maximum(kernel_s, constants.get(HOST, 0.0)) if self.launched else kernel_s

    def nearest(self, relative: Constants, spread: float = 0.4) -> "Kernel":
        """The same kernel with priors at a relative's constants, for tables too small to tell everything."""
        priors = {
            name: p._replace(value=min(max(relative.get(name, p.value), p.low), p.high), spread=min(p.spread, spread))
            for name, p in self.priors.items()
        }
        return replace(self, priors=priors)


def surface_sizes(table: ServingAttentionTable) -> dict[str, Array]:
    """The sizes that surfaces lie over, by name."""
    return {name: np.asarray(size(table.operator())) for name, size in SURFACE_SIZES.items()}


def fit_kernel(table: ServingAttentionTable, device: Device, kernel: Kernel) -> FitResult:
    """Return a kernel's constants and surface from measurements, with their errors in range and on shapes left out.

    The shapes left out are whole triples of heads, heads of keys and values, and dimension.
    """
    constants = _fitted(table, device, kernel)
    predicted = kernel.predict(table, device, constants)
    residuals = {"formula": error_statistics(predicted, table.seconds)}
    surface = _surface(table, table, predicted, kernel)
    if surface is not None:
        corrected = predicted * surface.factor(table.operator())
        residuals["in range"] = error_statistics(corrected, table.seconds)
        constants = {**constants, "surface": surface.to_mapping()}
    residuals |= _left_out(table, device, kernel)
    rows = {"table": len(table), "fitted": min(len(table), SAMPLE)}
    return FitResult(constants=constants, rows=rows, residuals=residuals)


def head_shapes(table: ServingAttentionTable) -> list[str]:
    """The head shape of every measurement."""
    return table.named("heads", "kv_heads", "head_dim", between="-")


def _fitted(table: ServingAttentionTable, device: Device, kernel: Kernel) -> dict[str, Any]:
    used = table.where(sampled(table, SAMPLE))
    priors = {name: p for name, p in kernel.priors.items() if name not in kernel.given}
    if kernel.launched:
        priors[HOST] = HOST_PRIOR
    fitted = fit_with_priors(
        lambda x: kernel.predict(used, device, {**kernel.given, **x}),
        used.seconds,
        np.ones(len(used)),
        priors,
        starts=[{name: min(max(SECOND_START * p.value, p.low), p.high) for name, p in priors.items()}],
    )
    return {**kernel.given, **fitted}


def _left_out(table: ServingAttentionTable, device: Device, kernel: Kernel) -> dict[str, dict[str, float]]:
    """Errors on head shapes that the constants and the surface did not see: a fixed quarter of many, each of few."""
    shapes = head_shapes(table)
    if len(set(shapes)) < 2:
        return {}
    many = len(set(shapes)) >= MANY_SHAPES
    parts = share_of(shapes) < HELD_OUT if many else np.unique(shapes, return_inverse=True)[1]
    plain, corrected = np.full(len(table), np.nan), np.full(len(table), np.nan)
    for part in np.unique(parts[parts > 0] if many else parts):
        chosen = parts == part
        test, rest = table.where(chosen), table.where(~chosen)
        constants = _fitted(rest, device, kernel)
        plain[chosen] = corrected[chosen] = kernel.predict(test, device, constants)
        surface = _surface(table, rest, kernel.predict(rest, device, constants), kernel)
        if surface is not None:
            corrected[chosen] *= surface.factor(test.operator())
    tested = np.isfinite(plain)
    residuals = {"head shapes left out, formula": error_statistics(plain[tested], table.seconds[tested])}
    if kernel.surface is not None:
        residuals["head shapes left out"] = error_statistics(corrected[tested], table.seconds[tested])
    return residuals


def _surface(
    whole: ServingAttentionTable, part: ServingAttentionTable, predicted: Array, kernel: Kernel
) -> AttentionSurface | None:
    """The surface over the sizes of ``whole`` fitted to ``part``."""
    if kernel.surface is None:
        return None
    over = tuple(kernel.surface)
    axes = [axis_over(surface_sizes(whole)[name], knots) for name, knots in kernel.surface.items()]
    sizes = surface_sizes(part)
    surface = fit_surface(axes, [sizes[name] for name in over], np.log(part.seconds / predicted))
    return AttentionSurface(over=over, surface=surface)


def sampled(table: ServingAttentionTable, count: int) -> NDArray[np.bool_]:
    """A fixed selection of ``count`` measurements."""
    columns: Sequence[Array] = (table.batch, table.query_tokens, table.context_tokens, table.kv_bytes)
    keys = [
        f"{shape}-{row}"
        for shape, row in zip(head_shapes(table), zip(*(c.tolist() for c in columns), strict=True), strict=True)
    ]
    chosen = np.zeros(len(table), dtype=bool)
    chosen[np.argsort(share_of(keys), kind="stable")[:count]] = True
    return chosen
