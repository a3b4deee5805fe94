"""What the ranks of a measured training scenario saw, as the profile that a prediction has."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.measurement.machine.timing import median_of_runs, spread_of_samples
from sightline.measurement.modules.communication import EXPOSED
from sightline.measurement.processes.results import (
    held_bytes,
    limits_of,
    memory_by_part,
    remarks_on_times,
)
from sightline.profile import TRAINING, Profile
from sightline.profile.measured import measured_rates
from sightline.scenario import Scenario

Samples = Sequence[Mapping[str, Any]]
"""As ranks send them: repeat, step, step_time_s, phases."""


def result_of(scenario: Scenario, predicted: Profile, seen: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    """Return the result keys that a measurement has of its own, and ``rows``.

    Args:
        scenario: What was asked.
        predicted: Its prediction, for the FLOPs of the work and for what bounds phases whose modules were not told
            apart.
        seen: What `case.measure_case` collected.
        samples: Of all repeats.
    """
    times = [[s["step_time_s"] for s in samples if s["repeat"] == r] for r in range(len(seen["repeats"]))]
    step_s, ends = median_of_runs(times)
    rows = [row for repeat in seen["repeats"] for row in repeat["levels"].get("module", {}).get("rows", ())]
    waited_s = waiting_s(seen["repeats"])
    phases = _phases(samples, step_s, rows, waited_s)
    tokens = float(scenario.workload.tokens_per_step)
    return {
        "source": "measured",
        "fits": True,
        "step_time_s": step_s,
        **measured_rates(predicted, step_s),
        "phases": phases,
        "memory_bytes": _memory(seen["repeats"]),
        "limits": _limits(rows, phases, predicted),
        "energy_per_step_j": _energy(seen["repeats"], times),
        "interval": {"step_time_s": list(ends), "tokens_per_s": [tokens / ends[1], tokens / ends[0]]},
        "evidence": {"step": "measured", **({} if rows else {"limits": "predicted"})},
        "measurement": _measurement(seen, times),
        "warnings": [*seen["repeats"][0]["remarks"], *remarks_on_times(*ends, step_s, what="step time")],
        "model_flops": float(predicted.model_flops),
        "hardware_flops": float(predicted.hardware_flops),
        "rows": rows,
    }


def waiting_s(repeats: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of all steps that the first rank spent in collectives while others had yet to come.

    The last rank does not wait, so that a step's collectives take the least that any rank spends in them.
    """
    steps = (zip(*(rank.get("exposed_s", ()) for rank in repeat["ranks"]), strict=False) for repeat in repeats)
    return float(sum(step[0] - min(step) for taken in steps for step in taken))


def _phases(
    samples: Samples, step_s: float, rows: Sequence[Mapping[str, Any]], waited_s: float = 0.0
) -> dict[str, float]:
    """Seconds by phase that sum to the step: each one's share of all steps; what is in none is the host's.

    Waiting for a late rank is no communication and the host's too. Recomputation runs inside the backward pass; its
    share of it is that of the steps whose modules were told apart.
    """
    whole = sum(s["step_time_s"] for s in samples)
    share = {phase: sum(s["phases"].get(phase, 0.0) for s in samples) / whole for phase in TRAINING.phases}
    share[EXPOSED] = max(share[EXPOSED] - waited_s / whole, 0.0)
    backward, again = (sum(r["time_s"] for r in rows if r["phase"] == phase) for phase in ("backward", "recompute"))
    if again:
        share["recompute"] = share["backward"] * again / (backward + again)
        share["backward"] -= share["recompute"]
    share["host"] = 1.0 - sum(share.values())
    return {phase: part * step_s for phase, part in share.items()}


def _memory(repeats: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Bytes by part of the rank that held most."""
    ranks = [rank for repeat in repeats for rank in repeat["ranks"]]
    most = max(ranks, key=lambda rank: held_bytes(rank["memory"]))
    return memory_by_part(most["memory"], most["states"])


def _limits(rows: Sequence[Mapping[str, Any]], phases: Mapping[str, float], predicted: Profile) -> dict[str, float]:
    """Seconds of the step by what bounds them, as rows say; without rows in the prediction's proportions.

    What is neither waiting for others nor outside of all phases is then arithmetic or memory, as predicted.
    """
    step_s = sum(phases.values())
    if rows:
        return limits_of(rows, step_s)
    network, host = phases["communication_exposed"], phases["host"]
    work = step_s - network - host
    compute, memory = (float(predicted.limits[bound]) for bound in ("compute", "memory"))
    share = compute / (compute + memory) if compute + memory else 1.0
    return {"compute": share * work, "memory": (1.0 - share) * work, "network": network, "host": host, "bubble": 0.0}


def _energy(repeats: Sequence[Mapping[str, Any]], times: Sequence[Sequence[float]]) -> float | None:
    """Joules of a step on all devices; None where some device's were not counted."""
    steps = [len(t) for t in times]
    joules = [[rank["energy_j"] for rank in repeat["ranks"]] for repeat in repeats]
    if any(j is None for repeat in joules for j in repeat) or not sum(steps):
        return None
    return float(sum(map(sum, joules)) / sum(steps))


def _measurement(seen: Mapping[str, Any], times: Sequence[Sequence[float]]) -> dict[str, Any]:
    first = seen["repeats"][0]
    ranks = [rank for repeat in seen["repeats"] for rank in repeat["ranks"]]
    module = first["levels"].get("module", {})
    return {
        "implementation": seen["way"],
        "threads": seen["threads"],
        **first["record"],
        "weights": seen["weights"],
        "repeats": [len(t) for t in times],
        "warm_up": seen["warm_up"],
        "median_s": [float(np.median(t)) for t in times],
        "spread_s": spread_of_samples(times),
        "waiting_s": waiting_s(seen["repeats"]) / sum(map(len, times)),
        "losses": np.nanmean([rank["losses"] for rank in first["ranks"]], axis=0).tolist(),
        "peak_memory_bytes": {key: max(rank["memory"][key] for rank in ranks) for key in ranks[0]["memory"]},
        "shimmed": bool(first["record"].get("shimmed", False)),
        **{key: module[key] for key in ("recorded_steps", "instrumentation_overhead") if key in module},
    }
