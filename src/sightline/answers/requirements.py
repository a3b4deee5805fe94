"""What was required of answers: an outline, and for a terminal a line for each requirement."""

from collections.abc import Iterator, Sequence

from sightline.answers import labels
from sightline.answers.outline import BAD, GOOD, Outline, Rows, Said
from sightline.quantities import counted
from sightline.requirements.check import Checked, Judged

_MARKS = {True: "✅", False: "❌"}


def requirements_outline(checked: Sequence[Checked], *, impossible: int = 0, left_out: Sequence[str] = ()) -> Outline:
    """Return a line for each requirement of one scenario, or a table with a line for each scenario of several.

    Args:
        checked: Each scenario that is possible.
        impossible: How many further combinations of a sweep are not, so that they meet nothing.
        left_out: Sentences that say why.
    """
    scenarios = [one.profile.scenario for one in checked]
    is_one = len(checked) + impossible == 1
    return Outline(
        title=f"{labels.common_title(scenarios)}: {_summary(checked, impossible)}",
        said=[_said(one) for one in checked[0].required] if is_one else [],
        parts=[] if is_one else [_compared(checked)],
        warnings=list(dict.fromkeys((*left_out, *(warning for one in checked for warning in one.warnings))))[:5],
        scenario=scenarios[0] if is_one else None,
    )


def _said(one: Judged) -> Said:
    return Said(asks=one.require, says=one.sentence, kind=GOOD if one.met else BAD)


def _compared(checked: Sequence[Checked]) -> Rows:
    """A line for each scenario, with what it does not meet."""
    names = labels.variant_labels([one.profile.scenario for one in checked])
    unmet = ["; ".join(each.sentence for each in one.required if not each.met) for one in checked]
    rows = [(name, _MARKS[one.met], said) for name, one, said in zip(names, checked, unmet, strict=True)]
    return Rows(headings=("scenario", "met", "not met"), rows=rows, numbers=False, most=50)


def requirements_lines(checked: Sequence[Checked], *, impossible: int = 0) -> Iterator[str]:
    """Yield the sentences of each scenario below its name, each on one line, as logs are searched for them."""
    scenarios = [one.profile.scenario for one in checked]
    for name, one in zip(labels.variant_labels(scenarios), checked, strict=True):
        yield "\n".join((name, *one.sentences))
    if len(checked) + impossible > 1:
        yield _summary(checked, impossible)


def _summary(checked: Sequence[Checked], impossible: int) -> str:
    """How many scenarios, or of one how many requirements, are as they have to be."""
    scenarios = len(checked) + impossible
    if scenarios > 1:
        met = sum(one.met for one in checked)
        others = f", {impossible:,} {'is' if impossible == 1 else 'are'} invalid" if impossible else ""
        return f"{met:,} of {counted(scenarios, 'scenario')} {'meets' if met == 1 else 'meet'} all requirements{others}"
    (only,) = checked
    met = sum(one.met for one in only.required)
    return f"{met} of {counted(len(only.required), 'requirement')} {'is' if met == 1 else 'are'} met"
