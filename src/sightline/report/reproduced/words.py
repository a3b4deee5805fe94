"""What every form of a reproduced source says: the short answer, the findings line by line, and the tables."""

from collections.abc import Iterator, Sequence

from sightline.quantities import counted
from sightline.report.pieces import BAD, GOOD, PERHAPS, Said
from sightline.report.units import digits
from sightline.reproduction.answer import Finding, Outcome, ReproducedTable, Reproduction

HEADINGS = (
    "",
    "finding",
    "the source",
    "ours",
    "criterion",
    "reproduced",
    "interpretation",
    "interpretations that hold",
)
NUMBERS = (False, False, False, True, True, False, False, True)
"""Which columns of findings are figures."""
CHOICE_HEADINGS = ("open setting", "choice")
TABLE_HEADINGS = ("table", "shows", "status", "rows")
YES, NO = "yes", "no"


def title_of(answer: Reproduction) -> str:
    """Return the heading of a reproduced source."""
    return f"{answer.source} reproduced: {answer.title}"


def short_answer(answer: Reproduction) -> Iterator[Said]:
    """Yield how many findings of each group are reproduced."""
    for group, count in answer.summary.items():
        of, done = count["of"], count["reproduced"]
        kind = GOOD if done == of else PERHAPS if done else BAD
        yield Said(asks=f"findings {group}", says=f"{done} of {of} reproduced", kind=kind)
    if answer.choices:
        yield Said(asks="together", says=together(answer))
    if answer.tables:
        yield Said(asks="tables", says=counted(len(answer.tables), "table"))


def together(answer: Reproduction) -> str:
    """Return how many findings are reproduced with one choice of every open setting, and which are lost by it."""
    lost = f"; lost by it: {', '.join(answer.lost)}" if answer.lost else ""
    return f"{len(answer.together)} of {len(answer.outcomes)} hold with one choice of every open setting{lost}"


def line_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the cells of a finding's line, under `HEADINGS`."""
    finding = outcome.finding
    return (
        finding.id,
        finding.finding,
        str(finding.expected),
        "none" if outcome.ours is None else digits(outcome.ours),
        _range(finding),
        YES if outcome.reproduced else NO,
        outcome.words_of(outcome.judged),
        _holding(outcome),
    )


def _holding(outcome: Outcome) -> str:
    """In how many of several interpretations a finding is reproduced."""
    held = sum(map(outcome.holds, outcome.interpretations))
    return f"{held} of {len(outcome.interpretations)}" if len(outcome.interpretations) > 1 else ""


def _range(finding: Finding) -> str:
    """The range of a criterion."""
    low, high = ("" if end is None else digits(end) for end in (finding.low, finding.high))
    if low and high:
        return f"{low} to {high}"
    least, most = ("above", "below") if finding.is_strict else ("at least", "at most")
    return f"{least} {low}" if low else f"{most} {high}"


def details_of(outcome: Outcome) -> Iterator[str]:
    """Yield the criterion of a finding, the figures behind ours, and what other interpretations come to."""
    yield f"Criterion: {outcome.finding.criterion}."
    words = outcome.words_of(outcome.judged)
    yield (f"Interpreted as {words}: " if words else "") + outcome.reason
    for one in outcome.interpretations:
        if one is not outcome.judged:
            ours = outcome.ours_of(one)
            figure = "" if ours is None else f"{digits(ours)}. "
            yield f"Interpreted as {outcome.words_of(one)}: {figure}{one.sentence}"


def table_line(one: ReproducedTable) -> tuple[str, ...]:
    """Return the cells of a table's line, under `TABLE_HEADINGS`."""
    return (one.id, one.answer.title, one.status, str(len(one.answer)))


def missed(answer: Reproduction) -> Sequence[Outcome]:
    """Return the findings that are not reproduced."""
    return [one for one in answer.outcomes if not one.reproduced]
