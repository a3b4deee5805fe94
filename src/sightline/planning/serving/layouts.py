"""Layouts that may serve a load, ranked by a steady loop of requests of its mean lengths.

Each layout is looked at with the most sequences in flight that keep the limits of the objective in the mean. By
Little's law these are a rate of requests (Little 1961, Operations Research 9).
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sightline.errors import InputError
from sightline.planning.clusters import resizer
from sightline.planning.generation.candidates import Kept
from sightline.planning.generation.evaluation import Evaluated
from sightline.planning.generation.generation_search import SHOWN, Found, go_through, kept
from sightline.planning.generation.space import GenerationSpace, Variant
from sightline.planning.generation_objectives import PARETO, ascending
from sightline.progress import Cancelled, Progress
from sightline.scenario import Generate, GenerationPlan, GenerationScenario, ServingScenario
from sightline.scenario.generation import DEGREES
from sightline.scenario.space import Space
from sightline.simulation.load import MeanLengths, load_of, mean_lengths

ServingSpace: TypeAlias = Space[ServingScenario]
SLACK = (1.25, 4.0, 64.0)
"""Times the limits of the objective that a layout's mean times may be for it to be simulated: as much as the steady
loop may be wrong, and, where no layout keeps them, more, to find those that come near."""
CHANGED = frozenset((*DEGREES, "replicas", "max_batched_tokens", "chunked_prefill", "quantization"))
"""Fields of a plan that a layout can have other values of."""


class Finalist(NamedTuple):
    """A layout that is worth a simulation."""

    space: ServingSpace
    steady: Kept
    lengths: MeanLengths
    """Of its load; without a rate where clients send when others are answered."""
    max_sequences: int | None = None
    """A limit that serves more than the engine's own, where none is stated."""

    @property
    def requests_per_s(self) -> float:
        """The rate that its steady loop answers within the limits."""
        return self.steady.figures["output_tokens_per_s"] / self.lengths.output_tokens

    @property
    def scenario(self) -> ServingScenario:
        """The question with its plan; a limit of sequences is no field of steady loops, and stays as it is stated."""
        stated = self.space.scenario
        plan = replace(self.steady.scenario.plan, max_sequences=self.max_sequences or stated.plan.max_sequences)
        return replace(stated, plan=plan)

    @property
    def keeps_numerics(self) -> bool:
        """Whether weights and cache are as the checkpoint has them."""
        return not self.steady.variant.scenario.plan.quantization

    def changed(self, plan: GenerationPlan) -> "Finalist":
        """Return the layout with the degrees, the token budget and the formats of another plan."""
        steady = self.steady
        columns = {name: int(getattr(plan, name)) for name in CHANGED if name in steady.columns}
        own = steady.variant.scenario
        variant = steady.variant._replace(scenario=replace(own, plan=replace(own.plan, quantization=plan.quantization)))
        return self._replace(steady=replace(steady, columns={**steady.columns, **columns}, variant=variant))

    def replicated(self, count: int) -> "Finalist":
        """Return so many replicas of the layout, on as many devices as they take."""
        plan, figures = self.steady, self.steady.figures
        own = plan.columns["replicas"]
        cluster = resizer(self.space.sizes[-1])(count * self.space.scenario.cluster.devices // own)
        columns = {**plan.columns, "replicas": count, "batch": count * plan.columns["batch"] // own}
        rate = {"output_tokens_per_s": count / own * figures["output_tokens_per_s"]}
        variant = plan.variant._replace(scenario=replace(plan.variant.scenario, cluster=cluster))
        return self._replace(
            space=replace(self.space, scenario=replace(self.space.scenario, cluster=cluster)),
            steady=replace(plan, variant=variant, columns=columns, figures={**figures, **rate}),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Layouts(Found):
    """The best way of each layout to cut prompts."""

    of_layout: dict[tuple[Any, ...], Kept] = field(default_factory=dict)

    def keep(self, variant: Variant, of: Evaluated) -> None:
        """Keep the best plan of each layout in a list."""
        names = [name for name in (*DEGREES, "replicas") if name in of.columns]
        rows = np.stack([of.columns[name] for name in names], axis=1)
        order = np.argsort(ascending(self.key, of.figures[self.key]), kind="stable")
        _, first = np.unique(rows[order], axis=0, return_index=True)
        for plan in kept(variant, of, order[first]):
            place = (id(variant), *(plan.columns[name] for name in names))
            self.of_layout[place] = min(self.of_layout.get(place, plan), plan, key=self._worth)

    def _worth(self, plan: Kept) -> float:
        return float(ascending(self.key, plan.figures[self.key]))


class Sweep(NamedTuple):
    """What a sweep found."""

    finalists: Sequence[Finalist]
    """The most promising first."""
    of_space: Sequence[Found]
    """What was found in each space."""

    @property
    def evaluated(self) -> int:
        """Plans whose steady loop was worked out."""
        return sum(found.evaluated for found in self.of_space)

    @property
    def rejected(self) -> Counter[str]:
        """Candidates by the rule that they break, and plans that need more memory than there is."""
        return sum((found.rejected for found in self.of_space), Counter())


def sweep(spaces: Sequence[ServingSpace], ranked_as: str, progress: Progress) -> Sweep:
    """Return the layouts of spaces that may keep the objective, the most promising by a figure of steady plans first.

    Raises:
        InputError: no engine runs the model, the load cannot be read, or replicas are to come and go.
    """
    if any(space.scenario.plan.autoscale is not None for space in spaces):
        raise InputError(
            "plan.autoscale is not searched, because plans are compared with all replicas; use `sightline simulate`"
        )
    asked = [(space, _lengths_of(space.scenario)) for space in spaces]
    for slack in SLACK:
        of_space = [_layouts(space, lengths, ranked_as, slack, progress) for space, lengths in asked]
        finalists = [
            Finalist(space, plan, lengths)
            for (space, lengths), found in zip(asked, of_space, strict=True)
            for plan in found.of_layout.values()
        ]
        if finalists or progress.cancelled:
            break
    finalists.sort(key=lambda one: float(ascending(ranked_as, one.steady.figures[ranked_as])))
    return Sweep(finalists, of_space)


def _lengths_of(scenario: ServingScenario) -> MeanLengths:
    """The mean lengths of a scenario's load, with the rate that it states."""
    found, arrival = mean_lengths(load_of(scenario)), scenario.workload.arrival
    return found._replace(requests_per_s=0.0 if arrival.process == "closed" else arrival.rate or found.requests_per_s)


def steady_space(space: ServingSpace, lengths: MeanLengths) -> GenerationSpace:
    """Return the space of steady loops that stands for a space of serving plans."""
    scenario = space.scenario
    work = Generate(
        batch=1,
        prompt_tokens=round(lengths.prompt_tokens),
        output_tokens=round(lengths.output_tokens),
        prefix_tokens=round(lengths.prefix_tokens) if scenario.plan.prefix_cache else 0,
        continuous=True,
        sampling=scenario.workload.sampling,
    )
    question = GenerationScenario(
        name=scenario.name, model=scenario.model, cluster=scenario.cluster, workload=work, plan=scenario.plan
    )
    # Left out, it is the engine's own.
    return Space(
        scenario=question,
        values={"max_sequences": None, **space.values},
        options=space.options,
        launchable=space.launchable,
    )


def _layouts(space: ServingSpace, lengths: MeanLengths, ranked_as: str, slack: float, progress: Progress) -> Layouts:
    found = Layouts(key=ranked_as, axes=PARETO, most_users=True)
    slo = space.scenario.workload.slo
    limits = {} if slo is None else {key: slack * limit for key, limit in slo.limits.items()}
    wanted = tuple(dict.fromkeys((*SHOWN, ranked_as)))
    with suppress(Cancelled):  # the search looks for it again, and shows what was found until then
        go_through([steady_space(space, lengths)], found, wanted, limits, progress)
    return found
