"""The mean lengths of a load: as its requests are sent, whatever states them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_scenarios import serving

from sightline.simulation.load import Requests, load_of, mean_lengths


def requests(prompts, outputs):
    """Requests of so many tokens, all at once."""
    return Requests(arrival_s=np.zeros(len(prompts)), prompt_tokens=np.array(prompts), output_tokens=np.array(outputs))


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 900)), min_size=1, max_size=60), st.integers(1, 60))
def test_means_are_of_all_requests_whatever_the_parts(lengths, part):
    load = requests([prompt for prompt, _ in lengths], [output for _, output in lengths])
    found = mean_lengths(load[begin : begin + part] for begin in range(0, len(load), part))
    assert found.prompt_tokens == pytest.approx(np.mean(load.prompt_tokens))
    assert found.output_tokens == pytest.approx(np.mean(load.output_tokens))


def test_turns_of_conversations_count_what_was_said_before():
    sessions = {"turns": 4, "prefix_tokens": 800}
    asked = serving(count=4000, sessions=sessions, prompt_tokens=150, output_tokens=100)
    found = mean_lengths(load_of(asked))
    # Turn k sees k - 1 prompts and answers before its own prompt.
    assert found.prompt_tokens == pytest.approx(800 + 150 + 1.5 * 250)
    assert found.prefix_tokens == 800 + 1.5 * 250


def test_a_load_at_once_has_no_rate_and_one_that_arrives_has_its_own():
    assert mean_lengths([requests([10] * 4, [5] * 4)]).requests_per_s == 0
    arrival = {"process": "constant", "rate": 4.0}
    assert mean_lengths(load_of(serving(count=400, arrival=arrival))).requests_per_s == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("begin_s", [0.0, 7200.0])
@pytest.mark.parametrize("part", [1, 7, 401])
def test_the_rate_is_that_since_the_first_request_whenever_the_load_begins(begin_s, part):
    load = replace(requests([10] * 401, [5] * 401), arrival_s=begin_s + np.arange(401) / 4.0)
    parts = (load[begin : begin + part] for begin in range(0, len(load), part))
    assert mean_lengths(parts).requests_per_s == pytest.approx(4.0)


def test_one_request_and_a_later_burst_have_no_rate():
    for count in (1, 5):
        load = replace(requests([10] * count, [5] * count), arrival_s=np.full(count, 60.0))
        assert mean_lengths([load]).requests_per_s == 0


def test_an_empty_load_has_requests_of_a_token():
    assert mean_lengths([])[:2] == (1.0, 1.0)


def test_a_long_load_is_not_read_to_its_end():
    def parts():
        while True:
            yield requests([100] * 65_536, [10] * 65_536)

    assert mean_lengths(parts())[:2] == (100, 10)
