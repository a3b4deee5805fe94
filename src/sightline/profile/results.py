"""The documented result keys: a profile as JSON says it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import ceil, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sightline.profile.profile import Row
from sightline.quantities import COVERAGE, as_json

if TYPE_CHECKING:
    from sightline.profile.profile import Profile

SCHEMA = 1
"""Version of the result keys; it grows when a key changes its meaning, not when keys are added."""
_PARTS = (
    "phases",
    "memory_bytes",
    "interval",
    "evidence",
    "missing",
    "advice",
    "anchor",
    "warnings",
    "memory_peak",
    "measurement",
    "limited_by",
    "curve",
)


def stamped(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON document with Sightline's ``version`` and the ``schema`` of its keys in front."""
    from sightline import __version__

    return {"version": __version__, "schema": SCHEMA, **document}


def answer_to_dict(profile: "Profile") -> dict[str, Any]:
    """Return what `Profile.to_dict` does without the scenario, its source and the stamp."""
    stated = set(profile.stated)
    metrics = {
        key: getattr(profile, key)
        for key, metric in profile.task.metrics.items()
        if key in stated or (metric.formula is not None and metric.applies(profile))
    }
    verdicts: dict[str, Any] = {}
    if profile.memory_bytes:
        verdicts = {"fits": profile.fits, "fit": profile.fit, "fits_probability": profile.fits_probability}
        verdicts["bottleneck"] = profile.bottleneck
    if profile.levels:
        verdicts["bound_level"] = profile.bound_level
    warnings = list(dict.fromkeys((*profile.scenario.warnings, *profile.warnings)))
    levels = profile.levels if profile.task.phases else {}
    parts = {key: getattr(profile, key) for key in _PARTS} | {"levels": levels, "warnings": warnings}
    always = ("interval", "warnings", *(("phases", "memory_bytes", "advice") if profile.task.phases else ()))
    held = {key: part for key, part in parts.items() if part or key in always}
    result: dict[str, Any] = as_json({**verdicts, **metrics, **held})
    return result


def tables_to_dict(profile: "Profile") -> dict[str, Any]:
    """Return the tables of a profile that has some: a row per operator, and the memory ledger of pipeline stages."""
    rows = [{f.name: getattr(row, f.name) for f in fields(Row)} for row in profile.rows]
    stages = [
        {
            "stage": stage.stage,
            "memory_bytes": {**stage.parts, "total": stage.total},
            "items": stage.items,
            "moments": stage.moments,
            "peak": stage.peak,
        }
        for stage in profile.stages
    ]
    found: dict[str, Any] = as_json({key: table for key, table in (("rows", rows), ("stages", stages)) if table})
    return found


def figure_of(result: Mapping[str, Any], key: str) -> Any:
    """Return the single figure of documented results under a key such as ``ttft_s.p90``, or None without one."""
    name, _, part = key.partition(".")
    found = result.get(key, result.get(name))
    if part and isinstance(found, Mapping):
        found = found.get(part)
    return None if isinstance(found, Mapping) else found


def measured_rates(
    predicted: Any, step_time_s: float, *, tokens: float | None = None, devices: float | None = None
) -> dict[str, float]:
    """Return the rates of a measured step, by result key.

    Utilization is the predicted one times predicted over measured seconds, so both divide by the same peak. FLOPs are
    those of the scenario in proportion to the tokens: longer sequences cost a little more than that.

    Args:
        predicted: The prediction of the scenario, with its ``step_time_s``, ``mfu``, ``hfu`` and ``model_flops``.
        step_time_s: Measured seconds of a step.
        tokens: Tokens of a step on all devices; None for the scenario's.
        devices: Devices that ran it; None for the scenario's.
    """
    asked_tokens, asked_devices = float(predicted.scenario.workload.tokens_per_step), predicted.scenario.cluster.devices
    tokens, devices = tokens or asked_tokens, devices or asked_devices
    work = tokens / asked_tokens
    faster = float(predicted.step_time_s) / step_time_s * work * asked_devices / devices
    return {
        "tokens_per_s": tokens / step_time_s,
        "tokens_per_s_per_device": tokens / step_time_s / devices,
        "model_flops_per_s_per_device": float(predicted.model_flops) * work / step_time_s / devices,
        "mfu": float(predicted.mfu) * faster,
        "hfu": float(predicted.hfu) * faster,
    }


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 80 % interval of the median by ranks: order statistics n/2 -+ z sqrt(n)/2 (Conover 1999, 3.2).

    Assumes independent samples of one distribution, whatever its form.
    """
    ordered, n = sorted(samples), len(samples)
    reach = NormalDist().inv_cdf(0.5 + COVERAGE / 2) * sqrt(n) / 2
    low, high = ceil(n / 2 - reach), ceil(n / 2 + reach)
    return ordered[max(low, 1) - 1], ordered[min(high, n) - 1]
