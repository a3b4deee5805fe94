"""Loads that are drawn again, and what their figures say of how far one run's are off by chance."""

from dataclasses import replace

import numpy as np
import pytest
from serving_scenarios import serving

from sightline.scenario import Serve
from sightline.simulation import simulate as simulation
from sightline.simulation.results.summary import figures_of
from sightline.simulation.server import Server, server_of
from sightline.simulation.simulate import (
    BEGINNING,
    DRAWS,
    MOST_REQUESTS,
    STRIDE,
    drawn_again,
    intervals_of_draws,
    simulate,
)

LENGTHS = {
    "prompt_tokens": {"distribution": "lognormal", "mean": 1165, "cv": 0.8},
    "output_tokens": {"distribution": "lognormal", "mean": 220, "cv": 0.8},
}


def test_only_short_loads_that_are_drawn_are_drawn_again():
    short = serving(count=MOST_REQUESTS, seed=3)
    others = list(drawn_again(short))
    assert [other.workload.seed for other in others] == [3 + draw * STRIDE for draw in range(1, DRAWS + 1)]
    assert all(replace(other.workload, seed=3) == short.workload for other in others)
    assert not list(drawn_again(serving(count=MOST_REQUESTS + 1)))
    assert not list(drawn_again(replace(short, workload=Serve(trace="requests.csv"))))


def test_intervals_are_as_wide_as_the_figures_are_apart():
    draws = [{"ttft_s": {"p90": float(np.exp(0.1 * off))}} for off in np.random.default_rng(0).standard_normal(200)]
    low, high = intervals_of_draws({"ttft_s": {"p90": 1.0}, "completed": 50}, draws)["ttft_s.p90"]
    assert (low, high) == pytest.approx((np.exp(-0.128), np.exp(0.128)), rel=0.01)


def test_figures_that_are_nothing_and_percentiles_without_requests_are_left_open():
    draws = [{"queue_s": 0.0, "ttft_s": {"p99": 1.1}}] * 2
    found = intervals_of_draws({"queue_s": 0.1, "ttft_s": {"p99": 1.0}, "completed": 50}, draws)
    assert found.keys() == {"ttft_s.p99"}
    assert found["ttft_s.p99"][1] is None


def test_every_figure_of_a_short_load_is_unsure_by_chance():
    found = simulate(serving(count=100, **LENGTHS)).interval
    for key in ("requests_per_s", "output_tokens_per_s", "latency_s.mean", "ttft_s.p90", "itl_s.p50", "queue_s"):
        low, high = found[key]
        assert high / low > 1.01


@pytest.mark.parametrize(
    ("arrival", "simulated"),
    [
        ({"process": "poisson", "rate": 6.0}, [BEGINNING] * 3),
        ({"process": "closed", "concurrency": 16}, [BEGINNING] * 3),
        ({"process": "poisson", "rate": 14.0}, [BEGINNING, 30_000, 30_000]),
        ({"process": "all_at_once"}, [30_000, 30_000]),
    ],
)
def test_the_beginning_of_a_load_stands_for_it_where_it_settles(arrival, simulated, monkeypatch):
    scenario, loads = serving(count=30_000, arrival=arrival, **LENGTHS), []
    serve = Server.serve

    def counted(self, asked, *of, **how):
        loads.append(asked.workload.requests.count)
        return serve(self, asked, *of, **how)

    monkeypatch.setattr(Server, "serve", counted)
    found = simulate(scenario).interval
    assert [count for count in loads if count != 7_500] == [30_000, *simulated]
    monkeypatch.setattr(simulation, "BEGINNING", 10**9)
    whole = simulate(scenario).interval
    assert found.keys() == whole.keys()
    for key in ("latency_s.mean", "latency_s.p90", "ttft_s.mean", "tpot_s.p50", "output_tokens_per_s"):
        assert [end or 0.0 for end in found[key]] == pytest.approx([end or 0.0 for end in whole[key]], rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("arrival", [{"rate": 9.0}, {"rate": 15.0}, {"rate": 18.0}, {"process": "all_at_once"}])
def test_intervals_hold_what_other_loads_of_the_kind_come_to(arrival):
    """In four of five runs, where the queue is short, long, and where it grows."""
    asked = serving(count=1000, arrival={"process": "poisson"} | arrival, **LENGTHS)
    server = server_of(asked)

    def figures(seed: int):
        return figures_of(server.serve(replace(asked, workload=replace(asked.workload, seed=seed))))

    runs = [figures(seed) for seed in range(50)]
    for key, name in (("latency_s", "mean"), ("latency_s", "p90"), ("ttft_s", "p50"), ("ttft_s", "p90")):
        values = [run[key][name] for run in runs]
        held = 0
        for place, run in enumerate(runs):
            others = [runs[(place + draw) % len(runs)] for draw in range(1, DRAWS + 1)]
            low, high = intervals_of_draws(run, others)[f"{key}.{name}"]
            held += low <= np.mean(values) <= high
        assert held / len(runs) >= 0.6
