"""The size of a page: bounded by bytes, whatever is on it."""

import pytest

from sightline.render import html as pieces
from sightline.render.document import LEAST_ROWS, MOST_BYTES, document, fitted

HEADINGS = ("cluster", "step")


def table(rows: int, width: int, label: str = "table") -> str:
    return pieces.table(HEADINGS, [(f"{row}", "x" * width) for row in range(rows)], label=label)


@pytest.mark.parametrize(("rows", "width"), [(1_000, 4_000), (100_000, 10)])
def test_a_page_with_long_tables_stays_below_2_mb_and_says_what_is_left_out(rows, width):
    text = document("a sweep", pieces.joined(table(rows, width), table(5, 10)))
    assert len(text.encode()) <= MOST_BYTES
    shown = text.partition("<main>")[2].count("<tr>") - 2 - 5
    assert f"{rows - shown:,} more omitted" in text


def test_charts_keep_half_of_a_page_with_long_tables():
    chart = pieces.chart("one", {"data": {"values": ["y" * 100_000]}}, label="one")
    text = document("a sweep", pieces.joined(table(1_000, 4_000), chart))
    assert len(text.encode()) <= MOST_BYTES
    assert "y" * 100_000 in text


def test_a_page_that_is_small_is_as_it_was():
    html = table(50, 10)
    assert fitted(html, len(html.encode()), "2 MB") == html


def test_a_table_keeps_its_first_rows():
    found = fitted(table(200, 100), 10, "2 MB")
    assert found.count("<tr>") == LEAST_ROWS + 1
    assert "180 more" in found
