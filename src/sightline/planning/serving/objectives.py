"""What plans that serve a load are compared by: figures at the highest rate that keeps the objective of the load."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sightline.errors import InputError, nearest
from sightline.planning.serving.trial import Trial

HOUR_S = 3600.0
GOODPUT = "goodput_requests_per_s_per_device"


class Compared(NamedTuple):
    """A figure of a plan."""

    key: str
    """The result that it is."""
    ranked_as: str
    """The figure of steady plans that ranks layouts before they are simulated, and whose errors tell ties."""


OBJECTIVES: Mapping[str, Compared] = {
    "goodput": Compared(GOODPUT, "output_tokens_per_s_per_device"),
    "cost": Compared("cost_usd_per_million_tokens", "cost_usd_per_million_tokens"),
    "users": Compared("most_users", "output_tokens_per_s"),
    "energy": Compared("energy_j_per_million_tokens", "energy_j_per_million_tokens"),
}
"""By the word that is asked for."""


def objective_of(name: str) -> str:
    """Return the objective that a word stands for; raise `InputError` for any other. ``time`` is what nobody stated."""
    if name in ("time", GOODPUT):
        return "goodput"
    if name not in OBJECTIVES:
        allowed = ", ".join(OBJECTIVES)
        raise InputError(f"objective is '{name}'; allowed of serving: {allowed}{nearest(name, tuple(OBJECTIVES))}")
    return name


def figures_of(trial: Trial, think_s: float, *, stated: bool = False) -> dict[str, Any]:
    """Return the results of a plan at its highest rate by key; None where nobody knows one.

    Money is of the load as it is ``stated``, or at the highest rate.
    """
    cluster, rate = trial.finalist.scenario.cluster, trial.rate
    per_hour = None if cluster.usd_per_hour is None else float(cluster.usd_per_hour) * cluster.devices
    requests_per_h, tokens_per_h = (HOUR_S * rate for rate in _answered_per_s(trial, stated=stated))
    return {
        "capacity_requests_per_s": trial.capacity.rate,
        GOODPUT: rate / cluster.devices,
        "goodput_requests_per_usd": requests_per_h / per_hour if per_hour else None,
        "most_users": trial.users(think_s),
        "cost_usd_per_million_tokens": 1e6 * per_hour / tokens_per_h if per_hour and tokens_per_h else None,
        "energy_j_per_million_tokens": _energy_j(trial),
        "usd_per_hour": per_hour,
        "meets_slo": trial.meets,
    }


def _answered_per_s(trial: Trial, *, stated: bool) -> tuple[float, float]:
    """Requests that are answered per second, and their tokens: what is refused yields none.

    A rate has its share of completed requests, without the end of a run; a closed loop has what it answered.
    """
    rate, of = (trial.finalist.lengths.requests_per_s, trial.profile) if stated else (trial.rate, trial.at_capacity)
    if of is None or not of.completed:
        return 0.0, 0.0
    share = of.completed / (of.completed + of.failed + sum(of.refused.values()))
    requests_per_s = rate * share if rate else float(of.requests_per_s)
    return requests_per_s, requests_per_s * float(of.output_tokens_per_s) / float(of.requests_per_s)


def _energy_j(trial: Trial) -> float | None:
    """Joules of all devices per million output tokens."""
    of = trial.at_capacity
    if of is None or of.energy_j is None or not of.output_tokens_per_s:
        return None
    return 1e6 * float(of.energy_j) / (float(of.output_tokens_per_s) * float(of.duration_s))
