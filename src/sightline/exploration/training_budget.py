"""The best model for some compute: laws of the loss, a prediction of its speed, and trainings that are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil, floor, log, log2
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.exploration.base import fastest_if_any, in_view
from sightline.exploration.footprint import Electricity, read_electricity, rent_usd
from sightline.exploration.study_answer import View
from sightline.loading.checks import Complaints, check
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.quantities import COUNT, DAY, FLOPS, USD, USD_PER_HOUR, Number, parse_quantity, show, years_of
from sightline.validators import Keys, Kind, choice, quantity

FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
"""Two forward and four backward, without attention (Kaplan 2020, arXiv 2001.08361, section 2.1)."""
PF_DAY = 1e15 * DAY
"""FLOPs of a petaFLOP/s for a day, the unit of compute in arXiv 2001.08361."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChinchillaLaw:
    """L = E + A / N^alpha + B / D^beta (Hoffmann 2022, arXiv 2203.15556, equation 2)."""

    name: str
    source: str
    irreducible: float
    """E, the loss of a model of any size after any number of tokens."""
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, parameters: Number, tokens: Number) -> Number:
        """Return the loss of a model after so many tokens, seen once each."""
        return self.irreducible + self.a / parameters**self.alpha + self.b / tokens**self.beta

    def best_parameters(self, flops: Number) -> Number:
        """Return the N of least loss where 6 N D = C (the same paper, equation 4)."""
        alpha, beta = self.alpha, self.beta
        scale: float = (alpha * self.a / (beta * self.b)) ** (1.0 / (alpha + beta))
        return scale * (flops / FLOPS_PER_PARAMETER_AND_TOKEN) ** (beta / (alpha + beta))


@dataclass(frozen=True, slots=True, kw_only=True)
class KaplanLaw:
    """L = ((Nc / N)^(alphaN / alphaD) + Dc / D)^alphaD, and N = Ne C^pN (Kaplan 2020, arXiv 2001.08361).

    N counts no embeddings. The best N is the paper's own, for training that stops well before a model has converged;
    it is not the minimum of L, which the paper fits to models trained as long as they improve.
    """

    name: str
    source: str
    critical_parameters: float
    critical_tokens: float
    alpha_n: float
    alpha_d: float
    best_scale: float
    """Parameters at one PF-day."""
    best_exponent: float

    def loss(self, parameters: Number, tokens: Number) -> Number:
        """Return the loss of a model after so many tokens."""
        of_size = (self.critical_parameters / parameters) ** (self.alpha_n / self.alpha_d)
        return (of_size + self.critical_tokens / tokens) ** self.alpha_d

    def best_parameters(self, flops: Number) -> Number:
        """Return the N that reaches the least loss with C FLOPs."""
        return self.best_scale * (flops / PF_DAY) ** self.best_exponent


Law = ChinchillaLaw | KaplanLaw
LAWS: Mapping[str, Law] = {
    law.name: law
    for law in (
        ChinchillaLaw(
            name="chinchilla-2024",
            source="arXiv 2404.10102, the fit of Hoffmann 2022 done again",
            irreducible=1.8172,
            a=482.01,
            b=2085.43,
            alpha=0.3478,
            beta=0.3658,
        ),
        ChinchillaLaw(
            name="chinchilla-2022",
            source="arXiv 2203.15556, approach 3 as the paper prints it",
            irreducible=1.69,
            a=406.4,
            b=410.7,
            alpha=0.34,
            beta=0.28,
        ),
        KaplanLaw(
            name="kaplan-2020",
            source="arXiv 2001.08361, tables 2 and 6",
            critical_parameters=6.4e13,
            critical_tokens=1.8e13,
            alpha_n=0.076,
            alpha_d=0.103,
            best_scale=1.3e9,
            best_exponent=0.73,
        ),
    )
}
"""Published laws by name, the one that studies follow first."""


def tokens_of(flops: Number, parameters: Number) -> Number:
    """Return the D of C = 6 N D."""
    return flops / (FLOPS_PER_PARAMETER_AND_TOKEN * parameters)


def flops_to_match(law: ChinchillaLaw, loss: Number, tokens_per_parameter: Number) -> Number:
    """Return the C at which a model with ``tokens_per_parameter`` D / N reaches a loss; infinite where none does.

    Solved for N by bisection on its logarithm, as the two powers of N differ.
    """
    shape = np.broadcast(loss, tokens_per_parameter).shape
    low, high = np.zeros(shape), np.full(shape, 40.0)
    for _ in range(80):
        middle = (low + high) / 2
        parameters = np.exp(middle)
        too_high = law.loss(parameters, parameters * tokens_per_parameter) > loss
        low, high = np.where(too_high, middle, low), np.where(too_high, high, middle)
    parameters = np.exp(high)
    reached = np.where(high < 39.9, parameters, np.inf)
    found: Number = FLOPS_PER_PARAMETER_AND_TOKEN * tokens_per_parameter * reached**2
    return found


SEQUENCE_LENGTH = 4096
VOCABULARY = 128256
"""Tokens of Llama 3's vocabulary."""
HEAD = 128
KEY_VALUE_HEADS = 8
WIDTH_OVER_DEPTH = 128
"""Hidden size over layers: 128 of Llama 7B and Llama 3 8B, 130 of Llama 3.1 405B."""
HIDDEN_STEP = 1024
"""Hidden sizes are multiples of this: eight heads, which tensor parallelism of 8 can split."""
BATCH_SCALE, BATCH_EXPONENT = 0.2920, 0.3271
"""Tokens of the best batch are ``BATCH_SCALE`` C^``BATCH_EXPONENT`` (arXiv 2401.02954, equation 1)."""
ASSUMED_MFU: Mapping[View, float] = {"calibrated": 0.45, "ideal": 0.85}
"""With which the search for a size begins."""
CLOSE = 0.15
"""Sizes whose logarithms differ by this at most are as good: the loss differs in its fourth digit."""
PLAN: Mapping[str, Any] = {
    "framework": "megatron",
    "dtype": "bf16",
    "tensor_parallel": {"any": [1, 2, 4, 8]},
    "pipeline_parallel": {"any": [1, 2, 4, 8, 16, 32, 64]},
    "context_parallel": 1,
    "micro_batch": {"any": [1, 2, 4]},
    "zero_stage": 1,
    "sequence_parallel": True,
    "schedule": {"any": ["1f1b", "interleaved"]},
    "recompute": {"any": ["none", "selective", "full"]},
    "attention": "flash",
    "offload": "none",
}
"""What is searched for every model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """Devices that train for a time."""

    device: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """A model, what it is trained on, and the prediction of its training."""

    parameters: float
    tokens: float
    profile: Profile
    """Of the best plan."""
    seconds: float

    @property
    def flops(self) -> float:
        """6 N D."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.parameters * self.tokens

    @property
    def steps(self) -> float:
        """Steps of the training."""
        return self.seconds / float(self.profile.step_time_s)


def best_trained(base: Mapping[str, Any], view: View, rented: Rented, law: Law, progress: Progress) -> Trained | None:
    """Return the model of least loss that devices can train in their time; None where no plan for it fits them.

    The size is the law's best for 6 N D, where D are the tokens that the devices train in the time, as predicted for a
    first size; where the best then is another one by more than `CLOSE`, that one is predicted too.

    Raises:
        Cancelled: somebody asked to stop.
    """
    peak = parse_quantity(catalog.entry("devices", rented.device)["peak_flops"]["bf16"], FLOPS)
    flops = ASSUMED_MFU[view] * peak * rented.count * rented.seconds
    found = _trained(base, view, rented, float(law.best_parameters(flops)), flops, progress)
    if found is None:
        return None
    best = float(law.best_parameters(found.flops))
    if abs(log(best / found.parameters)) > CLOSE:
        return _trained(base, view, rented, best, found.flops, progress) or found
    return found


def _trained(
    base: Mapping[str, Any], view: View, rented: Rented, parameters: float, flops: float, progress: Progress
) -> Trained | None:
    """A model of about these parameters, trained for the time by the best plan for it."""
    scenario = {
        **base,
        "model": shape_of(parameters),
        "cluster": f"{rented.count}x {rented.device}",
        "workload": {**base["workload"], "global_batch": batch_of(flops)},
    }
    profile = fastest_if_any(in_view(scenario, view), None, progress)
    if profile is None:
        return None
    return Trained(
        parameters=float(profile.scenario.model.parameters),
        tokens=float(profile.tokens_per_s) * rented.seconds,
        profile=profile,
        seconds=rented.seconds,
    )


def shape_of(parameters: float) -> dict[str, Any]:
    """Return the config of a Llama-like model with about so many parameters, embedding and head counted."""
    per_depth = 12.0 / WIDTH_OVER_DEPTH
    hidden = HIDDEN_STEP * max(round((parameters / per_depth) ** (1 / 3) / HIDDEN_STEP), 1)
    width = 256 * round(8 * hidden / 3 / 256)
    per_layer = 2 * hidden**2 + 2 * hidden * HEAD * KEY_VALUE_HEADS + 3 * hidden * width
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": max(round((parameters - 2 * VOCABULARY * hidden) / per_layer), 1),
        "num_attention_heads": hidden // HEAD,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": SEQUENCE_LENGTH,
        "tie_word_embeddings": False,
    }


def batch_of(flops: float) -> int:
    """Return the samples of the best batch, as the nearest power of two."""
    return 1 << max(round(log2(BATCH_SCALE * flops**BATCH_EXPONENT / SEQUENCE_LENGTH)), 3)


DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb")
LAW = "chinchilla-2024"
FOLLOWED = {name: law for name, law in LAWS.items() if isinstance(law, ChinchillaLaw)}
"""Laws that the study may follow: those whose loss has a best size."""
BUDGETS_USD = (1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
"""Budgets of money, unless `budget_usd` is set."""
DAYS = (7, 30, 90)
"""Budgets of time, of `TIMED_DEVICES` devices, unless `days` is set."""
TIMED_DEVICES = 1024
SHORTEST_DAYS = 60
"""A budget rents the largest power of two of devices that it pays for this long: a run of 60 to 120 days. Where `days`
is set with `budget_usd`, it rents the smallest that spends the money within them."""
NODE = 8
"""Devices that are rented at least."""

Budget = Mapping[str, Any]
"""Its kind, ``money`` or ``time``, and its ``budget_usd`` or ``deadline_s`` or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the study is asked."""

    law: ChinchillaLaw
    devices: tuple[str, ...]
    """Names of the catalog."""
    budgets: Sequence[Budget]
    electricity: Electricity

    @property
    def axes(self) -> dict[str, Sequence[Any]]:
        """What is varied, and its values."""
        varied = {key: [one[key] for one in self.budgets if key in one] for key in ("budget_usd", "deadline_s")}
        return {"cluster.device": self.devices, **{key: sorted(set(of)) for key, of in varied.items() if of}}

    @property
    def sentence(self) -> str:
        """What the study assumes of what budgets rent."""
        rent = "at catalog prices (`sightline catalog prices`), without failures."
        of_money = [budget for budget in self.budgets if "budget_usd" in budget]
        if not of_money:
            return f"Budgets of time have {TIMED_DEVICES:,} devices, {rent}"
        if all("deadline_s" in budget for budget in of_money):
            return (
                "A budget rents the smallest power of two of devices, at least one server, that spends it within "
                f"the given days, {rent}"
            )
        longer = "" if len(of_money) == len(self.budgets) else f" Budgets of time have {TIMED_DEVICES:,} devices."
        return (
            "A budget rents the largest power of two of devices, at least one server, that it can pay for "
            f"{SHORTEST_DAYS} days, {rent}{longer}"
        )


def _devices(value: object) -> tuple[str, ...]:
    """Catalog names of devices that have a rent and a peak in bf16."""
    problems, found = [], []
    for name in map(str, value if isinstance(value, list | tuple) else [value]):
        device = catalog.name_of("devices", name)
        if device not in catalog.names("devices"):
            near = nearest(device, catalog.names("devices"))
            problems.append(f"has unknown device {show(name)}{near}; list all with `sightline catalog devices`")
        elif "price" not in (entry := catalog.entry("devices", device)) or "bf16" not in entry["peak_flops"]:
            problems.append(f"has {show(name)}, which has no price or no bf16 peak in the catalog")
        else:
            found.append(device)
    if problems or not found:
        raise InputError(", and ".join(problems) or "is empty; allowed: names from `sightline catalog devices`")
    return tuple(dict.fromkeys(found))


def _each(kind: Kind) -> Kind:
    """One value of a kind or a list of them, in order."""

    def read(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise InputError("is empty; allowed: a value or a list of them")
        return tuple(sorted(set(map(kind, values))))

    return read


STATED: Keys = {
    "law": choice(*FOLLOWED),
    "devices": _devices,
    "budget_usd": _each(quantity(USD)),
    "days": _each(quantity(COUNT)),
}
"""What is asked of the study itself."""


def read_asked(base: Mapping[str, Any], *, quick: bool) -> tuple[Asked, dict[str, Any]]:
    """Return what the study is asked, and the rest of its base: the scenario that all trainings share.

    Raises:
        InputError: every mistake in what is asked.
    """
    complaints = Complaints()
    stated = check(STATED, {key: base[key] for key in STATED if key in base}, "", complaints).values
    electricity = read_electricity(base.get("electricity"), complaints)
    complaints.raise_any()
    devices = stated.get("devices", DEVICES)
    asked = Asked(
        law=FOLLOWED[stated.get("law", LAW)],
        devices=devices[-2:] if quick else devices,
        budgets=_budgets(stated.get("budget_usd"), stated.get("days"), quick=quick),
        electricity=electricity,
    )
    return asked, {key: value for key, value in base.items() if key not in (*STATED, "electricity")}


def _budgets(money: Sequence[float] | None, days: Sequence[float] | None, *, quick: bool) -> list[Budget]:
    """Budgets of money and of time; of one where only that is set; of money within a time where both are."""
    if money and days:
        return [{"budget": "money", "budget_usd": usd, "deadline_s": time * DAY} for usd, time in product(money, days)]
    if not money and not days:
        money, days = (BUDGETS_USD[::2], DAYS[1:2]) if quick else (BUDGETS_USD, DAYS)
    return [
        *({"budget": "money", "budget_usd": usd} for usd in money or ()),
        *({"budget": "time", "deadline_s": time * DAY} for time in days or ()),
    ]


def usd_per_hour(device: str) -> float:
    """Return the rent of a device."""
    return parse_quantity(catalog.entry("devices", device)["price"], USD_PER_HOUR)


def rented_by(device: str, budget: Budget) -> Rented:
    """Return the devices that a budget rents, and for how long."""
    if "budget_usd" not in budget:
        return Rented(device=device, count=TIMED_DEVICES, seconds=float(budget["deadline_s"]))
    device_seconds = budget["budget_usd"] / rent_usd(1, 1, usd_per_hour(device))
    longest = budget.get("deadline_s")
    doublings = log2(device_seconds / ((longest or SHORTEST_DAYS * DAY) * NODE))
    count = NODE * 2 ** max(floor(doublings) if longest is None else ceil(doublings), 0)
    return Rented(device=device, count=count, seconds=float(device_seconds / count))


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
