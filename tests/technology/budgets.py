"""Budgets that tests build devices of."""

from dataclasses import replace

from sightline.technology.budget import Budget
from sightline.technology.parts import link, memory, node


def a_budget(**changed):
    """One die of 814 mm2 in 3 nm with 6 stacks of HBM4 and NVLink 5, 1 kW."""
    budget = Budget(
        node=node("3nm"),
        die_area_m2=814e-6,
        power_w=1000.0,
        memory=memory("hbm4"),
        stacks=6.0,
        link=link("nvlink5"),
        link_bandwidth=900e9,
    )
    return replace(budget, **changed)
