"""How far to trust one prediction: its interval, what that rests on, and errors of the measured cases most like it."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from sightline.profile import Profile
from sightline.quantities import counted, percent
from sightline.report import pieces
from sightline.report.explained.answer import of_profile
from sightline.report.pages.profile import evidence_table
from sightline.report.pieces import FAINT, Piece, Said
from sightline.report.terminal.accuracy import case_cells, quantity_name
from sightline.validation.nearest import Near

TITLE = "Evidence for this result"
_COLUMNS = ("case", "same", "measured", "predicted", "error", "inside 80 % interval", "suite", "part")
_IS_NUMBER = [False, False, True, True, True, False, False, False]
_UNITS = {"step_time_s": "step time in seconds", "ttft_s": "time to first token in seconds"}
_UNITS |= {"tpot_s": "time per output token in seconds", "output_tokens_per_s": "output tokens per second"}


def trust_piece(profile: Profile, near: Sequence[Near], *, level: int = 2) -> Piece:
    """Return what a prediction rests on, before any case is looked up by hand.

    Args:
        profile: The prediction.
        near: The cases most like it.
        level: Of the heading.
    """
    fast = [line for line in of_profile(profile) if line.asks == "how fast"]
    said = (
        "Constants were fitted to part `fit`; part `test` was held out. Cases with the same device and framework "
        "are the most informative."
    )
    footnote = pieces.paragraphs([said] if near else [], FAINT)
    return pieces.section(
        TITLE,
        pieces.short_answer([*fast, _evidence(profile), _errors(near)]),
        pieces.section("Nearest measured cases", *_tables(near), footnote, level=level + 1),
        pieces.section("Evidence of its constants", evidence_table(profile), level=level + 1),
        level=level,
    )


def _tables(near: Sequence[Near]) -> Iterator[str]:
    """A table for each quantity, under its name and unit."""
    for quantity in dict.fromkeys(one.quantity for one in near):
        rows = [_row(one) for one in near if one.quantity == quantity]
        named = _UNITS.get(quantity, quantity_name(quantity))
        yield pieces.paragraphs([f"Measured and predicted: {named}"])
        yield pieces.table(_COLUMNS, rows, label=f"nearest cases: {named}", numbers=_IS_NUMBER)


def _evidence(profile: Profile) -> Said:
    """The evidence of the framework's constants, which decides most about the interval."""
    evidence = profile.evidence.get("framework", "estimated") if isinstance(profile.evidence, dict) else "estimated"
    lacking = profile.missing.get("framework", "")
    return Said(asks="evidence", says=f"{evidence}: {lacking}" if lacking else f"{evidence} constants of the framework")


def _errors(near: Sequence[Near]) -> Said:
    answered = [one for one in near if one.answer.predicted is not None]
    if not answered:
        return Said(asks="nearest cases", says="no published case of this task uses the device or the framework")
    most = max(len(one.shares) for one in answered)
    closest = [one for one in answered if len(one.shares) == most]
    mean = fmean(abs(one.answer.error) for one in closest)
    inside = [_is_inside(one) for one in closest if one.answer.interval]
    held = f", {sum(inside)} of {len(inside)} inside their 80 % interval" if inside else ""
    shares = sorted({" and ".join(one.shares) for one in closest})
    same = f"same {' or '.join(shares)}"
    return Said(
        asks="nearest cases", says=f"{counted(len(closest), 'case')} ({same}): mean error {percent(mean, 1)}{held}"
    )


def _row(near: Near) -> tuple[str, ...]:
    name, *figures = case_cells(near.answer)
    inside = ("yes" if _is_inside(near) else "no") if near.answer.interval else "-"
    same = ", ".join(near.shares)
    return name, same, *figures, inside, near.suite, near.answer.case.split


def _is_inside(near: Near) -> bool:
    low, high = near.answer.interval or (0.0, 0.0)
    return low <= near.answer.case.measured <= high
