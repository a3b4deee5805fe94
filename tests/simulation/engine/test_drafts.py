"""Which drafted tokens are accepted, and what that makes of a load."""

import numpy as np
import pytest
from serving_scenarios import serving
from simulation.token_times import token_times_s

import sightline as sl
from sightline.scenario.generation import Speculation
from sightline.simulation.engine.sequences import accepted_drafts
from sightline.simulation.outcome import COMPLETED
from sightline.simulation.server import server_of

PASSES = 20_000


@pytest.mark.parametrize(("tokens", "acceptance"), [(1, 0.5), (3, 0.7), (7, 0.9), (4, 0.0)])
def test_as_many_tokens_are_accepted_as_the_steady_rate_says(tokens, acceptance):
    accepted = np.array([accepted_drafts(3, request, 5, tokens, acceptance) for request in range(PASSES)])
    assert accepted.max(initial=0) <= tokens
    expected = Speculation(tokens=tokens, acceptance=acceptance).tokens_per_pass - 1.0
    assert accepted.mean() == pytest.approx(expected, abs=4.0 * tokens / np.sqrt(PASSES))


def test_a_seed_draws_the_same_tokens_for_a_request():
    drawn = [[accepted_drafts(seed, 11, token, 5, 0.8) for token in range(1, 200)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "tensorrt-llm"])
def test_a_request_alone_takes_the_steady_time_per_token(engine):
    drafts = {"tokens": 3, "acceptance": 0.7}
    plan = {"framework": engine, "speculative": drafts}
    served = sl.simulate(
        serving(count=60, output_tokens=400, plan=plan, arrival={"process": "closed", "concurrency": 1}),
        intervals=False,
    )
    work = {"task": "generate", "batch": 1, "prompt_tokens": 512, "output_tokens": 400}
    steady = sl.predict(
        sl.load({"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "workload": work, "plan": plan})
    )
    # The last pass yields no more than the answer lacks; the host hides behind the device where it schedules ahead.
    assert 0.8 * steady.tpot_s < served.tpot_s["mean"] < 1.03 * steady.tpot_s


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
def test_drafts_that_end_above_a_number_of_sequences_are_those_of_fewer_or_none(engine):
    def tpot_s(clients, **limit):
        drafts = {"speculative": {"tokens": 3, "acceptance": 0.7, **limit}} if limit else {}
        plan = {"framework": engine, "async_scheduling": False, **drafts}
        lengths = {"prompt_tokens": 512, "output_tokens": 400}
        arrival = {"process": "closed", "concurrency": clients}
        simulated = sl.simulate(
            serving(count=6 * clients, plan=plan, arrival=arrival, output_tokens=400), intervals=False
        )
        work = {"task": "generate", "batch": clients, "continuous": True, **lengths}
        shared = {"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb"}
        return simulated.tpot_s["mean"], sl.predict(sl.load({**shared, "workload": work, "plan": plan})).tpot_s

    assert tpot_s(8, disable_above=8) == tpot_s(8, disable_above=1000)
    plain, none = tpot_s(16), tpot_s(16, disable_above=8)
    # Passes of few sequences, at the beginning and the end, have drafts.
    assert none[0] == pytest.approx(plain[0], rel=0.04)
    assert none[1] == pytest.approx(plain[1])
    assert tpot_s(16, disable_above=16)[0] < 0.8 * none[0]


def test_every_token_of_a_request_has_a_time():
    scenario = serving(
        # Its answers wait for no front end, so that they are there when iterations end.
        plan={"framework": "lmdeploy", "speculative": {"tokens": 4, "acceptance": 0.8}},
        arrival={"process": "all_at_once"},
    )
    server = server_of(scenario)
    outcome = server.serve(scenario)
    assert (outcome.status == COMPLETED).all()
    for row in range(10):
        times_s = token_times_s(outcome, row, server.pools[-1].facts)
        assert times_s.size == outcome.requests.output_tokens[row]
        assert (np.diff(times_s) >= 0).all()
        assert times_s[-1] == pytest.approx(outcome.last_token_s[row])
