"""The two objectives of a Pareto front."""

from collections.abc import Callable, Sequence

from sightline.errors import InputError
from sightline.quantities import show


def read_axes(pareto: Sequence[str] | None, meaning: Callable[[str], str], allowed: str) -> tuple[str, str] | None:
    """Return two objectives that mean different figures; None where no front is asked for.

    Args:
        pareto: The objectives.
        meaning: Returns the figure of an objective, and refuses one that nobody knows.
        allowed: What a refusal names.

    Raises:
        InputError: they are not two, or mean the same.
    """
    if pareto is None:
        return None
    if len(pareto) != 2 or len({meaning(name) for name in pareto}) != 2:
        raise InputError(f"pareto is {show(','.join(pareto))}; allowed: {allowed}")
    return pareto[0], pareto[1]
