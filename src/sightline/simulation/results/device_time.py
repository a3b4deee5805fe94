"""What binds the devices while a load is served, and the energy that takes."""

from collections.abc import Iterator, Mapping

from sightline.prediction.figures import energy_of_generation_j
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.iteration import drafted_tokens, iteration_time
from sightline.prediction.generation.worker import Worker
from sightline.profile import BOUNDS
from sightline.program import Batch, decoding, prompts
from sightline.quantities import Number
from sightline.simulation.results.iteration_sums import IterationSums
from sightline.simulation.times.tables import in_loop


def busy_by_bound(
    worker: Worker, constants: InferenceConstants, sums: IterationSums, *, ahead: bool = False
) -> dict[str, float]:
    """Return the seconds of all ranks with an iteration under way, by what bounds it (``BOUNDS``).

    Iterations with prompts and those without are each split as their mean one. Left out: prompts behind a cached
    context. ``ahead``: iterations are scheduled while the ones before them run.
    """
    found = dict.fromkeys(BOUNDS, 0.0)
    for batch, seconds in _mean_batches(sums, 1.0 + float(drafted_tokens(worker.plan))):
        one = iteration_time(worker, batch, in_loop(constants, ahead=ahead), ahead=ahead)
        legs: Mapping[str, Number] = {
            "compute": one.times.compute_s,
            "memory": one.times.memory_s,
            "network": one.times.collective_s + one.transfer_s,
            "host": one.host_s,
        }
        whole = sum(float(leg) for leg in legs.values())
        for bound, leg in legs.items():
            found[bound] += seconds * float(leg) / whole
    return found


def _mean_batches(sums: IterationSums, new_per_decode: float) -> Iterator[tuple[Batch, float]]:
    """Yield the mean batch of iterations with prompts and in those without, and the seconds of each kind."""
    for kind in (sums.with_prompts, sums.without):
        if not kind.iterations:
            continue
        new, decodes = kind.prompt_tokens / kind.iterations, kind.decodes / kind.iterations
        groups = [prompts(1.0, new)] if new else []
        groups += [decoding(decodes, kind.context_tokens / kind.iterations, new_per_decode)] if decodes else []
        if groups:
            yield Batch.of(*groups), kind.seconds


def energy_j(worker: Worker, busy: Mapping[str, float], duration_s: float) -> float:
    """Return the joules of all devices in a run: by what bounds them while they work, idle the rest of the time.

    ``duration_s`` are the seconds that they run, on average where replicas come and go.
    ``busy`` has the seconds of all ranks that schedule by themselves. Left out: hosts, network, cooling.
    """
    scenario = worker.scenario
    cluster, ranks = scenario.cluster, float(scenario.plan.replicas * scenario.plan.data_parallel)
    each = {bound: seconds / ranks for bound, seconds in busy.items()}
    idle_s = max(duration_s - sum(each.values()), 0.0)
    return float(energy_of_generation_j(scenario, each) + cluster.devices * cluster.device.idle_w * idle_s)
