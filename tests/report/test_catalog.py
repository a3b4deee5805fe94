"""A model in words."""

from pathlib import Path

import pytest
from rich.console import Console

from sightline import catalog
from sightline.loading.models import resolve_model
from sightline.report.terminal.catalog import COLUMNS, entries_table, entry_table, model_rows


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
    for _, text in rows(name):
        assert text
        assert "None" not in text


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_no_column_of_a_list_is_empty(kind):
    table = entries_table(kind, {name: catalog.entry(kind, name) for name in catalog.names(kind)})
    assert [column.heading for column in table.figures if not any(column.cells)] == []


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("kind", list(COLUMNS))
def test_no_name_or_figure_of_a_list_is_cut(kind, width):
    listing = entries_table(kind, {name: catalog.entry(kind, name) for name in catalog.names(kind)})
    lines = [line.plain for line in listing.lines(width)]
    assert max(len(line.rstrip()) for line in lines) <= width
    shown = "".join("".join(lines).split())
    assert all(
        "".join(cell.split()) in shown for column in listing.figures[:2] for cell in column.cells if len(cell) < 9
    )


def test_an_entry_has_one_spelling_of_switches_and_whole_numbers():
    console = Console(width=200)
    with console.capture() as said:
        console.print(
            entry_table("devices", "mine", {"switch": True, "either": [False, True], "bucket": 5e8, "share": 0.9})
        )
    rows = dict(line.split(maxsplit=1) for line in said.get().splitlines() if line.strip() and "  " in line)
    shown = {key: rows[key].strip() for key in ("switch", "either", "bucket", "share")}
    assert shown == {"switch": "yes", "either": "no; yes", "bucket": "500,000,000", "share": "0.9"}


@pytest.mark.parametrize("width", [60, 80])
def test_prices_are_not_cut(width):
    entries = {name: catalog.entry("prices", name) for name in catalog.names("prices")}
    console = Console(width=width)
    with console.capture() as said:
        console.print(entries_table("prices", entries))
        for name, entry in entries.items():
            console.print(entry_table("prices", name, entry))
    assert "…" not in said.get()
    assert max(len(line.rstrip()) for line in said.get().splitlines()) <= width
