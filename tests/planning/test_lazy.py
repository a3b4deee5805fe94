"""Sequences that are worked out when they are read."""

from sightline.planning.plan_answer import LazySequence


def test_nothing_runs_before_it_is_read_and_then_once():
    runs = []

    def make():
        runs.append(1)
        return [1, 2, 3]

    found = LazySequence(make)
    assert not runs
    assert (found[0], list(found), len(found), found[1:]) == (1, [1, 2, 3], 3, [2, 3])
    assert bool(found)
    assert len(runs) == 1
