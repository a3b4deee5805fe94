"""Constants of serving engines' attention kernels, fitted to measured prefills or decoding steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration import fits
from sightline.calibration.error_figures import error_statistics
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import Entry, Part, between, covered, figures, nearest_entry, provenance
from sightline.calibration.readers.raw_table import NO_WINDOW
from sightline.cost.attention import DecodeAttentionConstants, attention_cost, decode_attention_cost
from sightline.cost.attention_constants import SURFACE_SIZES, AttentionConstants, AttentionSurface, at_clock
from sightline.cost.elementwise import elementwise_cost, load_elementwise
from sightline.cost.families import UNMEASURED, kin
from sightline.program import CachedAttention, Elementwise
from sightline.scenario import Cluster, Device

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
HOST_PRIOR = fits.Prior(value=2e-5, spread=0.5, low=2e-6, high=5e-5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingAttentionTable(fits.Table):
    """Measured attentions of new tokens over themselves and what is cached before them."""

    batch: fits.Array
    heads: fits.Array
    kv_heads: fits.Array
    head_dim: fits.Array
    value_dim: fits.Array
    query_tokens: fits.Array
    context_tokens: fits.Array
    """Tokens that the last query sees: those cached and the new ones."""
    kv_bytes: fits.Array
    window: fits.Array

    @property
    def size(self) -> fits.Array:
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
    priors: Mapping[str, fits.Prior]
    latent: bool = False
    """Decoding against one latent that serves as key and value."""
    launched: bool = False
    """The table times launches from the host one after another, which take ``host_s`` each where kernels are
    shorter."""
    repeated_share: float = 0.0
    """Share of the cache that a table's executions find in L2 whatever its size: pages read twice."""
    surface: Mapping[str, int] | None = None
    """Knots of a residual surface by the size along each axis; None where there is no surface."""

    def predict(self, table: ServingAttentionTable, device: Device, constants: Constants) -> fits.Array:
        """Predicted seconds of every measurement."""
        if self.decode:
            x = table.operator(decode=True, latent=self.latent)
            decode = DecodeAttentionConstants.from_mapping({**constants, "repeated_share": self.repeated_share})
            # Benchmarks repeat one layer, whose cache stays in L2 if it fits.
            cost = decode_attention_cost(x, device, decode, in_l2=True)
        else:
            cost = attention_cost(table.operator(), device, AttentionConstants.from_mapping(constants))
        return self._timed(np.asarray(cost.time_s, dtype=float), constants)

    def _timed(self, kernel_s: fits.Array, constants: Constants) -> fits.Array:
        """What the table times: no less than launching takes."""
        return np.maximum(kernel_s, constants.get(HOST, 0.0)) if self.launched else kernel_s

    def nearest(self, relative: Constants, spread: float = 0.4) -> "Kernel":
        """The same kernel with priors at a relative's constants, for tables too small to tell everything."""
        priors = {
            name: p._replace(value=min(max(relative.get(name, p.value), p.low), p.high), spread=min(p.spread, spread))
            for name, p in self.priors.items()
        }
        return replace(self, priors=priors)


def surface_sizes(table: ServingAttentionTable) -> dict[str, fits.Array]:
    """The sizes that surfaces lie over, by name."""
    return {name: np.asarray(size(table.operator())) for name, size in SURFACE_SIZES.items()}


def fit_kernel(table: ServingAttentionTable, device: Device, kernel: Kernel) -> fits.FitResult:
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
    return fits.FitResult(constants=constants, rows=rows, residuals=residuals)


def head_shapes(table: ServingAttentionTable) -> list[str]:
    """The head shape of every measurement."""
    return table.named("heads", "kv_heads", "head_dim", between="-")


def _fitted(table: ServingAttentionTable, device: Device, kernel: Kernel) -> dict[str, Any]:
    used = table.where(sampled(table, SAMPLE))
    priors = {name: p for name, p in kernel.priors.items() if name not in kernel.given}
    if kernel.launched:
        priors[HOST] = HOST_PRIOR
    fitted = fits.fit_with_priors(
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
    parts = fits.share_of(shapes) < HELD_OUT if many else np.unique(shapes, return_inverse=True)[1]
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
    whole: ServingAttentionTable, part: ServingAttentionTable, predicted: fits.Array, kernel: Kernel
) -> AttentionSurface | None:
    """The surface over the sizes of ``whole`` fitted to ``part``."""
    if kernel.surface is None:
        return None
    over = tuple(kernel.surface)
    axes = [fits.axis_over(surface_sizes(whole)[name], knots) for name, knots in kernel.surface.items()]
    sizes = surface_sizes(part)
    surface = fits.fit_surface(axes, [sizes[name] for name in over], np.log(part.seconds / predicted))
    return AttentionSurface(over=over, surface=surface)


def sampled(table: ServingAttentionTable, count: int) -> NDArray[np.bool_]:
    """A fixed selection of ``count`` measurements."""
    columns: Sequence[fits.Array] = (table.batch, table.query_tokens, table.context_tokens, table.kv_bytes)
    keys = [
        f"{shape}-{row}"
        for shape, row in zip(head_shapes(table), zip(*(c.tolist() for c in columns), strict=True), strict=True)
    ]
    chosen = np.zeros(len(table), dtype=bool)
    chosen[np.argsort(fits.share_of(keys), kind="stable")[:count]] = True
    return chosen


Beside = Literal["cache write", "rope"]
"""Class of the kernel that a benchmark times with attention: it writes new keys and values to their pages (vLLM until
0.15, see vllm-project/vllm#25954), or also rotates queries and keys on the way (TensorRT-LLM)."""
ELEMENT_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How a table was measured: the kernel, and the family whose constants are its priors."""

    source: str
    tables: Mapping[str, Any]
    """The tables, as a manifest names them."""
    kernel: Kernel
    known: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the kernel where devices are fitted together."""
    found: Sequence[str] = ()
    """What of its given constants the table has shown, not the kernel's code."""
    beside: Beside | None = None
    """What the table times besides attention."""
    relative: str | None = None
    filters: Sequence[str] = ()
    largest_group: float | None = None
    """Heads to a head of keys and values beyond which the engine takes its ungrouped kernel; None where it has none."""
    ungrouped: Kernel | None = None

    def is_grouped(self, table: ServingAttentionTable) -> NDArray[np.bool_]:
        """Rows of the kernel for heads that share keys and values; all where there is no other."""
        if self.largest_group is None:
            return np.ones(len(table), dtype=bool)
        return np.asarray((table.heads > table.kv_heads) & (table.heads <= self.largest_group * table.kv_heads))


def beside_seconds(table: ServingAttentionTable, device: Device, beside: Beside | None) -> NDArray[np.float64]:
    """Seconds of the kernel next to attention for every measurement; 0 where the table holds attention alone.

    Engines differ in which kernels their attention operator holds, so a table says more of its engine here than of its
    device. They are priced as if nobody had measured them, so that nothing of the table goes in.
    """
    t = table
    if beside is None:
        return np.zeros(len(t))
    moved = t.batch * t.kv_heads * t.query_tokens * (t.head_dim + t.value_dim) * (ELEMENT_BYTES + t.kv_bytes)
    if beside == "rope":
        moved = moved + 2 * ELEMENT_BYTES * t.batch * t.heads * t.query_tokens * t.head_dim
    constants = load_elementwise(UNMEASURED, "vectorized")[beside]
    kernel = Elementwise(module="attention core", part="cache write", traffic_bytes=moved)
    return np.asarray(elementwise_cost(kernel, device, constants).time_s)


JOINT_SAMPLE = 300
"""Measurements of each device that the fit uses, so that all devices weigh the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A measured device: its table, how the table was taken, and the host's time per launch there."""

    table: ServingAttentionTable
    device: Device
    measured: Measured
    host_s: float
    own: Mapping[str, float] = field(default_factory=dict)
    """Of its own fit, what all devices together cannot tell."""

    def sample(self) -> ServingAttentionTable:
        """The rows that the fit uses."""
        rows = self.table.where(self.measured.is_grouped(self.table))
        return rows.where(sampled(rows, JOINT_SAMPLE))

    def structure(self, form: Kernel, *, unseen: bool = False) -> Mapping[str, Any]:
        """The kernel's constants that are known, ``unseen`` without its table."""
        m = self.measured
        told = (*form.priors, *(m.found if unseen else ()))
        return {**form.given, **{n: v for n, v in m.kernel.given.items() if n not in told}, **m.known}

    def predict(self, table: ServingAttentionTable, constants: Constants) -> NDArray[np.float64]:
        """Predicted seconds of every row with constants of attention alone, its times at the reference clock."""
        own = {**at_clock(constants, self.device), HOST: self.host_s}
        attention_s = self.measured.kernel.predict(table, self.device, own)
        return attention_s + beside_seconds(table, self.device, self.measured.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFit:
    """Constants of all devices, and of all but one architecture, or one device, with the errors on that one."""

    constants: Mapping[str, Any]
    left_out: Mapping[str, Mapping[str, Any]]
    """By device, without those of its architecture; where nobody measured another, without itself alone."""
    siblings_left_in: Mapping[str, Mapping[str, Any]]
    """By device, without itself alone."""
    residuals: Mapping[str, Mapping[str, float]]


def fit_jointly(witnesses: Mapping[str, Witness], form: Kernel, known: Constants) -> JointFit:
    """Return the constants of a kernel of the ``form`` for all ``witnesses``, and without each of them in turn.

    A device that is left out keeps its kernel's structure; one that nobody knows has that of ``form``, and ``known``.
    """

    def without(name: str, apart: Collection[str]) -> Mapping[str, Any]:
        others = {n: w for n, w in witnesses.items() if n not in apart}
        return {**_joint_constants(others, form), **witnesses[name].structure(form, unseen=True)}

    left_out = {name: without(name, _apart(name, witnesses)) for name in witnesses}
    siblings_left_in = {name: without(name, {name}) for name in witnesses}
    residuals = {
        f"{name} left out": error_statistics(w.predict(w.table, left_out[name]), w.table.seconds)
        for name, w in witnesses.items()
    }
    constants = {**_joint_constants(witnesses, form), **form.given, **known}
    return JointFit(constants=constants, left_out=left_out, siblings_left_in=siblings_left_in, residuals=residuals)


def _apart(name: str, witnesses: Collection[str]) -> frozenset[str]:
    """The witnesses of a device's architecture; itself alone where there are no others."""
    whole = kin(name)
    return whole if set(witnesses) - whole else frozenset({name})


def _joint_constants(witnesses: Mapping[str, Witness], form: Kernel) -> dict[str, float]:
    """The constants of all witnesses: geometric means of what their own fits tell better, and the rest together."""
    used = [(w, w.sample(), w.structure(form)) for w in witnesses.values()]
    means = between([w.own for w in witnesses.values()])
    fitted = fits.fit_with_priors(
        lambda x: np.concatenate([w.predict(table, {**x, **means, **structure}) for w, table, structure in used]),
        np.concatenate([table.seconds for _, table, _ in used]),
        np.concatenate([np.full(len(table), 1 / len(table)) for _, table, _ in used]),
        {name: p for name, p in form.priors.items() if name not in form.given and name not in means},
    )
    return {**fitted, **means}


PREFILL, DECODE, LATENT = "prefill_attention", "decode_attention", "latent_decode_attention"
SIZES = ("batch", "heads", "kv_heads", "head_dim", "value_dim", "query_tokens", "context_tokens", "kv_bytes")
"""Sizes of an attention whose measured ranges an entry states."""
KEYS = ("kernel", *SIZES[:-1], "window")
ENOUGH_ROWS = 2000
"""Measurements that a residual surface needs, of ``MANY_SHAPES`` shapes of heads."""
SURFACES = {PREFILL: ("queries", "heads"), DECODE: ("tiles", "context", "kv_heads"), LATENT: ()}
"""What the surface of anybody's table of a phase lies over."""


def measured_families(part: str) -> dict[str, Measured]:
    """How each family's kernels were measured, those without relative first."""
    return {family: _measured(part, told) for family, told in manifest(part)["families"].items()}


def _measured(part: str, told: Stated) -> Measured:
    known = {f.name: told[f.name] for f in fields(Measured) if f.name in told}
    if "ungrouped" in told:
        known["ungrouped"] = _kernel(part, told["ungrouped"])
    return Measured(**known, kernel=_kernel(part, told))


def _kernel(part: str, told: Stated) -> Kernel:
    """The kernel that a manifest describes: priors of its phase, with changes; those stated as null are left out."""
    form = manifest(part)["forms"][told["form"]]
    return Kernel(
        decode=part != PREFILL,
        latent=part == LATENT,
        given={**form, **told.get("given", {})},
        priors=_priors(part, told.get("priors", {})),
        launched=told.get("launched", False),
        repeated_share=told.get("repeated_share", 0.0),
        surface=told.get("surface"),
    )


def _priors(part: str, changed: Stated | None = None) -> dict[str, fits.Prior]:
    """The priors of a phase, with what is ``changed``."""
    return fits.priors_of({**manifest(PREFILL if part == PREFILL else DECODE)["priors"], **(changed or {})})


def serving_entries(part: str, stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of a phase by device family; ``generic`` is fitted to all of them at once."""
    entries: dict[str, Entry] = {}
    witnesses: dict[str, Witness] = {}
    generic = stated["generic"]
    for family, one in measured_families(part).items():
        table, device = ServingAttentionTable.of(read(one.tables)), device_of(family)
        relative = None if one.relative is None else entries[one.relative]["constants"]
        result = _fit_entry(table, device, one, relative)
        entries[family] = {
            **provenance(one.source, "fitted", part),
            **({"filters": list(one.filters)} if one.filters else {}),
            **figures(result),
            "covered": {part: covered({name: getattr(table, name) for name in SIZES})},
            "constants": dict(result.constants),
        }
        host_s = float(result.constants.get(HOST, 0.0))
        own = {name: float(result.constants[name]) for name in generic.get("own", ())}
        witnesses[family] = Witness(table=table, device=device, measured=one, host_s=host_s, own=own)
    fit = fit_jointly(witnesses, _kernel(part, generic), generic.get("known", {}))
    entries["generic"] = {
        **provenance(f"fitted to {', '.join(witnesses)} at once, each weighing the same", "datasheet", part),
        "residuals": {name: dict(r) for name, r in fit.residuals.items()},
        "constants": dict(fit.constants),
        "left_out": {name: dict(constants) for name, constants in fit.left_out.items()},
        "siblings_left_in": {name: dict(constants) for name, constants in fit.siblings_left_in.items()},
    }
    return entries


def _fit_entry(
    table: ServingAttentionTable, device: Device, one: Measured, relative: Mapping[str, Any] | None
) -> fits.FitResult:
    """The constants of the kernel, or of both where an engine has another for heads with their own keys and values."""
    kernel = one.kernel if relative is None else one.kernel.nearest(relative)
    if one.ungrouped is None:
        return fit_kernel(table, device, kernel)
    shared = fit_kernel(table.where(one.is_grouped(table)), device, kernel)
    own = fit_kernel(table.where(table.heads == table.kv_heads), device, one.ungrouped)
    residuals: dict[str, Any] = {f"shared, {name}": r for name, r in shared.residuals.items()}
    residuals |= {f"own, {name}": r for name, r in own.residuals.items()}
    constants = {**shared.constants, "largest_group": one.largest_group, "ungrouped": dict(own.constants)}
    rows = {"table": len(table), "fitted": shared.rows["fitted"] + own.rows["fitted"]}
    return fits.FitResult(constants=constants, rows=rows, residuals=residuals)


def _bound(part: str, rows: pl.DataFrame, cluster: Cluster) -> fits.Array:
    """The longer of arithmetic at the peak and of reading keys and values once from L2; a latent is both at once."""
    t = ServingAttentionTable.of(rows)
    peak = cluster.device.peak_flops.get("bf16") or cluster.device.peak_flops["fp16"]
    seen = np.minimum(t.context_tokens - (t.query_tokens - 1) / 2, t.window)
    arithmetic = 2 * t.batch * t.heads * t.query_tokens * seen * (t.head_dim + t.value_dim) / peak
    width = t.head_dim if part == LATENT else t.head_dim + t.value_dim
    cache = t.batch * t.kv_heads * np.minimum(t.context_tokens, t.window) * width * t.kv_bytes
    return np.asarray(np.maximum(arithmetic, cache / cluster.device.l2_bandwidth))


def _fit_phase(part: str, table: ServingAttentionTable, cluster: Cluster) -> tuple[fits.FitResult, Entry]:
    """The constants of a phase: what the table cannot tell is the relative's."""
    kernel = replace(_around(part, nearest_entry(part, cluster)["constants"]), surface=_knots(part, table))
    result = fit_kernel(table, cluster.device, kernel)
    return result, {**figures(result), "constants": dict(result.constants)}


def _around(part: str, relative: Mapping[str, Any]) -> Kernel:
    """A kernel of the relative's form, whose constants are searched around the relative's."""
    priors = _priors(part)
    given = {name: value for name, value in relative.items() if name not in priors and name != "surface"}
    return Kernel(decode=part != PREFILL, latent=part == LATENT, given=given, priors=priors).nearest(relative)


def _knots(part: str, table: ServingAttentionTable) -> Mapping[str, int] | None:
    """About a knot an octave over what engines choose kernels by; None where a table cannot carry a surface."""
    if len(table) < ENOUGH_ROWS or len(set(head_shapes(table))) < MANY_SHAPES:
        return None
    sizes = {name: size for name, size in surface_sizes(table).items() if name in SURFACES[part] and np.ptp(size) > 0}
    knots = {name: max(3, round(float(np.log2(size.max() / size.min()))) + 1) for name, size in sizes.items()}
    return {name: knots[name] for name in SURFACES[part] if name in knots} or None


def _predict(part: str, table: ServingAttentionTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> fits.Array:
    constants = (stated or nearest_entry(part, cluster))["constants"]
    predicted = _around(part, constants).predict(table, cluster.device, {**constants, "surface": None})
    if constants.get("surface") is not None:
        predicted = predicted * AttentionSurface.from_mapping(constants["surface"]).factor(table.operator())
    return predicted


def serving_part(part: str, least: int) -> Part:
    """The part of a phase, whose kernels for caches of several elements share their constants."""
    return Part(
        keys=KEYS,
        least=least,
        bound=partial(_bound, part),
        table=lambda rows, _: ServingAttentionTable.of(rows),
        fit_kernel=_fit_phase,
        content=lambda fitted, *_: fitted[part],
        predict=_predict,
        kernels=lambda rows: {part: rows},
    )
