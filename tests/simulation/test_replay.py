"""Measured loads simulated again, both beside each other."""

from dataclasses import replace

import pytest
from serving_scenarios import serving

from sightline.simulation.replay import TIMES, compared_requests, compared_statistics
from sightline.simulation.server import server_of

SCENARIO = serving(count=60, prompt_tokens=700, output_tokens=60)


@pytest.fixture(scope="module")
def server():
    return server_of(SCENARIO)


def test_a_server_replayed_by_itself_is_the_same(server):
    measured = server.serve(SCENARIO)
    again = server.serve(SCENARIO, [measured.requests])
    assert all(row["error"] == 0.0 for row in compared_statistics(measured, again))
    table = compared_requests(measured, again)
    assert table.height == 60
    for key in TIMES:
        assert table[f"measured_{key}"].to_list() == table[f"simulated_{key}"].to_list()


def test_requests_that_failed_are_left_out(server):
    measured = server.serve(SCENARIO)
    status = measured.status.copy()
    status[::2] = -1
    some = replace(measured, status=status)
    assert compared_statistics(some, measured)[0]["error"] == 0.0
    assert compared_requests(some, measured)["measured_ttft_s"].null_count() == 30
