"""A Pareto front has two objectives that mean different figures."""

import pytest

from sightline.errors import InputError
from sightline.planning.request_spaces import read_axes

FIGURES = {"time": "step_time_s", "duration": "step_time_s", "cost": "cost_usd"}


def meaning(name: str) -> str:
    if name not in FIGURES:
        raise InputError(f"no objective '{name}'")
    return FIGURES[name]


def test_two_objectives_stay_in_their_order():
    assert read_axes(["cost", "time"], meaning, "two") == ("cost", "time")
    assert read_axes(None, meaning, "two") is None


@pytest.mark.parametrize("stated", [[], ["time"], ["time", "time"], ["time", "duration"], ["time", "cost", "time"]])
def test_anything_but_two_different_figures_is_refused_with_what_is_allowed(stated):
    with pytest.raises(InputError, match=f"pareto is '?{','.join(stated)}'?; allowed: two of them"):
        read_axes(stated, meaning, "two of them")


def test_an_unknown_objective_is_refused_by_its_meaning():
    with pytest.raises(InputError, match="no objective 'speed'"):
        read_axes(["time", "speed"], meaning, "two")
