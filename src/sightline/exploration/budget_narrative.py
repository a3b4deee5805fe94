"""What a study of budgets comes to: its summary, the sentences it is read by, and what it assumes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.exploration.answer import View
from sightline.exploration.base import said_of
from sightline.exploration.growth import CONFIDENCE, Growth, fit_growth
from sightline.exploration.training_budget import VOCABULARY, Asked, ChinchillaLaw
from sightline.quantities import DAY, percent


def count(value: float) -> str:
    """Return a number with three digits and its prefix: ``count(60.4e9)`` is "60.4B"."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def usd_amount(value: float) -> str:
    """Return an amount of money: ``usd(5e6)`` is "5M USD"."""
    return f"{count(value)} USD"


def energy(joules: float) -> str:
    """Return an amount of electricity in MWh, in which data centers count it."""
    mwh = joules / 3.6e9
    return f"{mwh:,.0f} MWh" if mwh >= 10 else f"{mwh:.2g} MWh"


def carbon(kg: float) -> str:
    """Return tons of CO2 equivalents."""
    return f"{kg / 1e3:,.0f} t CO2e" if kg >= 1e4 else f"{kg / 1e3:.1f} t CO2e"


Row = Mapping[str, Any]
_MORE: Mapping[View, str] = {"calibrated": "plans are the best in Megatron-LM that Sightline finds"}
_GROWING = {
    "training FLOPs": ("model", "flops"),
    "parameters": ("model", "parameters"),
    "accelerator peak": ("accelerator", "peak_flops"),
    "accelerator memory": ("accelerator", "memory_bytes"),
}
"""What grows over the years: rows and column."""


def summary_of(
    rows: Sequence[Row], overtrained: Sequence[Row], over_years: Sequence[Row], law: ChinchillaLaw
) -> dict[str, Any]:
    """Return the best model by view, budget and device, what overtraining takes, and doubling times in years."""
    budgets: dict[str, Any] = {}
    keys = ("parameters", "tokens", "loss", "mfu", "devices", "run_time_s", "energy_j", "carbon_kg", "cost_usd")
    for row in rows:
        of_budget = budgets.setdefault(row["view"], {}).setdefault(_name_of(row), {})
        of_budget[row["device"]] = {key: row[key] for key in keys if key in row}
    return {
        "law": law.name,
        "budgets": budgets,
        "same_loss": list(overtrained),
        "doubling_years": {name: of.to_dict() for name, of in _growth(over_years).items() if of is not None},
        "over_years": list(over_years),
    }


def _name_of(budget: Row) -> str:
    """What a budget is called: its money, its time, or both."""
    money = [f"{budget['budget_usd']:.0f} USD"] if "budget_usd" in budget else []
    return " in ".join((*money, *([f"{budget['deadline_s'] / DAY:.4g} days"] if "deadline_s" in budget else [])))


def _growth(over_years: Sequence[Row]) -> dict[str, Growth | None]:
    found = {}
    for name, (kind, key) in _GROWING.items():
        of_kind = [row for row in over_years if row["kind"] == kind]
        found[name] = fit_growth([row["year"] for row in of_kind], [row[key] for row in of_kind])
    return found


def reading_of(rows: Sequence[Row], overtrained: Sequence[Row], over_years: Sequence[Row]) -> tuple[str, ...]:
    """Return what the study shows, a sentence each."""
    money = [row for row in rows if row["budget"] == "money" and "loss" in row]
    lines: list[str] = []
    for view in dict.fromkeys(row["view"] for row in money):
        lines += _of_money([row for row in money if row["view"] == view], view)
    lines += _of_time([row for row in rows if row["budget"] == "time" and "loss" in row])
    lines += _of_views(money)
    lines += _of_laws(money)
    lines += _of_overtraining(overtrained)
    lines += _of_years(over_years)
    return tuple(lines)


def _of_money(money: Sequence[Row], view: str) -> Iterator[str]:
    """The least and the most money, the exponent between them, and the device that pays most."""
    budgets = sorted({row["budget_usd"] for row in money})
    best = [min((row for row in money if row["budget_usd"] == usd), key=lambda row: row["loss"]) for usd in budgets]
    if not best:
        return
    for row in best[:: max(len(best) - 1, 1)]:
        yield (
            f"In the {view} view {usd_amount(row['budget_usd'])} reaches the least loss on {row['devices']:,} "
            f"{row['device']} in {row['run_time_s'] / DAY:.0f} days: {count(row['parameters'])} parameters on "
            f"{count(row['tokens'])} tokens at {percent(row['mfu'])} of peak, loss {row['loss']:.3f}, "
            f"{energy(row['energy_j'])} and {carbon(row['carbon_kg'])}."
        )
    if len(best) > 1:
        decades = float(np.log10(budgets[-1] / budgets[0]))
        factor = (best[-1]["parameters"] / best[0]["parameters"]) ** (1 / decades)
        compute = (best[-1]["flops"] / best[0]["flops"]) ** (1 / decades)
        yield (
            f"There ten times the money buys {compute:.1f} times the FLOPs and a model {factor:.1f} times as large; "
            f"the share of peak that clusters reach goes from {percent(best[0]['mfu'])} to "
            f"{percent(best[-1]['mfu'])}."
        )


def _of_time(timed: Sequence[Row]) -> Iterator[str]:
    """What the longest time trains on the first and the last device."""
    if not timed:
        return
    longest = max(row["deadline_s"] for row in timed)
    for view in dict.fromkeys(row["view"] for row in timed):
        of_view = [row for row in timed if row["view"] == view and row["deadline_s"] == longest]
        said = ", ".join(
            f"{count(row['parameters'])} parameters on {count(row['tokens'])} tokens with {row['device']} "
            f"(loss {row['loss']:.3f}, {usd_amount(row['cost_usd'])})"
            for row in of_view
        )
        yield f"In {longest / DAY:.0f} days {of_view[0]['devices']:,} devices train, {view} view: {said}."


def _of_views(money: Sequence[Row]) -> Iterator[str]:
    """How much the ideal view promises over the calibrated one."""
    flops = {(row["view"], row["device"], row["budget_usd"]): row["flops"] for row in money}
    ratios = [
        flops["ideal", device, usd] / of for (view, device, usd), of in flops.items()
        if view == "calibrated" and ("ideal", device, usd) in flops
    ]  # fmt: skip
    if ratios:
        yield f"The ideal view has {min(ratios):.1f} to {max(ratios):.1f} times the FLOPs for the same money."


def _of_laws(money: Sequence[Row]) -> Iterator[str]:
    """What the law of 2020 would have trained in place."""
    if not money:
        return
    by_money = {row["budget_usd"]: row for row in reversed(money)}
    ends = [by_money[usd] for usd in dict.fromkeys((min(by_money), max(by_money)))]
    sizes = " and ".join(
        f"{row['kaplan_parameters'] / row['parameters']:.1f} times as large for {usd_amount(row['budget_usd'])}"
        for row in ends
    )
    worse = " and ".join(f"{row['loss_of_kaplan_model'] - row['loss']:.3f}" for row in ends)
    yield f"Kaplan's law of 2020 trains models {sizes}, which reach {worse} more loss."


def _of_overtraining(rows: Sequence[Row]) -> Iterator[str]:
    """What smaller models take."""
    for row in rows:
        if row["tokens_per_parameter"] in (200, 1000):
            yield (
                f"A model with {row['tokens_per_parameter']:.0f} tokens per parameter reaches the loss that "
                f"{usd_amount(row['budget_usd'])} can buy of {row['device']} with {count(row['parameters'])} "
                f"parameters and {row['flops_over_best']:.2f} times the FLOPs; it pays after "
                f"{count(row['pays_after_tokens'])} tokens are generated or read."
            )


def _of_years(over_years: Sequence[Row]) -> Iterator[str]:
    """How fast models and accelerators grow."""
    growth = {name: of for name, of in _growth(over_years).items() if of is not None}
    if set(growth) != set(_GROWING):
        return
    years = {name: of.in_words(1) for name, of in growth.items()}
    yield (
        f"FLOPs of the published trainings double every {years['training FLOPs']}, the 16-bit peak of accelerators "
        f"every {years['accelerator peak']}: each year a training takes "
        f"{growth['training FLOPs'].yearly / growth['accelerator peak'].yearly:.2f} times the device time. "
        f"Intervals hold {percent(CONFIDENCE)}."
    )
    yield (
        f"Parameters of these models double every {years['parameters']}, memory of accelerators every "
        f"{years['accelerator memory']}."
    )
    models = [row for row in over_years if row["kind"] == "model"]
    first, longest = models[0], max(models, key=lambda row: row["device_years"])
    largest = max(models, key=lambda row: row["parameters"])
    yield (
        f"Of the best accelerator of its date at its peak {first['name']} takes {first['device_years']:,.0f} years, "
        f"{longest['name']} {longest['device_years']:,.0f}. Weights, gradients and optimizer of {first['name']} fill "
        f"the memory of {first['devices_of_states']:.0f}, those of {largest['name']} that of "
        f"{largest['devices_of_states']:.0f}."
    )


def assumptions_of(
    base: Mapping[str, Any],
    views: Sequence[View],
    asked: Asked,
) -> tuple[str, ...]:
    """Return what the study assumes, the views first."""
    law = asked.law
    formula = f"L = {law.irreducible} + {law.a} / N^{law.alpha} + {law.b} / D^{law.beta}"
    of_loss = (
        f"The loss is that of {law.source}: {formula}, in nats per token of that paper's data. Data are never short, "
        "and each token is seen once."
    )
    of_compute = (
        "The best size follows C = 6 N D. The speed that is predicted counts attention too, so that tokens are those "
        "that the devices really train."
    )
    of_kaplan = (
        "Kaplan's law (arXiv 2001.08361, table 6) counts no embeddings and other tokens: only its sizes are compared."
    )
    of_models = (
        f"Models are Llama-like with a vocabulary of {VOCABULARY:,}; sequences have "
        f"{base['workload']['sequence_length']:,} tokens; training is in {base['plan']['dtype']} on every device. "
        "Batches are those of arXiv 2401.02954, equation 1, as powers of two."
    )
    return (
        *(said_of(view, _MORE.get(view, "")) for view in views),
        of_loss,
        of_compute,
        of_kaplan,
        of_models,
        "Tensor and pipeline parallelism, micro-batch, schedule and recomputation are searched for every model.",
        asked.sentence,
        asked.electricity.sentence,
        "A mixture of experts trains its active parameters only.",
    )
