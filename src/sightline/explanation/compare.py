"""Compare two profiles: predicted and measured, or any two of one kind."""

from collections.abc import Iterable

from sightline.explanation.comparison import Comparison, check_levels, compare_sides
from sightline.explanation.side import LEVELS
from sightline.explanation.sides import Asked, sides_of
from sightline.runs import open_store


def compare(a: Asked, b: Asked, *, levels: Iterable[str] = LEVELS, store: str | None = None) -> Comparison:
    """Compare two profiles figure by figure: what b is beside a, with the interval of each ratio.

    Each side is a profile, a run or how its id begins, a file (results as ``--json`` or ``--csv`` writes them; a
    scenario, which is predicted), or ``"predicted"``: the prediction of the other side's scenario.

    Args:
        a: The side that ratios are relative to.
        b: The other one.
        levels: Which of step, phase, memory, module, operator.
        store: Where runs are looked for; default: ``SIGHTLINE_RUNS``.

    Raises:
        InputError: A side cannot be found or is no result, or they answer different tasks.
    """
    asked = check_levels(levels)
    first, second = sides_of(a, b, open_store(store))
    return compare_sides(first, second, asked)
