"""Where the best devices lie at an end of what is searched, so that a wider search might find better ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sightline.exploration.nodes.binding import Columns
from sightline.quantities import percent


def ends(columns: Columns, l2_shares: Sequence[float]) -> dict[str, dict[str, dict[str, int]]]:
    """Return by view and task how many best devices have the most stacks, and the least and largest share of L2.

    Args:
        columns: The rows of the study; those where nothing fits are left out.
        l2_shares: The shares of L2 that are tried, in rising order.
    """
    names = ("view", "task", "bound_level", "stacks", "most_stacks", "area_of_l2")
    found: dict[str, dict[str, dict[str, int]]] = {}
    for view, task, level, stacks, most, share in zip(*(columns[name] for name in names), strict=True):
        counts = dict.fromkeys(("points", "most_stacks", "least_l2", "largest_l2"), 0)
        counts = found.setdefault(view, {}).setdefault(task, counts)
        if level:
            counts["points"] += 1
            counts["most_stacks"] += stacks == most
            counts["least_l2"] += share == l2_shares[0]
            counts["largest_l2"] += share == l2_shares[-1]
    return found


def said_of_ends(found: Mapping[str, Any], l2_shares: Sequence[float]) -> Iterator[str]:
    """A sentence for each view."""
    least, largest = percent(l2_shares[0]), percent(l2_shares[-1])
    for view, by_task in found.items():
        told = "; ".join(
            f"of {counts['points']} of {task} {counts['most_stacks']}, {counts['least_l2']} and {counts['largest_l2']}"
            for task, counts in by_task.items()
        )
        yield (
            f"Best devices at an end of what is searched, {view} view, with the most stacks that can be built, "
            f"with the least L2 ({least}) and with the most ({largest}): {told}."
        )
