"""One set of attention constants for several devices at once: what a device that nobody measured is predicted with.

Constants are shares of datasheet figures, times of a kernel's start or sizes of its tiles, so that one set can hold for
all devices. How a kernel cuts its work into tiles is its code's and differs by generation; it is known without a table.
What a table's benchmark adds, launches from the host and kernels beside attention, stays the table's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.attention_beside import beside_seconds
from sightline.calibration.attention_kernels import Measured
from sightline.calibration.attention_serving import HOST, Constants, Kernel, sampled
from sightline.calibration.attention_serving_tables import ServingAttentionTable
from sightline.calibration.fitting import error_statistics
from sightline.calibration.priors import fit_with_priors
from sightline.cost.attention.families import at_clock
from sightline.scenario import Device

SAMPLE = 300
"""Measurements of each device that the fit uses, so that all devices weigh the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A measured device: its table, how the table was taken, and the host's time per launch there."""

    table: ServingAttentionTable
    device: Device
    measured: Measured
    host_s: float
    same_kernel: NDArray[np.bool_] | None = None
    """Rows that the kernel has run; None for all."""

    def sample(self) -> ServingAttentionTable:
        """The rows that the fit uses."""
        rows = self.table if self.same_kernel is None else self.table.where(self.same_kernel)
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
    """Constants of all devices, and of all but one with the errors on that one."""

    constants: Mapping[str, Any]
    left_out: Mapping[str, Mapping[str, Any]]
    residuals: Mapping[str, Mapping[str, float]]


def fit_jointly(witnesses: Mapping[str, Witness], form: Kernel, known: Constants) -> JointFit:
    """Return the constants of a kernel of the ``form`` for all ``witnesses``, and without each of them in turn.

    A device that is left out keeps its kernel's structure; one that nobody knows has that of ``form``, and ``known``.
    """
    left_out = {
        name: {**_fitted({n: w for n, w in witnesses.items() if n != name}, form), **out.structure(form, unseen=True)}
        for name, out in witnesses.items()
    }
    residuals = {
        f"{name} left out": error_statistics(w.predict(w.table, left_out[name]), w.table.seconds)
        for name, w in witnesses.items()
    }
    constants = {**_fitted(witnesses, form), **form.given, **known}
    return JointFit(constants=constants, left_out=left_out, residuals=residuals)


def _fitted(witnesses: Mapping[str, Witness], form: Kernel) -> dict[str, float]:
    used = [(w, w.sample(), w.structure(form)) for w in witnesses.values()]
    return fit_with_priors(
        lambda x: np.concatenate([w.predict(table, {**x, **structure}) for w, table, structure in used]),
        np.concatenate([table.seconds for _, table, _ in used]),
        np.concatenate([np.full(len(table), 1 / len(table)) for _, table, _ in used]),
        {name: p for name, p in form.priors.items() if name not in form.given},
    )
