"""Classes of requests: each has limits of its own, and the objective is asked of every one."""

import numpy as np
import pytest
from serving_scenarios import serving

import sightline as sl
from sightline.errors import InputError
from sightline.simulation.load import load_of
from sightline.simulation.results.summary import worst_share

CHAT = {"name": "chat", "share": 0.7, "ttft": "200 ms"}
BATCH = {"name": "batch", "share": 0.3, "latency": "1 min", "priority": 1}
SLO = {"percentile": 90, "classes": [CHAT, BATCH]}


def two_classes(rate=30.0, count=400, **plan):
    return serving(count=count, arrival={"process": "poisson", "rate": rate}, slo=SLO, plan=plan)


def test_shares_are_drawn_and_bring_their_priorities():
    (requests,) = load_of(two_classes(count=20_000))
    assert requests.slo_class.mean() == pytest.approx(0.3, abs=0.01)
    assert np.array_equal(requests.priority, requests.slo_class)
    (turns,) = load_of(serving(count=20_000, slo=SLO, sessions={"turns": 4}))
    assert turns.slo_class.mean() == pytest.approx(0.3, abs=0.01)
    assert np.array_equal(turns.slo_class[::4], turns.slo_class[3::4])


def test_requests_of_a_trace_are_in_the_class_of_their_priority(tmp_path):
    path = tmp_path / "load.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens,priority\n0,9,2,1\n1,9,2,0\n")
    (requests,) = load_of(serving(requests=None, trace=str(path), arrival={"process": "trace"}, slo=SLO))
    assert requests.slo_class.tolist() == [1, 0]
    path.write_text("arrival_s,prompt_tokens,output_tokens,priority\n0,9,2,5\n")
    with pytest.raises(InputError, match="priority 5"):
        list(load_of(serving(requests=None, trace=str(path), arrival={"process": "trace"}, slo=SLO)))


def test_each_request_is_held_against_the_limits_of_its_class():
    profile = sl.simulate(two_classes(15.0, max_sequences=16), intervals=False)
    outcome = profile.outcome
    ttft_s, latency_s = (of - outcome.requests.arrival_s for of in (outcome.first_token_s, outcome.last_token_s))
    chat = outcome.requests.slo_class == 0
    good = np.where(chat, ttft_s <= 0.2, latency_s <= 60.0)
    assert profile.good_share == good.mean()
    assert profile.good_shares == {"chat": good[chat].mean(), "batch": good[~chat].mean()}
    assert worst_share(profile) == profile.good_shares["chat"] < profile.good_shares["batch"] == 1.0
    streamed = sl.simulate(two_classes(15.0, max_sequences=16), intervals=False, streamed=True)
    assert streamed.good_shares == profile.good_shares


def test_priority_serves_the_class_that_has_it():
    plain, by_priority = (
        sl.simulate(two_classes(15.0, max_sequences=16, **plan), intervals=False)
        for plan in ({}, {"scheduler": "priority"})
    )
    assert by_priority.good_shares["chat"] > plain.good_shares["chat"] + 0.1
    assert any("plan.scheduler priority" in said for said in plain.warnings)


def test_a_capacity_keeps_the_objective_of_every_class():
    capacity = sl.find_capacity(two_classes())
    assert min(capacity.profile.good_shares.values()) >= 0.9
    broken = [point.profile.good_shares for point in capacity.tried if point.rate > 1.02 * capacity.rate]
    assert broken
    assert all(min(shares.values()) < 0.9 for shares in broken)
