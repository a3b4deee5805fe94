"""The interval of memory, estimated anew from the sources that it says it is from."""

from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

from sightline.prediction.training.memory import MEMORY_SPREAD
from sightline.validation.evaluation import evaluate, suites

SOURCES = ("qwen-finetuning-memory", "litgpt-finetuning-memory", "simumax-b200-memory", "torchtitan-memory")
STUDENT = 1.638
"""80 % of Student's t of three degrees of freedom lie within it."""


def test_the_spread_of_memory_is_that_of_another_source(data: Path) -> None:
    chosen = [suite for suite in suites(data) if suite.name in SOURCES]
    fits = [result for result in evaluate(chosen) if result.split == "fit"]
    assert len(fits) == len(SOURCES)
    errors = [[log(answer.predicted / answer.case.measured) for answer in result.answers] for result in fits]
    of_a_source = sqrt(np.mean([np.mean(np.square(each)) for each in errors]))
    assert pytest.approx(STUDENT * of_a_source * sqrt(1 + 1 / len(SOURCES)), abs=0.008) == MEMORY_SPREAD
