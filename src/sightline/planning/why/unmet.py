"""A question that has no plan, and what is told of plans of others: what changes, what it costs, how to ask for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sightline.loading.sources import with_settings
from sightline.planning.answer import NearestPlan, RankedPlan
from sightline.planning.clusters import is_usual
from sightline.planning.training.best import Candidate
from sightline.planning.training.candidates import resolved
from sightline.planning.training.money import RunLimits
from sightline.planning.training.objectives import Measure
from sightline.planning.why.variations import Variation
from sightline.prediction.changes import needs_and_step
from sightline.profile import Profile
from sightline.quantities import GIB, SECONDS, format_quantity
from sightline.scenario import Cluster, Scenario
from sightline.scenario.space import TRAINING_FIELDS, Space, opened


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unmet:
    """A question that has no plan, and what was asked of one."""

    space: Space[Scenario]
    limits: RunLimits = field(default_factory=RunLimits)
    availability: float | None = None
    max_memory: float | None = None
    launchable: bool = False
    """Whether the launch of its framework has to run it."""
    asked: Profile | None = None
    """The plan that does not fit, where one was asked for."""

    @property
    def is_limited(self) -> bool:
        """Whether time or money is limited."""
        return self.limits.deadline_s is not None or self.limits.budget_usd is not None


def space_of(unmet: Unmet, variation: Variation) -> Space[Scenario]:
    """Return the space of a variation: with the fields that were asked for, or with every field of the plan free.

    Fused attention stays, as nothing needs less memory.
    """
    if variation.keeps_fields:
        return replace(unmet.space, scenario=variation.scenario, clusters=())
    fixed = "attention" if variation.scenario.plan.attention == "flash" else ""
    free = [name for name in TRAINING_FIELDS if name != fixed]
    return replace(opened(variation.scenario, free), at_most=unmet.space.at_most)


def changes_from(space: Space[Scenario], scenario: Scenario) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys of a plan with values that were not asked for, as a file states them."""
    stated = scenario.plan.to_dict()
    for name in TRAINING_FIELDS:
        allowed = space.values.get(name, (getattr(space.scenario.plan, name),))
        if name != "data_parallel" and allowed is not None and getattr(scenario.plan, name) not in allowed:
            yield f"plan.{name}", stated[name]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Describer:
    """Describes a plan that was found."""

    unmet: Unmet
    predict: Callable[[Scenario], Profile]
    command: str
    """What changes are added to as options."""

    def described(self, variation: Variation, candidate: Candidate) -> NearestPlan:
        """Return a plan that fits with its changes, its figures and the command."""
        space = space_of(self.unmet, variation)
        scenario = resolved(space, candidate.fields)
        profile = self.predict(scenario)
        measure = Measure(space=space, availability=self.unmet.availability)
        run = measure.whole_run(measure.of_profile(profile))
        figures = {} if run is None else {key: None if v is None else float(v) for key, v in run.figures.items()}
        plan = RankedPlan(rank=1, profile=profile, value=float(profile.step_time_s), figures=figures)
        changed = {**variation.set, **dict(changes_from(self.unmet.space, scenario))}
        return NearestPlan(
            set=changed,
            sentence=self._sentence(variation, plan),
            plan=plan,
            command=with_settings(self.command, changed | self._replicas(scenario)),
        )

    def _replicas(self, scenario: Scenario) -> dict[str, int]:
        """The replicas, which the file states, where they are others."""
        stated, replicas = self.unmet.space.values.get("data_parallel"), int(scenario.plan.data_parallel)
        return {} if stated is None or replicas in stated else {"plan.data_parallel": replicas}

    def _sentence(self, variation: Variation, plan: RankedPlan) -> str:
        """What a plan needs and takes, and what it costs."""
        profile = plan.profile
        said = needs_and_step(profile)
        if self.unmet.asked is not None:
            said += f", {profile.step_time_s / self.unmet.asked.step_time_s:.2f} x as long"
        said += _price(plan, with_time=self.unmet.is_limited)
        cluster = profile.scenario.cluster
        if profile.scenario.plan.offload and is_usual(cluster):
            said += f"; offloads to {host_memory(cluster)}"
        return f"{said}; {variation.remark}" if variation.remark else said


def host_memory(cluster: Cluster) -> str:
    """Return the memory of the hosts that are assumed where none are stated."""
    host = cluster.host
    return f"{float(host.memory_bytes) / GIB:,.0f} GiB of host memory a node, assumed ({host.name})"


def _price(plan: RankedPlan, *, with_time: bool) -> str:
    """What a plan costs: the run, where its length is known, else an hour."""
    cost, run_s = plan.figures.get("cost_usd"), plan.figures.get("calendar_time_s")
    cluster = plan.profile.scenario.cluster
    said = f", {format_quantity(run_s, SECONDS)} on the calendar" if with_time and run_s is not None else ""
    if cost is not None:
        return f"{said}, {cost:,.{0 if cost >= 100 else 2}f} USD for the run"
    price = cluster.device.usd_per_hour
    return said if price is None else f"{said}, {price * cluster.devices:.2f} USD an hour"
