"""Records of a load as figures: the definitions of every latency, and what is told about a run."""

import re

import numpy as np
import pytest

from sightline.measurement.serving.case import remarks_on
from sightline.simulation.outcome import COMPLETED
from sightline.simulation.replay import FAILED, outcome_of
from sightline.simulation.results.summary import figures_of


def record(number=0, **changes):
    """Return a request of 3 tokens, sent 1 ms late."""
    neutral = {"arrival_s": 1.0, "prompt_tokens": 20, "output_tokens": 3, "prefix_id": -1, "prefix_tokens": 0}
    neutral |= {"session_id": -1, "think_s": 0.0, "priority": 0, "adapter": -1, "failure": "", "detail": ""}
    neutral |= {"intended_s": 1.0, "sent_s": 1.001, "ended_s": 2.5, "chunk_s": [1.5, 1.6, 1.9], "chunk_tokens": [1] * 3}
    neutral |= {"server_prompt_tokens": 20, "server_output_tokens": 3, "server_cached_tokens": 16}
    return {"number": number, **neutral, **changes}


def test_latencies_count_from_when_a_request_was_to_be_sent():
    figures = figures_of(outcome_of([record()]))
    assert figures["ttft_s"]["mean"] == pytest.approx(0.5)
    assert figures["tpot_s"]["mean"] == pytest.approx(0.2)
    assert figures["latency_s"]["mean"] == pytest.approx(0.9)
    assert figures["itl_s"]["mean"] == pytest.approx(0.2)
    assert figures["itl_s"]["p50"] == pytest.approx(0.2, rel=0.02)
    assert figures["queue_s"] is None
    assert figures["kv_use"] is None


def test_requests_are_in_the_order_of_the_load():
    found = outcome_of([record(2, intended_s=2.0), record(1), record(3, intended_s=3.0)])
    assert found.requests.arrival_s.tolist() == [1.0, 2.0, 3.0]


def test_a_failure_has_no_times_of_its_own_but_counts():
    found = outcome_of([record(), record(1, failure="HTTP 500", chunk_s=[], server_output_tokens=0)])
    assert found.status.tolist() == [COMPLETED, FAILED]
    assert np.isnan(found.first_token_s[1])
    figures = figures_of(found)
    assert (figures["completed"], figures["failed"]) == (1, 1)


def test_tokens_of_one_chunk_came_together():
    found = outcome_of([record(output_tokens=5, server_output_tokens=5, chunk_s=[1.5, 1.9], chunk_tokens=[2, 3])])
    assert found.gap_counts.sum() == 4
    assert found.gap_counts[0] == 3


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"failure": "HTTP 429", "detail": "slow down"}, r"1 of 2 requests failed: 1 x HTTP 429 \(slow down\)"),
        ({"server_prompt_tokens": 22}, r"the server processed 1 prompt with a different length, by \+2 to \+2"),
        ({"server_output_tokens": 2, "chunk_s": [1.5, 1.6]}, "the server returned 1 answer of a different length"),
        ({"sent_s": 1.4}, "sent more than 400 ms late"),
        ({"chunk_s": [1.5], "chunk_tokens": [3]}, "2 tokens arrived in a chunk"),
    ],
)
def test_what_is_to_know_is_told(changes, remark):
    pair = [record(), record(1, **changes)]
    if "sent_s" in changes:
        pair = pair[1:] * 2
    assert any(re.search(remark, said) for said in remarks_on(pair, counts=True))


def test_nothing_is_told_about_a_clean_run():
    assert not list(remarks_on([record()], counts=True))
    assert len(list(remarks_on([record()], counts=False))) == 1
