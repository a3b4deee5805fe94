"""The search for the highest rate that keeps an objective, over loads that need no simulation."""

from dataclasses import replace

import numpy as np
import pytest
from served_outcomes import outcome
from serving_scenarios import serving

from sightline.errors import InputError
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.scenario import Arrival
from sightline.simulation.capacity import (
    ENOUGH,
    MOST_REQUESTS,
    TALKS,
    WITHIN,
    at_rate,
    enough_requests,
    highest_rate,
    lasting_share,
    long_enough,
    searched_as,
)
from sightline.simulation.load import MeanLengths
from sightline.simulation.results.summary import figures_of, keeps_slo
from sightline.simulation.simulate import find_capacity, simulate

SLO = {"ttft": "1 s", "percentile": 90}


def queue(scenario) -> Profile:
    """A server whose queue grows with the square of the rate."""
    rate = scenario.workload.arrival.rate
    run = outcome(np.arange(100) / rate, queue_s=np.linspace(0.0, 0.01 * rate**2, 100), prefill_s=0.1)
    return Profile(scenario=scenario, source="predicted", **figures_of(run, scenario.workload.slo), outcome=run)


@pytest.mark.parametrize("first", [0.5, 9.0, 1000.0])
def test_the_highest_rate_is_found_from_any_beginning(first):
    found = highest_rate(serving(slo=SLO), queue, first)
    # The queue grows, so that the last third counts: 31 of 34 wait less than 0.9 s while the 97th of all does.
    exact = np.sqrt(0.9 / (0.01 * 96 / 99))
    assert exact / (1.0 + WITHIN) <= found.rate <= exact * (1.0 + 1e-9)
    assert [one.rate for one in found.tried] == sorted(one.rate for one in found.tried)
    # The rate, and how long the run was.
    assert f"{found.rate:.4g}" in found.sentence
    assert "11." in found.sentence


def test_the_median_of_a_queue_that_grows_is_that_of_its_last_third():
    found = highest_rate(serving(slo={"ttft": "900 ms", "percentile": 50}), queue, 8.0)
    best = next(one for one in found.tried if one.rate == found.rate)
    assert found.rate == pytest.approx(np.sqrt(0.8 / (0.01 * 82 / 99)), rel=WITHIN)
    assert best.late >= 0.5
    assert best.good > 0.75


def test_a_queue_that_grows_is_refused_before_its_limit_is_reached():
    """Its wait grows by 0.01 rate**2 in 99 / rate seconds; of 100 requests a tenth may be by chance."""
    grown = np.cbrt(0.1 * 99 / 0.01)
    classes = [{"name": name, "share": 0.5, "ttft": "2 min"} for name in ("chat", "batch")]
    for slo, said in (({"ttft": "2 min"}, "requests wait ever longer"), ({"classes": classes}, "requests of chat")):
        drawn = serving(slo=slo)
        found = highest_rate(drawn, queue, 8.0)
        # One request of 66 more or less.
        assert found.rate == pytest.approx(grown, rel=0.05)
        assert said in found.sentence
    # A trace may end with its busiest hour.
    trace = replace(drawn, workload=replace(drawn.workload, arrival=Arrival(process="trace")))
    assert highest_rate(trace, queue, 8.0).rate > 100.0


def test_a_queue_that_empties_after_the_last_arrival_grew_before():
    """As that of requests with the least priority does, whose later ones wait less."""

    def starving(scenario) -> Profile:
        arrival_s = np.arange(100) / scenario.workload.arrival.rate
        waits_s = np.where(scenario.workload.arrival.rate > 10.0, 1.5 * (arrival_s[-1] - arrival_s), 0.0)
        run = outcome(arrival_s, queue_s=waits_s, prefill_s=0.1)
        return Profile(scenario=scenario, source="predicted", **figures_of(run, scenario.workload.slo), outcome=run)

    assert highest_rate(serving(slo={"latency": "1 h"}), starving, 8.0).rate == pytest.approx(10.0, rel=WITHIN)


def test_a_load_that_no_rate_breaks_has_no_highest_rate():
    def idle(scenario) -> Profile:
        run = outcome(np.arange(100) / scenario.workload.arrival.rate)
        figures = figures_of(run, scenario.workload.slo)
        return Profile(scenario=scenario, source="predicted", **figures, outcome=run)

    found = highest_rate(serving(slo=SLO), idle, 8.0)
    assert found.rate is None
    assert found.unbroken


def test_short_loads_are_made_longer():
    """A queue that is answered 1 % too slowly needs 100 times the limit to reach it."""
    of = serving(count=100, slo={"ttft": "2 s", "tpot": "10 ms"})
    assert long_enough(of, 5.0).workload.requests.count == 10_000
    assert long_enough(of, 70.0).workload.requests.count == 14_000
    assert long_enough(of, 1000.0).workload.requests.count == MOST_REQUESTS
    assert long_enough(serving(count=30_000, slo=SLO), 5.0).workload.requests.count == 30_000


def test_the_rate_of_a_short_load_is_that_of_a_long_one():
    # An engine whose front end holds no burst up.
    asked = {"plan": {"framework": "lightllm"}, "slo": {"ttft": "10 s", "percentile": 50}}
    scenario = serving(count=100, prompt_tokens=256, output_tokens=8, **asked)
    found = find_capacity(scenario)
    fastest = find_burst_rate(scenario, 20_000)
    # 100 requests never wait for 10 s.
    assert found.rate == pytest.approx(fastest, rel=0.1)
    assert found.tried[0].profile.completed == MOST_REQUESTS
    assert "20,000 requests" in found.sentence


def test_a_capacity_of_conversations_has_as_many_users_as_the_long_run():
    arrival = {"process": "poisson", "rate": 2.0, "think_time": 5.0}
    asked = {"sessions": {"turns": 20, "prefix_tokens": 200}, "arrival": arrival, "slo": {"tpot": "14 ms"}}
    short, long = (
        find_capacity(serving(count=n, prompt_tokens=20, output_tokens=200, **asked)) for n in (100, MOST_REQUESTS)
    )
    assert short.rate == pytest.approx(long.rate, rel=0.05)
    lengths = MeanLengths(turns=30.0, pause_s=58.0)
    assert enough_requests(lengths, 2.0, 1.0) == TALKS * 2.0 * 30 * 59
    assert enough_requests(MeanLengths(), 2.0, 1.0) == ENOUGH * 2.0


def test_requests_after_the_last_conversation_has_begun_are_not_the_late_ones():
    # Two conversations overlap at first; what the second does alone later, it does well.
    waits = np.array([0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    run = outcome(np.arange(8.0), queue_s=waits)
    run = replace(run, requests=replace(run.requests, session_id=np.array([0, 0, 0, 1, 1, 1, 1, 1])))
    asked = serving(slo=SLO)
    profile = Profile(scenario=asked, source="predicted", **figures_of(run, asked.workload.slo), outcome=run)
    assert lasting_share(profile, asked.workload.slo) == 0.0


def find_burst_rate(scenario, count):
    shape = replace(scenario.workload.requests, count=count)
    workload = replace(scenario.workload, requests=shape, arrival=Arrival())
    return simulate(replace(scenario, workload=workload), intervals=False).requests_per_s


def test_an_objective_that_nobody_meets_is_told_with_the_best_that_was_reached():
    found = highest_rate(serving(slo={"ttft": "50 ms"}), queue, 8.0)
    assert found.rate is None
    assert not found.unbroken
    assert "0.0312" in found.sentence


def test_a_search_needs_an_objective():
    with pytest.raises(InputError, match=r"workload\.slo"):
        highest_rate(serving(), queue, 1.0)


def test_a_search_says_how_many_rates_it_tried():
    progress = Progress()
    found = highest_rate(serving(slo=SLO), queue, 1.0, progress)
    assert progress.state.done == len(found.tried)


@pytest.mark.parametrize("arrival", [{"process": "closed", "concurrency": 4}, {"process": "all_at_once"}])
def test_loads_without_a_rate_become_poisson_processes(arrival):
    asked = at_rate(serving(arrival=arrival), 3.0).workload.arrival
    assert (asked.process, asked.rate, asked.concurrency) == ("poisson", 3.0, None)


@pytest.mark.parametrize(
    ("arrival", "said"),
    [
        ({"process": "closed", "concurrency": 4}, "workload.arrival.process closed has no rate"),
        ({"process": "all_at_once"}, "Poisson"),
        ({"process": "gamma", "cv": 2.0, "ramp": [[60, 2], [60, 8]]}, "workload.arrival.ramp"),
        ({"process": "constant", "rate": 2.0}, ""),
    ],
)
def test_a_search_says_what_it_leaves_out_of_the_arrivals(arrival, said):
    found = searched_as(serving(arrival=arrival))
    assert said in found
    assert bool(found) == bool(said)


def test_a_load_that_a_cap_holds_back_does_not_keep_its_objective() -> None:
    held, free = (
        simulate(serving(arrival={"process": "constant", "rate": 40, "concurrency": most}, slo=SLO), intervals=False)
        for most in (4, 400)
    )
    assert held.good_share == free.good_share == 1.0
    assert held.sent_per_s == pytest.approx(held.requests_per_s, rel=0.05)
    assert free.sent_per_s == pytest.approx(40, rel=0.1)
    assert (keeps_slo(held), keeps_slo(free)) == (False, True)
    assert any("holds requests back" in said for said in held.warnings)


def test_an_objective_of_requests_that_are_all_refused_says_why() -> None:
    scenario = serving(prompt_tokens=200_000, slo={"ttft": "1 s"})
    found = find_capacity(scenario)
    assert found.rate is None
    assert found.sentence.count("10,000") == 2
