"""Traces that are read together: one for each rank of one job."""

from pathlib import Path

import pytest

from sightline.errors import InputError
from sightline.traces.job import read_job

RECORDED = Path(__file__).parent / "recorded"


def test_two_files_of_one_rank_are_of_no_one_job():
    with pytest.raises(InputError, match=r"all-reduce-rank-0.*uneven-rank-0.*both of rank 0"):
        read_job([RECORDED])


def test_a_trace_for_each_rank_is_a_job():
    job = read_job(sorted(RECORDED.glob("uneven*")))
    assert len(job.ranks) == 2
