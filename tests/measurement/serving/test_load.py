"""Loads sent to a small real server, which misbehaves as it is told."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("aiohttp")

from measurement.serving.misbehaving import SLOW_S
from measurement.serving.serving_load import load, send

from sightline.measurement.serving.stream import Limits
from sightline.simulation.replay import outcome_of
from sightline.simulation.results.summary import figures_of

SHORT = Limits(stall_s=SLOW_S / 2)
"""For servers that hang, and for those that are slow."""
FAILURES = {
    "hang": "stalled",
    "drop": "connection dropped",
    "429": "HTTP 429",
    "500": "HTTP 500",
    "malformed": "malformed stream",
    "wrong-counts": "wrong token counts",
    "error-event": "server error",
    "no-end": "connection dropped",
    "endless-tokens": "endless stream",
    "endless-line": "endless stream",
    "endless-comments": "endless stream",
    "huge-counts": "malformed stream",
    "deep": "malformed stream",
}


def test_every_request_is_recorded_with_the_times_of_its_tokens():
    records, sent, _ = send(load())
    assert [record["number"] for record in records] == list(range(24))
    for record in records:
        assert (record["failure"], sum(record["chunk_tokens"])) == ("", 9)
        assert (record["server_prompt_tokens"], record["server_output_tokens"]) == (20, 9)
        assert record["intended_s"] == pytest.approx(record["arrival_s"])
        times = [record["intended_s"], record["sent_s"], *record["chunk_s"], record["ended_s"]]
        assert times == sorted(times)
    assert sent.request_format.counts
    assert sent.request_format.overhead == 0


@pytest.mark.parametrize(("behavior", "failure"), FAILURES.items())
def test_a_failure_has_a_reason_and_leaves_the_others(behavior, failure):
    records, _, _ = send(load(), behavior, **({"limits": SHORT} if behavior == "hang" else {}))
    failed = [record for record in records if record["failure"]]
    assert 6 <= len(failed) <= 9
    assert {record["failure"] for record in failed} == {failure}
    assert all(record["detail"] for record in failed)
    assert all(len(record["chunk_s"]) == 9 for record in records if not record["failure"])


def test_a_client_gives_up_what_takes_too_long():
    records, _, _ = send(load(), "slow", limits=Limits(total_s=SLOW_S / 4))
    given_up = [record for record in records if record["failure"] == "timed out"]
    assert given_up
    assert max(record["ended_s"] - record["sent_s"] for record in given_up) < SLOW_S
    assert figures_of(outcome_of(records))["refused"] == {"timed out": len(given_up)}


def test_answers_of_another_length_are_kept():
    records, _, _ = send(load(), "early-end")
    assert {record["server_output_tokens"] for record in records} == {4, 9}
    assert not any(record["failure"] for record in records)


def test_chunks_of_several_tokens_are_counted():
    records, _, _ = send(load(4), "several-tokens")
    assert all(record["chunk_tokens"] == [3, 3, 3] for record in records)


def test_answers_have_the_asked_length_where_the_server_can():
    _, _, server = send(load(4))
    assert all(body["ignore_eos"] and body["min_tokens"] == body["max_tokens"] for body in server.seen)


def test_an_open_loop_waits_for_nobody():
    records, _, _ = send(load(12, spacing_s=0.0), "hang", limits=SHORT)
    hanging = [record for record in records if record["failure"]]
    assert hanging
    assert max(record["sent_s"] for record in records) < min(record["ended_s"] for record in hanging)


def test_a_closed_loop_has_as_many_users():
    records, _, _ = send(load(20, spacing_s=0.0), concurrency=3, closed=True)
    begins, ends = (np.array([record[key] for record in records]) for key in ("sent_s", "ended_s"))
    busy = [int(np.sum((begins <= at) & (at < ends))) for at in begins]
    assert max(busy) == 3
    assert busy[3:] == [3] * 17


def test_turns_wait_for_the_answer_and_begin_with_it():
    parts = load(6, spacing_s=0.0, prompt_tokens=[20, 20, 40, 40, 60, 60], session_id=[0, 1] * 3, think_s=[0.02] * 6)
    records, _, server = send(parts)
    for earlier, later in zip(records, records[2:], strict=False):
        assert later["intended_s"] >= earlier["ended_s"] + 0.02
    prompts = [body["prompt"] for body in server.seen[-6:]]
    assert all(any(long[: len(short)] == short for short in prompts[:2]) for long in prompts[2:])


def test_a_key_is_sent():
    _, _, server = send(load(2), headers={"Authorization": "Bearer secret"})
    assert server.keys == {"Bearer secret"}


KEY = {"Authorization": "Bearer a-secret"}


@pytest.mark.parametrize(("behavior", "said"), [("echo", "bad key ***"), ("echo-event", "bad key ***")])
def test_a_key_that_a_server_repeats_is_not_recorded(behavior, said):
    records, _, _ = send(load(), behavior, headers=KEY)
    assert {record["detail"] for record in records if record["failure"]} == {said}


def test_a_first_token_may_take_longer_than_later_ones():
    records, _, _ = send(load(), "slow", limits=Limits(stall_s=SHORT.stall_s))
    waits = [record["chunk_s"][0] - record["sent_s"] for record in records if not record["failure"]]
    assert len(waits) == 24
    assert max(waits) > SHORT.stall_s
    records, _, _ = send(load(), "slow", limits=replace(SHORT, first_s=SHORT.stall_s))
    assert {record["failure"] for record in records} == {"", "stalled"}
    assert any("--stall" in record["detail"] for record in records)
