"""Answers as Markdown: what GitHub makes of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sightline.answers.outline import Outline, Rows
from sightline.answers.several import profiles_outline
from sightline.cli.main import run
from sightline.explanation.answer import Advice
from sightline.render.markdown import escaped, fenced, outline_markdown, table

_CHANGE = Advice(
    set={"plan.micro_batch": 4},
    gain_s=0.1,
    gain=0.08,
    sentence="With micro_batch: 4 the step would take 8 % less.",
    command="sightline predict a.yaml --set plan.micro_batch=4",
)


def test_a_profile_is_a_verdict_a_table_and_a_folded_scenario(profile):
    text = outline_markdown(profiles_outline([profile], changes=[_CHANGE]), command="sightline predict a.yaml")
    assert text.startswith("### Llama-2-7B, ZeRO-2, 8 x A800\n")
    assert "**fits**: yes · 60.0 of 80.0 GiB" in text
    assert r"| micro\_batch: 4 | 8 % faster |" in text
    assert "```bash\nsightline predict a.yaml --set plan.micro_batch=4\n```" in text
    assert "| forward | 270 ms | 21.6 % |" in text
    assert "</summary>\n\n```yaml\nname:" in text
    assert text.endswith("`sightline predict a.yaml`\n")


def test_what_does_not_fit_says_what_would(too_large):
    text = outline_markdown(profiles_outline([too_large]))
    assert "❌ **fits**: no" in text
    assert "recompute full would fit" in text


def test_several_are_a_line_each(build, make_scenario):
    text = outline_markdown(profiles_outline([build(scenario=make_scenario(micro_batch=size)) for size in (1, 2)]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert len({line.count(" | ") for line in lines}) == 1
    assert lines[0].count("|") < 12


def test_warnings_are_quoted_once():
    text = outline_markdown(Outline(title="t", warnings=["too long", "too long"]))
    assert text.count("> ⚠️ too long") == 1


@pytest.mark.parametrize("name", ["plain", "with `code`", "``", "`at both ends`"])
def test_a_command_stays_as_it_was_typed(name):
    command = f"sightline predict a.yaml --set 'name={name}'"
    *_, last = MarkdownIt().parse(outline_markdown(Outline(title="t"), command=command))[-2].children
    assert (last.type, last.content) == ("code_inline", command)


def test_long_tables_say_how_much_is_left():
    text = outline_markdown(Outline(title="t", parts=[Rows(title="", headings=("a",), rows=[("1",)] * 25)]))
    assert "and 5 more" in text


@given(st.lists(st.text(), min_size=2, max_size=2))
def test_a_cell_stays_a_cell_whatever_it_holds(cells):
    line = table(("a", "b"), [cells]).split("\n")
    assert len(line) == 3
    assert len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", line[2]))) == 3


def test_no_text_is_markup():
    assert escaped("<script> | `a` *b* [c](d)") == r"\<script\> \| \`a\` \*b\* \[c\](d)"


def test_no_text_ends_its_block():
    assert fenced("a\n```\nb", "yaml").startswith("````yaml\n")


def test_markdown_on_stdout_stands_alone(capsys):
    assert run(["predict", "examples/llama-2-7b-zero2-8xa800.yaml", "--markdown", "-"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("### ")
    assert "| Step time by phase |  | share |" in out


def test_stdout_holds_one_form(capsys):
    assert run(["predict", "examples/llama-2-7b-zero2-8xa800.yaml", "--markdown", "-", "--json"]) == 2
    assert "--markdown -" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["report.html", "report"])
def test_a_file_of_another_kind_is_refused(path, capsys):
    assert run(["predict", "examples/llama-2-7b-zero2-8xa800.yaml", "--markdown", path]) == 2
    assert ".md" in capsys.readouterr().err


def test_charts_are_written_as_pictures_and_numbers(tmp_path):
    folder = tmp_path / "charts"
    assert run(["predict", "examples/llama-2-7b-zero2-8xa800.yaml", "--charts", str(folder)]) == 0
    names = {path.name for path in folder.iterdir()}
    assert {"time.svg", "time.csv", "memory.svg", "memory.csv"} <= names
    assert (folder / "time.svg").read_text().startswith("<svg")


def test_a_chart_is_also_numbers(tmp_path):
    file = tmp_path / "chart.csv"
    assert run(["predict", "examples/llama-2-7b-zero2-8xa800.yaml", "--chart", str(file)]) == 0
    assert len(file.read_text().splitlines()) > 10
