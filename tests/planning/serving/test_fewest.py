"""The fewest replicas that serve a stated load, and more devices where these are too few."""

from dataclasses import replace

import pytest
from planning.serving.questions import QUESTION, RENT, SMALL

from sightline.planning.request_spaces import spaces_of
from sightline.planning.search import plan
from sightline.planning.serving.trial import allowed_counts, of_one_replica
from sightline.simulation.simulate import simulate


def test_the_least_rent_for_a_rate_takes_as_few_replicas_as_keep_the_objective() -> None:
    found = plan({**SMALL, "cluster": "8x h100-sxm-80gb"}, **RENT)
    best = found.plans[0]
    scenario = best.profile.scenario
    count, size = scenario.plan.replicas, scenario.cluster.devices // scenario.plan.replicas
    assert scenario.cluster.devices == count * size < 8
    assert scenario.cluster.devices not in (1, 2, 4)  # It need not double.
    assert best.figures["meets_slo"]
    fewer = replace(scenario, plan=replace(scenario.plan, replicas=count - 1))
    rate = 0.9 * simulate(scenario, intervals=False).requests_per_s
    assert simulate(fewer, intervals=False).goodput_requests_per_s < rate
    assert best.value == pytest.approx(best.figures["usd_per_hour"] / (180 * 32 * 3600) * 1e6, rel=1e-6)
    assert {"plan.replicas": count - 1} in [one.set for one in found.neighbours]
    # Of equal rents the one with more to spare; pools are among what is compared.
    places = [(one.figures["usd_per_hour"], -one.figures["capacity_requests_per_s"]) for one in found.plans]
    assert places == sorted(places)
    assert best.figures["capacity_requests_per_s"] >= 180
    assert {"plan.disaggregate": True} in [one.set for one in found.alternatives]


def test_a_rate_beyond_the_devices_names_the_fewest_that_serve_it() -> None:
    found = plan(SMALL, **RENT)
    assert not found.plans
    near = found.nearest[0]
    assert "serve the load" in near.sentence
    more = plan({**SMALL, "cluster": near.set["cluster"]}, **RENT)
    assert more.plans[0].profile.scenario.cluster.devices == near.plan.profile.scenario.cluster.devices


def test_a_cap_that_holds_requests_back_serves_no_load() -> None:
    """Four requests at a time are never 180 per second, however few devices answer them in time."""
    held = {"workload.arrival": {"rate": 180, "concurrency": 4}}
    found = plan({**SMALL, "cluster": "2x h100-sxm-80gb"}, **{**RENT, "overrides": held})
    assert not any(one.figures["meets_slo"] for one in found.plans)
    assert "workload.arrival.concurrency 4" in found.nearest[0].sentence


def test_one_replica_takes_a_part_of_a_node_or_whole_nodes() -> None:
    spaces = of_one_replica(spaces_of({**QUESTION, "cluster": "16x h100-sxm-80gb"}))
    assert [space.scenario.cluster.devices for space in spaces] == [1, 2, 4, 8, 16]
    assert all(space.values["replicas"] == (1,) for space in spaces)
    assert all(space.sizes[-1].devices == 16 for space in spaces)


def test_stated_numbers_of_replicas_are_the_allowed_ones() -> None:
    free = spaces_of(QUESTION)
    stated = spaces_of(QUESTION, overrides={"plan.replicas": {"any": [2, 1]}})
    assert (allowed_counts(free), allowed_counts(stated)) == (None, (1, 2))
