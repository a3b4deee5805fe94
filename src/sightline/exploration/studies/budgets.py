"""The best model for a budget of money or time, and how models and accelerators have grown apart.

C = 6 N D (arXiv 2001.08361), the loss of N parameters after D tokens (arXiv 2203.15556, 2404.10102), rents of the
catalog, and the share of their peak that devices reach with that model, as Sightline predicts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import floor, log2
from typing import Any

import numpy as np

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.exploration.answer import Column, Figure, StudyAnswer, View
from sightline.exploration.base import base_of
from sightline.exploration.columns import result_columns
from sightline.exploration.footprint import GRID_KG_PER_KWH, PUE, carbon_kg, power_w, rent_usd
from sightline.exploration.growth import fit_growth
from sightline.exploration.request import StudyRequest
from sightline.exploration.training_budget.known import known_trainings
from sightline.exploration.training_budget.laws import (
    FLOPS_PER_PARAMETER_AND_TOKEN,
    LAWS,
    ChinchillaLaw,
    flops_to_match,
    tokens_of,
)
from sightline.exploration.training_budget.reading import assumptions_of, reading_of, summary_of
from sightline.exploration.training_budget.trained import PLAN, SEQUENCE_LENGTH, Trained, best_trained
from sightline.profile import TRAINING
from sightline.quantities import USD_PER_HOUR, parse_quantity

DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb")
BASE: Mapping[str, Any] = {
    "devices": list(DEVICES),
    "workload": {"task": "pretrain", "sequence_length": SEQUENCE_LENGTH},
    "plan": PLAN,
    "law": "chinchilla-2024",
    "grid_kg_per_kwh": GRID_KG_PER_KWH,
    "pue": PUE,
}
VARIED = ("model", "cluster", "workload.global_batch", "workload.total_tokens", "workload.task")
BUDGETS_USD = (1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
DAYS = (7, 30, 90)
"""Budgets of time, of `TIMED_DEVICES` devices."""
TIMED_DEVICES = 1024
SHORTEST_DAYS = 60
"""A budget rents the largest power of two of devices that it pays for this long: a run of 60 to 120 days."""
NODE = 8
"""Devices that are rented at least."""
RATIOS = (10, 20, 50, 100, 200, 500, 1000, 2000)
"""Tokens per parameter of models of one loss."""
TYPICAL_DEVICE, TYPICAL_USD = "h100-sxm-80gb", 1e6
"""The budget whose compute, spent best, gives the loss that models of all those ratios reach; the first device's where
this one is not compared."""
FLOPS_OF_INFERENCE = 2.0
"""Per parameter and token that is read or generated."""
BYTES_OF_STATES = 16.0
"""Bytes per parameter of a model in training: weights and gradients in 16 bits, weights and two moments in 32."""
DAY = 86400.0
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

Row = dict[str, Any]


def study(request: StudyRequest) -> StudyAnswer:
    """Return the best model of each budget on each device, and the years of models and accelerators."""
    base = base_of(BASE, request, VARIED)
    law = _law(base.pop("law"))
    grid = {"intensity": _above_zero(base, "grid_kg_per_kwh"), "pue": _above_zero(base, "pue")}
    devices = _devices(base.pop("devices"))
    devices = devices[-2:] if request.quick else devices
    budgets = BUDGETS_USD[::2] if request.quick else BUDGETS_USD
    days = DAYS[1:2] if request.quick else DAYS
    views = request.views("both")
    asked: list[Row] = [{"budget": "money", "budget_usd": usd} for usd in budgets]
    asked += [{"budget": "time", "deadline_s": number * DAY} for number in days]
    rows = [
        {**budget, **_trained(base, view, device, *_rented(device, budget), law, grid)}
        for view, device, budget in request.progress.over(list(product(views, devices, asked)), "training")
    ]
    overtrained, over_years = list(_overtrained(rows, law)), list(_over_years())
    return StudyAnswer(
        study="budgets",
        title="The best model for a budget of money or time",
        axes={"cluster.device": devices, "budget_usd": budgets, "deadline_s": [number * DAY for number in days]},
        columns=_table(rows),
        about=ABOUT,
        summary=summary_of(rows, overtrained, over_years, law),
        assumptions=assumptions_of(base, views, law, grid, SHORTEST_DAYS, TIMED_DEVICES),
        reading=reading_of(rows, overtrained, over_years),
        figures=_figures(overtrained, over_years),
        warnings=tuple(
            f"No plan fits the best model on {row['devices']:,} {row['device']} ({row['view']} view)"
            for row in rows
            if "loss" not in row
        ),
        shown=(
            *("view", "device", "budget_usd", "deadline_s", "devices", "run_time_s", "parameters", "tokens", "mfu"),
            *("loss", "energy_j", "carbon_kg", "cost_usd"),
        ),
    )


def _law(name: object) -> ChinchillaLaw:
    """The law of the loss that the study follows."""
    allowed = {name: law for name, law in LAWS.items() if isinstance(law, ChinchillaLaw)}
    if name not in allowed:
        raise InputError(f"law is {name!r}; allowed: {', '.join(allowed)}")
    return allowed[str(name)]


def _devices(stated: object) -> tuple[str, ...]:
    """The devices that are compared: catalog names of those that have a rent and matrix units."""
    names = stated if isinstance(stated, list | tuple) else [stated]
    problems, found = [], []
    for name in map(str, names):
        device = catalog.name_of("devices", name)
        if device not in catalog.names("devices"):
            near = nearest(device, catalog.names("devices"))
            problems.append(f"devices names '{name}'{near}; `sightline catalog devices` lists all")
        elif not {"price"} <= {*(entry := catalog.entry("devices", device))} or "bf16" not in entry["peak_flops"]:
            problems.append(f"devices names '{name}', of which the catalog knows no rent or no bf16 peak")
        else:
            found.append(device)
    if problems or not found:
        raise InputError(problems or "devices is empty; allowed: names of `sightline catalog devices`")
    return tuple(dict.fromkeys(found))


def _above_zero(base: dict[str, Any], key: str) -> float:
    value = base.pop(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise InputError(f"{key} is {value!r}; allowed: a number above 0")


def _table(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as columns; a figure that a row lacks is NaN, a word is empty."""
    words = {key for row in rows for key, value in row.items() if isinstance(value, str)}
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key, "" if key in words else float("nan")) for row in rows] for key in keys}


def _price(device: str) -> float:
    return parse_quantity(catalog.entry("devices", device)["price"], USD_PER_HOUR)


def _rented(device: str, budget: Row) -> tuple[int, float]:
    """How many devices a budget rents, and for how many seconds."""
    if "deadline_s" in budget:
        return TIMED_DEVICES, float(budget["deadline_s"])
    device_seconds = budget["budget_usd"] / rent_usd(1, 1, _price(device))
    nodes = device_seconds / (SHORTEST_DAYS * DAY * NODE)
    count = NODE * 2 ** max(floor(log2(nodes)), 0)
    return count, float(device_seconds / count)


def _trained(
    base: Mapping[str, Any],
    view: View,
    device: str,
    devices: int,
    seconds: float,
    law: ChinchillaLaw,
    grid: Mapping[str, float],
) -> Row:
    """The best model that the devices train in the time; devices and time alone where none fits."""
    head: Row = {"view": view, "device": device, "devices": devices, "run_time_s": seconds}
    found = best_trained(base, view, device, devices, seconds, law)
    if found is None:
        return head
    return head | _figures_of(found, devices, law) | _footprint(found, device, devices, grid)


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


def _footprint(found: Trained, device: str, devices: int, grid: Mapping[str, float]) -> Row:
    joules = float(found.profile.energy_per_step_j) * found.steps
    return {
        "energy_j": joules,
        "power_w": float(power_w(joules, devices, found.seconds)),
        "carbon_kg": float(carbon_kg(joules, **grid)),
        "cost_usd": float(rent_usd(devices, found.seconds, _price(device))),
    }


def _overtrained(rows: Sequence[Row], law: ChinchillaLaw) -> Iterator[Row]:
    """Models that reach the loss of one budget's with other numbers of tokens per parameter, in the first view."""
    typical = [row for row in rows if "loss" in row and row.get("budget_usd") == TYPICAL_USD]
    reached = next((row for row in typical if row["device"] == TYPICAL_DEVICE), next(iter(typical), None))
    if reached is None:
        return
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
            "source": one.source,
        }
    for card in cards:
        peak, memory = card.fp16, card.memory_bytes
        yield {"kind": "accelerator", "name": card.name, "year": card.years, "peak_flops": peak, "memory_bytes": memory}


def _figures(overtrained: Sequence[Row], over_years: Sequence[Row]) -> tuple[Figure, ...]:
    of_money: dict[str, Any] = {"series": "device", "panel": "view", "where": {"budget": "money"}}
    figures = [
        Figure(
            kind="lines",
            title="Loss that a budget reaches",
            x="budget_usd",
            y="loss",
            log=frozenset(("x",)),
            names={"loss": "loss (nats per token)"},
            **of_money,
        ),
        Figure(
            kind="lines",
            title="Best size of a model for a budget",
            x="budget_usd",
            y="parameters",
            log=frozenset(("x", "y")),
            **of_money,
        ),
    ]
    if overtrained:
        title = "Compute of models that reach one loss"
        x, y = "tokens_per_parameter", "flops_over_best"
        figures.append(Figure(kind="lines", title=title, x=x, y=y, log=frozenset("xy"), columns=_table(overtrained)))
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
        figures.append(Figure(title=title, y=key, names=names, columns=_with_line(over_years, kind, key), **years))
    return tuple(figures)


def _with_line(over_years: Sequence[Row], kind: str, key: str) -> dict[str, list[Any]]:
    """The rows of a kind as columns, and the line through a figure of them."""
    columns = _table([row for row in over_years if row["kind"] == kind])
    growth = fit_growth(columns["year"], columns[key])
    return columns if growth is None else columns | {"line": growth.at(np.asarray(columns["year"])).tolist()}
