"""Replicas that come and go with the load."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_scenarios import serving

from sightline.simulation.autoscaling import SYNC_S, WINDOW_S, usual_target
from sightline.simulation.load import Requests
from sightline.simulation.outcome import COMPLETED, Lifetimes
from sightline.simulation.results.iterations import replica_seconds, replicas_of_run
from sightline.simulation.server import server_of
from sightline.simulation.simulate import simulate

STARTUP_S = 40.0


def scaled(least=1, most=4, target=20, **asked):
    scale = {"min": least, "max": most, "startup": STARTUP_S, "target": target}
    plan = {"framework": "vllm", "autoscale": scale, **asked.pop("plan", {})}
    return serving(cluster="4x h100-sxm-80gb", plan=plan, **asked)


def load(arrival_s, prompt=600, output=150):
    n = len(arrival_s)
    return Requests(arrival_s=np.array(arrival_s), prompt_tokens=np.full(n, prompt), output_tokens=np.full(n, output))


@pytest.fixture(scope="module")
def server():
    """One server for all loads."""
    return server_of(scaled())


def counts(of: Lifetimes, at: np.ndarray) -> np.ndarray:
    """Replicas at some times."""
    return ((of.started_s <= at[:, None]) & (at[:, None] < of.stopped_s)).sum(axis=1)


@given(
    least=st.integers(1, 3),
    more=st.integers(0, 3),
    target=st.integers(1, 30),
    bursts=st.lists(st.tuples(st.floats(0.0, 900.0), st.integers(1, 150)), min_size=1, max_size=3),
    router=st.sampled_from(["round-robin", "least-load", "prefix-aware", "weighted", "precise-prefix"]),
)
@settings(max_examples=15, deadline=None)
def test_every_request_completes_on_replicas_that_are_there(server, least, more, target, bursts, router):
    most = min(least + more, 4)
    scenario = scaled(least, most, target, plan={"router": router})
    at = np.sort(np.concatenate([at_s + np.linspace(0.0, 5.0, count) for at_s, count in bursts]))
    out = server.serve(scenario, [load(at)])
    assert (out.status == COMPLETED).all()
    of, rows = out.lifetimes, out.iterations
    seen = np.unique(np.concatenate([rows.start_s, of.started_s[of.started_s > -np.inf]]))
    assert set(counts(of, seen)) <= set(range(least, most + 1))
    # Every iteration is one of a replica that has started and is not gone yet.
    there = (
        (of.replica == rows.replica[:, None])
        & (of.serves_s <= rows.start_s[:, None])
        & (rows.end_s[:, None] <= of.stopped_s + 1e-9)
    )
    assert (there.sum(axis=1) == 1).all()
    arrived = out.requests.arrival_s + server.pools[0].times.request_s
    sent = (
        (of.replica == out.replica[:, None])
        & (of.serves_s <= arrived[:, None] + 1e-9)
        & (arrived[:, None] <= of.asked_to_stop_s + 1e-9)
    )
    assert sent.any(axis=1).all()


def test_a_low_load_stays_at_the_least(server):
    out = server.serve(scaled(least=2), [load(np.arange(0.0, 600.0, 2.0))])
    assert out.lifetimes.started_s.tolist() == [-np.inf, -np.inf]


def test_a_burst_is_served_by_more_no_earlier_than_they_take_to_start(server):
    at = np.concatenate([np.arange(0.0, 100.0, 2.0), 100.0 + np.linspace(0.0, 120.0, 4800)])
    out = server.serve(scaled(), [load(at)])
    of, rows = out.lifetimes, out.iterations
    later = of.started_s > -np.inf
    assert later.sum() == 3
    request_s = server.pools[0].times.request_s
    looks = (of.started_s[later] - request_s) / SYNC_S
    assert looks == pytest.approx(np.round(looks))
    assert (of.started_s[later] >= 100.0).all()
    for place, started_s in zip(of.replica[later], of.started_s[later], strict=True):
        assert rows.start_s[rows.replica == place].min() >= started_s + STARTUP_S


def test_what_a_burst_asked_for_is_kept_for_the_window(server):
    at = np.concatenate([np.linspace(0.0, 40.0, 1600), np.arange(60.0, 900.0, 2.0)])
    out = server.serve(scaled(), [load(at)])
    of = out.lifetimes
    asked = of.asked_to_stop_s[of.asked_to_stop_s < np.inf]
    assert asked.size == counts(of, np.array([60.0]))[0] - 1
    assert asked.min() >= WINDOW_S
    # The newest go first; what is asked to stop finishes what it has.
    assert 0 not in of.replica[of.asked_to_stop_s < np.inf]
    assert (of.stopped_s >= of.asked_to_stop_s).all()


def test_replica_seconds_are_paid_and_idle_devices_that_are_gone_are_not():
    arrival = {"process": "poisson", "rate": 2.0}
    few = simulate(scaled(arrival=arrival, count=400), intervals=False)
    all_there = simulate(
        scaled(arrival=arrival, count=400, plan={"autoscale": None, "tensor_parallel": 1}), intervals=False
    )
    one = simulate(scaled(arrival=arrival, count=400, most=1), intervals=False)
    assert few.replicas == {"mean": pytest.approx(1.0), "min": 1, "max": 1}
    assert few.replica_s == pytest.approx(few.duration_s)
    # Replicas that are never asked for change nothing.
    assert few.latency_s == one.latency_s
    assert few.energy_j == pytest.approx(one.energy_j)
    assert few.energy_j < 0.6 * all_there.energy_j
    assert few.kv_use["mean"] == pytest.approx(one.kv_use["mean"])
    assert all_there.replicas is None
    price = 4 * few.scenario.cluster.device.usd_per_hour / 3600
    assert few.cost_usd_per_million_tokens == pytest.approx(0.25e6 * price / few.output_tokens_per_s)
    assert all_there.cost_usd_per_million_tokens == pytest.approx(1e6 * price / all_there.output_tokens_per_s)


def test_a_streamed_load_comes_to_the_same():
    asked = {"arrival": {"process": "poisson", "rate": 20.0}, "count": 3000, "target": 10}
    whole, streamed = (simulate(scaled(**asked), intervals=False, streamed=way) for way in (False, True))
    assert whole.replicas["max"] > 1
    assert streamed.replicas == pytest.approx(whole.replicas)
    assert streamed.kv_use == pytest.approx(whole.kv_use)
    assert streamed.energy_j == pytest.approx(whole.energy_j)


def test_clients_of_a_closed_loop_are_answered():
    arrival = {"process": "closed", "concurrency": 60, "think_time": 1}
    found = simulate(scaled(arrival=arrival, count=3000, target=10), intervals=False)
    assert found.completed == 3000
    assert found.replicas["max"] == 4


def test_what_is_assumed_of_the_target_is_said():
    told = simulate(scaled(target=None, count=20), intervals=False).warnings
    assert any("plan.autoscale.target" in said and "70" in said for said in told)
    assert usual_target(10) == 7.0


def test_replica_seconds_add_up():
    of = Lifetimes(
        replica=np.array([0, 1, 1]),
        started_s=np.array([-np.inf, 5.0, 20.0]),
        serves_s=np.array([-np.inf, 6.0, 21.0]),
        asked_to_stop_s=np.array([np.inf, 9.0, np.inf]),
        stopped_s=np.array([np.inf, 10.0, np.inf]),
    )
    assert replica_seconds(of, 2.0, np.array([0.0, 2.0, 7.0, 22.0])).tolist() == [0.0, 0.0, 7.0, 27.0]
    assert replicas_of_run(of, 2.0, 22.0) == {"mean": 27.0 / 20.0, "min": 1, "max": 2}
    assert replicas_of_run(of, 2.0, 4.0) == {"mean": 1.0, "min": 1, "max": 1}
