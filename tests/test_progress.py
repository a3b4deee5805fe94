"""The one object by which long work says how far it is, and is asked to stop."""

import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE_S

from sightline.errors import SightlineError
from sightline.progress import SILENT, Cancelled, Progress, State


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_every_listener_hears_the_begin_and_the_end_of_a_stage(counts):
    heard = []
    progress = Progress(heard.append, every_s=1e9)
    progress.begin(sum(counts), "counting")
    for count in counts:
        progress.advance(count)
    assert heard == [State(what="counting", done=n, total=sum(counts)) for n in (0, sum(counts))]


def test_the_share_of_work_with_several_stages_never_falls(monkeypatch):
    monkeypatch.setattr("sightline.progress.AGAIN_S", 0.0)
    heard = []
    progress = Progress(heard.append, every_s=0)
    for total, until in ((4, 0.3), (None, 0.6), (0, 0.6), (None, 0.6), (2, 0.9)):
        progress.begin(total, "searching", until)
        for _ in range(total or 3):
            progress.advance()
    shares = [state.share for state in heard]
    assert shares == sorted(shares)
    assert shares[4] == pytest.approx(0.3)
    assert shares[-1] == pytest.approx(0.9)
    last = heard[-1]
    assert last.left_s == pytest.approx(last.elapsed_s / 9, rel=0.2)


def test_a_stage_of_unknown_length_has_no_estimate(monkeypatch):
    monkeypatch.setattr("sightline.progress.AGAIN_S", 0.0)
    progress = Progress()
    progress.begin(None, "searching")
    progress.advance()
    assert (progress.state.share, progress.state.left_s) == (None, None)


def test_the_best_that_was_found_is_told_and_a_worse_one_is_not():
    progress = Progress()
    for words, rank in (("20 tokens/s", 1 / 20), ("30 tokens/s", 1 / 30), ("10 tokens/s", 1 / 10)):
        progress.found(words, rank)
    assert progress.state.best == "30 tokens/s"
    assert "30 tokens/s" in progress.state.words


def test_states_between_are_told_as_often_as_asked():
    heard = []
    progress = Progress(heard.append, every_s=0)
    progress.begin(None, "searching")
    for _ in range(5):
        progress.advance(2)
    assert [state.done for state in heard] == [0, 2, 4, 6, 8, 10]


def test_a_check_tells_after_a_while_how_far_the_work_is(monkeypatch):
    monkeypatch.setattr("sightline.progress.AGAIN_S", 0.0)
    heard = []
    progress = Progress(heard.append, every_s=0)
    progress.begin(4, "simulating")
    progress.check()
    assert [state.done for state in heard] == [0, 0]


def test_threads_that_count_together_lose_nothing():
    heard = []
    progress = Progress(heard.append, every_s=0)
    progress.begin(4000, "counting")
    threads = [threading.Thread(target=lambda: [progress.advance() for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [state.done for state in heard] == list(range(4001))


def test_work_that_checks_ends_where_it_is_asked_to():
    progress = Progress()
    progress.check()
    progress.cancel()
    with pytest.raises(Cancelled) as stopped:
        progress.check()
    assert isinstance(stopped.value, SightlineError)


def test_a_listener_may_stop_what_it_listens_to():
    progress = Progress(lambda state: progress.cancel() if state.done == 3 else None, every_s=0)
    assert list(progress.over("abcdefg", "reading")) == ["a", "b", "c"]
    assert progress.state == State(what="reading", done=3, total=7)


def test_what_all_share_cannot_be_stopped_by_anyone():
    SILENT.cancel()
    SILENT.check()
    assert list(SILENT.over([1, 2], "counting")) == [1, 2]
    assert SILENT.state.done == 0


WRITES = """
import io, sys
from sightline.progress import Progress, stopped_by_interrupt

progress = Progress()
with stopped_by_interrupt(progress, tables=True):
    import os, signal
    import polars as pl

    def interrupted(table):
        os.kill(os.getpid(), signal.SIGINT)
        return table

    table = pl.LazyFrame({"a": [1]}).map_batches(interrupted).collect()
sys.exit(0 if progress.cancelled and table.height == 1 else 3)
"""
"""Ctrl-C in the middle of the first work on a table, which Polars would end with an exception of its own."""


def test_ctrl_c_while_a_table_is_worked_on_only_cancels():
    ended = subprocess.run(
        [sys.executable, "-c", WRITES], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
