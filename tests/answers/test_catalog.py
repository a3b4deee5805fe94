"""A model in words."""

from pathlib import Path

import pytest
from rendered import text

from sightline import catalog
from sightline.answers.catalog import COLUMNS, entries_outline, entry_outline, model_rows
from sightline.loading.models import resolve_model


def rows(name):
    return list(model_rows(resolve_model(name, Path()).model))


def test_a_mixture_with_latent_attention():
    said = dict(rows("deepseek-v3"))
    assert said["counted"] == "671 B parameters, 37.6 B active per token"
    assert said["layers"] == "3 x latent attention + MLP of 18,432"
    assert said[""] == "58 x latent attention + experts"
    assert said["experts"] == "256 of 2,048, 8 per token, 1 shared of 2,048"
    assert said["cached latent"] == "512 + 64 rotary per token, queries from 1536"
    assert said["checkpoint"] == "fp8-block"
    assert said["prediction layers"] == "1, not counted above"


def test_windows_and_formats():
    said = dict(rows("gpt-oss-120b"))
    assert said["window"] == "128 tokens"
    assert said["checkpoint"] == "mxfp4; attention bf16"
    assert said["layers"] == "18 x sliding-window attention (64 heads on 8 of 64) + experts"


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_model_has_words(name):
    for _, words in rows(name):
        assert words
        assert "None" not in words


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_no_column_of_a_list_is_empty(kind):
    (table,) = entries_outline(kind, {name: catalog.entry(kind, name) for name in catalog.names(kind)}).parts
    columns = zip(table.headings, zip(*table.rows, strict=True), strict=True)
    assert [heading for heading, cells in columns if not any(cells)] == []


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("kind", list(COLUMNS))
def test_no_name_or_figure_of_a_list_is_cut(kind, width):
    outline = entries_outline(kind, {name: catalog.entry(kind, name) for name in catalog.names(kind)})
    lines = text(outline, width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    shown = "".join("".join(lines).split())
    assert all("".join(cell.split()) in shown for row in outline.parts[0].rows for cell in row[1:3] if len(cell) < 9)


def test_an_entry_has_one_spelling_of_switches_and_whole_numbers():
    outline = entry_outline("devices", "mine", {"switch": True, "either": [False, True], "bucket": 5e8, "share": 0.9})
    rows = dict(line.split(maxsplit=1) for line in text(outline, 200).splitlines() if line.strip() and "  " in line)
    shown = {key: rows[key].strip() for key in ("switch", "either", "bucket", "share")}
    assert shown == {"switch": "yes", "either": "no; yes", "bucket": "500,000,000", "share": "0.9"}


@pytest.mark.parametrize("width", [60, 80])
def test_prices_are_not_cut(width):
    entries = {name: catalog.entry("prices", name) for name in catalog.names("prices")}
    outlines = [entries_outline("prices", entries), *(entry_outline("prices", n, one) for n, one in entries.items())]
    for shown in (text(outline, width) for outline in outlines):
        assert "…" not in shown
        assert max(len(line.rstrip()) for line in shown.splitlines()) <= width
