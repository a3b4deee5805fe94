"""The best split of a die: at least as good as any that is tried, and buildable."""

from dataclasses import replace

import numpy as np
import pytest
from study_bases import GENERATION, TRAINING

from sightline.errors import InputError
from sightline.exploration.base import in_view
from sightline.exploration.optimize import best_split, step_time
from sightline.loading import load
from sightline.technology.budget import Budget
from sightline.technology.limits import buildable
from sightline.technology.parts import memory, node
from sightline.technology.synthesis import synthesized


def budget(name, stacks=5.0):
    return Budget(node=node(name), die_area_m2=800e-6, power_w=700.0, memory=memory("hbm3"), stacks=stacks)


@pytest.mark.parametrize("name", ["7nm", "3nm"])
@pytest.mark.parametrize("base", [TRAINING, GENERATION], ids=["training", "generation"])
def test_no_other_split_is_faster(base, name):
    time_of = step_time(load(in_view(base, "ideal")))
    found = best_split(budget(name), time_of)
    assert found.time_s <= found.coarse_s <= float(time_of(synthesized(budget(name)))) * (1 + 1e-9)
    assert found.split.total == pytest.approx(1.0)
    assert buildable(found.budget).mask
    assert found.time_s == pytest.approx(float(time_of(found.device)))
    # Areas in the same proportion of units and registers, and other voltages.
    shares = np.linspace(0.02, 0.8, 60).reshape(-1, 1) * (1.0 - found.split.memory - found.split.network)
    rest = (1.0 - found.split.memory - found.split.network - shares) / (found.split.compute + found.split.registers)
    area = replace(found.split, l2=shares, compute=found.split.compute * rest, registers=found.split.registers * rest)
    others = replace(found.budget, area=area, voltage=node(name).voltage * np.linspace(0.7, 1.0, 25))
    with np.errstate(all="ignore"):
        seconds = np.where(buildable(others).mask, time_of(synthesized(others)), np.inf)
    assert found.time_s <= 1.001 * seconds.min()


def test_what_fits_on_no_device_is_refused():
    time_of = step_time(load(TRAINING))
    with pytest.raises(InputError, match="a device that fits the workload"):
        best_split(replace(budget("5nm"), memory_bytes=1e9), time_of)


def test_a_die_that_cannot_be_built_is_refused_with_what_it_exceeds():
    with pytest.raises(InputError, match="exceeded by"):
        best_split(budget("5nm", stacks=40.0), step_time(load(TRAINING)))
