"""A scenario's plan as the numbers that the loop takes: pools of equal replicas, and what joins them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sightline.errors import InputError
from sightline.frameworks.engine import Limits, serving_limits
from sightline.prediction.generation.heterogeneous import assignments, on_group
from sightline.prediction.generation.policies import transfer_s
from sightline.prediction.generation.replica import Worker
from sightline.scenario import Cluster, Disaggregation, GenerationPlan, KvTier, Network, ServingScenario
from sightline.simulation.autoscaling import Scaling, usual_target
from sightline.simulation.engine.policies import POLICIES
from sightline.simulation.engine.state import (
    ANSWER,
    CHUNK,
    COMPUTED,
    DECODE,
    ENDED,
    ESTIMATE,
    PREFILL,
    PROMPT,
    SCHEDULED,
    WHOLE,
    Facts,
    Tier,
)
from sightline.simulation.load import Floats, MeanLengths
from sightline.simulation.outcome import ANY_NUMBER
from sightline.simulation.serve import Deployment, Pool
from sightline.simulation.times import CONTEXT_BITS, axis_points, packed, prompt_attention_seconds, step_seconds

NONE = np.zeros(2)
"""Of replicas that send nothing."""
SEEDS = 1 << 23
"""Seeds that compiled code tells apart."""
RESERVATIONS = {"chunk": CHUNK, "prompt": PROMPT, "estimate": ESTIMATE, "answer": ANSWER}
TAKES_ALL = ("tgi", "orca", "static")
"""Policies whose admission takes all blocks that a request will ever need."""
LOAD_ALONG = ("sglang",)
"""Policies of engines that compute a layer while the next one's keys and values are loaded."""
PUBLISHED = {"scheduled": SCHEDULED, "computed": COMPUTED, "ended": ENDED}


class PoolPlan(NamedTuple):
    """Equal replicas of a fleet."""

    scenario: ServingScenario
    """The question with these replicas and their devices alone."""
    role: int = WHOLE
    """What they do of a request."""
    name: str = ""
    """That in a word, or what they run on; empty where all replicas are equal."""


def pools_of(scenario: ServingScenario) -> tuple[PoolPlan, ...]:
    """Return the pools of equal replicas that a plan has; those that decode what others begin come last.

    Raises:
        InputError: Either kind of devices may prefill, and the plan does not say which.
    """
    split = scenario.plan.disaggregate
    if split is None and not scenario.cluster.groups:
        return (PoolPlan(scenario),)
    if split is None:
        return tuple(PoolPlan(on_group(scenario, of), name=of.device.name) for of in scenario.cluster.groups)
    prefill, decode = _clusters(scenario, split)
    limit = split.prefill_batch or split.prefill.max_sequences
    plans = replace(split.prefill, max_sequences=limit), replace(scenario.plan, disaggregate=None)
    return (
        PoolPlan(replace(scenario, cluster=prefill, plan=plans[0]), PREFILL, "prefill"),
        PoolPlan(replace(scenario, cluster=decode, plan=plans[1]), DECODE, "decode"),
    )


def _clusters(scenario: ServingScenario, split: Disaggregation) -> tuple[Cluster, Cluster]:
    """The devices that process prompts, and those that decode."""
    if not scenario.cluster.groups:
        own = scenario.cluster
        return replace(own, devices=int(split.prefill.devices)), replace(own, devices=int(scenario.plan.devices))
    ways = list(assignments(scenario))
    if len(ways) > 1:
        names = " or ".join(prefill.device.name for prefill, _ in ways)
        raise InputError(f"plan.disaggregate.prefill.device is missing; needed because both fit: {names}")
    return ways[0]


def deployment_of(scenario: ServingScenario, pools: Sequence[Pool], transfers: Floats = NONE) -> Deployment:
    """Return pools of replicas under a scenario's load.

    ``transfers`` are seconds of keys and values between replicas, by tokens of the prompt (`transfer_times`).
    """
    arrival = scenario.workload.arrival
    return Deployment(
        pools=tuple(pools),
        transfers=transfers,
        router=scenario.plan.router,
        concurrency=arrival.concurrency or 0,
        think_s=arrival.think_time_s,
        ramp_up_s=arrival.ramp_up_s,
        scaling=scaling_of(scenario.plan, pools[0].facts),
    )


def scaling_of(plan: GenerationPlan, facts: Facts) -> Scaling | None:
    """Return how replicas with these limits come and go; None where they do not."""
    scale = plan.autoscale
    if scale is None:
        return None
    target = usual_target(facts.max_sequences) if scale.target is None else float(scale.target)
    return Scaling(least=scale.least, most=scale.most, startup_s=scale.startup_s, target=target)


def transfer_times(worker: Worker, network: Network) -> Floats:
    """Return the seconds that keys and values take from a worker to others, on the axis of contexts of the tables."""
    model = worker.scenario.model
    tokens = axis_points(float(model.max_positions), CONTEXT_BITS)
    return np.broadcast_to(transfer_s(model, worker.formats, tokens, network), tokens.shape).astype(float)


def with_speeds(pools: Sequence[Pool], lengths: MeanLengths) -> tuple[Pool, ...]:
    """Return pools whose routers know how fast each replica is: by what a mean request takes of a full one."""
    seconds = [_request_seconds(pool, lengths) for pool in pools]
    slowest = max(seconds)
    return tuple(
        pool._replace(facts=pool.facts._replace(speed=slowest / of)) for pool, of in zip(pools, seconds, strict=True)
    )


def _request_seconds(pool: Pool, lengths: MeanLengths) -> float:
    """Seconds of a replica with all sequences that it holds, for each request: its prompt, and its share of steps."""
    facts, times = pool.facts, packed(pool.times)
    prompt, output = round(lengths.prompt_tokens), round(lengths.output_tokens)
    n = max(min(facts.max_sequences, facts.blocks * facts.block_tokens // (prompt + output)), 1)
    prefill_s = step_seconds(times, 0, 0, prompt, 1, prompt_attention_seconds(times, prompt, 0))
    return float(prefill_s + output * step_seconds(times, n, n * (prompt + output // 2), 0, 0, 0.0) / n)


def ranks_of(plan: GenerationPlan) -> int:
    """Return how many ranks schedule requests by themselves: replicas, and in each those that split attention."""
    return int(plan.replicas * plan.data_parallel)


def tiers_of(plan: GenerationPlan, device_block_bytes: float) -> tuple[Tier, ...]:
    """Return the tiers behind the cache of a rank, in blocks: its share of its replica's capacity and bandwidth.

    A block has its bytes on every device of the rank, also where these hold the same keys and values.
    """
    ranks, names = int(plan.data_parallel), [tier.name for tier in plan.kv_tiers]
    block_bytes = device_block_bytes * int(plan.tensor_parallel * plan.pipeline_parallel)
    return tuple(
        Tier(
            blocks=_whole_blocks(tier, plan.kv_block_tokens, block_bytes) // ranks,
            block_s=block_bytes * ranks / tier.bandwidth,
            latency_s=tier.latency_s,
            name=tier.name if names.count(tier.name) == 1 else f"{tier.name} {place}",
        )
        for place, tier in enumerate(plan.kv_tiers, start=1)
    )


def _whole_blocks(tier: KvTier, block_tokens: int, block_bytes: float) -> int:
    if tier.capacity_bytes is None:
        return int(tier.capacity_tokens or 0) // block_tokens
    return int(tier.capacity_bytes // block_bytes)


def facts_of(scenario: ServingScenario, blocks: int, role: int = WHOLE) -> Facts:
    """Return the limits and rules of equal ranks whose caches have so many blocks.

    What the plan leaves open is the engine's default on the device.
    """
    plan, model, device = scenario.plan, scenario.model, scenario.cluster.device
    rules = plan.engine.serving
    memory_bytes, chunked = float(device.memory_bytes), bool(plan.chunked_prefill)
    limits = serving_limits(rules, device.name, memory_bytes, model.max_positions, chunked=chunked)
    held = max(blocks - rules.reserved_blocks, 0)
    shared = int(rules.budget_share * held * plan.kv_block_tokens)
    stages = int(plan.pipeline_parallel) if plan.engine.scheduling.pipeline_micro_batches else 1
    order = plan.scheduler or rules.order
    facts = Facts(
        policy=POLICIES[rules.policy],
        block_tokens=plan.kv_block_tokens,
        blocks=held,
        context_tokens=model.max_positions,
        max_sequences=_most_sequences(plan, limits, held),
        token_budget=stages * int(plan.max_batched_tokens or max(limits.max_batched_tokens, shared)),
        prefill_tokens=stages * (rules.max_prefill_tokens or ANY_NUMBER),
        max_concurrent=int(plan.max_concurrent_requests or rules.max_concurrent_requests or ANY_NUMBER),
        chunked=chunked,
        # Where prompts come from elsewhere, so do all of their keys and values.
        prefix_cache=bool(plan.prefix_cache) and role != DECODE,
        by_priority=order == "priority",
        longest_prefix=order == "longest-prefix",
        reserves=RESERVATIONS[rules.reserves],
        watermark_blocks=int(rules.watermark * held),
        spare_blocks=int(rules.policy == "vllm-0"),
        published=PUBLISHED[rules.prefix_from],
        takes_all=rules.policy in TAKES_ALL,
        keeps_answers=rules.prefix_answers,
        ahead=rules.schedules_ahead,
        wait_steps=rules.wait_steps,
        waiting_share=rules.waiting_share,
        answer_share=rules.answer_share,
        least_answer_share=rules.least_answer_share,
        answer_share_steps=rules.answer_share_steps,
        stages=stages,
        seed=scenario.workload.seed % SEEDS,
        computes_last=rules.computes_last,
        decode_tokens=rules.decode_tokens,
        loads_along=rules.policy in LOAD_ALONG,
    )
    return _with_drafts(_of_ranks(facts, scenario, role), scenario)


def _most_sequences(plan: GenerationPlan, limits: Limits, blocks: int) -> int:
    """Sequences that run at once: as stated, else as the engine or the requests that its server holds limit them."""
    held, rules = plan.max_concurrent_requests, plan.engine.serving
    if plan.max_sequences or held is None or rules.max_sequences is not None:
        return int(plan.max_sequences or limits.max_sequences)
    return max(min(rules.running_of(int(held)), blocks), 1)


def _of_ranks(facts: Facts, scenario: ServingScenario, role: int) -> Facts:
    """The same of a plan's ranks: how many there are, where, and what each does."""
    plan = scenario.plan
    return facts._replace(
        role=role,
        replicas=ranks_of(plan),
        per_node=max(scenario.cluster.per_node // int(plan.tensor_parallel * plan.pipeline_parallel), 1),
        lockstep=1 if scenario.model.experts is None else int(plan.data_parallel),
    )


def _with_drafts(facts: Facts, scenario: ServingScenario) -> Facts:
    """The same with what a plan drafts."""
    drafts = scenario.plan.speculative
    if drafts is None:
        return facts
    drafted = int(drafts.tokens)
    # A model's own prediction layer drafts behind the tokens that are verified; drafts from n-grams need no cache.
    lookahead = drafted if scenario.model.prediction_layers else 0
    return facts._replace(
        # Drafts that come from the host, as n-grams do, need the tokens of the iteration before.
        ahead=facts.ahead and drafted == lookahead,
        pass_tokens=1 + drafted,
        pass_slots=1 + drafted + lookahead,
        acceptance=float(drafts.acceptance),
    )
