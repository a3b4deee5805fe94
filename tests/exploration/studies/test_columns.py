"""Columns of the built-in studies: what readers see of them."""

import numpy as np
import pytest

from sightline.exploration import BUILT_IN
from sightline.exploration.run import explore

ENDINGS = {"s": "s", "bytes": "B", "share": "share", "usd": "USD", "kg": "kg", "w": "W", "j": "J", "flops": "FLOP"}
"""Units that the last word of a key promises."""


@pytest.fixture(scope="module", params=BUILT_IN)
def answer(request):
    return explore(request.param, quick=True)


def test_columns_with_a_unit_say_it(answer):
    tables = [answer.columns, *(figure.columns for figure in answer.figures)]
    for key in {key: None for table in tables for key in table}:
        unit = ENDINGS.get(key.rpartition("_")[2])
        if unit and "_per_" not in key and key != "peak_flops":
            assert key in answer.about, key
            assert answer.about[key].unit == unit, key


def test_columns_that_are_shown_have_labels_of_their_own(answer):
    labels = [answer.about[key].label for key in answer.shown if key in answer.about]
    assert len(labels) == len(set(labels))
    assert not any("_" in label for label in labels)


def test_figures_draw_columns_that_are_there(answer):
    for figure in answer.figures:
        table = figure.columns or answer.columns
        ys = (figure.y,) if isinstance(figure.y, str) else figure.y
        named = (figure.x, *ys, figure.series, figure.panel, figure.line, *figure.where)
        assert set(filter(None, named)) <= set(table)
        assert len(np.asarray(table[figure.x]))
