"""Loads served by the compiled loop: nothing is lost, and nobody waits without need."""

from dataclasses import replace

import numpy as np
import pytest
from serving_scenarios import serving

import sightline as sl
from sightline.errors import WorkError
from sightline.prediction.generation.batch_profile import engine_constants
from sightline.prediction.generation.replica import worker_of
from sightline.simulation.deployment import alike, deployment_of, facts_of
from sightline.simulation.load import Requests, load_of
from sightline.simulation.outcome import COMPLETED, TOO_LONG
from sightline.simulation.serve import Pool, serve
from sightline.simulation.times import iteration_times

ENGINES = ("vllm", "sglang", "tgi", "lightllm", "transformers", "tensorrt-llm", "fastertransformer")


def _scenario(engine="vllm", arrival=None, **plan):
    return sl.load(
        {
            "model": "llama-2-7b",
            "cluster": f"{plan.get('replicas', 1)}x a100-sxm-80gb",
            "workload": {
                "task": "serve",
                "requests": {
                    "count": 200,
                    "prompt_tokens": {"distribution": "lognormal", "mean": 300, "cv": 1.0, "max": 2000},
                    "output_tokens": {"distribution": "lognormal", "mean": 60, "cv": 1.0, "max": 500},
                },
                "arrival": arrival or {"process": "poisson", "rate": 6},
            },
            "plan": {"framework": engine, **plan},
        }
    )


def _served(scenario, cache_tokens=32_000, load=None, request_s=0.0, front_end=None):
    blocks = cache_tokens // scenario.plan.kv_block_tokens
    facts = facts_of(scenario, blocks)._replace(**(front_end or {}))
    alone = alike(scenario, 1, 1)
    constants = engine_constants(alone)[0].running_on(scenario.cluster)
    times = iteration_times(
        worker_of(alone),
        constants,
        tokens=facts.token_budget,
        sequences=facts.max_sequences,
        context=facts.context_tokens,
    )._replace(request_s=request_s)
    return serve(load_of(scenario) if load is None else load, deployment_of(scenario, [Pool(facts, times)]))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_token_comes_once(engine):
    out = _served(_scenario(engine))
    assert (out.status == COMPLETED).all()
    output = out.requests.output_tokens
    assert out.gap_counts.sum() == (output - 1).sum()
    assert (out.first_token_s >= out.scheduled_s).all()
    assert (out.scheduled_s >= out.requests.arrival_s).all()
    assert ((out.last_token_s > out.first_token_s) == (output > 1)).all()
    if engine != "transformers":
        computed = out.iterations.prompt_tokens.sum()
        assert computed == (out.requests.prompt_tokens - out.cached_tokens).sum()


IDLE = {"request_s": 0.0, "request_token_s": 0.0, "chunk_s": 0.0}
"""A front end that takes no time."""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_works_while_anybody_waits(engine):
    out = _served(_scenario(engine), front_end=IDLE)
    idle = out.iterations.start_s[1:] > out.iterations.end_s[:-1]
    begins, ends = out.iterations.end_s[:-1][idle], out.iterations.start_s[1:][idle]
    present = (out.requests.arrival_s[:, None] < ends) & (out.last_token_s[:, None] > begins)
    assert not present.any()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_parts_of_a_load_are_served_like_one(engine):
    scenario = _scenario(engine)
    (drawn,) = load_of(scenario)
    whole = replace(drawn, prefix_id=np.arange(len(drawn)) % 3, prefix_tokens=drawn.prompt_tokens // 2)
    parts = [whole[i : i + 7] for i in range(0, len(whole), 7)]
    one, many = _served(scenario, 4_000, load=[whole]), _served(scenario, 4_000, load=parts)
    assert one.cached_tokens.any()
    assert np.array_equal(one.last_token_s, many.last_token_s)
    assert np.array_equal(one.iterations.end_s, many.iterations.end_s)


def test_what_precedes_the_queue_delays_every_answer():
    usual, later = (_served(_scenario(), request_s=request_s) for request_s in (0.0, 0.25))
    assert np.array_equal(later.requests.arrival_s, usual.requests.arrival_s)
    for column in ("scheduled_s", "first_token_s", "last_token_s"):
        assert getattr(later, column) == pytest.approx(getattr(usual, column) + 0.25, rel=1e-12)


def test_a_front_end_hands_a_burst_over_once_it_has_looked_at_all():
    slow = IDLE | {"request_s": 0.05}
    held = _served(_scenario(arrival={"process": "all_at_once"}), front_end=slow)
    assert held.scheduled_s[0] < 0.05
    assert held.scheduled_s[1:].min() == pytest.approx(199 * 0.05)
    # One that comes by itself waits for nobody; what its own work takes is among what precedes the queue.
    alone = {"process": "constant", "rate": 0.1}
    one, other = (_served(_scenario(arrival=alone), front_end=of) for of in (IDLE, slow))
    assert np.array_equal(one.last_token_s, other.last_token_s)


def test_a_front_end_streams_no_faster_than_it_can():
    closed = {"process": "closed", "concurrency": 32}
    free, held = (_served(_scenario(arrival=closed), front_end={"chunk_s": each_s}) for each_s in (0.0, 2e-3))
    tokens, seconds = held.requests.output_tokens, held.last_token_s.max()
    assert free.last_token_s.max() < 0.8 * seconds
    # While the answers of the last few end, it has time left.
    assert tokens.sum() * 2e-3 <= seconds == pytest.approx(tokens.sum() * 2e-3, rel=0.2)
    assert held.gap_counts.sum() == (tokens - 1).sum()


def test_a_first_token_is_streamed_after_the_others_of_its_iteration():
    def later(**arrival):
        idle, streams = (_served(_scenario(arrival=arrival), front_end=IDLE | {"chunk_s": of}) for of in (0.0, 1e-5))
        return streams.first_token_s - idle.first_token_s

    assert later(process="constant", rate=0.1) == pytest.approx(0.0)
    assert later(process="constant", rate=20.0).max() > 1e-5


def test_a_client_sends_when_its_answer_is_there():
    out = _served(_scenario(arrival={"process": "closed", "concurrency": 1, "think_time": "1 s"}), request_s=0.25)
    assert out.requests.arrival_s[1:] == pytest.approx(out.last_token_s[:-1] + 1.0)
    assert (out.scheduled_s - out.requests.arrival_s >= 0.25 - 1e-9).all()


def test_a_full_cache_puts_sequences_off_that_all_complete():
    out = _served(_scenario(arrival={"process": "all_at_once"}), cache_tokens=4800)
    assert (out.status == COMPLETED).all()
    assert out.preemptions.sum() > 0
    assert out.iterations.kv_tokens.max() <= out.kv_capacity_tokens[0]
    assert out.gap_counts.sum() == (out.requests.output_tokens - 1).sum()


@pytest.mark.parametrize("router", ["round-robin", "least-load", "prefix-aware", "weighted", "precise-prefix"])
def test_replicas_share_a_load(router):
    out = _served(_scenario(arrival={"process": "poisson", "rate": 20}, replicas=3, router=router))
    assert (out.status == COMPLETED).all()
    assert np.bincount(out.replica, minlength=3).min() > 20


def test_a_closed_loop_has_no_more_requests_than_clients():
    out = _served(_scenario(arrival={"process": "closed", "concurrency": 5}))
    sent, done = out.requests.arrival_s, out.last_token_s
    under_way = (sent[:, None] <= sent) & (done[:, None] > sent)
    assert under_way.sum(axis=0).max() == 5


def test_turns_of_a_conversation_follow_each_other_and_find_their_past():
    load = Requests(
        arrival_s=np.zeros(3),
        prompt_tokens=np.array([100, 260, 420]),
        output_tokens=np.array([60, 60, 60]),
        session_id=np.zeros(3, np.int64),
        think_s=np.array([0.0, 2.0, 3.0]),
    )
    out = _served(_scenario(), load=[load])
    assert out.requests.arrival_s[1:] == pytest.approx(out.last_token_s[:-1] + np.array([2.0, 3.0]))
    # Whole blocks of prompt and answer, whose last token is never fed in.
    assert out.cached_tokens.tolist() == [0, 144, 304]


def test_requests_that_never_fit_are_refused_and_others_served():
    load = Requests(arrival_s=np.zeros(2), prompt_tokens=np.array([5000, 50]), output_tokens=np.array([10, 10]))
    out = _served(_scenario(), load=[load])
    assert out.status.tolist() == [TOO_LONG, COMPLETED]
    assert np.isnan(out.first_token_s[0])


@pytest.mark.parametrize(
    ("engine", "stated", "refused"), [("tgi", {}, 72), ("tgi", 150, 50), ("vllm", {}, 0), ("vllm", 20, 180)]
)
def test_a_full_server_refuses_requests_and_names_the_key(engine, stated, refused):
    plan = {"max_concurrent_requests": stated} if stated else {}
    found = sl.simulate(_scenario(engine, {"process": "all_at_once"}, **plan), intervals=False)
    assert found.refused == ({"queue full": refused} if refused else {})
    assert found.completed == 200 - refused
    assert any("plan.max_concurrent_requests" in said for said in found.warnings) == (refused > 0)


@pytest.mark.parametrize(("process", "is_told"), [("all_at_once", True), ("poisson", False)])
def test_an_objective_that_is_held_against_a_burst_names_the_option_of_a_rate(process, is_told):
    arrival = {"process": process} | ({} if is_told else {"rate": 4.0})
    found = sl.simulate(serving(arrival=arrival, count=4, slo={"ttft": 1}), intervals=False)
    assert any("--rate" in said and "--capacity" in said for said in found.warnings) == is_told


def test_whole_prompts_beyond_the_budget_are_refused_and_the_keys_named():
    scenario = _scenario("vllm", chunked_prefill=False, max_batched_tokens=1024)
    found = sl.simulate(scenario, intervals=False)
    longer = int((found.outcome.requests.prompt_tokens > 1024).sum())
    assert longer
    assert found.refused == {"longer than plan.max_batched_tokens": longer}
    (said,) = [one for one in found.warnings if "rejected" in one]
    assert all(key in said for key in ("plan.max_batched_tokens, 1,024", "plan.chunked_prefill is false", "4,096"))


def test_by_default_whole_prompts_have_a_budget_as_long_as_the_context():
    whole, cut = (facts_of(_scenario("vllm", chunked_prefill=chunked), 1000) for chunked in (False, True))
    assert whole.token_budget >= whole.context_tokens > cut.token_budget
    assert sl.simulate(_scenario("vllm", chunked_prefill=False), intervals=False).refused == {}


def test_a_load_that_nobody_serves_is_warned_of():
    load = [Requests(arrival_s=np.zeros(3), prompt_tokens=np.full(3, 9000), output_tokens=np.ones(3, np.int64))]
    found = sl.simulate(_scenario(), load=load, intervals=False)
    assert (found.completed, found.refused) == (0, {"longer than the context": 3})
    assert any("3 of 3 requests" in said and "4,096" in said for said in found.warnings)


def test_more_replicas_than_the_memory_has_room_for_are_told(monkeypatch):
    def without_room(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sightline.simulation.engine.state.new_fleet", without_room)
    with pytest.raises(WorkError, match=r"too little memory to simulate 1 replica with 256 sequences; .*plan.max"):
        sl.simulate(_scenario("vllm"), intervals=False)


def test_intervals_that_were_not_asked_for_are_left_out():
    assert sl.simulate(_scenario(), intervals=False).interval == {}
