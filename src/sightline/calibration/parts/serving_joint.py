"""One set of attention constants for several devices at once: what a device that nobody measured is predicted with.

Constants are shares of datasheet figures, times of a kernel's start or sizes of its tiles, so that one set can hold for
all devices. How a kernel cuts its work into tiles is its code's and differs by generation; it is known without a table.
What a table's benchmark adds, launches from the host and kernels next to attention, stays the table's own.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import fit_with_priors
from sightline.calibration.parts.part import between
from sightline.calibration.parts.serving_attention import HOST, Constants, Kernel, ServingAttentionTable, sampled
from sightline.cost.architectures import kin
from sightline.cost.attention.constants import at_clock
from sightline.cost.elementwise import elementwise_cost, load_elementwise
from sightline.cost.families import UNMEASURED
from sightline.program import Elementwise
from sightline.scenario import Device

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


SAMPLE = 300
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
        return rows.where(sampled(rows, SAMPLE))

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
        return {**_fitted(others, form), **witnesses[name].structure(form, unseen=True)}

    left_out = {name: without(name, _apart(name, witnesses)) for name in witnesses}
    siblings_left_in = {name: without(name, {name}) for name in witnesses}
    residuals = {
        f"{name} left out": error_statistics(w.predict(w.table, left_out[name]), w.table.seconds)
        for name, w in witnesses.items()
    }
    constants = {**_fitted(witnesses, form), **form.given, **known}
    return JointFit(constants=constants, left_out=left_out, siblings_left_in=siblings_left_in, residuals=residuals)


def _apart(name: str, witnesses: Collection[str]) -> frozenset[str]:
    """The witnesses of a device's architecture; itself alone where there are no others."""
    whole = kin(name)
    return whole if set(witnesses) - whole else frozenset({name})


def _fitted(witnesses: Mapping[str, Witness], form: Kernel) -> dict[str, float]:
    """The constants of all witnesses: geometric means of what their own fits tell better, and the rest together."""
    used = [(w, w.sample(), w.structure(form)) for w in witnesses.values()]
    means = between([w.own for w in witnesses.values()])
    fitted = fit_with_priors(
        lambda x: np.concatenate([w.predict(table, {**x, **means, **structure}) for w, table, structure in used]),
        np.concatenate([table.seconds for _, table, _ in used]),
        np.concatenate([np.full(len(table), 1 / len(table)) for _, table, _ in used]),
        {name: p for name, p in form.priors.items() if name not in form.given and name not in means},
    )
    return {**fitted, **means}
