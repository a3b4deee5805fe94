"""What limits a load, in words, and what it takes of the devices."""

from dataclasses import replace

import numpy as np
import pytest
from served_outcomes import outcome, work_of
from serving_scenarios import serving

from sightline.prediction.generation.batch_profile import engine_constants
from sightline.prediction.generation.replica import worker_of
from sightline.simulation.deployment import alike
from sightline.simulation.results.iterations import busy_by_bound, energy_j, in_a_sentence, pressure

FULL = [(0.0, 1.0, 1000), (1.0, 2.0, 1000)]


def told(
    kv,
    *,
    waiting: int = 0,
    max_sequences: int = 8,
    token_budget: int = 512,
    duration_s: float = 2.0,
    queued: float = 0.5,
) -> str:
    run = outcome([0.0], kv=kv)
    rows = replace(run.iterations, waiting=np.full(len(kv), waiting))
    (limits,) = run.pools
    (sums,) = work_of(rows, limits, max_sequences=max_sequences, token_budget=token_budget).sums
    return in_a_sentence(pressure(sums, duration_s, 1), "memory", queued)


@pytest.mark.parametrize(
    ("sentence", "case"),
    [
        ("mostly because the KV cache is full", {"kv": FULL, "waiting": 3}),
        ("plan.max_sequences", {"kv": [(0.0, 2.0, 100)], "waiting": 3, "max_sequences": 1}),
        ("plan.max_batched_tokens", {"kv": [(0.0, 2.0, 100)], "waiting": 3, "token_budget": 1}),
        ("requests wait 100 % of the busy time", {"kv": [(0.0, 2.0, 100)], "waiting": 3}),
        ("idle 80 % of the time", {"kv": FULL, "duration_s": 10.0}),
        ("limited by memory bandwidth", {"kv": FULL}),
        ("the running iteration", {"kv": FULL, "waiting": 1, "queued": 0.01}),
        ("", {"kv": []}),
    ],
)
def test_what_limits_is_told(sentence, case):
    assert sentence in told(**case)
    assert bool(sentence) == bool(told(**case))


def test_busy_time_is_split_by_what_bounds_it_and_costs_energy():
    scenario = alike(serving(), 1, 1)
    worker, (constants, _) = worker_of(scenario), engine_constants(scenario)
    run = outcome([0.0], kv=FULL)
    (sums,) = run.work.sums
    busy, joules = busy_by_bound(worker, constants.running_on(scenario.cluster), sums)
    assert sum(busy.values()) == pytest.approx(2.0)
    device = scenario.cluster.device
    assert energy_j(worker, dict.fromkeys(busy, 0.0), 0.0, 10.0) == pytest.approx(10.0 * device.idle_w)
    assert 10.0 * device.idle_w < energy_j(worker, busy, joules, 10.0) <= 10.0 * device.tdp_w
