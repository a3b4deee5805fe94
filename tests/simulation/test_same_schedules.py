"""The compiled loop gives the schedules of the plain simulator, on small loads that are drawn at random."""

from dataclasses import astuple, dataclass, replace
from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.reference.autoscaling import Scaling as PlainScaling
from simulation.reference.blocks import Tier as PlainTier
from simulation.reference.routers import ROUTERS
from simulation.reference.scheduler import Rules
from simulation.reference.server import Pool as PlainPool
from simulation.reference.server import Seconds, serve_with_tokens
from simulation.token_times import token_times_s

from sightline.simulation.autoscaling import Scaling
from sightline.simulation.deployment import PUBLISHED, RESERVATIONS
from sightline.simulation.engine.policies import POLICIES
from sightline.simulation.engine.state import DECODE, PREFILL, WHOLE, Facts, Tier
from sightline.simulation.load import Requests
from sightline.simulation.outcome import COMPLETED, Outcome
from sightline.simulation.serve import Deployment, Pool, serve
from sightline.simulation.times import (
    ATTENTION_BITS,
    CONTEXT_BITS,
    COUNT_BITS,
    IterationTimes,
    at_pace,
    axis_points,
    packed,
    prompt_attention_seconds,
    shared_seconds,
    step_seconds,
)

EXAMPLES = max(settings.default.max_examples // 4, 1)
"""Loads for each policy: few, unless the profile asks for many."""
PREFIXES = np.array([9, 17])
"""Tokens that the requests of each prefix have in common."""
WIDTH = 4
"""Columns of a table over counts, of which the first are seconds of work."""


def _line(at_none: float, each: float) -> np.ndarray:
    points = axis_points(600.0, COUNT_BITS)
    table = np.zeros((points.size, WIDTH))
    table[:, 0] = at_none + each * points
    return table


def _product(each: float) -> np.ndarray:
    return each * np.outer(axis_points(600.0, ATTENTION_BITS), axis_points(600.0, CONTEXT_BITS))


TIMES = IterationTimes(
    tokens=_line(0.013, 0.0007),
    logits=_line(0.0, 0.0001),
    decodes=_line(0.011, 0.0003),
    drafts=_line(0.0, 0.0),
    experts=_line(0.005, 0.0002),
    decode_attention=_product(1.3e-5),
    prompt_attention=_product(2.1e-6),
    attention_start_s=0.0,
    joins_attention=False,
    decode_launches=0.0,
    prompt_launches=0.0,
    tokens_per_decode=1.0,
    captured_decodes=inf,
    captured_tokens=0.0,
    launch_s=0.0,
    iteration_s=0.0,
    sequence_s=0.0,
    prefill_s=0.0,
    prompt_token_s=0.0,
    ahead=False,
    exposed_share=0.5,
    request_s=0.0,
    single_tokens_decode=False,
    long_prompt_tokens=1e9,
    long_prompt_slowdown=0.0,
    stages=1.0,
    boundaries_s=0.0,
)
SGLANG: dict[str, Any] = {
    "reserves": "estimate",
    "prefix_from": "computed",
    "ahead": True,
    "answer_share": 0.7,
    "least_answer_share": 0.1,
    "answer_share_steps": 12,
}
DRAFTS: dict[str, Any] = {"drafted": 3, "lookahead": 3, "acceptance": 0.6, "seed": 7}
POLICY_RULES: dict[str, dict[str, Any]] = {
    "vllm": {},
    "vllm with drafts": DRAFTS,
    "vllm with drafts of few": {**DRAFTS, "drafts_up_to": 2},
    "tensorrt-llm with drafts of few": {**DRAFTS, "reserves": "answer", "prefix_from": "computed", "drafts_up_to": 1},
    "vllm ahead with drafts": {**DRAFTS, "ahead": True, "prefix_cache": True},
    "vllm with drafts by priority": {**DRAFTS, "lookahead": 0, "order": "priority"},
    "sglang with drafts": {**SGLANG, **DRAFTS},
    "tgi with drafts": {**DRAFTS, "reserves": "answer", "prefix_from": "ended", "prefix_answers": False},
    "tensorrt-llm with drafts": {**DRAFTS, "reserves": "answer", "prefix_from": "computed"},
    "vllm ahead": {"ahead": True},
    "vllm by priority": {"order": "priority"},
    "vllm whole prompts": {"reserves": "prompt", "watermark": 0.1},
    "vllm without chunks": {"chunked": False, "token_budget": 50},
    "vllm-0": {"chunked": False, "prefix_cache": False, "watermark": 0.1, "reserves": "prompt"},
    "sglang": SGLANG,
    "sglang by longest prefix": {**SGLANG, "order": "longest-prefix", "prefix_cache": True},
    "sglang with few prompts": {**SGLANG, "max_prefill_tokens": 16},
    "sglang in turn": {**SGLANG, "ahead": False},
    "sglang by priority": {**SGLANG, "order": "priority"},
    "vllm ahead by priority": {"ahead": True, "order": "priority"},
    "tgi": {"reserves": "answer", "prefix_from": "ended", "prefix_answers": False},
    "tgi without chunks": {
        "reserves": "answer",
        "chunked": False,
        "prefix_cache": False,
        "wait_steps": 4,
        "waiting_share": 0.6,
    },
    "lightllm": {
        "block_tokens": 1,
        "reserves": "estimate",
        "chunked": False,
        "prefix_from": "ended",
        "wait_steps": 3,
    },
    "transformers": {"prefix_from": "computed", "watermark": 0.15},
    "tensorrt-llm": {"reserves": "answer", "prefix_from": "computed", "chunked": False},
    "tensorrt-llm with chunks": {"reserves": "answer", "prefix_from": "computed"},
    "orca": {"reserves": "answer", "prefix_cache": False, "token_budget": 10**6},
    "static": {"reserves": "answer", "prefix_cache": False},
}


ROLES = {"whole": WHOLE, "prefill": PREFILL, "decode": DECODE}
SENT_S = 0.0031
"""Seconds that a token's keys and values take between replicas."""
TRANSFERS = SENT_S * axis_points(600.0, CONTEXT_BITS)


def seconds_from(times: IterationTimes, rules: Rules) -> Seconds:
    """Seconds of an iteration, from the same tables; of a pipeline those of the heaviest of its micro-batches."""
    tables = packed(times)

    def seconds(decodes: int, context: int, prompts: list[tuple[int, int]], mean_tokens: float) -> float:
        attention_s = sum(prompt_attention_seconds(tables, new, cached) for new, cached in prompts)
        tokens, count = sum(new for new, _ in prompts), len(prompts)
        if rules.lockstep > 1 and rules.stages == 1:
            own = tokens + decodes * (1.0 + rules.drafted_of(decodes))
            attention_s += shared_seconds(tables, mean_tokens) - shared_seconds(tables, own)
        if rules.stages > 1:
            most = ceil(decodes / rules.stages)
            context = most * context // max(decodes, 1)
            decodes = most
            room = max(rules.token_budget // rules.stages - decodes * (1 + rules.drafted), 1)
            filled = min(max(ceil(tokens / room), 1), rules.stages)
            tokens, count, attention_s = ceil(tokens / filled), ceil(count / filled), attention_s / filled
        return step_seconds(tables, decodes, context, tokens, count, float(attention_s))

    return seconds


def facts_of(rules: Rules) -> Facts:
    """The same rules, as the compiled loop takes them."""
    return Facts(
        policy=POLICIES[rules.policy],
        block_tokens=rules.block_tokens,
        blocks=rules.blocks,
        context_tokens=rules.context_tokens,
        max_sequences=rules.max_sequences,
        token_budget=rules.token_budget,
        prefill_tokens=rules.max_prefill_tokens,
        max_concurrent=rules.max_concurrent,
        max_queued=rules.max_queued,
        queue_s=rules.queue_s,
        chunked=rules.chunked,
        prefix_cache=rules.prefix_cache,
        by_priority=rules.order == "priority",
        longest_prefix=rules.order == "longest-prefix",
        reserves=RESERVATIONS[rules.reserves],
        watermark_blocks=int(rules.watermark * rules.blocks),
        spare_blocks=int(rules.policy == "vllm-0"),
        published=PUBLISHED[rules.prefix_from],
        takes_all=rules.policy in ("tgi", "orca", "static"),
        keeps_answers=rules.prefix_answers,
        ahead=rules.ahead,
        wait_steps=rules.wait_steps,
        waiting_share=rules.waiting_share,
        answer_share=rules.answer_share,
        least_answer_share=rules.least_answer_share,
        answer_share_steps=rules.answer_share_steps,
        stages=rules.stages,
        lockstep=rules.lockstep,
        pass_tokens=1 + rules.drafted,
        pass_slots=1 + rules.drafted + rules.lookahead,
        drafts_up_to=rules.drafts_up_to,
        acceptance=rules.acceptance,
        seed=rules.seed,
        role=ROLES[rules.role],
        computes_last=rules.computes_last,
        decode_tokens=rules.decode_tokens,
        loads_along=rules.loads_along,
        token_s=rules.token_s,
    )


@st.composite
def loads(draw: st.DrawFn) -> Requests:
    """Small loads: bursts and single arrivals, shared prefixes, conversations, priorities."""
    n = draw(st.integers(1, 14))

    def column(values: st.SearchStrategy[Any]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    gaps = column(st.one_of(st.just(0.0), st.floats(0.001, 0.3)))
    session = column(st.sampled_from([-1, -1, -1, 0, 1])) if draw(st.booleans()) else np.full(n, -1)
    # A conversation begins with the same prefix in all of its turns.
    shared = np.where(session < 0, column(st.sampled_from([-1, 0, 0, 1])), session)
    prompts = np.maximum(column(st.integers(1, 24)), np.where(session < 0, 1, 1 + PREFIXES[session]))
    return Requests(
        arrival_s=np.cumsum(gaps),
        prompt_tokens=prompts,
        output_tokens=column(st.integers(1, 18)),
        prefix_id=shared,
        prefix_tokens=np.where(shared < 0, 0, np.minimum(prompts, PREFIXES[shared])),
        session_id=session,
        transcript=np.where(session < 0, 0, column(st.sampled_from([0, 0, 1]))),
        think_s=column(st.floats(0.001, 0.2)),
        priority=column(st.integers(0, 2)),
    )


@st.composite
def tight_rules(draw: st.DrawFn, policy: str) -> Rules:
    """Rules of a policy with limits that such loads reach."""
    stated = POLICY_RULES[policy]
    sequences = draw(st.integers(1, 7))
    room = draw(st.integers(30, 120))
    block_tokens = stated.get("block_tokens", draw(st.sampled_from([1, 4, 5])))
    return Rules(
        **{
            "policy": policy.split(maxsplit=1)[0],
            "block_tokens": block_tokens,
            "blocks": room // block_tokens,
            "context_tokens": 40,
            "max_sequences": sequences,
            "token_budget": draw(st.integers(max(sequences, 6), 30)),
            "prefix_cache": draw(st.booleans()),
            "max_concurrent": draw(st.sampled_from([10**6, 10**6, 5])),
            **stated,
        }
    )


@dataclass(frozen=True)
class Pools:
    """Equal replicas, as both simulators take them."""

    rules: Rules
    replicas: int = 1
    speed: float = 1.0
    per_node: int = 1
    slowdown: float = 1.0

    @property
    def times(self) -> IterationTimes:
        """Of their iterations."""
        times = TIMES._replace(tokens_per_decode=1.0 + self.rules.drafted, drafts_up_to=self.rules.drafts_up_to)
        return times if self.slowdown == 1.0 else at_pace(times, self.slowdown, self.slowdown)

    @property
    def compiled(self) -> Pool:
        """For the compiled loop."""
        facts = facts_of(self.rules)
        facts = facts._replace(replicas=self.replicas, speed=self.speed, per_node=self.per_node)
        tiers = tuple(Tier(**vars(of)) for of in self.rules.tiers)
        return Pool(facts, self.times, tiers=tiers)

    @property
    def plain(self) -> PlainPool:
        """For the plain simulator."""
        return PlainPool(self.rules, seconds_from(self.times, self.rules), self.replicas, self.speed, self.per_node)


def compare(
    load: Requests,
    *pools: Pools,
    clients: int = 0,
    router: str = "round-robin",
    scaling: Scaling | None = None,
    timeout_s: float = inf,
) -> None:
    """Serve a load by both simulators and compare every row."""
    think_s = 0.0123
    deployment = Deployment(
        pools=tuple(of.compiled for of in pools),
        concurrency=clients,
        think_s=think_s,
        router=router,
        transfers=TRANSFERS,
        scaling=scaling,
        timeout_s=timeout_s,
    )
    compiled = serve([load], deployment)
    served = serve_with_tokens(
        load,
        [of.plain for of in pools],
        concurrency=clients,
        think_s=think_s,
        router=router,
        transfer_s=lambda tokens: SENT_S * tokens,
        scaling=None if scaling is None else PlainScaling(*scaling),
        timeout_s=timeout_s,
    )
    plain = served.outcome
    for name in ("status", "cached_tokens", "preemptions"):
        assert getattr(compiled, name).tolist() == getattr(plain, name).tolist(), name
    done = plain.status == COMPLETED
    assert compiled.replica[done].tolist() == plain.replica[done].tolist()
    for name in ("scheduled_s", "first_token_s", "last_token_s"):
        assert getattr(compiled, name) == pytest.approx(getattr(plain, name), abs=1e-9, nan_ok=True), name
    assert compiled.requests.arrival_s == pytest.approx(plain.requests.arrival_s, abs=1e-9)
    courses = [
        (course, np.lexsort((course.replica, course.start_s.round(9))))
        for course in (compiled.iterations, plain.iterations)
    ]
    for name in ("replica", "prompt_tokens", "decodes", "running", "waiting", "kv_tokens"):
        one, other = (getattr(course, name)[order].tolist() for course, order in courses)
        assert one == other, name
    if scaling is not None:
        assert lifetimes(compiled) == pytest.approx(np.array([astuple(life) for life in served.lives]))
    for row, token_s in enumerate(served.token_s):
        assert token_times_s(compiled, row, deployment.pools[-1].facts) == pytest.approx(token_s, abs=1e-9)


def lifetimes(outcome: Outcome) -> np.ndarray:
    """A row for each replica: its place, and when it was started, served, was asked to stop and was gone."""
    of = outcome.lifetimes
    assert of is not None
    return np.stack([of.replica, of.started_s, of.serves_s, of.asked_to_stop_s, of.stopped_s], axis=1)


@pytest.mark.parametrize("policy", list(POLICY_RULES))
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 0, 2]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_the_compiled_loop_gives_the_same_schedules(policy: str, data: Any, load: Requests, clients: int) -> None:
    compare(load, Pools(data.draw(tight_rules(policy))), clients=clients)


GIVING_UP = [policy for policy in POLICY_RULES if policy != "static"]
SOON_S = st.floats(0.01, 0.6)


@pytest.mark.parametrize("policy", GIVING_UP)
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]), timeout_s=SOON_S)
@settings(max_examples=EXAMPLES, deadline=None)
def test_requests_are_given_up_alike(policy: str, data: Any, load: Requests, clients: int, timeout_s: float) -> None:
    queue_s = data.draw(st.one_of(st.just(inf), SOON_S))
    rules = replace(data.draw(tight_rules(policy)), queue_s=queue_s, max_queued=data.draw(st.sampled_from([3, 10**6])))
    compare(load, Pools(rules, data.draw(st.integers(1, 2))), clients=clients, timeout_s=timeout_s)


@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]), timeout_s=SOON_S)
@settings(max_examples=4 * EXAMPLES, deadline=None)
def test_requests_are_given_up_alike_between_replicas(
    data: Any, load: Requests, clients: int, timeout_s: float
) -> None:
    policy = data.draw(st.sampled_from(list(DISAGGREGATED)))
    pools = disaggregated(data, policy)
    compare(load, *pools, clients=clients, router=data.draw(st.sampled_from(list(ROUTERS))), timeout_s=timeout_s)


@pytest.mark.parametrize("router", list(ROUTERS))
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]), replicas=st.integers(2, 3))
@settings(max_examples=EXAMPLES, deadline=None)
def test_routers_send_requests_to_the_same_replicas(
    router: str, data: Any, load: Requests, clients: int, replicas: int
) -> None:
    policy = data.draw(st.sampled_from(["vllm", "vllm ahead", "sglang", "tgi"]))
    compare(load, Pools(data.draw(tight_rules(policy)), replicas), clients=clients, router=router)


@pytest.mark.parametrize("stages", [2, 3])
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_rounds_of_a_pipeline_are_the_same(stages: int, data: Any, load: Requests, clients: int) -> None:
    policy = data.draw(st.sampled_from(["vllm", "vllm ahead", "vllm with drafts", "vllm-0", "sglang", "tensorrt-llm"]))
    rules = data.draw(tight_rules(policy))
    compare(load, Pools(replace(rules, stages=stages, token_budget=stages * rules.token_budget)), clients=clients)


@pytest.mark.parametrize("router", list(ROUTERS))
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]), groups=st.integers(1, 2))
@settings(max_examples=EXAMPLES, deadline=None)
def test_ranks_in_lockstep_wait_for_each_other_alike(
    router: str, data: Any, load: Requests, clients: int, groups: int
) -> None:
    policy = data.draw(
        st.sampled_from(["vllm", "vllm ahead", "vllm with drafts", "vllm with drafts of few", "sglang", "tensorrt-llm"])
    )
    lockstep = data.draw(st.integers(2, 3))
    rules = replace(data.draw(tight_rules(policy)), lockstep=lockstep)
    compare(load, Pools(rules, groups * lockstep), clients=clients, router=router)


def test_a_rank_that_waits_without_work_takes_no_step() -> None:
    # The first rank idles while the second decodes; its share of answers to come stays what it was.
    rules = Rules(policy="sglang", blocks=6, block_tokens=5, context_tokens=40, max_sequences=2, token_budget=6)
    rules = replace(rules, **SGLANG, prefix_cache=False, lockstep=2)
    rows = np.arange(14)
    load = Requests(
        arrival_s=np.where(rows < 8, 0.0, 0.25),
        prompt_tokens=np.where(rows == 8, 11, 1),
        output_tokens=np.array([1] * 7 + [2, 10, 1, 3, 1, 1, 1]),
        prefix_id=np.full(14, -1),
        prefix_tokens=np.zeros(14, dtype=int),
        session_id=np.full(14, -1),
        think_s=np.full(14, 0.125),
        priority=np.zeros(14, dtype=int),
    )
    compare(load, Pools(rules, 2), router="least-load")


DISAGGREGATED = {
    "vllm": {"computes_last": True},
    "vllm ahead": {"computes_last": True},
    "sglang": {"decode_tokens": 3},
    "sglang in turn": {},
    "tensorrt-llm": {},
}
"""Policies whose replicas may do either part of a request."""


def disaggregated(data: Any, policy: str) -> tuple[Pools, Pools]:
    """Replicas that process prompts, and others that decode."""
    prefill, decode = (data.draw(tight_rules(policy)) for _ in range(2))
    prefill = replace(prefill, role="prefill")
    decode = replace(
        decode,
        role="decode",
        block_tokens=prefill.block_tokens,
        prefix_cache=False,
        max_concurrent=10**9,
        **DISAGGREGATED[policy],
    )
    replicas, per_node = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    return Pools(prefill, replicas, per_node=per_node), Pools(decode, data.draw(st.integers(1, 2)))


@pytest.mark.parametrize("policy", list(DISAGGREGATED))
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 0, 3]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_prompts_and_answers_are_served_by_the_same_replicas(
    policy: str, data: Any, load: Requests, clients: int
) -> None:
    pools = disaggregated(data, policy)
    compare(load, *pools, clients=clients, router=data.draw(st.sampled_from(list(ROUTERS))))


@pytest.mark.parametrize("router", list(ROUTERS))
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_unlike_replicas_get_the_same_requests(router: str, data: Any, load: Requests, clients: int) -> None:
    policies = st.sampled_from(["vllm", "vllm ahead", "sglang", "tgi"])
    rules = [data.draw(tight_rules(data.draw(policies))) for _ in range(2)]
    speeds = st.sampled_from([1.0, 2.5])
    pools = [Pools(of, data.draw(st.integers(1, 2)), data.draw(speeds)) for of in rules]
    compare(load, *pools, clients=clients, router=router)


@pytest.mark.parametrize("router", list(ROUTERS))
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 5]), pause_s=st.sampled_from([0.0, 60.0, 400.0]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_replicas_come_and_go_alike(router: str, data: Any, load: Requests, clients: int, pause_s: float) -> None:
    """Iterations take so long that replicas start and stop within the few requests, which come in two bursts."""
    rules = data.draw(tight_rules(data.draw(st.sampled_from(["vllm", "vllm ahead", "sglang", "tgi", "static"]))))
    late = np.arange(len(load)) >= len(load) // 2
    load = replace(load, arrival_s=40.0 * load.arrival_s + np.where(late, pause_s, 0.0))
    least = data.draw(st.integers(1, 2))
    most = least + data.draw(st.integers(0, 4))
    startup_s = data.draw(st.sampled_from([0.0, 7.0, 15.0, 38.0]))
    scaling = Scaling(least, most, startup_s, data.draw(st.sampled_from([0.7, 2.0, 3.5])))
    pools = Pools(rules, most, slowdown=60.0)
    compare(load, pools, clients=clients, router=router, scaling=scaling)


TIERED = ["vllm", "vllm ahead", "vllm with drafts", "vllm by priority", "sglang", "sglang in turn"]
TIERED += ["sglang by longest prefix", "tensorrt-llm", "tensorrt-llm with chunks"]
"""Policies of engines whose caches have tiers behind them."""


@st.composite
def tiers(draw: st.DrawFn) -> tuple[PlainTier, ...]:
    """One or two memories, some of them so small that they evict, or have no room at all."""
    seconds = st.sampled_from([0.0, 0.0007, 0.031])
    blocks = st.one_of(st.integers(0, 12), st.just(200))
    flags = st.booleans()
    return tuple(
        PlainTier(
            draw(blocks),
            draw(seconds),
            draw(seconds),
            draw(st.sampled_from(["rank", "node", "all"])),
            *draw(st.tuples(flags, flags, flags)),
        )
        for _ in range(draw(st.integers(1, 2)))
    )


@pytest.mark.parametrize("policy", TIERED)
@given(data=st.data(), load=loads(), clients=st.sampled_from([0, 0, 3]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_tiers_keep_and_load_the_same_blocks(policy: str, data: Any, load: Requests, clients: int) -> None:
    rules = replace(data.draw(tight_rules(policy)), prefix_cache=True, tiers=data.draw(tiers()))
    rules = replace(rules, loads_along=data.draw(st.booleans()), token_s=data.draw(st.sampled_from([0.0, 0.0003, 1.0])))
    pools = Pools(rules, data.draw(st.integers(1, 4)), per_node=data.draw(st.integers(1, 2)))
    compare(load, pools, clients=clients)
