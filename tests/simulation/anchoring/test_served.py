"""Loads of servers whose constants are known, which the simulator itself answered: what they teach."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from serving_scenarios import serving

import sightline as sl
from sightline.errors import InputError
from sightline.prediction.anchoring.anchored import learn
from sightline.prediction.generation.sites import constants_at
from sightline.simulation.anchoring import ServedLoad, anchor_of_load, without_rows
from sightline.simulation.results.times import times_of
from sightline.simulation.server import server_of

LENGTHS = {"prompt_tokens": {"distribution": "lognormal", "mean": 600, "cv": 0.8}, "output_tokens": 60}
SCENARIO = serving(count=150, arrival={"process": "poisson", "rate": 6.0}, **LENGTHS)


def other(shift, pace=1.0):
    """The server of the scenario with other constants, all of it slower by a factor."""
    return server_of(SCENARIO).running(lambda base: constants_at(base, shift)).at_pace(pace, pace)


def measured(server, scenario=SCENARIO, name="ours"):
    outcome = server.serve(scenario)
    return ServedLoad(
        name=name,
        scenario=scenario,
        requests=outcome.requests,
        first_token_s=outcome.first_token_s,
        last_token_s=outcome.last_token_s,
    )


@cache
def slower():
    """A server that takes a fifth longer for everything, its answers, and what these teach."""
    truth = other({}, 1.2)
    load = measured(truth)
    return truth, load, taught(load)


def taught(*loads):
    return learn([anchor_of_load(load) for load in loads])


def means(outcome):
    return {key: float(np.nanmean(times)) for key, times in times_of(outcome).items()}


def test_a_server_as_predicted_teaches_nothing():
    known = taught(measured(server_of(SCENARIO)))
    (said,) = known.to_dicts("generation")
    assert said["learned"] == []
    assert "no constant changed" in said["sentence"]
    assert known.warnings(SCENARIO) == []


def test_time_before_the_queue_is_learned_as_such():
    known = taught(measured(other({"prefill_s": np.log(4.0)})))
    (said,) = known.to_dicts("generation")
    lessons = {one["constant"]: one for one in said["learned"]}
    low, high = lessons["prefill_s"]["interval"]
    assert low < 4.0 * lessons["prefill_s"]["assumed"] < high
    assert lessons["prefill_s"]["value"] > 2.0 * lessons["prefill_s"]["assumed"]
    assert "per prefill" in said["sentence"]


def test_what_no_constant_explains_of_a_load_is_told():
    # Nothing of the engine differs: this load alone takes twice as long, as on a machine that does other work too.
    known = taught(measured(server_of(SCENARIO).at_pace(2.0, 2.0)))
    (said,) = known.to_dicts("generation")
    lessons = {one["constant"]: one for one in said["learned"]}
    for name in ("prompt_times", "decode_times"):
        assert lessons[name]["assumed"] == 1.0
        assert lessons[name]["value"] > 1.3
    assert "this load's" in said["sentence"]


@pytest.mark.parametrize("rate", [2.0, 12.0])
def test_other_rates_of_a_slower_server_are_predicted(rate):
    truth = other({"matmul_slowdown": 0.2}, 1.15)
    known = taught(measured(truth))
    asked = serving(count=150, arrival={"process": "poisson", "rate": rate}, **LENGTHS)
    usual, anchored, real = (
        means(server.serve(asked)) for server in (server_of(asked), server_of(asked, known.requests), truth)
    )
    for key, seconds in real.items():
        assert anchored[key] == pytest.approx(seconds, rel=0.06)
        assert usual[key] < 0.88 * seconds


def test_an_anchor_narrows_intervals_that_still_hold():
    truth, _, known = slower()
    answer, usual = (sl.simulate(SCENARIO, anchor=anchor) for anchor in (known, ()))
    real = means(truth.serve(SCENARIO))
    for key in ("tpot_s", "latency_s"):
        (low, high), wide = answer.interval[f"{key}.mean"], usual.interval[f"{key}.mean"]
        assert low < real[key] < high
        assert high / low < wide[1] / wide[0]
    assert [one["from"] for one in answer.anchor] == ["ours"]


def test_a_saturated_load_teaches_throughput():
    burst = serving(count=400, arrival={"process": "all_at_once"}, **LENGTHS)
    truth = other({}, 1.2)
    known = taught(measured(truth, burst))
    real, found = (
        float(np.nanmax(server.serve(burst).last_token_s)) for server in (truth, server_of(burst, known.requests))
    )
    assert found == pytest.approx(real, rel=0.04)


def test_means_alone_teach_too():
    truth, _, _ = slower()
    real = means(truth.serve(SCENARIO))
    known = taught(without_rows("a table", SCENARIO, {key: real[key] for key in ("ttft_s", "tpot_s")}))
    found = means(server_of(SCENARIO, known.requests).serve(SCENARIO))
    assert found["tpot_s"] == pytest.approx(real["tpot_s"], rel=0.04)


def test_only_the_first_requests_are_observed():
    load = measured(server_of(SCENARIO))
    some = load.of_first(40)
    assert np.isfinite(some.first_token_s).sum() == 40
    assert len(some.requests) >= 40
    assert some.requests.arrival_s[-1] <= np.nanmax(some.last_token_s)
    assert load.of_first(10**6) is load


def test_requests_of_one_queue_do_not_count_one_by_one():
    truth, _, few = slower()
    many = taught(measured(truth, serving(count=900, arrival={"process": "poisson", "rate": 6.0}, **LENGTHS)))
    posteriors = [known.posterior("generation") for known in (few, many)]
    widths = [found.beliefs.spread_of(f"pace/site/{site(found)}") for found in posteriors]
    assert widths[1] > 0.6 * widths[0]


def site(found):
    return next(name.split("/site/")[1] for name in found.beliefs.names if "/site/" in name)


def test_two_loads_teach_together():
    _, load, _ = slower()
    known = taught(load, load.named("again"))
    assert [one["from"] for one in known.to_dicts("generation")] == ["ours", "again"]


def test_a_load_that_nobody_answered_teaches_nothing():
    load = measured(server_of(SCENARIO))
    nobody = np.full(150, np.nan)
    with pytest.raises(InputError, match="no answered request"):
        replace(load, first_token_s=nobody, last_token_s=nobody)
