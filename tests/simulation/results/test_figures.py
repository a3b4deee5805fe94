"""Result keys from what became of each request."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_outcomes import outcome

from sightline.profile import SERVING
from sightline.scenario import Slo
from sightline.simulation.outcome import NO_ROOM, TOO_LONG
from sightline.simulation.results.summary import figures_of, meets

SECONDS = st.floats(0.0, 100.0)


def test_figures_of_a_run():
    found = figures_of(outcome([0.0, 1.0, 2.0, 3.0], queue_s=[0.0, 0.0, 1.0, 1.0]))
    assert found["ttft_s"]["mean"] == pytest.approx(1.0)
    assert found["queue_s"] == pytest.approx(0.5)
    assert found["tpot_s"]["p50"] == pytest.approx(0.01)
    assert found["itl_s"]["mean"] == pytest.approx(0.01)
    assert found["itl_s"]["p90"] == pytest.approx(0.01, rel=1.5e-3)
    assert found["duration_s"] == pytest.approx(4.6)
    assert found["requests_per_s"] == pytest.approx(4 / 4.6)
    assert found["output_tokens_per_s"] == pytest.approx(44 / 4.6)
    assert found["prefix_hit_rate"] == 0.25
    assert (found["completed"], found["failed"], found["refused"]) == (4, 0, {})
    assert found["goodput_requests_per_s"] is None
    assert set(found) <= {*SERVING.metrics, "phases", "interval", "warnings"}


def test_refused_and_failed_requests_are_counted_apart():
    found = figures_of(outcome([0.0, 1.0, 2.0, 3.0], status=[0, TOO_LONG, NO_ROOM, 99]))
    assert (found["completed"], found["failed"]) == (1, 1)
    assert found["refused"] == {"longer than the context": 1, "larger than the KV cache": 1}


def test_nothing_completed_is_told_without_numbers():
    found = figures_of(outcome([0.0], status=[TOO_LONG]))
    assert set(found["ttft_s"].values()) == {None}
    assert (found["requests_per_s"], found["queue_s"], found["phases"]) == (0.0, None, {})


@given(queues=st.lists(SECONDS, min_size=1, max_size=50))
def test_phases_sum_to_the_mean_latency(queues):
    found = figures_of(outcome(list(range(len(queues))), queue_s=queues))
    assert sum(found["phases"].values()) == pytest.approx(found["latency_s"]["mean"])


def test_phases_without_a_seen_queue():
    seen = outcome([0.0, 1.0])
    unseen = type(seen)(**{name: getattr(seen, name) for name in seen.__slots__} | {"scheduled_s": np.full(2, np.nan)})
    assert figures_of(unseen)["phases"] == pytest.approx({"prefill": 0.5, "decode": 0.1})


def kept(run, slo: Slo) -> bool:
    """Whether a run keeps an objective."""
    return meets(figures_of(run, slo)["good_share"], slo)


def test_a_good_request_keeps_every_limit():
    run = outcome([0.0, 1.0, 2.0, 3.0], queue_s=[0.0, 0.0, 1.0, 5.0])
    rate = figures_of(run, Slo(ttft_s=2.0, latency_s=1.65))["goodput_requests_per_s"]
    assert rate == pytest.approx(3 / figures_of(run)["duration_s"])
    assert kept(run, Slo(ttft_s=2.0, percentile=75))
    assert not kept(run, Slo(ttft_s=2.0, percentile=76))


def test_answers_of_one_token_keep_limits_on_further_ones():
    run = outcome([0.0, 1.0], output_tokens=1)
    assert kept(run, Slo(tpot_s=1e-6, percentile=100))
    assert figures_of(run)["tpot_s"]["mean"] is None


def test_as_many_good_requests_as_asked_are_enough_whatever_their_number():
    for count in (3, 7, 10, 49, 99, 1000):
        for good in range(1, count + 1):
            assert meets(good / count, Slo(percentile=100.0 * good / count))
            assert not meets((good - 1) / count, Slo(percentile=100.0 * good / count))


def test_a_load_without_requests_keeps_nothing():
    assert not meets(figures_of(outcome([]), Slo(ttft_s=1.0))["good_share"], Slo(ttft_s=1.0))


def test_refused_requests_keep_no_promise():
    run = outcome([0.0, 1.0], status=[0, NO_ROOM])
    assert not kept(run, Slo(ttft_s=100.0, percentile=90))


def test_kv_use_is_over_time_and_replicas():
    kv = [(0.0, 0.5, 1000), (0.5, 1.0, 500)]
    one, two = (outcome([0.0], output_tokens=51, kv=kv, replicas=n) for n in (1, 2))
    assert figures_of(one)["kv_use"] == {"mean": pytest.approx(0.75), "max": 1.0}
    assert figures_of(two)["kv_use"] == {"mean": pytest.approx(0.375), "max": 1.0}
    assert figures_of(outcome([0.0]))["kv_use"] is None


def test_short_runs_say_which_percentile_they_cannot_tell():
    assert figures_of(outcome(range(99)))["warnings"] == ("99 completed requests are too few for p99, which needs 100",)
    assert figures_of(outcome(range(100)))["warnings"] == ()
