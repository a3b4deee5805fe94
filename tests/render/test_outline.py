"""One outline in every medium: what is short leaves details out, and nothing else."""

from dataclasses import replace
from html import unescape

import pytest
from study_answers import nodes

from sightline.answers.outline import BAD, GOOD, Entries, Entry, Outline, Rows, Said, Shown, Studies
from sightline.render.document import outline_page
from sightline.render.markdown import outline_markdown
from sightline.render.notebook import plain
from sightline.render.terminal import outline_text

OUTLINE = Outline(
    title="An answer <of> several parts",
    about=["From a source."],
    said=[Said(asks="fits", says="one of two", kind=BAD)],
    legend=[Said(asks="held", says="within the range")],
    sentences=["A sentence."],
    parts=[
        Rows(
            title="Figures",
            headings=("", "what", "ours", "note"),
            rows=[("A1", "throughput", "0.970", "of one card"), ("A2", "memory", "12.2", "of eight")],
            numbers=(False, False, True, False),
            labels=2,
            figures=("ours",),
            kinds={"0.970": GOOD},
        ),
        Rows(title="Choices", headings=("setting", "choice"), rows=[("memory", "all channels")], numbers=False),
        Rows(title="A table without rows", headings=("setting", "choice"), rows=[]),
        Entries(
            title="Missed",
            headings=("finding", "why"),
            entries=[Entry(id="A2", says="memory", lines=["Criterion: below 9.", "Nine were expected."])],
        ),
        Entries(
            title="Met",
            headings=("finding", "why"),
            entries=[Entry(id="A1", says="throughput", lines=["It is 0.970."])],
            is_detail=True,
        ),
        Studies(title="Tables", studies=[Shown(id="t1", status="predicted only", answer=nodes())]),
    ],
    assumptions=["No paging."],
    footnotes=["Ask again."],
    warnings=["a warning", "a warning"],
    scenario={"model": "llama-2-7b"},
)
EVERYWHERE = ("An answer", "From a source.", "one of two", "within the range", "A sentence.", "12.2", "all channels")
EVERYWHERE += ("Missed", "Nine were expected.", "predicted only", "No paging.")


def page(outline):
    return unescape(outline_page(outline))


def terminal(outline, **given):
    return " ".join(plain(outline_text(outline, **given)).split())


@pytest.mark.parametrize("medium", [page, outline_markdown, terminal])
def test_every_medium_says_what_the_answer_is(medium):
    shown = medium(OUTLINE)
    assert [one for one in EVERYWHERE if one not in shown] == []
    assert "A table without rows" not in shown


def test_details_are_on_the_page_and_in_full_terminals():
    assert "It is 0.970." in page(OUTLINE)
    assert "It is 0.970." in terminal(OUTLINE, in_full=True)
    assert "It is 0.970." not in terminal(OUTLINE)
    assert "It is 0.970." not in outline_markdown(OUTLINE)


def test_a_terminal_names_rows_and_leaves_out_what_it_has_no_room_for():
    shown = terminal(OUTLINE)
    assert "A1 throughput 0.970 A2 memory 12.2" in shown
    assert "of one card" not in shown


def test_columns_of_words_fold_in_a_terminal():
    words = Rows(title="", headings=("a", "b", "c"), rows=[("x", "y", "long " * 60)], numbers=False)
    lines = plain(outline_text(replace(OUTLINE, parts=[words]))).splitlines()
    assert sum("long" in line for line in lines) > 1
    assert max(map(len, lines)) <= 110


def test_markdown_marks_verdicts_and_folds_the_scenario():
    text = outline_markdown(OUTLINE, command="sightline check a.yaml")
    assert "- ❌ **fits**: one of two" in text
    assert text.count("> ⚠️ a warning") == 1
    assert "```yaml\nmodel: llama-2-7b\n```" in text
    assert text.endswith("`sightline check a.yaml`\n")


def test_a_page_holds_a_picture_for_each_study():
    assert 'id="chart-t1-study"' in outline_page(OUTLINE)
