"""A reproduced source: its outline, and its findings as CSV."""

from collections.abc import Iterator, Sequence

from sightline.answers.outline import BAD, GOOD, PERHAPS, Entries, Entry, Outline, Rows, Said, Shown, Studies
from sightline.answers.units import digits
from sightline.quantities import counted
from sightline.reproduction.outcomes import Finding, Outcome, ReproducedTable, Reproduction

HEADINGS = (
    *("", "finding", "the source", "ours", "criterion", "reproduced"),
    *("interpretation", "interpretations that reproduce it"),
)
CHOICE_HEADINGS = ("open setting", "choice")
_YES, _NO = "yes", "no"


def reproduced_outline(answer: Reproduction) -> Outline:
    """Return the short answer, the findings, the figures behind each of them, and the tables."""
    return Outline(
        title=f"{answer.source}: {answer.title}",
        about=[answer.cited],
        said=list(_short_answer(answer)),
        parts=[
            _findings(answer),
            _choices(answer),
            _figures("Not reproduced", missed(answer)),
            _figures("Reproduced", [one for one in answer.outcomes if one.reproduced], is_detail=True),
            Studies(title="Tables", studies=list(map(_shown, answer.tables))),
        ],
        assumptions=answer.assumptions,
        warnings=answer.warnings,
    )


def _findings(answer: Reproduction) -> Rows:
    return Rows(
        title="Findings",
        headings=HEADINGS,
        rows=[line_of(one) for one in answer.outcomes],
        numbers=(False, False, False, True, True, False, False, True),
        most=60,
        labels=2,
        figures=("the source", "ours", "criterion", "reproduced", "interpretations that reproduce it"),
        kinds={_YES: GOOD, _NO: BAD},
    )


def _choices(answer: Reproduction) -> Rows:
    """The choices with which most findings are reproduced together."""
    return Rows(
        title="One interpretation of every open setting",
        headings=CHOICE_HEADINGS,
        rows=list(answer.choices.items()),
        numbers=False,
        is_folded=True,
    )


def _short_answer(answer: Reproduction) -> Iterator[Said]:
    """How many findings of each group are reproduced."""
    for group, count in answer.summary.items():
        of, done = count["of"], count["reproduced"]
        kind = GOOD if done == of else PERHAPS if done else BAD
        by_choice = ""
        if count["every"] < done:
            by_choice = (
                f" in at least one interpretation, {count['likeliest']} in the likeliest, {count['every']} in all"
            )
        yield Said(asks=f"findings {group}", says=f"{done} of {of} reproduced{by_choice}", kind=kind)
    if answer.choices:
        yield Said(asks="together", says=together(answer))
    if answer.tables:
        yield Said(asks="tables", says=counted(len(answer.tables), "table"))


def together(answer: Reproduction) -> str:
    """Return how many findings are reproduced with one choice of every open setting, and which are lost by it."""
    lost = f"; lost: {', '.join(answer.lost)}" if answer.lost else ""
    held = f"{len(answer.together)} of {len(answer.outcomes)}{' requested findings' * answer.is_part}"
    return f"{held} hold with one interpretation of every open setting{lost}"


def line_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the cells of a finding's line, under `HEADINGS`."""
    finding = outcome.finding
    return (
        finding.id,
        finding.finding,
        str(finding.expected),
        _ours(outcome),
        _range(finding),
        _YES if outcome.reproduced else _NO,
        outcome.words_of(outcome.judged),
        _holding(outcome),
    )


def _ours(outcome: Outcome) -> str:
    """The number that is judged, with as many digits as tell it from the ends of the range."""
    ours, finding = outcome.ours, outcome.finding
    if ours is None:
        return "none"
    ends = [digits(end) for end in (finding.low, finding.high) if end is not None and end != ours]
    return f"{ours:.4g}" if digits(ours) in ends else digits(ours)


def _holding(outcome: Outcome) -> str:
    """In how many of several interpretations a finding is reproduced."""
    several = len(outcome.interpretations)
    return f"{outcome.holding} of {several}" if several > 1 else ""


def _range(finding: Finding) -> str:
    """The range of a criterion."""
    low, high = ("" if end is None else digits(end) for end in (finding.low, finding.high))
    if low and high:
        return f"{low} to {high}"
    least, most = ("above", "below") if finding.is_strict else ("at least", "at most")
    return f"{least} {low}" if low else f"{most} {high}"


def _details_of(outcome: Outcome) -> Iterator[str]:
    """The criterion of a finding, the figures behind ours, and what other interpretations come to."""
    yield f"Criterion: {outcome.finding.criterion}."
    words = outcome.words_of(outcome.judged)
    yield (f"Interpreted as {words}: {_ours(outcome)}. " if words else "") + outcome.reason
    for one in outcome.interpretations:
        if one is not outcome.judged:
            ours = outcome.ours_of(one)
            figure = "" if ours is None else f"{digits(ours)}. "
            yield f"Interpreted as {outcome.words_of(one)}: {figure}{one.sentence}"


def missed(answer: Reproduction) -> Sequence[Outcome]:
    """Return the findings that are not reproduced."""
    return [one for one in answer.outcomes if not one.reproduced]


def _figures(title: str, outcomes: Sequence[Outcome], *, is_detail: bool = False) -> Entries:
    """The figures behind findings."""
    entries = [Entry(id=one.finding.id, says=one.finding.finding, lines=list(_details_of(one))) for one in outcomes]
    return Entries(title=title, headings=("finding", "why"), entries=entries, is_detail=is_detail)


def _shown(one: ReproducedTable) -> Shown:
    return Shown(id=one.id, status=one.status, answer=one.answer)
