"""The page of a study."""

from dataclasses import replace
from html.parser import HTMLParser

import study_answers

from sightline.answers.study import study_outline
from sightline.render.csv import study_to_csv
from sightline.render.document import outline_page


def page_of(answer):
    return outline_page(study_outline(answer, csv=study_to_csv(answer)))


class Text(HTMLParser):
    """The text of a page without its scripts and styles, and its tags."""

    def __init__(self, page):
        super().__init__()
        self.skipping, self.said, self.tags = False, [], []
        self.feed(page)

    def handle_starttag(self, tag, _):
        self.skipping = tag in ("script", "style")
        self.tags.append(tag)

    def handle_endtag(self, _):
        self.skipping = False

    def handle_data(self, data):
        if not self.skipping:
            self.said.append(data)


def test_a_page_says_all_of_a_study():
    answer = replace(study_answers.nodes(), warnings=("HBM4 is <estimated>.",))
    page = Text(page_of(answer))
    said = "".join(page.said)
    for sentence in (answer.title, *answer.reading, *answer.assumptions, "Warning: HBM4 is <estimated>."):
        assert sentence in said
    assert page.tags.count("tr") == 1 + len(answer)
    assert "memory,node,step_time_s" in said
    assert "details" in page.tags


def test_a_page_has_a_form_of_its_pictures_for_phones():
    page = page_of(study_answers.nodes())
    assert "window.innerWidth" in page
    assert 'src="http' not in page


def test_long_tables_are_cut_and_complete_as_csv():
    answer = study_answers.grid(20)
    page = Text(page_of(answer))
    said = "".join(page.said)
    assert page.tags.count("tr") == 1 + 200
    assert "200 more; use --csv or --json" in said
    assert said.count("\n") > 400


def test_a_page_of_very_many_rows_says_where_they_are():
    said = "".join(Text(outline_page(study_outline(replace(study_answers.grid(80), figures=())))).said)
    assert "6,200 more; use --csv or --json" in said
