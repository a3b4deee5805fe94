"""A scenario's plan as the numbers that the loop takes: what it may state, its pools of replicas, the room in each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from sightline.errors import InputError, refuse
from sightline.frameworks.engine import Engine, Limits, serving_limits
from sightline.prediction.generation.heterogeneous import assignments, on_group
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import PricedGeneration, price_generation
from sightline.prediction.generation.policies import transfer_s
from sightline.prediction.generation.replica import Worker, schedules_ahead
from sightline.quantities import Count, show
from sightline.scenario import (
    Cluster,
    Disaggregation,
    Generate,
    GenerationPlan,
    GenerationScenario,
    KvTier,
    Network,
    ServingScenario,
)
from sightline.scenario.generation import PREFETCH, WRITE_BACK
from sightline.simulation.autoscaling import Scaling, usual_target
from sightline.simulation.engine import state
from sightline.simulation.engine.policies import POLICIES
from sightline.simulation.engine.state import Facts, Tier
from sightline.simulation.load import Floats, MeanLengths
from sightline.simulation.serve import Deployment, Pool
from sightline.simulation.times import (
    CONTEXT_BITS,
    IterationTimes,
    axis_points,
    packed,
    prompt_attention_seconds,
    step_seconds,
    without_collectives,
)

CUTS_BY_CHOICE = ("vllm", "tgi", "tensorrt-llm")
"""Policies that cut prompts or not, as the plan says; the others have one way."""
DISAGGREGATED = ("vllm", "sglang", "tensorrt-llm")
"""Policies of engines whose workers for prompts and for decoding are apart."""
WITHOUT_PREFIX_CACHE = ("vllm-0", "orca", "static")
WITHOUT_BUDGET = ("orca", "static")
WITH_TIERS = ("vllm", "sglang", "tensorrt-llm")
"""Policies of engines that keep what the device evicts in other memories."""
WITH_DRAFTS = ("vllm", "sglang", "tgi", "tensorrt-llm")
"""Policies whose decode passes may verify drafted tokens."""


def check_plan(scenario: ServingScenario) -> None:
    """Reject plan options that the simulator does not model.

    Raises:
        InputError: A sentence for each key of the plan that no simulation follows.
    """
    plan = scenario.plan
    problems = (*_not_simulated(scenario), *_not_scaled(scenario), *_not_of_the_policy(plan), *_tiers_without_use(plan))
    refuse(problems)


def _not_simulated(scenario: ServingScenario) -> Iterator[str]:
    """Keys that no policy of the simulator knows, or none of a static batch."""
    plan, adapters = scenario.plan, scenario.plan.lora_adapters
    if scenario.workload.timeout_s is not None and plan.engine.serving.policy == "static":
        yield f"workload.timeout is not supported for {plan.engine.name}, which runs each batch to its end"
    if adapters is not None and adapters.loaded is not None and adapters.loaded < adapters.count:
        yield (
            f"plan.lora_adapters.loaded is {adapters.loaded}; supported: all in device memory, "
            f"plan.lora_adapters.count {adapters.count}"
        )
    if plan.kv_cache_blocks is not None and (plan.disaggregate is not None or scenario.cluster.groups):
        yield "plan.kv_cache_blocks is not supported with plan.disaggregate or heterogeneous devices"
    if plan.attention_data_parallel > 1:
        yield (
            f"plan.attention_data_parallel is {show(plan.attention_data_parallel)}; allowed in a Scenario: 1, "
            "with its groups as plan.data_parallel"
        )


def _not_scaled(scenario: ServingScenario) -> Iterator[str]:
    """What replicas that come and go cannot be."""
    plan, scale = scenario.plan, scenario.plan.autoscale
    if scale is None:
        return
    others = {
        "plan.disaggregate": plan.disaggregate is not None,
        "plan.kv_tiers": bool(plan.kv_tiers),
        "plan.data_parallel above 1": bool(plan.data_parallel > 1),
        "heterogeneous devices": bool(scenario.cluster.groups),
    }
    for name, stated in others.items():
        if stated:
            yield f"plan.autoscale is not supported with {name}"
    if scale.most > plan.replicas and not any(others.values()):
        yield (
            f"plan.autoscale.max is {scale.most}; allowed: up to plan.replicas {plan.replicas}, for which the cluster "
            "has devices"
        )


def cuts_prompts(engine: Engine) -> bool:
    """Return whether a server of an engine cuts prompts where nothing is stated."""
    return bool({**engine.defaults, **engine.serving.defaults}.get("chunked_prefill", False))


def _not_of_the_policy(plan: GenerationPlan) -> Iterator[str]:
    """Keys that the engine's policy, as it is simulated, does not look at."""
    engine, policy = plan.engine, plan.engine.serving.policy
    release = f"{engine.name} {engine.version}".rstrip()
    if policy not in CUTS_BY_CHOICE and plan.chunked_prefill != cuts_prompts(engine):
        yield f"plan.chunked_prefill is {show(plan.chunked_prefill)}; supported for {release}: its default"
    if plan.disaggregate is not None and plan.speculative is not None:
        yield "plan.speculative cannot be combined with plan.disaggregate"
    if plan.disaggregate is not None and policy not in DISAGGREGATED:
        yield f"plan.disaggregate is not supported for {release}; supported: {', '.join(DISAGGREGATED)}"
    if policy in WITHOUT_PREFIX_CACHE and plan.prefix_cache:
        yield f"plan.prefix_cache is true; supported for {release}: false"
    if policy not in WITH_DRAFTS and plan.speculative is not None:
        yield f"plan.speculative is not supported for {release}; supported: {', '.join(WITH_DRAFTS)}"
    if plan.balanced_prompts:
        yield "plan.balanced_prompts is true; how long prompts wait for those of other ranks is not simulated"
    if policy in WITHOUT_BUDGET and plan.max_batched_tokens:
        yield f"plan.max_batched_tokens is {show(plan.max_batched_tokens)}; {release} has no such limit"


def _tiers_without_use(plan: GenerationPlan) -> Iterator[str]:
    """Tiers that nothing would be kept in or loaded from."""
    engine = plan.engine
    if not plan.kv_tiers:
        return
    if engine.serving.policy not in WITH_TIERS:
        release = f"{engine.name} {engine.version}".rstrip()
        yield f"plan.kv_tiers is not supported for {release}; supported: {', '.join(WITH_TIERS)}"
    elif not plan.prefix_cache:
        yield "plan.kv_tiers requires plan.prefix_cache true"
    if plan.disaggregate is not None:
        yield "plan.kv_tiers cannot be combined with plan.disaggregate"
    if plan.kv_tiers[0].prefetch:
        yield "plan.kv_tiers[0].prefetch is true; allowed for a tier behind the first, to which it loads"


LONGEST_PASS = 2048
"""Tokens of the largest iteration where the engine measures nothing at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The KV cache of one replica and the memory of its fullest device."""

    blocks: int
    memory_bytes: Mapping[str, float]
    """By part, with ``total``; the cache is all that is left for it."""
    block_bytes: float
    """Of a block on the fullest device."""
    fits: bool
    """Whether there is room for one block and more."""


def alike(
    scenario: ServingScenario, prompt_tokens: Count, output_tokens: Count, batch: Count = 1
) -> GenerationScenario:
    """Return a generation scenario with the same model, cluster and plan and a batch of equal requests per rank."""
    plan = replace(scenario.plan, disaggregate=None)
    work = Generate(
        batch=batch * plan.data_parallel * plan.replicas,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        sampling=scenario.workload.sampling,
    )
    shared = {name: getattr(scenario, name) for name in ("name", "model", "cluster", "warnings", "unread")}
    return GenerationScenario(**shared, workload=work, plan=plan)


def room_of(scenario: ServingScenario) -> Room:
    """Return the KV cache that fits on a replica beside its largest iteration.

    An engine that measures its memory at the start runs an iteration of all tokens that it may have; what its share of
    the device then has left is the cache, in whole blocks. Of others users state the cache, as a share of what the
    weights leave. Left out: caches that do not grow with the context.
    """
    plan = scenario.plan
    block = plan.kv_block_tokens
    device = scenario.cluster.device
    about = plan.engine.serving, device.name, float(device.memory_bytes), scenario.model.max_positions
    limits = serving_limits(*about, chunked=bool(plan.chunked_prefill), groups=int(plan.groups(scenario.model)))
    usual = LONGEST_PASS if plan.engine.serving.policy == "static" else limits.max_batched_tokens
    tokens = plan.max_batched_tokens or usual
    limited = replace(scenario, plan=replace(plan, max_sequences=plan.max_sequences or limits.max_sequences))
    priced = price_generation(alike(limited, tokens, np.array([block, 2 * block])))
    single, two = (_memory(priced, place) for place in (0, 1))
    block_bytes = (two["kv_cache"] - single["kv_cache"]) or _of_short(limited, block)
    usable = usable_bytes(scenario)
    others = single["total"] - single["kv_cache"]
    most = plan.engine.memory.cache_share * (device.memory_bytes - single["weights"])
    blocks = max(int(min(usable - others, most) // block_bytes), 0)
    if plan.kv_cache_blocks is not None:
        blocks = int(plan.kv_cache_blocks)
    cache = blocks * block_bytes
    parts = {**single, "kv_cache": cache, "total": others + cache}
    # Devices with experts alone have to hold these, too.
    apart = _memory(priced, 0, experts=True) if plan.expert_devices else parts
    parts = parts if apart["total"] <= usable else apart
    fits = blocks > 0 and parts["total"] <= usable
    return Room(blocks=blocks, memory_bytes=parts, block_bytes=block_bytes, fits=fits)


def usable_bytes(scenario: ServingScenario) -> float:
    """Return the bytes of a device that a replica may fill: the engine's share, or all for a cache that is stated."""
    stated = scenario.plan.kv_cache_blocks is not None
    return float(scenario.cluster.device.memory_bytes * (1.0 if stated else scenario.plan.memory_fraction))


def _of_short(scenario: ServingScenario, block: int) -> float:
    """Bytes of a block in a context that no window cuts yet, for models all of whose layers have one."""
    priced = price_generation(alike(scenario, 1, np.array([block, 2 * block])))
    return _memory(priced, 1)["kv_cache"] - _memory(priced, 0)["kv_cache"]


def _memory(priced: PricedGeneration, place: int, *, experts: bool = False) -> dict[str, float]:
    sizes = generation_memory(priced, priced, priced.scenario.workload, experts=experts)
    return {part: float(np.broadcast_to(size, 2)[place]) for part, size in sizes.items()}


NONE = np.zeros(2)
"""Of replicas that send nothing."""
SEEDS = 1 << 23
"""Seeds that compiled code tells apart."""
RESERVATIONS = {"chunk": state.CHUNK, "prompt": state.PROMPT, "estimate": state.ESTIMATE, "answer": state.ANSWER}
TAKES_ALL = ("tgi", "orca", "static")
"""Policies whose admission takes all blocks that a request will ever need."""
LOAD_ALONG = ("sglang",)
"""Policies of engines that compute a layer while the next one's keys and values are loaded."""
PUBLISHED = {"scheduled": state.SCHEDULED, "computed": state.COMPUTED, "ended": state.ENDED}


class PoolPlan(NamedTuple):
    """Equal replicas of a fleet."""

    scenario: ServingScenario
    """The question with these replicas and their devices alone."""
    role: int = state.WHOLE
    """What they do of a request."""
    name: str = ""
    """That in a word, or what they run on; empty where all replicas are equal."""


def pools_of(scenario: ServingScenario) -> tuple[PoolPlan, ...]:
    """Return the pools of equal replicas of a plan; decode-only pools come last.

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
        PoolPlan(replace(scenario, cluster=prefill, plan=plans[0]), state.PREFILL, "prefill"),
        PoolPlan(replace(scenario, cluster=decode, plan=plans[1]), state.DECODE, "decode"),
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
    arrival, scale, scaling = scenario.workload.arrival, scenario.plan.autoscale, None
    if scale is not None:
        target = usual_target(pools[0].facts.max_sequences) if scale.target is None else float(scale.target)
        scaling = Scaling(least=scale.least, most=scale.most, startup_s=scale.startup_s, target=target)
    return Deployment(
        pools=tuple(pools),
        transfers=transfers,
        router=scenario.plan.router,
        concurrency=arrival.concurrency or 0,
        timeout_s=scenario.workload.timeout_s or inf,
        think_s=arrival.think_time_s if arrival.process == "closed" else 0.0,
        ramp_up_s=arrival.ramp_up_s,
        scaling=scaling,
    )


def transfer_times(worker: Worker, network: Network) -> Floats:
    """Return the seconds that keys and values take from a worker to others, on the axis of contexts of the tables."""
    model = worker.scenario.model
    tokens = axis_points(float(model.max_positions), CONTEXT_BITS)
    return np.broadcast_to(transfer_s(model, worker.formats, tokens, network), tokens.shape).astype(float)


def with_speeds(pools: Sequence[Pool], lengths: MeanLengths) -> tuple[Pool, ...]:
    """Return the pools with relative speeds for the router, from the time of a mean request on a full replica."""
    seconds = [_request_seconds(pool, lengths) for pool in pools]
    slowest = max(seconds)
    return tuple(
        pool._replace(facts=pool.facts._replace(speed=slowest / of)) for pool, of in zip(pools, seconds, strict=True)
    )


def share_of_collectives(pool: Pool, lengths: MeanLengths) -> float:
    """Return the share of the same time that ends with collectives."""
    spared = pool._replace(times=without_collectives(pool.times))
    return 1.0 - _request_seconds(spared, lengths) / _request_seconds(pool, lengths)


def _request_seconds(pool: Pool, lengths: MeanLengths) -> float:
    """Seconds of a replica with all sequences that it holds, for each request: its prompt, and its share of steps."""
    facts, times = pool.facts, packed(pool.times)
    prompt, output = round(lengths.prompt_tokens), round(lengths.output_tokens)
    n = max(min(facts.max_sequences, facts.blocks * facts.block_tokens // (prompt + output)), 1)
    prefill_s = step_seconds(times, 0, 0, prompt, 1, prompt_attention_seconds(times, prompt, 0))
    return float(prefill_s + output * step_seconds(times, n, n * (prompt + output // 2), 0, 0, 0.0) / n)


def ranks_of(plan: GenerationPlan) -> int:
    """Return the number of ranks that schedule independently: replicas times data-parallel ranks."""
    return int(plan.replicas * plan.data_parallel)


def tiers_of(plan: GenerationPlan, device_block_bytes: float, device_blocks: int) -> tuple[Tier, ...]:
    """Return the cache tiers of a rank, in blocks: its share of the replica's, or all of what is shared.

    SGLang prefetches into 0.8 times what the host has room for beyond the device (`HiCacheController` of 0.5), so that
    with less it does not.

    A block has its bytes on every device of the rank, also where these hold the same keys and values.
    """
    names, policy = [tier.name for tier in plan.kv_tiers], plan.engine.serving.policy
    shares = [int(plan.data_parallel) if tier.shared == "rank" else 1 for tier in plan.kv_tiers]
    block_bytes = device_block_bytes * int(plan.tensor_parallel * plan.pipeline_parallel)
    sizes = [
        _whole_blocks(tier, plan.kv_block_tokens, block_bytes) // ranks
        for tier, ranks in zip(plan.kv_tiers, shares, strict=True)
    ]
    prefetches = policy in PREFETCH and bool(sizes) and sizes[0] > device_blocks
    return tuple(
        Tier(
            blocks=blocks,
            block_s=block_bytes * ranks / tier.bandwidth,
            latency_s=tier.latency_s,
            name=tier.name if names.count(tier.name) == 1 else f"{tier.name} {place}",
            shared=tier.shared,
            through=tier.write == "through" or (tier.write is None and policy not in WRITE_BACK),
            faster=tier.fetch == "faster",
            prefetch=place > 1 and (prefetches if tier.prefetch is None else tier.prefetch),
        )
        for place, (tier, ranks, blocks) in enumerate(zip(plan.kv_tiers, shares, sizes, strict=True), start=1)
    )


def _whole_blocks(tier: KvTier, block_tokens: int, block_bytes: float) -> int:
    if tier.capacity_bytes is None:
        return int(tier.capacity_tokens or 0) // block_tokens
    return int(tier.capacity_bytes // block_bytes)


def token_seconds(times: IterationTimes, facts: Facts) -> float:
    """Return the seconds that a token adds to a prompt which fills an iteration."""
    f, tokens = packed(times), min(facts.token_budget, facts.context_tokens)
    least, most = (step_seconds(f, 0, 0, n, 1, prompt_attention_seconds(f, n, 0)) for n in (1, tokens))
    return float((most - least) / max(tokens - 1, 1))


def facts_of(scenario: ServingScenario, blocks: int, role: int = state.WHOLE) -> Facts:
    """Return the scheduling limits and rules of equal ranks with ``blocks`` cache blocks each.

    What the plan leaves open is the engine's default on the device.
    """
    plan, model, device = scenario.plan, scenario.model, scenario.cluster.device
    rules, host = plan.engine.serving, scenario.cluster.host
    memory_bytes, chunked = float(device.memory_bytes), bool(plan.chunked_prefill)
    groups = int(plan.groups(model))
    limits = serving_limits(rules, device.name, memory_bytes, model.max_positions, chunked=chunked, groups=groups)
    expected = rules.group_answer_share if groups > 1 else 1.0
    template_s = 0.0 if model.name.startswith(rules.without_template) else rules.template_s
    cache_blocks = max(blocks - rules.reserved_blocks, 0)
    shared = int(rules.budget_share * cache_blocks * plan.kv_block_tokens)
    stages = int(plan.pipeline_parallel) if plan.engine.scheduling.pipeline_micro_batches else 1
    order = plan.scheduler or rules.order
    facts = Facts(
        policy=POLICIES[rules.policy],
        block_tokens=plan.kv_block_tokens,
        blocks=cache_blocks,
        context_tokens=model.max_positions,
        max_sequences=_most_sequences(plan, limits, cache_blocks),
        token_budget=stages * int(plan.max_batched_tokens or max(limits.max_batched_tokens, shared)),
        prefill_tokens=stages * (rules.max_prefill_tokens or state.MANY),
        max_concurrent=int(plan.max_concurrent_requests or rules.max_concurrent_requests or state.MANY),
        max_queued=int(plan.max_queued_requests or state.MANY),
        queue_s=plan.queue_timeout or inf,
        chunked=chunked,
        # Where prompts come from elsewhere, so do all of their keys and values.
        prefix_cache=bool(plan.prefix_cache) and role != state.DECODE,
        by_priority=order == "priority",
        longest_prefix=order == "longest-prefix",
        reserves=RESERVATIONS[rules.reserves],
        watermark_blocks=int(rules.watermark * cache_blocks),
        spare_blocks=int(rules.policy == "vllm-0"),
        published=PUBLISHED[rules.prefix_from],
        takes_all=rules.policy in TAKES_ALL,
        keeps_answers=rules.prefix_answers,
        ahead=schedules_ahead(plan, model),
        wait_steps=rules.wait_steps,
        waiting_share=rules.waiting_share,
        answer_share=rules.answer_share * expected,
        least_answer_share=rules.least_answer_share * expected,
        answer_share_steps=rules.answer_share_steps,
        stages=stages,
        seed=scenario.workload.seed % SEEDS,
        computes_last=rules.computes_last,
        decode_tokens=rules.decode_tokens,
        request_s=float((rules.request_s + template_s) / host.speed),
        request_token_s=float(rules.request_token_s / host.speed),
        chunk_s=float(rules.chunk_s / host.speed),
        loads_along=rules.policy in LOAD_ALONG,
        role=role,
        replicas=ranks_of(plan),
        per_node=max(scenario.cluster.per_node // int(plan.tensor_parallel * plan.pipeline_parallel), 1),
        lockstep=groups,
    )
    return _with_drafts(facts, scenario)


def _most_sequences(plan: GenerationPlan, limits: Limits, blocks: int) -> int:
    """Sequences that run at once: as stated, else as the engine or the requests that its server holds limit them."""
    in_flight, rules = plan.max_concurrent_requests, plan.engine.serving
    if plan.max_sequences or in_flight is None or rules.max_sequences is not None:
        return int(plan.max_sequences or limits.max_sequences)
    return max(min(rules.running_of(int(in_flight)), blocks), 1)


def _with_drafts(facts: Facts, scenario: ServingScenario) -> Facts:
    """The same with what a plan drafts."""
    drafts = scenario.plan.speculative
    if drafts is None:
        return facts
    drafted = int(drafts.tokens)
    # A model's own prediction layer drafts behind the tokens that are verified; drafts from n-grams need no cache.
    lookahead = drafted if scenario.model.prediction_layers else 0
    return facts._replace(
        pass_tokens=1 + drafted,
        pass_slots=1 + drafted + lookahead,
        acceptance=float(drafts.acceptance),
        drafts_up_to=state.MANY if drafts.disable_above is None else int(drafts.disable_above),
    )
