"""Why other plans serve less of a load than the best: its neighbours, each under the same load."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sightline.planning.answer import Neighbour, by_loss
from sightline.planning.generation.objectives import missed_by
from sightline.planning.serving.changes import SIZE, choices_of, single_changes
from sightline.planning.serving.search import Placed, Simulated
from sightline.planning.serving.sweep import ServingSpace
from sightline.planning.serving.trial import Trial, has_times, objective_in, tried
from sightline.planning.why.generation import ALIKE, SEEN
from sightline.prediction.changes import does_not_fit
from sightline.quantities import SECONDS, format_quantity
from sightline.scenario import GenerationPlan
from sightline.simulation.simulate import simulate

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "replicas")


def neighbours(best: Placed, found: Simulated, free: Collection[str]) -> list[Neighbour]:
    """Return single changes of the best plan with what each loses, the least loss first, those that do not fit last.

    What the search simulated is told as it was found, other layouts with their own best sizes of iterations; the others
    are simulated.
    """
    searched = {name.rpartition(".")[2] for name in free}
    said = [_fewer_replicas(best.trial)] if found.stated and best.trial.finalist.scenario.plan.replicas > 1 else []
    for stated, plan in single_changes(best.trial.finalist.scenario):
        names = {name.rpartition(".")[2] for name in stated}
        if not names <= searched:
            continue
        layout = bool(names & {*DEGREES, "quantization"})
        known = found.trials if layout else found.other_sizes
        trial = next((one for one in known if _is_of(one, plan, found, sized=not layout)), None)
        is_other_format = stated.get("plan.quantization", "none") != "none"
        if trial is None and layout and (found.stated or is_other_format):
            # On as many devices it may have another number of replicas than it needs; formats were searched.
            continue
        neighbour = _neighbour(
            stated, plan, trial or tried(best.trial.finalist.changed(plan), best.trial.rate), best, found
        )
        said += [] if neighbour is None else [neighbour]
    return by_loss(said)


def _neighbour(
    stated: dict[str, Any], plan: GenerationPlan, trial: Trial | None, best: Placed, found: Simulated
) -> Neighbour | None:
    """What a change loses; None where it makes no difference."""
    if trial is None:
        unfit = simulate(replace(best.trial.finalist.scenario, plan=plan), intervals=False)
        return Neighbour(set=stated, loss=None, sentence=does_not_fit(unfit))
    key = found.compared.key
    its, own = found.figures_of(trial)[key], best.figures[key]
    if not trial.rate or not its or not own:
        return Neighbour(set=stated, loss=None, sentence=trial.capacity.sentence)
    if found.stated and not trial.meets:
        return Neighbour(set=stated, loss=None, sentence=f"misses the objective: {_beside(best.trial, trial)}")
    loss = float(missed_by(found.compared.ranked_as, its, own)) - 1.0
    if abs(loss) <= ALIKE:
        return None
    said = _beside(best.trial, trial)
    if loss < 0:
        said += f"; {_why_not(trial, found)}"
    return Neighbour(set=stated, loss=loss, sentence=said)


def _why_not(better: Trial, found: Simulated) -> str:
    """Why a plan that serves more is not the best one."""
    if better in found.trials:
        return "as good as the best within the uncertainty of its times, and less simple"
    return "its steady loop promises less, so that the search did not simulate it: a larger --top does"


def alternatives(best: Placed, found: Simulated, spaces: Sequence[ServingSpace]) -> list[Neighbour]:
    """Return the best plan that was simulated with each other choice - an engine, a cluster - the least loss first."""
    own = choices_of(best.trial.finalist)
    there = [choices_of(one) for one in found.swept.finalists]
    asked = [{"plan.framework": one} for space in spaces for one in space.values.get("framework") or ()]
    said = []
    for key, chosen in own.items():
        values = {str(of[key]): of[key] for of in (*there, *asked) if key in of and str(of[key]) != str(chosen)}
        for word, value in values.items():
            having = [one for one in found.trials if str(choices_of(one.finalist).get(key)) == word]
            if having:
                said.append(_best_of(having, {key: value}, best, found))
            elif not found.stated and not found.stopped:
                none = (
                    "no layout keeps the objective" if all(str(of.get(key)) != word for of in there) else "does not fit"
                )
                said.append(Neighbour(set={key: value}, loss=None, sentence=none))
    return by_loss(said)


def _best_of(having: Sequence[Trial], stated: dict[str, Any], best: Placed, found: Simulated) -> Neighbour:
    """The best of some plans, with what it loses and in what else it differs."""
    first = having[0]
    for one in having[1:]:
        first = one if found.is_better(one, first) else first
    plan, own = first.finalist.scenario.plan, best.trial.finalist.scenario.plan
    its, of_best = found.figures_of(first)[found.compared.key], best.figures[found.compared.key]
    if not first.rate or not its or not of_best:
        return Neighbour(set=stated, loss=None, sentence=first.capacity.sentence)
    names = [name for name in (*DEGREES, SIZE, "chunked_prefill") if getattr(plan, name) != getattr(own, name)]
    others = "".join(f", with {name} {str(getattr(plan, name)).lower()}" for name in names)
    loss = float(missed_by(found.compared.ranked_as, its, of_best)) - 1.0
    why = f"; {_why_not(first, found)}" if loss < -ALIKE else ""
    return Neighbour(set=stated, loss=loss, sentence=f"{_beside(best.trial, first)}{others}{why}")


def _fewer_replicas(best: Trial) -> Neighbour:
    """The best plan with a replica less, which does not serve the stated load."""
    count = int(best.finalist.scenario.plan.replicas) - 1
    trial = tried(best.finalist.replicated(count))
    sentence = "does not fit" if trial is None else f"misses the objective: {_beside(best, trial)}"
    return Neighbour(set={"plan.replicas": count}, loss=None, sentence=sentence)


def _is_of(trial: Trial, plan: GenerationPlan, found: Simulated, *, sized: bool) -> bool:
    """Whether a plan has another's degrees and formats, with as many replicas as it takes; its budget if ``sized``."""
    own = trial.finalist.scenario.plan
    names = (*DEGREES[: -1 if found.stated else None], "quantization", *((SIZE, "chunked_prefill") if sized else ()))
    return all(getattr(own, name) == getattr(plan, name) for name in names) and own.engine is plan.engine


def _beside(best: Trial, other: Trial) -> str:
    """The rate of another plan and its times, where these are of the same load, beside those of the best."""
    said = [f"up to {other.rate:.3g} requests per second instead of {best.rate:.3g}"]
    if has_times(best.finalist.scenario):
        times = (("TTFT", "ttft_s"), ("TPOT", "tpot_s"))
        name = f"p{objective_in(best.finalist.scenario).percentile:g}"
        pairs = [(label, getattr(other.profile, key)[name], getattr(best.profile, key)[name]) for label, key in times]
        said += [
            f"{name} of {label} {format_quantity(its, SECONDS)} instead of {format_quantity(own, SECONDS)}"
            for label, its, own in pairs
            if own and its and abs(its / own - 1) >= SEEN
        ]
    return ", ".join(said)
