"""What a search of plans answers: the best ones in order, how many there were, and why others lose."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankedPlan:
    """One of the best plans, fully resolved in ``profile.scenario``."""

    rank: int
    """From 1."""
    profile: Profile
    value: float
    """The objective, in the unit of its result key; smaller is better but for batch and rates."""
    tied: bool = False
    """Whether the uncertainty does not let one tell it from the first: its interval of the ratio holds 1."""
    better: float | None = None
    """How likely it is better than the first, from 0 to 1; None for the first and where nothing is known."""
    launchable: bool = True
    obstacles: Sequence[str] = ()
    """Sentences: what the framework does not offer of it."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    """Further results by key: cost_usd, energy_j, run_time_s, calendar_time_s, usd_per_hour, ..."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbour:
    """An obvious other choice, and why it loses."""

    set: Mapping[str, Any]
    """Dotted key and value."""
    loss: float | None
    """By how much the objective is worse, as a share of the best; None where it does not fit or is not valid.

    Of rates and users, how many times theirs the best has, less 1: of half as many 1.
    """
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearestPlan:
    """Where nothing fits: changes of what was asked under which something does."""

    set: Mapping[str, Any]
    sentence: str
    plan: RankedPlan
    command: str
    """What to type to try it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HardwareChange:
    """What a better part of the hardware would give the best plan."""

    part: str
    """Such as network.bandwidth_per_node."""
    factor: float
    gain: float
    """Share of the objective saved."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanAnswer:
    """The answer to ``sightline plan``."""

    objective: str
    evaluated: int
    """Distinct valid plans whose time and memory were both computed."""
    feasible: int
    """Those of them that fit and meet all limits."""
    rejected: Mapping[str, int]
    """Candidates by the name of the rule that they break; one that breaks several counts for each.

    Besides rules: "memory", valid plans that do not fit; a limit ("deadline", "budget", "ttft_s", "tpot_s"), plans that
    fit and exceed it, each under the first limit that it exceeds: these and the feasible plans are all valid
    ones that were evaluated. Valid plans that were not: "micro_batch", as a micro-batch alone needs more memory than
    there is; "slower", as the least time of theirs is beyond the best found or a limit.
    """
    seconds: float
    plans: Sequence[RankedPlan]
    pareto_axes: tuple[str, str] | None = None
    pareto: Sequence[int] = ()
    """Positions in ``plans`` of those on the front."""
    free: Sequence[str] = ()
    """Fields that were searched."""
    nearest: Sequence[NearestPlan] = ()
    alternatives: Sequence[Neighbour] = ()
    """The best plan with each other value that was allowed beside the mesh: a cluster, an adapter, ..."""
    neighbours: Sequence[Neighbour] = ()
    hardware: Sequence[HardwareChange] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)
    """What the figures rest on, by name: the share of time not lost to failures, the price of a device, ..."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The most that the request allowed of results, by their keys; a load's objective has its own in the scenario."""
    warnings: Sequence[str] = ()
    stopped: bool = False
    """Whether the search was stopped early: the best of what was evaluated until then."""


def by_loss(found: Iterable[Neighbour]) -> list[Neighbour]:
    """Return plans beside the best, the least loss first, those without one last."""
    return sorted(found, key=lambda one: (one.loss is None, one.loss or 0.0))
