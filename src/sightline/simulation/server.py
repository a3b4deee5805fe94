"""An engine's replicas, ready for any load: their memory, and the times of their iterations."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import exp, hypot

from sightline.errors import InputError
from sightline.prediction.generation.batch_profile import Knowledge, server_constants
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.replica import Worker, worker_of
from sightline.prediction.generation.uncertainty import iteration_spreads, request_spread, waiting_spread
from sightline.progress import SILENT, Progress
from sightline.quantities import SECONDS, format_quantity
from sightline.scenario import GenerationScenario, ServingScenario
from sightline.simulation import deployment
from sightline.simulation.deployment import PoolPlan, Room
from sightline.simulation.engine.state import DECODE, Facts
from sightline.simulation.load import MeanLengths, Requests, load_of, mean_lengths
from sightline.simulation.outcome import Outcome
from sightline.simulation.serve import Deployment, Pool, serve
from sightline.simulation.times import IterationTimes, Passes, at_pace, iteration_times

Load = Iterable[Requests]
SINCE_ARRIVAL = ("ttft_s", "latency_s")
"""Times that begin before the engine's queue."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replicas:
    """Equal replicas of an engine."""

    plan: PoolPlan
    room: Room
    worker: Worker
    base: InferenceConstants
    """The engine's constants wherever it runs."""
    evidence: str
    times: IterationTimes
    passes: Passes = field(default_factory=dict)
    """What of the times does not hang on the constants."""
    coarser: int = 0
    """Bits by which the tables of times are coarser than usual."""
    blocks_as_one: int = 1
    """Blocks of the cache that are followed together."""

    @property
    def constants(self) -> InferenceConstants:
        """The engine's constants on these hosts and devices."""
        return self.base.running_on(self.plan.scenario.cluster)

    def running(self, change: Callable[[InferenceConstants], InferenceConstants]) -> "Replicas":
        """Return the replicas with changed constants."""
        base = change(self.base)
        return replace(self, base=base, times=_times(self.worker, base, self.facts, self.passes, self.coarser))

    @property
    def facts(self) -> Facts:
        """Their limits and rules."""
        return deployment.facts_of(self.plan.scenario, self.room.blocks, self.plan.role)

    @property
    def pool(self) -> Pool:
        """The replicas as the loop takes them."""
        tiers, facts = deployment.tiers_of(self.plan.scenario.plan, self.room.block_bytes, self.room.blocks), self.facts
        if tiers:
            facts = facts._replace(token_s=deployment.token_seconds(self.times, facts))
        elif (n := self.blocks_as_one) > 1:
            facts = facts._replace(block_tokens=n * facts.block_tokens, blocks=facts.blocks // n)
            facts = facts._replace(watermark_blocks=facts.watermark_blocks // n)
        return Pool(facts=facts, times=self.times, name=self.plan.name, tiers=tiers)

    def with_blocks(self, blocks: int) -> "Replicas":
        """Return the replicas with caches of so many blocks."""
        return replace(self, room=replace(self.room, blocks=blocks, fits=True))

    @property
    def usable_bytes(self) -> float:
        """Bytes of a device that may be filled."""
        return deployment.usable_bytes(self.plan.scenario)

    @property
    def fullness(self) -> float:
        """Share of them that is needed."""
        return float(self.room.memory_bytes["total"]) / self.usable_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Server:
    """Replicas of an engine, ready for any load."""

    scenario: ServingScenario
    pools: tuple[Replicas, ...]
    """One where all replicas are equal; those that decode what others begin are the last."""
    lengths: MeanLengths
    """Of the load: by them routers compare unlike replicas, and errors are known."""
    known: Knowledge | None = None
    """What was measured of one's own server, which these times already follow."""

    @property
    def fits(self) -> bool:
        """Whether every replica has room for a cache."""
        return all(of.room.fits for of in self.pools)

    @property
    def fullest(self) -> Replicas:
        """The replicas whose devices are the fullest; first those that do not fit."""
        return max(self.pools, key=lambda of: (not of.room.fits, of.fullness))

    def with_kv_tokens(self, tokens: int | None) -> "Server":
        """Return the replicas with caches of so many tokens each; as they are where that is not known."""
        if tokens is None:
            return self
        blocks = tokens // self.scenario.plan.kv_block_tokens
        return replace(self, pools=tuple(of.with_blocks(blocks) for of in self.pools))

    def running(self, change: Callable[[InferenceConstants], InferenceConstants]) -> "Server":
        """Return the replicas with changed constants."""
        return replace(self, pools=tuple(of.running(change) for of in self.pools))

    def at_pace(self, prompts: float, decodes: float) -> "Server":
        """Return the replicas with factors on prompts' and on decode times."""
        pools = (replace(pool, times=at_pace(pool.times, prompts, decodes)) for pool in self.pools)
        return replace(self, pools=tuple(pools))

    @property
    def half_widths(self) -> tuple[float, float]:
        """The half-widths of prompts' and of decode times; of unlike replicas those of the least sure, 0 if unknown."""
        first, step = (max(widths) for widths in zip(*map(self._half_widths, self.pools), strict=True))
        return first, step

    @property
    def end_factors(self) -> tuple[tuple[float, float], ...]:
        """Factors on prompts' and on decode times at the fast and at the slow end of these; none where unknown."""
        first, step = self.half_widths
        if not first or not step:
            return ()
        return (exp(-first), exp(-step)), (exp(first), exp(step))

    def _half_widths(self, pool: Replicas) -> tuple[float, float]:
        """Those of a pool, narrower where its server was measured."""
        mean, split = _mean_request(pool.plan.scenario, self.lengths), self.scenario.plan.disaggregate
        asked = replace(mean, plan=replace(mean.plan, disaggregate=split))
        sent = partial(deployment.share_of_collectives, pool.pool, self.lengths)
        first, step = iteration_spreads(asked, pool.constants, sent)
        if self.known is None or not first or not step:
            return first, step
        narrowed = self.known.narrowed(mean, {"ttft_s": hypot(first, self._waiting_spread), "tpot_s": step})
        return narrowed["ttft_s"], narrowed["tpot_s"]

    def serve(
        self,
        scenario: ServingScenario,
        load: Load | None = None,
        on_remark: Callable[[str], None] = lambda _: None,
        progress: Progress = SILENT,
    ) -> Outcome:
        """Return what becomes of a scenario's load, or of another one; ``on_remark`` takes sentences about a trace."""
        requests = load_of(scenario, on_remark=on_remark) if load is None else load
        return serve(requests, self.deployment(scenario), progress)

    @property
    def _waiting_spread(self) -> float:
        return waiting_spread(self.scenario, self.pools[0].constants)

    def ends_beyond_iterations(self, time: str, value: float) -> tuple[tuple[float, float], ...]:
        """Return the ends of a figure of the requests' times by what else they wait for than iterations.

        All that users wait for is later by what passes before the engine's queue, so that means and percentiles are
        too. First tokens also err in ways that no time of an iteration has.
        """
        # What was measured of one's own server has it among what narrows the other errors.
        if time not in SINCE_ARRIVAL or self.known is not None:
            return ()
        engine, request_s = self.scenario.plan.engine, self.pools[0].times.request_s
        half = request_spread(engine.name, engine.version)
        before_queue = (value + request_s * (exp(-half) - 1.0), value + request_s * (exp(half) - 1.0))
        spread = self._waiting_spread if time == "ttft_s" else 0.0
        return before_queue, (value * exp(-spread), value * exp(spread))

    def deployment(self, scenario: ServingScenario) -> Deployment:
        """Return the replicas as the loop takes them: of equal ones as many as the scenario's plan has, or at most."""
        pools = [of.pool for of in self.pools]
        if len(pools) == 1:
            (pool,) = pools
            scale = scenario.plan.autoscale
            replicas = deployment.ranks_of(scenario.plan) if scale is None else scale.most
            return deployment.deployment_of(scenario, [pool._replace(facts=pool.facts._replace(replicas=replicas))])
        if self.pools[-1].plan.role != DECODE:
            return deployment.deployment_of(scenario, deployment.with_speeds(pools, self.lengths))
        # What precedes the queue is over when a request comes from another replica.
        first, second = pools
        second = second._replace(times=second.times._replace(request_s=first.times.request_s))
        return deployment.deployment_of(
            scenario, (first, second), deployment.transfer_times(self.pools[0].worker, self.scenario.cluster.network)
        )


def server_of(
    scenario: ServingScenario, known: Knowledge | None = None, load: Load | None = None, *, coarser: int = 0
) -> Server:
    """Return the replicas of a scenario's plan, with the times of their iterations.

    ``known`` corrects them by what was measured of one's own server. What is known of times, and routers of unlike
    replicas, ask for the mean lengths of the scenario's load, or of another one. Tables of times that are ``coarser``
    by some bits are made faster (`iteration_times`); blocks of long conversations are then followed several at a time.

    Raises:
        InputError: The load cannot be read or has no time that is limited, or the plan has what no simulation follows.
    """
    deployment.check_plan(scenario)
    lengths, slo = mean_lengths(load_of(scenario) if load is None else load), scenario.workload.slo
    if slo is not None and slo.tpot_s is not None and lengths.output_tokens == 1:
        raise InputError(
            f"workload.slo.tpot is {format_quantity(slo.tpot_s, SECONDS)}, a limit of the tokens after the first; "
            "every request has one output token; use workload.slo.ttft"
        )
    pools = tuple(_replicas(plan, known, lengths, coarser) for plan in deployment.pools_of(scenario))
    return Server(scenario=scenario, pools=pools, lengths=lengths, known=known)


def _mean_request(scenario: ServingScenario, lengths: MeanLengths) -> GenerationScenario:
    """A request of mean lengths by itself."""
    return deployment.alike(scenario, lengths.prompt_tokens, lengths.output_tokens)


def _replicas(plan: PoolPlan, known: Knowledge | None, lengths: MeanLengths, coarser: int) -> Replicas:
    """Equal replicas with their memory and their times."""
    scenario = plan.scenario
    alone, room = _mean_request(scenario, lengths), deployment.room_of(scenario)
    constants, evidence = server_constants(alone)
    factors = (1.0, 1.0)
    if known is not None:
        constants, evidence = known.constants(alone, constants), known.evidence(alone, evidence)
        factors = float(known.pace(alone, "ttft_s")), float(known.pace(alone, "tpot_s"))
    facts, worker, passes = deployment.facts_of(scenario, room.blocks, plan.role), worker_of(alone), Passes()
    return Replicas(
        plan=plan,
        room=room,
        worker=worker,
        base=constants,
        evidence=evidence,
        times=at_pace(_times(worker, constants, facts, passes, coarser), *factors),
        passes=passes,
        coarser=coarser,
        blocks_as_one=_blocks_as_one(scenario, lengths) if coarser else 1,
    )


NEW_BLOCKS = 8
"""Blocks that the new tokens of a conversation's request are followed in, where blocks are followed together."""


def _blocks_as_one(scenario: ServingScenario, lengths: MeanLengths) -> int:
    new_tokens = lengths.prompt_tokens - lengths.prefix_tokens if lengths.turns > 1.0 else 0.0
    return max(int(new_tokens / NEW_BLOCKS) // int(scenario.plan.kv_block_tokens), 1)


def _times(worker: Worker, constants: InferenceConstants, facts: Facts, passes: Passes, coarser: int) -> IterationTimes:
    return iteration_times(
        worker,
        constants.running_on(worker.scenario.cluster),
        tokens=facts.token_budget,
        sequences=facts.max_sequences,
        context=facts.context_tokens,
        passes=passes,
        coarser=coarser,
    )
