"""One set of attention constants for several devices at once: what a device that nobody measured is predicted with.

Constants are shares of datasheet figures, times of a kernel's start or sizes of its tiles, so that one set can hold for
all devices. What a table's benchmark adds, launches from the host, stays the table's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sightline.calibration.attention_serving import HOST, Constants, Kernel, sampled
from sightline.calibration.attention_serving_tables import ServingAttentionTable
from sightline.calibration.fitting import error_statistics
from sightline.calibration.priors import fit_with_priors
from sightline.scenario import Device

SAMPLE = 300
"""Measurements of each device that the fit uses, so that all devices weigh the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A measured device: its table, how the table was taken, and the host's time per launch there."""

    table: ServingAttentionTable
    device: Device
    kernel: Kernel
    host_s: float

    def predict(self, constants: Constants) -> Any:
        """Predicted seconds of every measurement with constants of others."""
        return self.kernel.predict(self.table, self.device, {**constants, HOST: self.host_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFit:
    """Constants of all devices, and of all but one with the errors on that one."""

    constants: Mapping[str, Any]
    left_out: Mapping[str, Mapping[str, Any]]
    residuals: Mapping[str, Mapping[str, float]]


def fit_jointly(witnesses: Mapping[str, Witness], form: Kernel) -> JointFit:
    """Return the constants of a kernel of the ``form`` for all ``witnesses``, and without each of them in turn."""
    left_out = {name: _fitted({n: w for n, w in witnesses.items() if n != name}, form) for name in witnesses}
    residuals = {
        f"{name} left out": error_statistics(w.predict(left_out[name]), w.table.seconds)
        for name, w in witnesses.items()
    }
    return JointFit(constants=_fitted(witnesses, form), left_out=left_out, residuals=residuals)


def _fitted(witnesses: Mapping[str, Witness], form: Kernel) -> dict[str, Any]:
    used = [replace(w, table=w.table.where(sampled(w.table, SAMPLE))) for w in witnesses.values()]
    priors = {name: p for name, p in form.priors.items() if name not in form.given}
    fitted = fit_with_priors(
        lambda x: np.concatenate([w.predict({**form.given, **x}) for w in used]),
        np.concatenate([w.table.seconds for w in used]),
        np.concatenate([np.full(len(w.table), 1 / len(w.table)) for w in used]),
        priors,
    )
    return {**form.given, **fitted}
