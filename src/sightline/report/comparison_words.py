"""What every face of a comparison says: names of rows and values with their units."""

from sightline.explanation.comparison import NO_DIFFERENCE, ONLY_A, ONLY_B, Comparison, Difference
from sightline.explanation.side import Side
from sightline.report import summary, units

LEVEL_TITLES = {
    "step": "key figures",
    "phase": "time by phase",
    "memory": "memory of the fullest device",
    "module": "time by module",
    "operator": "time by operator",
}
_FIGURES = {
    "step_time_s": "step time",
    "tokens_per_s": "tokens/s",
    "mfu": "MFU",
    "hfu": "HFU",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    "output_tokens_per_s": "tokens/s",
    "time_s": "time",
    "flops_per_s": "FLOP/s",
    "bytes_per_s": "bytes/s",
}
_VERDICTS = {NO_DIFFERENCE: "no difference", ONLY_A: "only in A", ONLY_B: "only in B"}
_SHARES = ("mfu", "hfu")


def label(row: Difference) -> str:
    """Return a row's name; of an address, from its phase to its operator."""
    if row.level == "step":
        return _FIGURES.get(row.quantity, row.quantity)
    if row.level == "memory":
        part = row.quantity.partition(".")[2]
        return "in all" if part == "total" else summary.LABELS.get(part, part)
    parts = [row.phase, row.module, row.operator]
    return ": ".join(summary.LABELS.get(part, part) for part in parts if part)


def value(row: Difference, of: float | None) -> str:
    """Return one side's value with its unit; a dash where it has none."""
    if of is None:
        return "-"
    if row.quantity.startswith("memory_bytes"):
        return units.size(of)
    if row.quantity in _SHARES:
        return units.percent(of)
    return units.seconds(of) if is_time(row) else _rate(row, of)


def is_time(row: Difference) -> bool:
    """Whether a row compares seconds."""
    return row.quantity.endswith("_s") and not row.quantity.endswith("_per_s")


def _rate(row: Difference, of: float) -> str:
    unit = {"flops_per_s": "FLOP/s", "bytes_per_s": "B/s"}.get(row.quantity)
    return units.digits(of) if unit is None else units.rate(of, unit)


def interval(row: Difference) -> str:
    """Return the interval of the ratio, empty without one."""
    return "" if row.interval is None else " to ".join(units.digits(end) for end in row.interval)


def verdict(row: Difference) -> str:
    """Return what b is beside a, in few words."""
    return _VERDICTS.get(row.verdict, row.verdict)


def side_line(side: Side) -> str:
    """Return what a side is: what it was asked for by, measured or predicted, and the scenario's name."""
    source = () if side.source == side.name else (side.source,)
    return ", ".join(filter(None, (side.name, *source, side.title)))


def footnote(comparison: Comparison) -> str:
    """Say when a row counts as a difference."""
    if comparison.a.is_measured or comparison.b.is_measured:
        return "80 % intervals of B / A; a row differs where 1 is outside of its 99 % interval."
    return "Two predictions have no noise: differences are what the model says."
