"""Options that ask for the forms of an answer, and what writes all of them."""

import os
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any

import pytest

from sightline.cli.options import AsCsv, AsJson, Settings, only, option, takes_options
from sightline.cli.reports import Report, ReportOptions, write
from sightline.errors import InputError


class _Plain(Report):
    """An answer of one word in three forms."""

    without_chart = "one word has none"

    def document(self) -> Any:
        return ["word"]

    def tables(self) -> Any:
        return ["a table"]

    def csv(self) -> str:
        return "a line\n"

    def chart(self, *_: Any) -> None:
        return None

    def page(self, command: str) -> str:
        return f"a page of {command}"

    def as_markdown(self, command: str) -> str:
        return f"# {command}\n"


@pytest.fixture(autouse=True)
def _typed(monkeypatch):
    monkeypatch.setattr("sys.argv", ["sightline", "word"])


@dataclass(frozen=True, kw_only=True)
class _Own(ReportOptions):
    out: str | None = option(None, "Where to.", metavar="FILE")


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({}, "a table\n"),
        ({"as_json": True}, '[\n  "word"\n]\n'),
        ({"as_csv": True}, "a line\n"),
        ({"markdown": "-"}, "# sightline word\n"),
    ],
)
def test_stdout_holds_one_form(options, printed, capsys):
    write(_Plain(), ReportOptions(**options))
    assert capsys.readouterr().out == printed


def test_files_are_written_next_to_what_is_printed(tmp_path, capsys):
    page, text = tmp_path / "page.html", tmp_path / "text.md"
    write(_Plain(), ReportOptions(html=str(page), markdown=str(text), chart="none.svg"))
    out, err = capsys.readouterr()
    assert (page.read_text(), text.read_text(), out) == ("a page of sightline word", "# sightline word\n", "a table\n")
    assert "no chart: one word has none" in err


def test_a_list_of_one_is_an_object_where_one_was_asked_for(capsys):
    report = _Plain()
    report.is_list = False
    write(report, ReportOptions(as_json=True))
    assert capsys.readouterr().out == '"word"\n'


def test_files_that_cannot_be_written_are_refused_together(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(InputError) as refused:
        ReportOptions(chart="a.txt", html="b.txt").check({"--trace": "c.txt"})
    assert [problem.split()[0] for problem in refused.value.problems] == ["--chart", "--html", "--trace"]
    with pytest.raises(InputError, match="is a file"):
        ReportOptions(charts=str(tmp_path / "taken")).check()


def test_places_without_permission_are_refused_before_the_work(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir()
    may = os.access
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and may(path, mode))
    ReportOptions(html=str(tmp_path / "page.html"), charts=str(tmp_path / "new" / "charts")).check()
    for given in ({"html": "page.html"}, {"charts": "new/charts"}, {"charts": ""}):
        with pytest.raises(InputError, match="cannot be written"):
            ReportOptions(**{key: str(closed / name) for key, name in given.items()}).check()


def test_a_dataclass_of_options_stands_for_its_fields():
    got: list[Any] = []

    @takes_options
    def command(
        a: AsCsv = False,
        *,
        written: Annotated[_Own, only("as_json", "out", "html")],
        settings: Settings = None,
    ) -> None:
        got.extend((a, written, settings))

    assert list(signature(command).parameters) == ["a", "as_json", "out", "html", "settings"]
    assert signature(command).parameters["as_json"].annotation is AsJson
    command(a=True, as_json=True, out="o", html=None, settings=["k=v"])
    assert got == [True, _Own(as_json=True, out="o"), ["k=v"]]
