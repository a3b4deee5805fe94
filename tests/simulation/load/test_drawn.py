"""Loads that are drawn: their rates, their lengths, and that parts make no difference."""

import tracemalloc
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads import BASE, same, whole
from serving_scenarios import serving

from sightline.scenario import Arrival, RequestShape, Serve, ServedAdapters, ServingScenario, Sessions
from sightline.scenario.lengths import Lengths
from sightline.simulation.load import joined, load_of

LOGNORMAL = Lengths(distribution="lognormal", mean=500.0, deviation=500.0)
ARRIVALS = st.one_of(
    st.builds(Arrival, process=st.sampled_from(["poisson", "constant"]), rate=st.floats(0.1, 1e4)),
    st.builds(Arrival, process=st.just("gamma"), rate=st.floats(0.1, 1e4), cv=st.floats(0.2, 4)),
    st.builds(Arrival, process=st.just("closed"), concurrency=st.integers(1, 9), think_time_s=st.floats(0, 9)),
    st.builds(Arrival, process=st.just("all_at_once")),
    st.builds(Arrival, process=st.just("poisson"), ramp=st.just(((0.0, 2.0), (10.0, 0.0), (20.0, 9.0)))),
)
LENGTHS = st.one_of(
    st.integers(1, 9999),
    st.just(LOGNORMAL),
    st.just(Lengths(distribution="normal", mean=100.0, deviation=90.0, low=5.0, high=150.0)),
    st.just(Lengths(distribution="uniform", low=3.0, high=8.0)),
    st.just(Lengths(distribution="empirical", values=(3.0, 9.0, 27.0))),
)
SESSIONS = st.none() | st.builds(
    Sessions,
    turns=st.integers(1, 5) | st.just(Lengths(distribution="uniform", low=1.0, high=4.0)),
    prefix_tokens=st.sampled_from([0, 64]),
    prefixes=st.integers(1, 3),
)


def scenario(
    count: int, arrival: Arrival, sessions: Sessions | None = None, seed: int = 0, prompt: int | Lengths = LOGNORMAL
) -> ServingScenario:
    shape = RequestShape(count=count, prompt_tokens=prompt, output_tokens=LOGNORMAL)
    return replace(BASE, workload=Serve(requests=shape, arrival=arrival, sessions=sessions, seed=seed))


@given(ARRIVALS, LENGTHS, SESSIONS, st.integers(0, 9), st.integers(1, 60))
def test_the_size_of_parts_makes_no_difference(arrival, prompt, sessions, seed, part):
    asked = scenario(200, arrival, sessions, seed, prompt)
    parts = list(load_of(asked, part))
    assert {len(one) for one in parts[:-1]} <= {part}
    assert same(joined(parts), whole(asked))


@given(ARRIVALS, LENGTHS, SESSIONS, st.integers(0, 9))
def test_requests_arrive_in_order_and_have_tokens(arrival, prompt, sessions, seed):
    load = whole(scenario(150, arrival, sessions, seed, prompt))
    assert len(load) == 150
    assert load.arrival_s.min() >= 0
    assert (np.diff(load.arrival_s) >= 0).all()
    assert min(load.prompt_tokens.min(), load.output_tokens.min()) >= 1
    assert (load.prefix_tokens < load.prompt_tokens).all()


@pytest.mark.parametrize(("process", "cv"), [("poisson", 1.0), ("gamma", 0.5), ("gamma", 3.0)])
def test_gaps_have_the_stated_mean_and_spread(process, cv):
    n = 200_000
    gaps = np.diff(whole(scenario(n, Arrival(process=process, rate=8.0, cv=cv))).arrival_s)
    # Five standard errors; that of a deviation is wider for gaps with a long tail.
    assert gaps.mean() == pytest.approx(1 / 8, rel=5 * cv / np.sqrt(n))
    assert gaps.std() * 8 == pytest.approx(cv, rel=0.05)


def test_constant_gaps_begin_at_once():
    load = whole(scenario(5, Arrival(process="constant", rate=4.0)))
    assert load.arrival_s.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


@given(st.sampled_from(["poisson", "gamma", "constant"]), st.floats(0.5, 50), st.floats(1.1, 9))
def test_another_rate_scales_the_same_load(process, rate, faster):
    slow, fast = (whole(scenario(99, Arrival(process=process, rate=r, cv=2.0))) for r in (rate, rate * faster))
    assert slow.arrival_s == pytest.approx(fast.arrival_s * faster)
    assert np.array_equal(slow.prompt_tokens, fast.prompt_tokens)
    assert np.array_equal(slow.output_tokens, fast.output_tokens)


def test_a_ramp_has_the_rate_of_each_stage():
    ramp = ((0.0, 100.0), (100.0, 0.0), (200.0, 400.0))
    load = whole(scenario(50_000, Arrival(process="poisson", ramp=ramp)))
    counts = np.histogram(load.arrival_s, [0, 100, 200, 300])[0]
    assert counts[0] == pytest.approx(10_000, rel=0.05)
    assert counts[1] == 0
    assert counts[2] == pytest.approx(40_000, rel=0.05)


def test_lengths_have_the_stated_mean_and_deviation():
    load = whole(scenario(200_000, Arrival()))
    assert load.prompt_tokens.mean() == pytest.approx(500, rel=0.02)
    assert load.prompt_tokens.std() == pytest.approx(500, rel=0.05)


def test_seeds_give_other_loads():
    first, again, other = (whole(scenario(50, Arrival(process="poisson", rate=1.0), seed=s)) for s in (1, 1, 2))
    assert same(first, again)
    assert not np.array_equal(first.arrival_s, other.arrival_s)
    assert not np.array_equal(first.prompt_tokens, first.output_tokens)


@given(st.integers(2, 6), st.sampled_from([0, 128]))
def test_each_turn_begins_with_all_that_was_said(turns, prefix):
    sessions = Sessions(turns=turns, prefix_tokens=prefix)
    load = whole(scenario(turns * 20, Arrival(process="poisson", rate=1.0, think_time_s=3.0), sessions))
    prompt, output = (column.reshape(-1, turns) for column in (load.prompt_tokens, load.output_tokens))
    assert (prompt[:, 1:] > prompt[:, :-1] + output[:, :-1]).all()
    assert (np.diff(load.session_id.reshape(-1, turns)) == 0).all()
    assert (load.think_s.reshape(-1, turns) == [0.0] + [3.0] * (turns - 1)).all()
    assert set(load.prefix_id.tolist()) == ({0} if prefix else {-1})
    alone = whole(scenario(turns * 20, Arrival(process="poisson", rate=1.0)))
    assert np.array_equal(prompt[:, 0], alone.prompt_tokens[::turns] + prefix)


def test_agents_call_with_what_tools_answer_until_their_context_is_full():
    pauses = Lengths(distribution="lognormal", mean=2.0, deviation=6.0, low=1e-3)
    sessions = Sessions(turns=2, calls=3, tool_tokens=40, tool_time_s=pauses, prefix_tokens=100, agents=2)
    arrival = Arrival(process="poisson", rate=1.0, think_time_s=30.0)
    load = whole(scenario(24_000, arrival, sessions, prompt=10))
    prompt, output, think_s = (
        column.reshape(-1, 6) for column in (load.prompt_tokens, load.output_tokens, load.think_s)
    )
    assert (prompt[:, 0] == 110).all()
    assert (np.diff(prompt) - output[:, :-1] == [40, 40, 10, 40, 40]).all()
    assert (think_s[:, [0, 3]] == [0.0, 30.0]).all()
    tools = think_s[:, [1, 2, 4, 5]]
    assert np.median(tools) < 0.5 * tools.mean()
    assert tools.mean() == pytest.approx(2.0, rel=0.15)
    begun_s = load.arrival_s[::6].reshape(-1, 2)
    assert (begun_s[:, 0] == begun_s[:, 1]).all()
    assert begun_s[-1, 0] == pytest.approx(24_000, rel=0.1)
    # A conversation that would be longer than its context goes on with a summary, behind the prefix.
    few = replace(scenario(600, arrival, sessions, prompt=10), model=replace(BASE.model, max_positions=700))
    too_long = whole(few).prompt_tokens + whole(few).output_tokens > 700
    assert set(whole(few).prompt_tokens[too_long].tolist()) <= {110, 140}
    short = whole(scenario(600, arrival, replace(sessions, context_tokens=1500, summary_tokens=200), prompt=10))
    prompt, transcript = short.prompt_tokens.reshape(-1, 6), short.transcript.reshape(-1, 6)
    begins = np.diff(transcript) > 0
    assert begins.any()
    assert set((prompt[:, 1:] - 300)[begins]) <= {10, 40}
    assert (prompt + short.output_tokens.reshape(-1, 6))[:, 1:][~begins].max() <= 1500


def test_the_rate_of_conversations_is_that_of_their_requests():
    turns = Lengths(distribution="uniform", low=1.0, high=7.0)
    load = whole(scenario(100_000, Arrival(process="poisson", rate=20.0), Sessions(turns=turns)))
    assert load.arrival_s[-1] == pytest.approx(100_000 / 20, rel=0.03)


def test_adapters_are_asked_for_evenly():
    asked = scenario(40_000, Arrival())
    asked = replace(asked, plan=replace(asked.plan, lora_adapters=ServedAdapters(count=4)))
    counts = np.bincount(whole(asked).adapter)
    assert counts == pytest.approx(10_000, rel=0.05)
    assert (whole(scenario(9, Arrival())).adapter == -1).all()


def test_a_load_of_any_length_takes_the_memory_of_a_part():
    asked = scenario(10**8, Arrival(process="gamma", rate=100.0, cv=2.0))
    list(islice(load_of(asked), 1))
    tracemalloc.start()
    for _ in islice(load_of(asked), 8):
        pass
    assert tracemalloc.get_traced_memory()[1] < 40e6
    tracemalloc.stop()


def test_conversations_keep_their_adapter_and_share_no_prefix_with_others():
    sessions = {"turns": 4, "prefix_tokens": 64, "prefixes": 2}
    (load,) = load_of(serving(count=400, sessions=sessions, plan={"lora_adapters": 3}))
    for session in range(50):
        assert np.unique(load.adapter[load.session_id == session]).size == 1
    assert np.bincount(load.adapter).tolist() == pytest.approx([133, 133, 133], abs=5)
    for prefix in np.unique(load.prefix_id):
        assert np.unique(load.adapter[load.prefix_id == prefix]).size == 1
