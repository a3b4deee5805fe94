"""Loads of one small scenario."""

from dataclasses import fields

import numpy as np

import sightline as sl
from sightline.scenario import ServingScenario
from sightline.simulation.load import Requests, joined, load_of

BASE: ServingScenario = sl.load(
    {
        "model": "llama-3.1-8b",
        "cluster": "1x h100-sxm-80gb",
        "workload": {"task": "serve", "requests": {"count": 1, "prompt_tokens": 1, "output_tokens": 1}},
    }
)


def whole(asked: ServingScenario, part: int = 65_536) -> Requests:
    """Return a load as one part."""
    return joined(list(load_of(asked, part)))


def same(a: Requests, b: Requests) -> bool:
    """Return whether all columns are equal."""
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Requests))
