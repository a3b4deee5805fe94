"""The page on devices from technology states the errors that the law has."""

import re
from pathlib import Path

import pytest

from sightline.technology.dies import real_die
from sightline.technology.synthesis import synthesized

PAGE = (Path(__file__).parents[2] / "docs" / "technology.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([VAHB]\d00) \| (.*) \| (?:yes|no) \|$", re.MULTILINE)


def number(text):
    return float(text.replace(",", "").rstrip("%"))


@pytest.mark.parametrize(("name", "cells"), ROW.findall(PAGE))
def test_the_table_of_real_devices_says_what_the_law_gives(name, cells):
    die = real_die(name.lower())
    made = synthesized(die.budget)
    pairs = [
        (made.peak_flops["fp16"] / 1e12, die.matmul_flops / 1e12),
        (made.tdp_w, die.tdp_w),
        (made.memory_bandwidth / 1e12, die.memory_bandwidth / 1e12),
    ]
    stated = cells.split(" | ")
    for (predicted, real), told, error in zip(pairs, stated[::2], stated[1::2], strict=True):
        ours, theirs = told.split(" of ")
        assert number(ours) == pytest.approx(predicted, rel=5e-3)
        assert number(theirs) == pytest.approx(real, rel=5e-3)
        assert number(error) == pytest.approx(100 * (predicted / real - 1), abs=0.51)


def test_all_four_devices_are_there():
    assert [name for name, _ in ROW.findall(PAGE)] == ["V100", "A100", "H100", "B200"]
