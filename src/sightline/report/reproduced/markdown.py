"""A reproduced source as Markdown."""

from sightline.report.markdown.text import Answer, Rows, markdown
from sightline.report.reproduced import words
from sightline.reproduction.answer import Reproduction


def reproduced_markdown(answer: Reproduction, *, command: str = "") -> str:
    """Return the findings, why some are not reproduced, and which tables there are."""
    missed = [(one.finding.id, " ".join(words.details_of(one))) for one in words.missed(answer)]
    return markdown(
        Answer(
            title=words.title_of(answer),
            said=list(words.short_answer(answer)),
            tables=[
                Rows(
                    title="Findings", headings=words.HEADINGS, rows=[words.line_of(o) for o in answer.outcomes], most=60
                ),
                Rows(
                    title="One choice of every open setting",
                    headings=words.CHOICE_HEADINGS,
                    rows=list(answer.choices.items()),
                    is_folded=True,
                ),
                Rows(title="Not reproduced, and why", headings=("finding", "why"), rows=missed, most=60),
                Rows(
                    title="Tables",
                    headings=words.TABLE_HEADINGS,
                    rows=[words.table_line(one) for one in answer.tables],
                    is_folded=True,
                ),
            ],
            sentences=[answer.cited],
            warnings=answer.warnings,
            command=command,
        )
    )
