"""``sightline reproduce``: every form of its answer."""

import csv
import io
import json

import pytest

from sightline.answers.reproduction import line_of
from sightline.reproduction import reproduce as reproduction
from sightline.reproduction.outcomes import Finding, Interpretation, Outcome
from sightline.reproduction.reproduce import SOURCES

CHOSEN = ("reproduce", "2311.03687", "--only", "A8,A10")


def test_json_has_the_documented_keys(in_process):
    code, out, err = in_process(*CHOSEN, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert {"version", "schema", "findings", "summary", "together", "tables"} <= set(document)
    assert document["summary"]["A"]["of"] == 2
    keys = [
        "id",
        "finding",
        "source",
        "criterion",
        "low",
        "high",
        "interpretation",
        "expected",
        "ours",
        "reproduced",
        "reproduced_together",
        "reason",
    ]
    assert all(set(keys) <= set(one) for one in document["findings"])
    assert [one["id"] for one in document["findings"]] == ["A8", "A10"]


def test_every_form_says_what_holds_together(in_process, tmp_path):
    chosen = ("reproduce", "2311.03687", "--only", "A10,A11", "--quick")
    page = tmp_path / "study.html"
    _, text, _ = in_process(*chosen)
    _, mark, _ = in_process(*chosen, "--html", page, "--markdown", "-")
    document = json.loads(in_process(*chosen, "--json")[1])
    # With 4-bit weights one finding needs a small batch and the other a large one.
    assert document["summary"]["A"]["reproduced"] == 2
    assert document["together"]["reproduced"] == 1
    assert document["together"]["choices"]["batch where platforms are compared"] == "batch 1 per GPU"
    for written in (text, mark, page.read_text(encoding="utf-8")):
        folded = " ".join(written.split())
        assert "1 of 2" in folded
        assert "A11" in folded
        assert "batch where platforms are compared" in folded
        assert "batch 1 per GPU" in folded


def test_a_table_is_a_list_of_its_columns_and_rows(in_process):
    document = json.loads(in_process("reproduce", "2311.03687", "--only", "frameworks", "--json")[1])
    (only,) = document["tables"]
    assert (only["id"], only["status"]) == ("frameworks", "predicted only")
    assert set(only["rows"][0]) == set(only["columns"])


def test_a_terminal_shows_what_was_named_in_full(in_process):
    code, out, _ = in_process("reproduce", "2311.03687", "--only", "A8,modules")
    assert code == 0
    assert "Criterion: share of verdicts that agree is 1." in out
    assert "predicted only" in out
    assert "rope" in out


def test_csv_has_a_line_for_each_finding_or_a_single_table(in_process):
    lines = list(csv.DictReader(io.StringIO(in_process(*CHOSEN, "--csv")[1])))
    assert [one["id"] for one in lines] == ["A8", "A10"]
    rows = list(csv.DictReader(io.StringIO(in_process("reproduce", "2311.03687", "--only", "phases", "--csv")[1])))
    assert {"batch", "phase", "time_s"} <= set(rows[0])


@pytest.mark.parametrize("asked", [("phases,modules",), ("A8,phases",), ("A8", "--measure")])
def test_what_takes_several_tables_is_refused_as_csv_before_it_is_worked_out(in_process, asked):
    code, out, err = in_process("reproduce", "2311.03687", "--only", *asked, "--csv")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "--csv" in err


def test_terminal_and_csv_say_how_many_interpretations_hold(in_process):
    (said,) = json.loads(in_process("reproduce", "2311.03687", "--only", "A2", "--quick", "--json")[1])["findings"]
    several = len(said["interpretations"])
    holding = sum(one["reproduced"] for one in said["interpretations"])
    assert several > 1
    text = in_process("reproduce", "2311.03687", "--only", "A2", "--quick")[1]
    assert "interpretations" in text
    assert f"{holding} of {several}" in text
    (line,) = csv.DictReader(io.StringIO(in_process("reproduce", "2311.03687", "--only", "A2", "--quick", "--csv")[1]))
    assert (line["interpretations"], line["interpretations_that_hold"]) == (str(several), str(holding))


def test_page_and_markdown_hold_findings_and_tables(in_process, tmp_path):
    page = tmp_path / "study.html"
    code, out, _ = in_process("reproduce", "2311.03687", "--only", "A8,phases", "--html", page, "--markdown", "-")
    assert code == 0
    assert "| A8 | 7B without memory techniques" in out
    written = page.read_text(encoding="utf-8")
    assert "out of memory on both" in written
    assert 'id="chart-phases-study"' in written


def test_every_table_with_a_picture_is_drawn(in_process, tmp_path):
    code, _, err = in_process("reproduce", "2311.03687", "--only", "A8,phases,frameworks", "--charts", tmp_path)
    assert code == 0
    assert "phases.svg" in err
    assert {path.name for path in tmp_path.iterdir()} >= {"phases.svg", "phases.csv"}
    with (tmp_path / "phases.csv").open(encoding="utf-8") as numbers:
        assert all(0 < float(row["share"]) <= 1 for row in csv.DictReader(numbers))


def test_the_only_picture_is_a_chart(in_process, tmp_path):
    picture = tmp_path / "phases.svg"
    code, _, _ = in_process("reproduce", "2311.03687", "--only", "phases", "--chart", picture)
    assert code == 0
    assert picture.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("2311.03687", "--only", "A8"), "frameworks,"),
        (("2311.03687", "--only", "phases,modules"), "2 tables"),
        (("talk",), "trends, gap, strategies, mixed, kernels; --charts DIR"),
        (("talk", "--only", "C1,flops"), "trends,"),
    ],
)
def test_what_is_no_single_picture_is_refused_as_a_chart_before_any_work(
    in_process, tmp_path, monkeypatch, asked, said
):
    monkeypatch.setattr(reproduction, "reproduce", lambda *_, **__: pytest.fail("worked out"))
    picture = tmp_path / "none.svg"
    code, out, err = in_process("reproduce", *asked, "--chart", picture)
    assert (code, out) == (2, "")
    assert said in err
    assert not picture.exists()


def test_findings_alone_leave_no_folder_of_charts(in_process, tmp_path):
    code, _, err = in_process("reproduce", "2311.03687", "--only", "A8", "--charts", tmp_path / "charts")
    assert (code, list(tmp_path.iterdir())) == (0, [])
    assert "charts" in err


def test_an_unknown_source_is_a_sentence(in_process):
    code, out, err = in_process("reproduce", "2311.03678")
    assert (code, out) == (2, "")
    assert err == f"sightline: source is '2311.03678'; allowed: {', '.join(SOURCES)} - did you mean '2311.03687'?\n"


def test_only_may_be_repeated(in_process):
    document = json.loads(in_process("reproduce", "talk", "--only", "C1", "--only", "C2", "--json")[1])
    assert [one["id"] for one in document["findings"]] == ["C1", "C2"]


def test_a_near_tie_has_the_digits_that_tell_it_from_the_end_of_its_range():
    outcome = Outcome(
        finding=Finding(id="A1", finding="", expected=1, criterion="", low=1.0, high=None, is_strict=True),
        interpretations=[Interpretation(values=(1.0047,), sentence="")],
    )
    assert line_of(outcome)[3:5] == ("1.005", "above 1.00")
