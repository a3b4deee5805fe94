"""Ranges that a calibration states: ends belong to it, sizes broadcast, what is not stated limits nothing."""

import numpy as np
import pytest

from sightline.cost import residuals
from sightline.cost.residuals import covers

STATED = {"covered": {"16-bit": {"m": [1.0, 4096.0], "n": [32.0, 8192.0]}}}


@pytest.fixture(autouse=True)
def stated(monkeypatch):
    monkeypatch.setattr(residuals, "entry", lambda kind, name: {"mine/matmul": STATED, "old/matmul": {}}[name])


def test_the_ends_are_inside():
    assert covers("mine", "matmul", "16-bit", {"m": 1, "n": 8192})
    assert not covers("mine", "matmul", "16-bit", {"m": 1, "n": 8193})
    assert not covers("mine", "matmul", "16-bit", {"m": 0.5, "n": 64})


def test_sizes_broadcast():
    inside = covers("mine", "matmul", "16-bit", {"m": np.array([[1], [5000]]), "n": np.array([16, 32, 9000])})
    assert inside.tolist() == [[False, True, False], [False, False, False]]


def test_what_is_not_stated_limits_nothing():
    assert covers("mine", "matmul", "16-bit", {"k": 1e9})
    assert covers("mine", "matmul", "fp8", {"m": 1e9})
    assert covers("old", "matmul", "16-bit", {"m": 1e9})
