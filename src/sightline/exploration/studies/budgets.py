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

from sightline.exploration.answer import Column, Figure, StudyAnswer, View, columns_of, result_columns
from sightline.exploration.base import StudyRequest, base_of
from sightline.exploration.budget_narrative import assumptions_of, reading_of, summary_of
from sightline.exploration.footprint import GRID_KG_PER_KWH, PUE, Electricity, power_w, rent_usd
from sightline.exploration.growth import fit_growth
from sightline.exploration.training_budget import (
    DEVICES,
    FLOPS_PER_PARAMETER_AND_TOKEN,
    LAW,
    LAWS,
    PLAN,
    SEQUENCE_LENGTH,
    Asked,
    ChinchillaLaw,
    Rented,
    Trained,
    best_trained,
    flops_to_match,
    known_trainings,
    read_asked,
    rented_by,
    tokens_of,
    usd_per_hour,
)
from sightline.profile import TRAINING
from sightline.progress import Cancelled, Progress
from sightline.quantities import DAY

BASE: Mapping[str, Any] = {
    "devices": list(DEVICES),
    "workload": {"task": "pretrain", "sequence_length": SEQUENCE_LENGTH},
    "plan": PLAN,
    "law": LAW,
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
    "flops_over_best": Column(label="FLOPs over those of the best"),
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

Row = dict[str, Any]


def study(request: StudyRequest) -> StudyAnswer:
    """Return the best model of each budget on each device, and the years of models and accelerators."""
    asked, base = read_asked(base_of(BASE, request, VARIED), quick=request.quick)
    views, law = request.views("both"), asked.law
    rows: list[Row] = []
    points = list(product(views, asked.devices, asked.budgets))
    with suppress(Cancelled):  # what is there by then is the answer
        for view, device, budget in request.progress.over(points, "training"):
            rented = rented_by(device, budget)
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
            f"No plan fits the best model on {row['devices']:,} {row['device']} ({row['view']} view)"
            for row in rows
            if "loss" not in row
        ),
        shown=tuple(key for key in SHOWN if key in columns),
    )


def _trained(base: Mapping[str, Any], view: View, rented: Rented, asked: Asked, progress: Progress) -> Row:
    """The best model that the devices train in their time; devices and time alone where none fits."""
    head: Row = {"view": view, "device": rented.device, "devices": rented.count, "run_time_s": rented.seconds}
    found = best_trained(base, view, rented, asked.law, progress)
    if found is None:
        return head
    return head | _figures_of(found, rented.count, asked.law) | _footprint(found, rented, asked.electricity)


def _figures_of(found: Trained, devices: int, law: ChinchillaLaw) -> Row:
    profile, kaplan, of_2022 = found.profile, LAWS["kaplan-2020"], LAWS["chinchilla-2022"]
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
        "kaplan_tokens": float(tokens_of(found.flops, by_kaplan)),
        "loss_of_kaplan_model": float(law.loss(by_kaplan, tokens_of(found.flops, by_kaplan))),
        "steps": found.steps,
        "global_batch": profile.scenario.workload.global_batch,
        "tensor_parallel": plan.tensor_parallel,
        "pipeline_parallel": plan.pipeline_parallel,
        "data_parallel": devices // (plan.tensor_parallel * plan.pipeline_parallel),
        "recompute": str(plan.recompute),
    }


def _footprint(found: Trained, rented: Rented, electricity: Electricity) -> Row:
    joules = float(found.profile.energy_per_step_j) * found.steps
    return {
        "energy_j": joules,
        "power_w": float(power_w(joules, rented.count, rented.seconds)),
        "carbon_kg": float(electricity.carbon_kg(joules)),
        "cost_usd": float(rent_usd(rented.count, rented.seconds, usd_per_hour(rented.device))),
    }


def _overtrained(rows: Sequence[Row], law: ChinchillaLaw) -> Iterator[Row]:
    """Models that reach the loss of one budget's with other numbers of tokens per parameter, in the first view."""
    trained = [row for row in rows if "loss" in row and "budget_usd" in row]
    if not trained:
        return
    reached = min(
        trained, key=lambda row: (abs(log2(row["budget_usd"] / TYPICAL_USD)), row["device"] != TYPICAL_DEVICE)
    )
    best = float(law.best_parameters(reached["flops"]))
    loss = float(law.loss(best, tokens_of(reached["flops"], best)))
    flops = np.asarray(flops_to_match(law, loss, np.asarray(RATIOS, dtype=float)))
    for ratio, needed in zip(RATIOS, flops, strict=True):
        parameters = float(np.sqrt(needed / FLOPS_PER_PARAMETER_AND_TOKEN / ratio))
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
    for one in known_trainings():
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
        title="Loss that a budget reaches",
        y="loss",
        log=frozenset(("x",)),
        names={"loss": "loss (nats per token)"},
        **shared,
    )
    yield Figure(
        kind="lines", title="Best size of a model for a budget", y="parameters", log=frozenset(("x", "y")), **shared
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
