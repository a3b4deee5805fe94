"""How far to trust one prediction: its interval, what that rests on, and errors of the measured cases most like it."""

from collections.abc import Sequence
from statistics import fmean

from sightline.profile import Profile
from sightline.quantities import counted
from sightline.report import pieces, summary
from sightline.report.explained.answer import of_profile
from sightline.report.pages.profile import evidence_table
from sightline.report.pieces import FAINT, Piece, Said
from sightline.report.terminal.accuracy import case_cells, quantity_name
from sightline.validation.nearest import Near

TITLE = "How far to trust this answer"
_COLUMNS = ("suite", "part", "same", "case", "quantity", "measured", "predicted", "error", "inside 80 %")
_IS_NUMBER = [False, False, False, False, False, True, True, True, False]


def trust_piece(profile: Profile, near: Sequence[Near], *, level: int = 2) -> Piece:
    """Return what a prediction rests on, before any case is looked up by hand.

    Args:
        profile: The prediction.
        near: The cases most like it.
        level: Of the heading.
    """
    fast = [line for line in of_profile(profile) if line.asks == "how fast"]
    rows = [_row(one) for one in near]
    cases = pieces.table(_COLUMNS, rows, label="nearest cases", numbers=_IS_NUMBER) if rows else ""
    said = "Part fit taught the constants, part test was held out. A case of the same device and framework says most."
    return pieces.section(
        TITLE,
        pieces.short_answer([*fast, _evidence(profile), _errors(near)]),
        pieces.paragraphs(summary.interval_sentences(profile), FAINT),
        pieces.section("Measured cases most like it", cases, pieces.paragraphs([said], FAINT), level=level + 1)
        if rows
        else "",
        pieces.section("Where its constants come from", evidence_table(profile), level=level + 1),
        level=level,
    )


def _evidence(profile: Profile) -> Said:
    """The evidence of the framework's constants, which decides most about the interval."""
    evidence = profile.evidence.get("framework", "estimated") if isinstance(profile.evidence, dict) else "estimated"
    lacking = profile.missing.get("framework", "")
    return Said(asks="rests on", says=f"{evidence}: {lacking}" if lacking else f"{evidence} constants of the framework")


def _errors(near: Sequence[Near]) -> Said:
    answered = [one for one in near if one.answer.predicted is not None]
    if not answered:
        return Said(asks="nearest cases", says="no published case of this task has the device or the framework")
    most = max(len(one.shares) for one in answered)
    closest = [one for one in answered if len(one.shares) == most]
    mean = fmean(abs(one.answer.error) for one in closest)
    inside = [_is_inside(one) for one in closest if one.answer.interval]
    held = f", {sum(inside)} of {len(inside)} inside of their 80 % interval" if inside else ""
    shares = sorted({" and ".join(one.shares) for one in closest})
    same = f"same {' or '.join(shares)}"
    return Said(
        asks="nearest cases", says=f"{counted(len(closest), 'case')} ({same}): mean error {100 * mean:.1f} %{held}"
    )


def _row(near: Near) -> tuple[str, ...]:
    name, *figures = case_cells(near.answer)
    inside = ("yes" if _is_inside(near) else "no") if near.answer.interval else "-"
    same = ", ".join(near.shares)
    is_time = near.quantity.endswith("_s") and "_per_s" not in near.quantity
    quantity = quantity_name(near.quantity) + (", s" if is_time else "")
    return near.suite, near.answer.case.split, same, name, quantity, *figures, inside


def _is_inside(near: Near) -> bool:
    low, high = near.answer.interval or (0.0, 0.0)
    return low <= near.answer.case.measured <= high
