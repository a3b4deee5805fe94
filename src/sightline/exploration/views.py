"""The two views of a device: what its kernels reach today, and fixed shares of its peak and bandwidth."""

from collections.abc import Mapping
from typing import Any

from sightline.exploration.answer import View
from sightline.frameworks import read_framework
from sightline.loading.checks import with_value
from sightline.quantities import percent

IDEAL_FRAMEWORK = "reference"
"""The framework, and the engine, of the ideal view: fixed shares of every rate, no launches, all usual fusions."""


def said_of(view: View, more: str = "") -> str:
    """Return what a study assumes by a view, and ``more`` where it assumes more: a part of a sentence."""
    if view == "ideal":
        ideal = read_framework(IDEAL_FRAMEWORK).ideal
        peak, bandwidth = (1.0, 1.0) if ideal is None else (ideal.peak, ideal.bandwidth)
        shares = f"{percent(peak)} of their peak and {percent(bandwidth)} of every bandwidth"
        said = f"Ideal view: devices reach {shares}, without launches and with all usual fusions"
    else:
        said = "Calibrated view: devices reach what kernels reach today, as far as they were measured"
    return f"{said}; {more}." if more else f"{said}."


def in_view(scenario: Mapping[str, Any], view: View) -> dict[str, Any]:
    """Return a scenario's mapping as a view sees it.

    The ideal view, which papers of hardware assume, replaces the framework or the engine, and so what they keep in
    memory too; the calibrated one leaves the scenario as it is stated. A plan that is no mapping is left for loading to
    refuse.
    """
    stated = scenario.get("plan") or {}
    if view == "calibrated" or not isinstance(stated, Mapping):
        return dict(scenario)
    plan = {key: value for key, value in stated.items() if key != "framework_version"}
    return with_value({**scenario, "plan": plan}, "plan.framework", IDEAL_FRAMEWORK)
