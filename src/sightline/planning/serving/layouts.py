"""Layouts that may serve a load, ranked by a steady loop of requests of its mean lengths.

Each layout is looked at with numbers of sequences in flight. By Little's law each is a rate of requests (Little 1961,
Operations Research 9), and those that keep the limits of the objective in the mean say what the layout promises.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.planning.clusters import resizer
from sightline.planning.generation.candidates import Candidates, Kept
from sightline.planning.generation.evaluation import Evaluated, evaluated
from sightline.planning.generation.generation_search import SHOWN, Found, go_through, kept
from sightline.planning.generation.space import GenerationSpace, Variant
from sightline.planning.generation_objectives import PARETO, ascending
from sightline.progress import Cancelled, Progress
from sightline.scenario import Generate, GenerationPlan, GenerationScenario, ServingScenario
from sightline.scenario.generation import DEGREES
from sightline.scenario.space import Space
from sightline.simulation.deployment import CUTS_BY_CHOICE, check_plan, cuts_prompts
from sightline.simulation.load import MeanLengths, load_of, mean_lengths

ServingSpace: TypeAlias = Space[ServingScenario]
SLACKS = (0.6, 1.25, 4.0, 64.0)
"""Times the limits of the objective that a layout's mean times may be: so little that most requests keep them, by
which layouts are ranked; as much as the steady loop may be wrong; and, where no layout keeps those, more."""
IN_FLIGHT = np.unique(np.rint(2.0 ** (np.arange(28) / 2.0)).astype(np.int64))
"""Sequences in flight on the whole cluster that each layout is looked at with."""
LAYOUT = (*DEGREES, "replicas")
"""Fields by which layouts differ."""
CHANGED = frozenset((*LAYOUT, "max_batched_tokens", "chunked_prefill", "quantization"))
"""Fields of a plan that a layout can have other values of."""
OWN = ("place", "layout")
"""Columns that say which candidate a row is of, and of which layout that is one way to cut prompts."""


def _candidates(of: Evaluated, rows: NDArray[np.bool_] | None = None) -> int:
    """How many candidates some rows are of."""
    places = of.columns["place"]
    return int(np.count_nonzero(np.bincount(places if rows is None else places[rows])))


def _requests_per_s(steady: Kept, lengths: MeanLengths) -> float:
    """The rate that a steady loop answers, by Little's law."""
    return steady.figures["output_tokens_per_s"] / lengths.output_tokens


class Finalist(NamedTuple):
    """A layout that is worth a simulation."""

    space: ServingSpace
    steady: Kept
    """With times far within the limits, or as far within as it has any."""
    lengths: MeanLengths
    """Of its load; without a rate where clients send when others are answered."""
    most_per_s: float
    """Requests per second that it may answer where its steady loop is wrong by as much as it may be."""
    max_sequences: int | None = None
    """A limit that serves more than the engine's own, where none is stated."""

    @property
    def requests_per_s(self) -> float:
        """The rate that its steady loop answers."""
        return _requests_per_s(self.steady, self.lengths)

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
    """The best way of each layout to cut prompts, with the sequences in flight that yield the most within limits."""

    limits_s: Mapping[str, float]
    longest_prompt: int
    most_plans: int = 120_000
    within: dict[float, dict[tuple[Any, ...], Kept]] = field(default_factory=dict)
    """By slack: the best of each layout that keeps the limits so far."""

    @property
    def tries(self) -> int:
        """Numbers of sequences that each candidate is looked at with."""
        return len(IN_FLIGHT)

    def look(self, variant: Variant, of: Candidates, wanted: tuple[str, ...], _: Mapping[str, float]) -> None:
        """Evaluate each candidate with all numbers of sequences, and keep the best of each layout."""
        count = len(of.columns["batch"])
        names = [name for name in of.columns if name.rpartition(".")[2] in LAYOUT]
        same = np.unique(np.stack([of.columns[name] for name in names], axis=1), axis=0, return_inverse=True)[1]
        own = {**of.columns, "place": np.arange(count), "layout": same.reshape(count)}
        columns = {name: np.repeat(column, self.tries) for name, column in own.items()}
        found = evaluated(variant, Candidates({**columns, "batch": np.tile(IN_FLIGHT, count)}, 1), wanted, {})
        broken = Counter({rule: -(-rows // self.tries) for rule, rows in found.rejected.items() if rule != "memory"})
        worth = np.where(self._takes_all(variant, found), ascending(self.key, found.figures[self.key]), np.inf)
        fitting, simulated = _candidates(found), _candidates(found, worth < np.inf)
        self.evaluated += simulated
        self.rejected += broken + Counter(memory=count - broken.total() - fitting, whole_prompts=fitting - simulated)
        for slack in SLACKS:
            keeps, left = worth < np.inf, simulated
            for key, limit in self.limits_s.items():
                # Nobody waits for further tokens where there are none.
                keeps &= ~(found.figures[key] > slack * limit)
                keeping = _candidates(found, keeps)
                left, missing = keeping, left - keeping
                self.rejected += Counter({key: missing}) if slack == SLACKS[1] else Counter()
            self.feasible += left if slack == SLACKS[1] else 0
            self._keep(variant, found, np.where(keeps, worth, np.inf), self.within.setdefault(slack, {}))

    def _keep(
        self, variant: Variant, of: Evaluated, worth: NDArray[np.float64], best: dict[tuple[Any, ...], Kept]
    ) -> None:
        """Keep the best row of each layout among those of which any is worth something."""
        order = np.argsort(worth, kind="stable")[: np.count_nonzero(worth < np.inf)]
        _, first = np.unique(of.columns["layout"][order], return_index=True)
        for one in kept(variant, of, order[first]):
            plan = replace(one, columns={key: value for key, value in one.columns.items() if key not in OWN})
            place = (id(variant), *(plan.columns[name] for name in plan.columns if name.rpartition(".")[2] in LAYOUT))
            best[place] = min(best.get(place, plan), plan, key=self._worth)

    def _worth(self, plan: Kept) -> float:
        return float(ascending(self.key, plan.figures[self.key]))

    def _takes_all(self, variant: Variant, of: Evaluated) -> NDArray[np.bool_]:
        """Whether the simulator follows the way in which plans cut prompts, and an iteration takes the longest one."""
        engine = variant.scenario.plan.engine
        chunked = of.columns["chunked_prefill"] != 0
        takes: NDArray[np.bool_] = chunked | (of.columns["max_batched_tokens"] >= self.longest_prompt)
        takes &= (engine.serving.policy in CUTS_BY_CHOICE) | (chunked == cuts_prompts(engine))
        return takes


class Sweep(NamedTuple):
    """What a sweep found."""

    finalists: Sequence[Finalist]
    """The most promising first; each layout once."""
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
    of_space = [_layouts(space, lengths, ranked_as, progress) for space, lengths in asked]
    finalists: list[Finalist] = []
    for tight, slack in pairwise(SLACKS):
        for (space, lengths), found in zip(asked, of_space, strict=True):
            careful = found.within.get(tight, {})
            finalists += [
                Finalist(space, careful.get(place, plan), lengths, _requests_per_s(plan, lengths))
                for place, plan in found.within.get(slack, {}).items()
            ]
        if finalists:
            break
    finalists = _simulated(finalists)
    finalists.sort(key=lambda one: float(ascending(ranked_as, one.steady.figures[ranked_as])))
    return Sweep(finalists, of_space)


def _simulated(finalists: Sequence[Finalist]) -> list[Finalist]:
    """Those of engines and kinds of workers that the simulator follows; raise `InputError` where it follows none."""
    refused: dict[int, InputError] = {}
    for one in {id(one.steady.variant): one for one in finalists}.values():
        try:
            check_plan(one.scenario)
        except InputError as error:
            refused[id(one.steady.variant)] = error
    followed = [one for one in finalists if id(one.steady.variant) not in refused]
    if refused and not followed:
        raise next(iter(refused.values()))
    return followed


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


SWEPT: Final = 0.08
"""Share of a search that goes by until layouts are ranked."""


def _layouts(space: ServingSpace, lengths: MeanLengths, ranked_as: str, progress: Progress) -> Layouts:
    slo = space.scenario.workload.slo
    found = Layouts(
        key=ranked_as,
        axes=PARETO,
        limits_s={} if slo is None else dict(slo.limits),
        longest_prompt=lengths.longest_prompt,
    )
    wanted = tuple(dict.fromkeys((*SHOWN, ranked_as)))
    with suppress(Cancelled):  # the search looks for it again, and shows what was found until then
        go_through([steady_space(space, lengths)], found, wanted, {}, progress, SWEPT)
    return found
