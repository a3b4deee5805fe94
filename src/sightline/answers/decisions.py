"""How predictions decide between measured plans: the fastest of sweeps, single choices, what fits in memory."""

from collections.abc import Iterator, Sequence
from typing import Any

from sightline.answers.outline import FAINT, Lines, Outline, Rows
from sightline.quantities import percent

_CHANGES = {
    "micro_batch": "micro_batch x 2",
    "tensor_parallel": "tensor for pipeline",
    "weights": "weights in fewer bits",
    "devices": "tensor on twice the devices",
    "replicas": "two replicas for tensor x 2",
}
_NOTE = (
    "A sweep is one model on one cluster with one batch, under several plans. The pick is the plan that is predicted "
    "to be fastest; its regret is how much faster the best measured plan is. Pairs are measured plans that differ in "
    "one choice and by more than 3 % in time; changes are of the time with more of it. Replicas have the same batch "
    "per device as what they are held against."
)
_MOST = 200
_SWEEPS = (
    *("source", "sweeps", "pick within 5 %", "worst regret"),
    *("of 5 plans or more", "of these within 5 %", "mean Spearman", "lowest"),
)
_PAIRS = ("source", "choice", "pairs", "sign right", "mean error in points", "measured", "predicted")
_FITS = ("source", "ran out of memory", "said yes", "tight", "ran", "said no", "tight")


def decisions_outline(found: Sequence[dict[str, Any]]) -> Outline:
    """Return a table of sweeps, one of pairs and one of memory, by source and for all."""
    note = Lines(lines=[_NOTE], kind=FAINT)
    return Outline(title="Decisions between measured plans", parts=[*decision_tables(found), note])


def decision_tables(rows: Sequence[dict[str, Any]]) -> tuple[Rows, Rows, Rows]:
    """Return the tables of what is documented of sources."""
    pairs = [_pair_row(row, change, of) for row in rows for change, of in row["pairs"].items()]
    fits = [_fit_row(row) for row in rows if any((*row["ran_out"].values(), row["ran"]["no"], row["ran"]["tight"]))]
    are_numbers = [False, False, *[True] * 5]
    return (
        Rows(title="Sweeps", headings=_SWEEPS, rows=list(_sweep_rows(rows)), most=_MOST),
        Rows(title="Pairs", headings=_PAIRS, rows=pairs, numbers=are_numbers, most=_MOST, labels=2, grouped=1),
        Rows(title="Memory", headings=_FITS, rows=fits, most=_MOST),
    )


def _sweep_rows(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        large = row["large_sweeps"]
        order = ("-" if of is None else f"{of:.2f}" for of in (large["spearman"], large["lowest_spearman"]))
        if row["sweeps"]["count"]:
            yield row["source"], *_picks(row["sweeps"]), *_picks(large)[:2], *order


def _picks(of: dict[str, Any]) -> tuple[str, str, str]:
    count = of["count"]
    return (str(count), str(of["within_5_percent"]), percent(of["worst_regret"], 1)) if count else ("-", "-", "-")


def _pair_row(row: dict[str, Any], change: str, of: dict[str, Any]) -> tuple[str, ...]:
    signs = f"{of['sign_right']} ({percent(of['sign_right'] / of['count'])})"
    changes = (percent(of[key], 1, signed=True) for key in ("measured", "predicted"))
    return row["source"], _CHANGES.get(change, change), str(of["count"]), signs, f"{100 * of['error']:.1f}", *changes


def _fit_row(row: dict[str, Any]) -> tuple[str, ...]:
    out, ran = row["ran_out"], row["ran"]
    counts = (sum(out.values()), out["yes"], out["tight"], sum(ran.values()), ran["no"], ran["tight"])
    return row["source"], *map(str, counts)
