"""Times at which requests are sent, in open and in closed loops, whatever becomes of them."""

import asyncio
import time
from itertools import pairwise

import numpy as np
import pytest
from waiting import PATIENCE_S

from sightline.measurement.serving.load import all_rows, closed_loop, open_loop, sleep_until
from sightline.simulation.load import Requests

ANSWER_S = 0.01


def part(arrival_s, **columns):
    count = len(arrival_s)
    lengths = {"prompt_tokens": np.full(count, 8), "output_tokens": np.full(count, 2)}
    return Requests(arrival_s=np.asarray(arrival_s, float), **lengths, **columns)


def sent(loop, load, **how):
    """Return (number, intended, begun, ended) of each request, in seconds, where every answer takes ``ANSWER_S``."""
    found = []

    async def run():
        begin_ns = time.perf_counter_ns()

        def seconds():
            return (time.perf_counter_ns() - begin_ns) / 1e9

        async def send(row, intended_ns):
            begun = seconds()
            await asyncio.sleep(ANSWER_S)
            found.append((row.number, (intended_ns - begin_ns) / 1e9, begun, seconds()))

        await loop(load, send, begin_ns, **how)

    asyncio.run(run())
    return sorted(found)


def test_requests_are_numbered_across_the_parts_of_a_load():
    assert [row.number for row in all_rows([part([0.0, 0.1]), part([]), part([0.2])])] == [0, 1, 2]


def test_an_open_loop_sends_at_the_arrivals():
    times = [0.0, 0.002, 0.004, 0.05]
    rows = sent(open_loop, [part(times[:2]), part(times[2:])])
    assert [intended for _, intended, _, _ in rows] == pytest.approx(times)
    assert all(begun >= intended for _, intended, begun, _ in rows)


def test_a_request_waits_for_a_place_and_is_due_when_it_has_one():
    rows = sent(open_loop, [part([0.0, 0.0, 0.0, 0.1])], concurrency=2)
    intended, ended = ([row[place] for row in rows] for place in (1, 3))
    assert intended[:2] == [0.0, 0.0]
    assert intended[2] >= min(ended[:2])
    assert intended[3] == pytest.approx(0.1)


def test_a_turn_waits_for_the_one_before_and_its_think_time():
    turns = part([0.0] * 3, session_id=np.array([4, 4, 4]), think_s=np.full(3, 0.005))
    rows = sent(open_loop, [turns])
    for (_, _, _, ended), (_, intended, _, _) in pairwise(rows):
        assert intended >= ended + 0.005


def test_users_of_a_closed_loop_think_after_each_answer():
    rows = sent(closed_loop, [part([0.0] * 6)], concurrency=2, think_s=0.005)
    begun, ended = ([row[place] for row in rows] for place in (2, 3))
    for number in range(2, 6):
        assert begun[number] >= sorted(ended)[number - 2] + 0.005


def test_users_begin_one_after_the_other():
    rows = sent(closed_loop, [part([0.0] * 4)], concurrency=4, ramp_up_s=0.008)
    assert [intended for _, intended, _, _ in rows] == pytest.approx([0.0, 0.002, 0.004, 0.006])


def test_a_time_that_has_passed_is_not_waited_for():
    assert asyncio.run(asyncio.wait_for(sleep_until(time.perf_counter_ns() - 10**9), PATIENCE_S)) is None
