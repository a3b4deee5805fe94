"""The intervals of memory, estimated anew from the sources that they are from."""

from collections.abc import Iterator
from dataclasses import replace
from math import log, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from sightline.loading import load
from sightline.prediction import predict
from sightline.prediction.training.memory import OF_CODE, OF_DEVICES
from sightline.validation.evaluation import quantity_of, suites

SOURCES = ("qwen-finetuning-memory", "litgpt-finetuning-memory", "simumax-b200-memory", "torchtitan-memory")
MEMORY_SUITES = (*SOURCES, "bigscience-tr11-memory", "galvatron-memory-peak")
STUDENT = 1.638
"""80 % of Student's t of three degrees of freedom lie within it."""


def mean_square_by_source(data: Path, names: tuple[str, ...], *, without_fitted: bool) -> Iterator[float]:
    """Yield the mean square of the logarithmic errors of each suite's fit part."""
    for suite in suites(data, names):
        errors = []
        for case in (case for case in suite.cases if case.split == "fit"):
            scenario: Any = load(case.scenario)
            if without_fitted:
                own = scenario.plan.framework
                memory = replace(
                    own.memory,
                    context_bytes=2e9,
                    update_copies=0.0,
                    communication_buffer_bytes=min(own.memory.communication_buffer_bytes, 1e9),
                )
                scenario = replace(scenario, plan=replace(scenario.plan, framework=replace(own, memory=memory)))
            errors.append(log(quantity_of(suite.quantity, predict(scenario), case.stage) / case.measured))
        yield float(np.mean(np.square(errors)))


def test_the_spread_of_measured_frameworks_is_that_of_another_source(data: Path) -> None:
    squares = list(mean_square_by_source(data, SOURCES, without_fitted=False))
    assert len(squares) == len(SOURCES)
    of_a_source = STUDENT * sqrt(np.mean(squares) * (1 + 1 / len(SOURCES)))
    assert of_a_source == pytest.approx(OF_DEVICES, abs=0.008)


def test_the_spread_of_others_is_that_of_formulas_without_what_was_fitted(data: Path) -> None:
    squares = list(mean_square_by_source(data, MEMORY_SUITES, without_fitted=True))
    assert len(squares) == len(MEMORY_SUITES)
    half_width = NormalDist().inv_cdf(0.9) * sqrt(np.mean(squares))
    assert half_width == pytest.approx(OF_CODE, abs=0.008)
