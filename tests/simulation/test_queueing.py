"""Loads whose answer is known: a request alone, a queue in front of a constant service, a faster rate."""

from dataclasses import replace

import numpy as np
import pytest
from serving_scenarios import serving

import sightline as sl
from sightline.prediction.generation.batch_profile import engine_constants
from sightline.scenario import Arrival
from sightline.simulation.load import Requests, load_of

SHARE = 0.6
"""Of its time that a server is busy."""


def one_at_a_time(count, rate):
    return serving(
        requests={"count": count, "prompt_tokens": 100, "output_tokens": 20},
        arrival={"process": "poisson", "rate": rate},
        # Its front end takes no time, which would delay answers while others come.
        plan={"framework": "lightllm", "max_sequences": 1, "prefix_cache": False},
    )


def test_requests_wait_as_long_as_in_a_queue_with_constant_service():
    """M/D/1: the mean time in the queue is that of Pollaczek and Khinchine."""
    alone = sl.simulate(one_at_a_time(1, 1.0), intervals=False).outcome
    service_s = float(alone.last_token_s[0] - alone.scheduled_s[0])
    outcome = sl.simulate(one_at_a_time(20_000, SHARE / service_s), intervals=False).outcome
    assert outcome.last_token_s - outcome.scheduled_s == pytest.approx(service_s, rel=1e-6)
    waits_s = outcome.scheduled_s - outcome.requests.arrival_s
    means = np.array([part.mean() for part in np.array_split(waits_s, 20)])
    error_s = means.std(ddof=1) / np.sqrt(means.size)
    assert waits_s.mean() == pytest.approx(SHARE / (2.0 * (1.0 - SHARE)) * service_s, abs=3.5 * error_s)


def test_a_cap_on_a_rate_moves_the_wait_from_the_server_to_the_client():
    """One in flight of a server that serves one: nothing changes but from when on times count."""
    free = one_at_a_time(300, 40.0)
    capped = replace(free, workload=replace(free.workload, arrival=replace(free.workload.arrival, concurrency=1)))
    one, other = (sl.simulate(each, intervals=False) for each in (free, capped))
    assert other.outcome.last_token_s == pytest.approx(one.outcome.last_token_s, rel=1e-6)
    assert one.queue_s > other.queue_s == pytest.approx(0.0, abs=1e-9)
    assert any("workload.arrival.concurrency" in said for said in other.warnings)


def test_a_burst_is_answered_until_its_clients_give_up():
    """One after the other, each in the same time: as many as fit before the time-out, and of these the first few."""
    free = one_at_a_time(40, 1.0)
    free = replace(free, workload=replace(free.workload, arrival=Arrival()))
    whole = sl.simulate(free, intervals=False).outcome
    limit_s = float(whole.last_token_s[20:22].mean())
    given_up = sl.simulate(replace(free, workload=replace(free.workload, timeout_s=limit_s)), intervals=False)
    assert (given_up.completed, given_up.refused, given_up.failed) == (21, {"timed out": 19}, 0)
    assert given_up.outcome.last_token_s[:21] == pytest.approx(whole.last_token_s[:21])
    assert any("workload.timeout" in said for said in given_up.warnings)
    # What waits in the queue for as long is dropped; what runs then is answered.
    dropping = replace(free.plan, queue_timeout=limit_s - float(whole.scheduled_s[0]))
    assert sl.simulate(replace(free, plan=dropping), intervals=False).refused == {"waited too long": 18}
    full = sl.simulate(replace(free, plan=replace(free.plan, max_queued_requests=5)), intervals=False)
    assert full.refused == {"too many waiting": 35}


@pytest.mark.parametrize("engine", ["vllm", "tgi"])
def test_the_mean_latency_rises_with_the_rate(engine):
    """The same requests, whose gaps are scaled."""
    latencies = []
    for rate in (1.0, 2.0, 4.0, 8.0, 16.0, 64.0):
        scenario = serving(arrival={"process": "poisson", "rate": rate}, plan={"framework": engine})
        latencies.append(sl.simulate(scenario, intervals=False).latency_s["mean"])
    assert latencies == sorted(latencies)


def test_a_seed_gives_the_same_rows():
    scenario = serving(arrival={"process": "poisson", "rate": 8.0})
    other = replace(scenario, workload=replace(scenario.workload, seed=1))
    one, same, different = (sl.simulate(each, intervals=False).outcome for each in (scenario, scenario, other))
    for name in ("scheduled_s", "first_token_s", "last_token_s"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert not np.array_equal(one.last_token_s, different.last_token_s)


def test_a_load_without_rows_has_the_same_figures():
    scenario = serving(
        requests={
            "count": 3000,
            "prompt_tokens": 200,
            "output_tokens": {"distribution": "lognormal", "mean": 40, "cv": 1},
        },
        arrival={"process": "poisson", "rate": 8.0},
        slo={"ttft": "100 ms", "tpot": "20 ms"},
    )
    (whole,) = load_of(scenario)
    parts = [whole[i : i + 100] for i in range(0, len(whole), 100)]
    kept = sl.simulate(scenario, intervals=False)
    ended = []
    bare = sl.simulate(
        scenario, load=parts, intervals=False, streamed=True, rows=lambda numbers, piece: ended.append((numbers, piece))
    )
    assert bare.outcome is None
    for key in ("requests_per_s", "goodput_requests_per_s", "duration_s", "queue_s", "completed", "limits", "energy_j"):
        assert getattr(bare, key) == pytest.approx(getattr(kept, key), rel=1e-9), key
    for key in ("ttft_s", "tpot_s", "latency_s", "itl_s"):
        assert getattr(bare, key) == pytest.approx(getattr(kept, key), rel=0.005), key
    assert bare.kv_use == pytest.approx(kept.kv_use)
    assert bare.limited_by == kept.limited_by
    for numbers, piece in ended:
        assert np.array_equal(piece.last_token_s, kept.outcome.last_token_s[numbers])
        assert np.array_equal(piece.requests.output_tokens, whole.output_tokens[numbers])
    assert sorted(np.concatenate([numbers for numbers, _ in ended])) == list(range(3000))


@pytest.mark.parametrize(
    "engine", ["vllm", "sglang", "tensorrt-llm", "tgi", "lightllm", "transformers", "fastertransformer"]
)
def test_a_request_alone_takes_as_long_as_its_generation(engine):
    """To the width of the tables."""
    scenario = serving(count=1, prompt_tokens=400, output_tokens=100, plan={"framework": engine})
    work = {"task": "generate", "batch": 1, "prompt_tokens": 400, "output_tokens": 100}
    asked = {"cluster": "1x h100-sxm-80gb", "workload": work, "plan": {"framework": engine}}
    alone, generated = (
        sl.simulate(scenario, intervals=False),
        sl.predict(sl.load({"model": "llama-3.1-8b", **asked})),
    )
    constants = engine_constants(generated.scenario)[0].running_on(scenario.cluster)
    ahead = scenario.plan.async_scheduling
    # What a prompt costs the host passes before the queue where iterations are scheduled ahead, but for its length.
    assert alone.queue_s == pytest.approx(ahead * constants.prefill_s)
    expected_s = generated.ttft_s - ahead * 400 * constants.prompt_token_s
    assert alone.ttft_s["mean"] == pytest.approx(expected_s, rel=1e-6)
    assert alone.tpot_s["mean"] == pytest.approx(generated.tpot_s, rel=2e-4)


def test_a_load_without_requests_has_no_figures():
    scenario = serving()
    nobody = Requests(arrival_s=np.zeros(0), prompt_tokens=np.zeros(0, np.int64), output_tokens=np.zeros(0, np.int64))
    assert sl.simulate(scenario, load=[nobody], streamed=True, intervals=False).completed == 0
