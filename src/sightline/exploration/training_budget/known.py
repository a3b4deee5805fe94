"""Trainings whose size is published: a model of the catalog, and the tokens it was trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from sightline import catalog
from sightline.exploration.training_budget.laws import FLOPS_PER_PARAMETER_AND_TOKEN
from sightline.quantities import years_of

Evidence = Literal["datasheet", "listed"]
"""How a number of tokens is known: read in the paper or card of who trained it, or as others list it from there."""
TOKENS: Mapping[str, tuple[float, Evidence, str]] = {
    "gpt-3-175b": (300e9, "datasheet", "arXiv 2005.14165 table 2.1"),
    "mt-nlg-530b": (270e9, "listed", "arXiv 2201.11990 section 3"),
    "opt-175b": (180e9, "listed", "arXiv 2205.01068 section 2; documentation of Hugging Face Transformers"),
    "bloom-176b": (366e9, "listed", "arXiv 2211.05100 table 3; documentation of Hugging Face Transformers"),
    "llama-65b": (1.4e12, "datasheet", "arXiv 2302.13971 section 2.1 and table 2"),
    "llama-2-70b": (2.0e12, "datasheet", "model card of meta-llama/Llama-2-70b; arXiv 2307.09288 table 1"),
    "falcon-180b": (3.5e12, "datasheet", "model card of tiiuae/falcon-180B; arXiv 2311.16867 table 1"),
    "llama-3-70b": (15e12, "datasheet", "model card of meta-llama/Meta-Llama-3-70B, which says over 15 trillion"),
    "deepseek-v2": (8.1e12, "datasheet", "model card of deepseek-ai/DeepSeek-V2; arXiv 2405.04434 section 3"),
    "llama-3.1-405b": (15.6e12, "listed", "arXiv 2407.21783 section 3"),
    "qwen2.5-72b": (18e12, "listed", "arXiv 2412.15115 section 1, which says up to 18 trillion for all sizes"),
    "deepseek-v3": (14.8e12, "datasheet", "model card of deepseek-ai/DeepSeek-V3; arXiv 2412.19437 abstract"),
    "qwen3-235b-a22b": (36e12, "listed", "arXiv 2505.09388 section 1"),
    "kimi-k2": (15.5e12, "listed", "arXiv 2507.20534 abstract"),
}
"""Tokens of pre-training, how they are known, and where from, by the catalog's name of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTraining:
    """A model that somebody trained, and on how much."""

    model: str
    date: str
    """Year and month of its publication, as the catalog has it."""
    parameters: float
    active_parameters: float
    """Those that a token passes: of a mixture of experts fewer than it has."""
    tokens: float
    evidence: Evidence
    source: str
    """Of the tokens, as is their evidence."""

    @property
    def years(self) -> float:
        """The date as a number of years."""
        return years_of(self.date)

    @property
    def flops(self) -> float:
        """FLOPs of the training, 6 per active parameter and token."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.active_parameters * self.tokens


@cache
def known_trainings() -> tuple[KnownTraining, ...]:
    """Return the trainings by date."""
    return tuple(sorted(map(_known, TOKENS), key=lambda one: (one.date, one.model)))


def _known(name: str) -> KnownTraining:
    stated = catalog.entry("models", name)
    parameters = float(stated.get("parameters") or _counted(name))
    tokens, evidence, source = TOKENS[name]
    return KnownTraining(
        model=name,
        date=str(stated["date"]),
        parameters=parameters,
        active_parameters=float(stated.get("active_parameters", parameters)),
        tokens=tokens,
        evidence=evidence,
        source=source,
    )


def _counted(name: str) -> float:
    """The parameters of an entry that states none, counted from its architecture."""
    from sightline.loading.models.config import resolve_model

    return float(resolve_model(name, Path()).model.parameters)
