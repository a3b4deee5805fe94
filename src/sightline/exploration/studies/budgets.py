"""The best model for a budget of money or time, and how models and accelerators have grown apart.

C = 6 N D (arXiv 2001.08361), the loss of N parameters after D tokens (arXiv 2203.15556, 2404.10102), rents of the
catalog, and the share of their peak that devices reach with that model, as Sightline predicts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import log2
from typing import Any

import numpy as np

from sightline.exploration import training_budget
from sightline.exploration.base import StudyRequest, base_of, said_of
from sightline.exploration.footprint import GRID_KG_PER_KWH, PUE, Electricity, power_w, rent_usd
from sightline.exploration.growth import CONFIDENCE, Growth, fit_growth
from sightline.exploration.study_answer import Column, Figure, StudyAnswer, View, columns_of, result_columns
from sightline.profile import TRAINING
from sightline.progress import Cancelled, Progress
from sightline.quantities import DAY, percent


def count(value: float) -> str:
    """Return a number with three digits and its prefix: ``count(60.4e9)`` is "60.4B"."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def usd_amount(value: float) -> str:
    """Return an amount of money: ``usd_amount(5e6)`` is "5M USD"."""
    return f"{count(value)} USD"


def energy(joules: float) -> str:
    """Return an amount of electricity in MWh, in which data centers count it."""
    mwh = joules / 3.6e9
    return f"{mwh:,.0f} MWh" if mwh >= 10 else f"{mwh:.2g} MWh"


def carbon(kg: float) -> str:
    """Return tons of CO2 equivalents."""
    return f"{kg / 1e3:,.0f} t CO2e" if kg >= 1e4 else f"{kg / 1e3:.1f} t CO2e"


Row = dict[str, Any]
_MORE: Mapping[View, str] = {"calibrated": "plans are the best that Sightline finds for Megatron-LM"}
_GROWING = {
    "training FLOPs": ("model", "flops"),
    "parameters": ("model", "parameters"),
    "accelerator peak": ("accelerator", "peak_flops"),
    "accelerator memory": ("accelerator", "memory_bytes"),
}
"""What grows over the years: rows and column."""


def summary_of(
    rows: Sequence[Row], overtrained: Sequence[Row], over_years: Sequence[Row], law: training_budget.ChinchillaLaw
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
        lines += _said_of_money([row for row in money if row["view"] == view], view)
    lines += _of_time([row for row in rows if row["budget"] == "time" and "loss" in row])
    lines += _of_views(money)
    lines += _of_laws(money)
    lines += _of_overtraining(overtrained)
    lines += _of_years(over_years)
    return tuple(lines)


def _said_of_money(money: Sequence[Row], view: str) -> Iterator[str]:
    """The least and the most money, the exponent between them, and the device that pays most."""
    budgets = sorted({row["budget_usd"] for row in money})
    best = [min((row for row in money if row["budget_usd"] == usd), key=lambda row: row["loss"]) for usd in budgets]
    if not best:
        return
    for row in best[:: max(len(best) - 1, 1)]:
        yield (
            f"In the {view} view {usd_amount(row['budget_usd'])} reaches the lowest loss on {row['devices']:,} "
            f"{row['device']} in {row['run_time_s'] / DAY:.0f} days: {count(row['parameters'])} parameters on "
            f"{count(row['tokens'])} tokens at {percent(row['mfu'])} of peak, loss {row['loss']:.3f}, "
            f"{energy(row['energy_j'])} and {carbon(row['carbon_kg'])}."
        )
    if len(best) > 1:
        decades = float(np.log10(budgets[-1] / budgets[0]))
        factor = (best[-1]["parameters"] / best[0]["parameters"]) ** (1 / decades)
        compute = (best[-1]["flops"] / best[0]["flops"]) ** (1 / decades)
        yield (
            f"Ten times the money buys {compute:.1f} times the FLOPs and a model {factor:.1f} times as large; "
            f"the share of peak goes from {percent(best[0]['mfu'])} to {percent(best[-1]['mfu'])}."
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
        yield f"In {longest / DAY:.0f} days, {of_view[0]['devices']:,} devices train ({view} view): {said}."


def _of_views(money: Sequence[Row]) -> Iterator[str]:
    """How much the ideal view promises over the calibrated one."""
    flops = {(row["view"], row["device"], row["budget_usd"]): row["flops"] for row in money}
    ratios = [
        flops["ideal", device, usd] / of for (view, device, usd), of in flops.items()
        if view == "calibrated" and ("ideal", device, usd) in flops
    ]  # fmt: skip
    if ratios:
        yield f"The ideal view gives {min(ratios):.1f} to {max(ratios):.1f} times the FLOPs for the same money."


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
    yield f"Kaplan's law of 2020 trains models {sizes}, with {worse} higher loss."


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
        f"FLOPs of published trainings double every {years['training FLOPs']}, the 16-bit peak of accelerators "
        f"every {years['accelerator peak']}: each year, a training takes "
        f"{growth['training FLOPs'].yearly / growth['accelerator peak'].yearly:.2f} times the device time. "
        f"Intervals are {percent(CONFIDENCE)} intervals."
    )
    yield (
        f"Parameters of these models double every {years['parameters']}, memory of accelerators every "
        f"{years['accelerator memory']}."
    )
    models = [row for row in over_years if row["kind"] == "model"]
    first, longest = models[0], max(models, key=lambda row: row["device_years"])
    largest = max(models, key=lambda row: row["parameters"])
    yield (
        f"At the peak of the best accelerator of its date, {first['name']} takes {first['device_years']:,.0f} "
        f"device-years and {longest['name']} {longest['device_years']:,.0f}. Weights, gradients and optimizer of "
        f"{first['name']} fill the memory of {first['devices_of_states']:.0f} devices, those of "
        f"{largest['name']} {largest['devices_of_states']:.0f}."
    )


def assumptions_of(
    base: Mapping[str, Any],
    views: Sequence[View],
    asked: training_budget.Asked,
) -> tuple[str, ...]:
    """Return what the study assumes, the views first."""
    law = asked.law
    formula = f"L = {law.irreducible} + {law.a} / N^{law.alpha} + {law.b} / D^{law.beta}"
    of_loss = (
        f"The loss follows {law.source}: {formula}, in nats per token of that paper's data. Data are unlimited, "
        "and each token is seen once."
    )
    of_compute = (
        "The best size follows C = 6 N D. The predicted speed includes attention, so token counts are those the "
        "devices really train."
    )
    of_kaplan = (
        "Kaplan's law (arXiv 2001.08361, table 6) excludes embeddings and uses other tokens; only its sizes are "
        "compared."
    )
    of_models = (
        f"Models are Llama-like with a vocabulary of {training_budget.VOCABULARY:,}; sequences have "
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
        "A mixture of experts counts only its active parameters.",
    )


BASE: Mapping[str, Any] = {
    "devices": list(training_budget.DEVICES),
    "workload": {"task": "pretrain", "sequence_length": training_budget.SEQUENCE_LENGTH},
    "plan": training_budget.PLAN,
    "law": training_budget.LAW,
    "electricity": {"kg_per_kwh": GRID_KG_PER_KWH, "pue": PUE},
}
VARIED = ("model", "cluster", "workload.global_batch", "workload.total_tokens", "workload.task")
RATIOS = (10, 20, 50, 100, 200, 500, 1000, 2000)
"""Tokens per parameter of models of one loss."""
TYPICAL_DEVICE, TYPICAL_USD = "h100-sxm-80gb", 1e6
"""The budget whose compute, spent best, gives the loss that models of all those ratios reach; the nearest budget, and
the first device, where this one is not compared."""
FLOPS_OF_INFERENCE = 2.0
"""Per parameter and token that is read or generated."""
BYTES_OF_STATES = 16.0
"""Bytes per parameter of a model in training: weights and gradients in 16 bits, weights and two moments in 32."""
ABOUT: Mapping[str, Column] = {
    **result_columns(TRAINING),
    "budget_usd": Column(label="budget", unit="USD"),
    "deadline_s": Column(label="deadline", unit="s"),
    "parameters": Column(label="parameters", unit="parameters"),
    "tokens": Column(label="tokens", unit="tokens"),
    "tokens_per_parameter": Column(label="tokens per parameter"),
    "flops": Column(label="compute", unit="FLOP"),
    "flops_over_best": Column(label="FLOPs relative to the best"),
    "loss_chinchilla_2022": Column(label="loss by Chinchilla's own fit"),
    "kaplan_parameters": Column(label="parameters by Kaplan's law", unit="parameters"),
    "kaplan_tokens": Column(label="tokens by Kaplan's law", unit="tokens"),
    "power_w": Column(label="power", unit="W", per="per device"),
    "cost_usd": Column(label="cost", unit="USD"),
    "year": Column(label="year", unit="year"),
    "peak_flops": Column(label="peak", unit="FLOP/s"),
    "memory_bytes": Column(label="memory", unit="B"),
    "device_years": Column(label="device-years"),
}

SHOWN = (
    *("view", "device", "budget_usd", "deadline_s", "devices", "run_time_s", "parameters", "tokens", "mfu"),
    *("loss", "energy_j", "carbon_kg", "cost_usd"),
)


def study(request: StudyRequest) -> StudyAnswer:
    """Return the best model of each budget on each device, and the years of models and accelerators."""
    asked, base = training_budget.read_asked(base_of(BASE, request, VARIED), quick=request.quick)
    views, law = request.views("both"), asked.law
    rows: list[Row] = []
    points = list(product(views, asked.devices, asked.budgets))
    with suppress(Cancelled):  # what is there by then is the answer
        for view, device, budget in request.progress.over(points, "training"):
            rented = training_budget.rented_by(device, budget)
            rows.append({**budget, **_trained(base, view, rented, asked, request.progress)})
    overtrained, over_years = list(_overtrained(rows, law)), list(_over_years())
    columns = columns_of(rows)
    return StudyAnswer(
        study="budgets",
        title="The best model for a budget of money or time",
        axes=asked.axes,
        columns=columns,
        about=ABOUT,
        summary=summary_of(rows, overtrained, over_years, law),
        assumptions=assumptions_of(base, views, asked),
        reading=reading_of(rows, overtrained, over_years),
        figures=(*_of_money(rows), *_figures(overtrained, over_years)),
        warnings=tuple(
            f"No plan fits for the best model on {row['devices']:,} {row['device']} ({row['view']} view)"
            for row in rows
            if "loss" not in row
        ),
        shown=tuple(key for key in SHOWN if key in columns),
    )


def _trained(
    base: Mapping[str, Any],
    view: View,
    rented: training_budget.Rented,
    asked: training_budget.Asked,
    progress: Progress,
) -> Row:
    """The best model that the devices train in their time; devices and time alone where none fits."""
    head: Row = {"view": view, "device": rented.device, "devices": rented.count, "run_time_s": rented.seconds}
    found = training_budget.best_trained(base, view, rented, asked.law, progress)
    if found is None:
        return head
    return head | _figures_of(found, rented.count, asked.law) | _footprint(found, rented, asked.electricity)


def _figures_of(found: training_budget.Trained, devices: int, law: training_budget.ChinchillaLaw) -> Row:
    profile, kaplan, of_2022 = (
        found.profile,
        training_budget.LAWS["kaplan-2020"],
        training_budget.LAWS["chinchilla-2022"],
    )
    plan = profile.scenario.plan
    by_kaplan = float(kaplan.best_parameters(found.flops))
    return {
        "mfu": float(profile.mfu),
        "parameters": found.parameters,
        "tokens": found.tokens,
        "tokens_per_parameter": found.tokens / found.parameters,
        "flops": found.flops,
        "model_flops": float(profile.model_flops) * found.steps,
        "loss": float(law.loss(found.parameters, found.tokens)),
        "loss_chinchilla_2022": float(of_2022.loss(found.parameters, found.tokens)),
        "kaplan_parameters": by_kaplan,
        "kaplan_tokens": float(training_budget.tokens_of(found.flops, by_kaplan)),
        "loss_of_kaplan_model": float(law.loss(by_kaplan, training_budget.tokens_of(found.flops, by_kaplan))),
        "steps": found.steps,
        "global_batch": profile.scenario.workload.global_batch,
        "tensor_parallel": plan.tensor_parallel,
        "pipeline_parallel": plan.pipeline_parallel,
        "data_parallel": devices // (plan.tensor_parallel * plan.pipeline_parallel),
        "recompute": str(plan.recompute),
    }


def _footprint(found: training_budget.Trained, rented: training_budget.Rented, electricity: Electricity) -> Row:
    joules = float(found.profile.energy_per_step_j) * found.steps
    return {
        "energy_j": joules,
        "power_w": float(power_w(joules, rented.count, rented.seconds)),
        "carbon_kg": float(electricity.carbon_kg(joules)),
        "cost_usd": float(rent_usd(rented.count, rented.seconds, training_budget.usd_per_hour(rented.device))),
    }


def _overtrained(rows: Sequence[Row], law: training_budget.ChinchillaLaw) -> Iterator[Row]:
    """Models that reach the loss of one budget's with other numbers of tokens per parameter, in the first view."""
    trained = [row for row in rows if "loss" in row and "budget_usd" in row]
    if not trained:
        return
    reached = min(
        trained, key=lambda row: (abs(log2(row["budget_usd"] / TYPICAL_USD)), row["device"] != TYPICAL_DEVICE)
    )
    best = float(law.best_parameters(reached["flops"]))
    loss = float(law.loss(best, training_budget.tokens_of(reached["flops"], best)))
    flops = np.asarray(training_budget.flops_to_match(law, loss, np.asarray(RATIOS, dtype=float)))
    for ratio, needed in zip(RATIOS, flops, strict=True):
        parameters = float(np.sqrt(needed / training_budget.FLOPS_PER_PARAMETER_AND_TOKEN / ratio))
        saved = FLOPS_OF_INFERENCE * (best - parameters)
        yield {
            "device": reached["device"],
            "budget_usd": reached["budget_usd"],
            "tokens_per_parameter": ratio,
            "parameters": parameters,
            "tokens": ratio * parameters,
            "flops": float(needed),
            "flops_over_best": float(needed / reached["flops"]),
            "parameters_over_best": parameters / best,
            "pays_after_tokens": float((needed - reached["flops"]) / saved) if saved > 0 else float("nan"),
            "loss": loss,
        }


def _over_years() -> Iterator[Row]:
    """Published trainings, with what they would take of the best accelerator of their date, and the accelerators."""
    from sightline.technology.launches import launches

    cards = [card for card in launches() if card.market == "datacenter" and card.fp16 is not None]
    for one in training_budget.known_trainings():
        there = [card for card in cards if card.years <= one.years]
        peak, memory = (max(getattr(card, key) for card in there) for key in ("fp16", "memory_bytes"))
        yield {
            "kind": "model",
            "name": one.model,
            "year": one.years,
            "parameters": one.parameters,
            "tokens": one.tokens,
            "tokens_per_parameter": one.tokens / one.parameters,
            "flops": one.flops,
            "device_years": one.flops / peak / (365.25 * DAY),
            "devices_of_states": BYTES_OF_STATES * one.parameters / memory,
            "evidence": one.evidence,
            "source": one.source,
        }
    for card in cards:
        peak, memory = card.fp16, card.memory_bytes
        yield {"kind": "accelerator", "name": card.name, "year": card.years, "peak_flops": peak, "memory_bytes": memory}


def _of_money(rows: Sequence[Row]) -> Iterator[Figure]:
    """What budgets buy, where there are several to compare."""
    trained = [row for row in rows if row["budget"] == "money" and "loss" in row]
    if len({row["budget_usd"] for row in trained}) < 2 or len({row.get("deadline_s") for row in trained}) > 1:
        return
    shared: dict[str, Any] = {"x": "budget_usd", "series": "device", "panel": "view", "where": {"budget": "money"}}
    yield Figure(
        kind="lines",
        title="Loss reached by budget",
        y="loss",
        log=frozenset(("x",)),
        names={"loss": "loss (nats per token)"},
        **shared,
    )
    yield Figure(
        kind="lines", title="Best model size for a budget", y="parameters", log=frozenset(("x", "y")), **shared
    )


def _figures(overtrained: Sequence[Row], over_years: Sequence[Row]) -> Iterator[Figure]:
    if overtrained:
        title = "Compute of models that reach one loss"
        x, y = "tokens_per_parameter", "flops_over_best"
        yield Figure(kind="lines", title=title, x=x, y=y, log=frozenset("xy"), columns=columns_of(overtrained))
    years: dict[str, Any] = {"kind": "points", "x": "year", "line": "line", "log": frozenset("y")}
    for title, kind, key, names in (
        ("Compute of published trainings", "model", "flops", {"year": "published"}),
        (
            "Trainings at the 16-bit peak of the best accelerator of their date",
            *("model", "device_years", {"year": "published"}),
        ),
        ("Peak of accelerators in 16 bits", "accelerator", "peak_flops", {"year": "launched"}),
        ("Memory of accelerators", "accelerator", "memory_bytes", {"year": "launched"}),
    ):
        yield Figure(title=title, y=key, names=names, columns=_with_line(over_years, kind, key), **years)


def _with_line(over_years: Sequence[Row], kind: str, key: str) -> dict[str, list[Any]]:
    """The rows of a kind as columns, and the line through a figure of them."""
    columns = columns_of([row for row in over_years if row["kind"] == kind])
    growth = fit_growth(columns["year"], columns[key])
    return columns if growth is None else columns | {"line": growth.at(np.asarray(columns["year"])).tolist()}
