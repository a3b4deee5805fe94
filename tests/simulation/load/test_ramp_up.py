"""A closed loop whose clients begin one after the other."""

import numpy as np
from serving_scenarios import serving

from sightline.loading import load, to_mapping
from sightline.simulation.simulate import simulate

CLOSED = {"process": "closed", "concurrency": 10, "ramp_up": "60 s"}


def test_clients_begin_evenly_and_go_on_at_once() -> None:
    sent = np.sort(simulate(serving(count=600, arrival=CLOSED), intervals=False).outcome.requests.arrival_s)
    starts = np.arange(10) * 6.0
    assert all(np.isclose(sent, start).any() for start in starts)
    # The first client has sent its second request long before the second one begins.
    assert (sent < 6.0).sum() > 1


def test_clients_that_begin_one_after_the_other_wait_less() -> None:
    at_once = serving(count=40, arrival=CLOSED | {"ramp_up": 0})
    spread = serving(count=40, arrival=CLOSED)
    times = [simulate(one, intervals=False) for one in (at_once, spread)]
    assert times[1].ttft_s["p99"] < times[0].ttft_s["p99"]
    assert times[1].completed == 40


def test_it_is_written_and_read_again() -> None:
    scenario = serving(arrival=CLOSED)
    assert load(to_mapping(scenario)).workload.arrival == scenario.workload.arrival
    assert "ramp_up" not in to_mapping(serving())["workload"]["arrival"]
