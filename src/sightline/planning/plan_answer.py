"""What a search of plans answers: the best ones in order, how many there were, and why others lose."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf
from typing import Any, TypeVar, overload

from sightline.errors import InputError
from sightline.profile import Profile
from sightline.profile.results import stamped
from sightline.quantities import as_json

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """What a function returns, which runs once, when somebody asks for an element or for their number."""

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Sequence[T]:
        return self._make()

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return self._made[place]

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return repr(list(self._made))


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
    preferred: Sequence[str] = ()
    """Of the first: why it goes before the fastest, which cannot be told apart from it; empty where it is that."""
    obstacles: Sequence[str] = ()
    """Sentences: what keeps it from being launched."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    """Further results by key: cost_usd, energy_j, run_time_s, calendar_time_s, usd_per_hour, ..."""

    @property
    def launchable(self) -> bool:
        """Whether its framework or engine runs it as it is."""
        return not self.obstacles


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
    seconds: float = 0.0
    plans: Sequence[RankedPlan]
    pareto_axes: tuple[str, str] | None = None
    pareto: Sequence[int] = ()
    """Positions in ``plans`` of those on the front."""
    sampled: Sequence[tuple[float, float]] = ()
    """Some plans around a front that was asked for: its two figures as multiples of those of the first plan."""
    free: Sequence[str] = ()
    """Fields that were searched."""
    held_fixed: Mapping[str, Any] = field(default_factory=dict)
    """Choices of the plan that were not searched, by dotted key; those without effect are left out."""
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
    least_share: float = inf
    """Where nothing fits: how many times the memory of a device the smallest plan of training takes."""


@dataclass(slots=True, kw_only=True, eq=False)
class Counts:
    """How many plans a search looked at, as `PlanAnswer` says of each figure."""

    evaluated: int = 0
    feasible: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    least_share: float = inf
    sampled: list[tuple[float, float]] = field(default_factory=list)
    """Of a front in training: the figures of some plans that fit."""

    def joined(self, *others: "Counts | PlanAnswer") -> "Counts":
        """Return these with those of other searches."""
        every = (self, *others)
        return Counts(
            evaluated=sum(one.evaluated for one in every),
            feasible=sum(one.feasible for one in every),
            rejected=sum((Counter(one.rejected) for one in every), Counter()),
            stopped=any(one.stopped for one in every),
            least_share=min(one.least_share for one in every),
            sampled=[figures for one in every for figures in getattr(one, "sampled", ())],
        )

    def answer(self, plans: Sequence[RankedPlan], pareto_axes: tuple[str, str] | None, **about: Any) -> PlanAnswer:
        """Return the answer with its best plans, all of them on the front of two figures if there is one."""
        on_front = {"pareto": tuple(range(len(plans))) if pareto_axes else ()}
        counts: dict[str, Any] = {
            name: getattr(self, name) for name in ("evaluated", "feasible", "stopped", "least_share")
        }
        return PlanAnswer(
            plans=plans, pareto_axes=pareto_axes, rejected=+self.rejected, **counts, **{**on_front, **about}
        )


def by_loss(found: Iterable[Neighbour]) -> list[Neighbour]:
    """Return plans beside the best, the least loss first, those without one last."""
    return sorted(found, key=lambda one: (one.loss is None, one.loss or 0.0))


_KEYS = (
    *("objective", "evaluated", "feasible", "rejected", "seconds", "stopped", "free", "held_fixed", "plans", "pareto"),
    *("nearest", "neighbours", "hardware", "assumptions", "warnings"),
)
"""Of an answer, in the order in which they are documented."""


def plans_to_dict(answer: PlanAnswer, launches: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Return an answer under its result keys, in SI units and plain Python numbers.

    Args:
        answer: Of a search.
        launches: The command that runs a plan, by rank, where a framework has one.
    """
    listed = {
        "plans": [_plan_to_dict(one, (launches or {}).get(one.rank)) for one in answer.plans],
        "nearest": list(map(nearest_to_dict, answer.nearest)),
        "neighbours": list(map(asdict, (*answer.alternatives, *answer.neighbours))),
        "hardware": list(map(asdict, answer.hardware)),
    }
    axes = ("pareto_axes",) if answer.pareto_axes else ()
    return stamped({key: listed[key] if key in listed else as_json(getattr(answer, key)) for key in (*_KEYS, *axes)})


def launches(answer: PlanAnswer) -> Mapping[int, str]:
    """Return by rank the commands that run those plans that their framework can run."""
    from sightline.launching import write

    found = {}
    for one in answer.plans:
        if one.launchable:
            try:
                found[one.rank] = write(one.profile.scenario).command
            except InputError:
                continue
    return found


def _plan_to_dict(ranked: RankedPlan, launch: str | None = None) -> dict[str, Any]:
    """A plan with its place, its choices, what it runs on, and the result keys of its prediction."""
    result = ranked.profile.to_dict()
    result = {key: value for key, value in result.items() if key not in ("version", "schema")}
    cluster = ranked.profile.scenario.cluster
    place = {
        **{key: as_json(getattr(ranked, key)) for key in ("rank", "tied", "better", "preferred", "value")},
        "plan": result["scenario"]["plan"],
        "cluster": " + ".join(cluster.stated),
        "launchable": ranked.launchable,
        "obstacles": list(ranked.obstacles),
        "tight": ranked.profile.tight,
        "launch": launch,
    }
    return {**place, **result, **ranked.figures}


def nearest_to_dict(found: NearestPlan) -> dict[str, Any]:
    """Return one of the nearest plans that fit, with the result keys of its prediction."""
    return {"set": dict(found.set), "sentence": found.sentence, "command": found.command, **_plan_to_dict(found.plan)}
