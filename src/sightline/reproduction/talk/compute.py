"""What training takes (C1), what a dollar buys (C2), and how models outgrow accelerators (C3)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sightline import catalog
from sightline.exploration.answer import Column
from sightline.exploration.studies.trends import CONSTANT, OF_THE_DAY
from sightline.exploration.training_budget.known import TOKENS
from sightline.exploration.training_budget.laws import FLOPS_PER_PARAMETER_AND_TOKEN
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.asking import Ask, Findings, Tables
from sightline.reproduction.open_settings import OpenSetting, taken
from sightline.reproduction.outcome import Interpretation


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A model that the talk counts."""

    name: str
    parameters: float
    """In its name."""
    tokens: float
    stated: float
    """FLOPs that the talk says."""
    model: Any
    """Name in the catalog, or the architecture."""
    sequence_length: int

    @property
    def flops(self) -> float:
        """6 N D."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.parameters * self.tokens


def trainings() -> Iterator[Training]:
    """Yield the trainings that the talk counts, as the ledger of its findings has them."""
    for stated in catalog.entry("findings", "talk")["trainings"]:
        yield Training(
            name=stated["name"],
            parameters=stated["parameters"],
            tokens=stated["tokens"] if "tokens" in stated else TOKENS[stated["model"]][0],
            stated=stated["stated_flops"],
            model=stated["model"],
            sequence_length=stated["sequence_length"],
        )


def c1(_: Ask) -> list[Interpretation]:
    """Return the errors of 6 N D."""
    errors = {one.name: one.flops / one.stated - 1 for one in trainings()}
    said = ", ".join(f"{one.name} {one.flops:.3g}" for one in trainings())
    return [Interpretation(values=[*map(abs, errors.values())], sentence=f"6 N D with nominal N in FLOP: {said}.")]


def flops(ask: Ask) -> ReproducedTable:
    """Return 6 N D of each training beside what its layers do, counted operator by operator."""
    about = {
        "name": Column(label="model"),
        "parameters": Column(label="parameters"),
        "tokens": Column(label="tokens"),
        "stated_flops": Column(label="talk", unit="FLOP"),
        "flops": Column(label="6 N D", unit="FLOP"),
        "counted_flops": Column(label="counted, with attention", unit="FLOP"),
        "counted_over_6nd": Column(label="counted over 6 N D"),
    }
    return table("flops", "Compute of trainings", list(_counted(ask)), about=about, status="published")


def _counted(ask: Ask) -> Iterator[dict[str, Any]]:
    for one in trainings():
        profile = ask.profile(_step(one))
        counted = float(profile.model_flops) * one.tokens / (one.sequence_length * BATCH)
        yield {
            "name": one.name,
            "parameters": one.parameters,
            "tokens": one.tokens,
            "stated_flops": one.stated,
            "flops": one.flops,
            "counted_flops": counted,
            "counted_over_6nd": counted / one.flops,
        }


BATCH = 64
"""Sequences of a step whose FLOPs are counted."""


def _step(one: Training) -> dict[str, Any]:
    """A step of a training on as many devices as one replica takes."""
    return {
        "model": dict(one.model) if isinstance(one.model, Mapping) else one.model,
        "cluster": f"{BATCH}x a100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": one.sequence_length, "global_batch": BATCH},
        "plan": {"framework": "reference", "tensor_parallel": 8, "pipeline_parallel": 8, "micro_batch": 1},
    }


DOLLARS: OpenSetting[str] = OpenSetting(
    name="dollars of prices", choices={f"prices in {name}": name for name in (OF_THE_DAY, CONSTANT)}
)


def c2(ask: Ask) -> list[Interpretation]:
    """Return the years in which fp32 per dollar doubles over launches until 2021."""
    told = ask.study("trends").summary["doubling_years_of_published_years"]
    interpretations = []
    for dollars in DOLLARS:
        of = told[dollars.value]
        sentence = (
            f"Over {of['points']} launches of 2006 to 2021 fp32 per dollar doubles every {of['years']:.2f} years "
            f"({of['interval'][0]:.2f} to {of['interval'][1]:.2f}); each market has a level of its own."
        )
        interpretations.append(Interpretation(choices=taken(dollars), values=[of["years"]], sentence=sentence))
    return interpretations


def trends(ask: Ask) -> ReproducedTable:
    """Return the study of price-performance."""
    return ReproducedTable(id="trends", answer=ask.study("trends"), status="published")


def c3(ask: Ask) -> list[Interpretation]:
    """Return how many times as fast training compute doubles as the peak of accelerators does."""
    told = ask.study("budgets", view="ideal").summary["doubling_years"]
    trained, peak = told["training FLOPs"], told["accelerator peak"]
    sentence = (
        f"Compute of {trained['points']} published trainings doubles every {trained['years']:.1f} years, the 16-bit "
        f"peak of {peak['points']} accelerators every {peak['years']:.1f}."
    )
    return [Interpretation(values=[peak["years"] / trained["years"]], sentence=sentence)]


def gap(ask: Ask) -> ReproducedTable:
    """Return trainings and accelerators over the years, with the pictures of both."""
    study = ask.study("budgets", view="ideal")
    keys = ("kind", "name", "year", "flops", "device_years", "peak_flops", "memory_bytes")
    rows = [{key: row[key] for key in keys if key in row} for row in study.summary["over_years"]]
    labels = {"kind": "kind", "name": "name", "year": "year"}
    about = {key: study.about.get(key, Column(label=labels.get(key, key))) for key in keys}
    pictures = [figure for figure in study.figures if figure.kind == "points"]
    return table("gap", "Compute of trainings and peak of accelerators", rows, about=about, figures=pictures)


FINDINGS: Findings = {"C1": c1, "C2": c2, "C3": c3}
TABLES: Tables = {"flops": flops, "trends": trends, "gap": gap}
