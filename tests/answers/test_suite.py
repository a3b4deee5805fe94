"""The report of a measured suite: measured beside predicted, outcomes in their cells, reasons at the end."""

import json

from rendered import text

from sightline.answers.comparison import suite_outline
from sightline.charts.accuracy import cells_chart
from sightline.render.document import outline_page
from sightline.reproduction.arxiv_2311_03687.measured import Answered, Cell, Table, suite_to_list


def _answered(row, column, status="ok", measured=None, predicted=None, **more):
    keys = ("tokens_per_s", "memory_bytes.total")
    return Answered(
        cell=Cell(row=row, column=column, scenario={"name": row}),
        status=status,
        measured=dict(zip(keys, measured or (), strict=False)),
        predicted=dict(zip(keys, predicted or (), strict=False)),
        **more,
    )


CELLS = [
    _answered("N", "7b", measured=(1000.0, 2**30), predicted=(1100.0, 2**30)),
    _answered("Z2", "7b", "out_of_memory", predicted=(900.0, 2**34), reason="needs 16 GiB of <8> GiB"),
    _answered("megatron", "7b", measured=(10.0, 2**20), shimmed=True),
]
SUITE = [(Table(name="t", title="A & B", quantities=("tokens_per_s", "memory_bytes.total"), cells=()), CELLS)]


def test_the_page_shows_measured_beside_predicted_and_says_why_cells_are_empty():
    page = outline_page(suite_outline(SUITE, "The suite", ["two cores"]))
    assert "A &amp; B" in page
    assert "two cores" in page
    assert ">1,000<" in page
    assert ">1,100<" in page
    assert "needs 16 GiB of &lt;8&gt; GiB" in page
    assert ">10.0*<" in page
    assert "3 cases: 2 ok, 1 out of memory" in page


def test_the_terminal_shows_a_dash_for_out_of_memory():
    lines = text(suite_outline(SUITE, "The suite"), 100).splitlines()
    line = lines[lines.index("Z2") + 1]
    assert line.split()[-2:] == ["-", "900"]


def test_json_has_every_cell_with_its_scenario():
    (table,) = json.loads(json.dumps(suite_to_list(SUITE)))
    assert [c["status"] for c in table["cells"]] == ["ok", "out_of_memory", "ok"]
    assert table["cells"][1]["measured"] == {"tokens_per_s": None, "memory_bytes.total": None}
    assert table["cells"][0]["scenario"] == {"name": "N"}


def test_a_table_without_measurements_has_no_picture():
    assert cells_chart([("N", "7b", None, 1.0)]) is None
    assert cells_chart([("N", "7b", 2.0, 1.0), ("N", "13b", 2.0, None)]) is not None
