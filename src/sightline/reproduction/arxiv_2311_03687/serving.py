"""Findings on serving: three engines against each other, and the platforms.

The study does not state how models were deployed: each finding is interpreted with replicas and with one
server. Its burst is prompts and answers of 512 tokens each; latency is the mean over the burst's requests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import isnan

import numpy as np

from sightline.exploration.answer import Column, Figure
from sightline.reproduction.answer import ChoiceBySetting, Interpretation, ReproducedTable, table, taken
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    CALLED,
    CARDS,
    DEPLOYMENT,
    ENGINES,
    LIGHTLLM,
    MODEL,
    MODELS,
    NAMES,
    OUT_OF_MEMORY,
    PLATFORM,
    PLATFORMS,
    REQUEST,
    REQUESTS,
    RTX_3090,
    RTX_4090,
    SEVEN,
    SEVENTY,
    TGI,
    THROUGHPUT,
    TOKENS,
    VLLM,
    Burst,
    Deployment,
    as_described,
    burst,
)
from sightline.reproduction.asking import Ask, Findings, Tables

Ratios = Mapping[str, float]
"""A number by the case that it is of, in words; NaN where a model does not fit."""
Engines = Mapping[str, Burst]
"""What becomes of a burst with each engine."""


def a25(ask: Ask) -> list[Interpretation]:
    """Return TGI's throughput over the best other engine's on 24 GB cards."""

    def lead(way: Deployment) -> Ratios:
        return {case: _lead(of, TGI) for case, of in _by_model(ask, CARDS, way)}

    return _by_deployment(lead, "TGI answers {} times as fast as the best other engine", CARDS)


def a26(ask: Ask) -> list[Interpretation]:
    """Return LightLLM's throughput over the best other engine's on the A800."""

    def lead(way: Deployment) -> Ratios:
        return {case: _lead(of, LIGHTLLM) for case, of in _by_model(ask, (A800,), way)}

    return _by_deployment(lead, "LightLLM answers {} times as fast as the best other engine", (A800,))


def a27(ask: Ask) -> list[Interpretation]:
    """Return the mean latency of the best other engine over TGI's on RTX 3090 and A800."""
    platforms = (RTX_3090, A800)

    def lead(way: Deployment) -> Ratios:
        return {
            case: _least(of[other].latency_s for other in (VLLM, LIGHTLLM)) / of[TGI].latency_s
            for case, of in _by_model(ask, platforms, way)
        }

    return _by_deployment(lead, "The best other engine's mean latency is {} times TGI's", platforms)


def a28(ask: Ask) -> list[Interpretation]:
    """Return how many times as long as 7B a burst to 70B takes on the RTX 4090, with the engine where it is most."""
    interpretations = []
    for request, way in product(REQUEST, DEPLOYMENT):
        seconds = {
            CALLED[engine]: [
                burst(ask, RTX_4090, engine, model, way.value, tokens=request.value).duration_s
                for model in (SEVEN, SEVENTY)
            ]
            for engine in ENGINES
        }
        said = ", ".join(f"{engine} {small:.0f} s and {large:.0f} s" for engine, (small, large) in seconds.items())
        steps = {engine: large / small for engine, (small, large) in seconds.items()}
        choices = taken(way, request, *as_described(RTX_4090))
        sentence = f"70B takes {{}} times as long as 7B: {said}"
        interpretations.append(_interpretation(choices, steps, sentence, is_up_to=True))
    return interpretations


def a29(ask: Ask) -> list[Interpretation]:
    """Return the A800's lead over both cards in throughput and mean latency."""

    def leads(way: Deployment) -> Iterator[tuple[str, float]]:
        for card, model, engine in product(CARDS, MODELS, ENGINES):
            one, other = (burst(ask, platform, engine, model, way) for platform in (A800, card))
            case = f"{CALLED[engine]} with {MODELS[model]} against the {NAMES[card]}"
            yield f"in throughput, {case}", one.tokens_per_s / other.tokens_per_s
            yield f"in latency, {case}", other.latency_s / one.latency_s

    return _by_deployment(lambda way: dict(leads(way)), "The A800 is {} times ahead", CARDS)


def a30(ask: Ask) -> list[Interpretation]:
    """Return the RTX 3090's throughput over the RTX 4090's."""

    def leads(way: Deployment) -> Iterator[tuple[str, float]]:
        for model, engine in product(MODELS, ENGINES):
            one, other = (burst(ask, card, engine, model, way) for card in (RTX_3090, RTX_4090))
            yield f"{CALLED[engine]} with {MODELS[model]}", one.tokens_per_s / other.tokens_per_s

    said = "The RTX 3090 answers {} times as fast as the RTX 4090"
    return _by_deployment(lambda way: dict(leads(way)), said, CARDS)


def a31(ask: Ask) -> list[Interpretation]:
    """Return vLLM's mean latency over the worst other engine's."""

    def lag(way: Deployment) -> Ratios:
        return {
            case: of[VLLM].latency_s / _most(of[other].latency_s for other in (LIGHTLLM, TGI))
            for case, of in _by_model(ask, (A800, *CARDS), way)
        }

    return _by_deployment(lag, "vLLM's mean latency is {} times the worst other engine's", CARDS)


def a32(ask: Ask) -> list[Interpretation]:
    """Return the step in mean latency from 7B to 70B on the RTX 4090 over that on the A800."""

    def step(platform: str, engine: str, way: Deployment) -> float:
        small, large = (burst(ask, platform, engine, model, way).latency_s for model in (SEVEN, SEVENTY))
        return large / small

    def steps(way: Deployment) -> Ratios:
        return {CALLED[engine]: step(RTX_4090, engine, way) / step(A800, engine, way) for engine in ENGINES}

    said = "From 7B to 70B latency grows {} times as much on the RTX 4090 as on the A800"
    return _by_deployment(steps, said, (RTX_4090,))


def a39(ask: Ask) -> list[Interpretation]:
    """Return the largest throughput of an engine over the smallest on 24 GB cards."""

    def spread(way: Deployment) -> Ratios:
        rates = {case: [one.tokens_per_s for one in of.values()] for case, of in _by_model(ask, CARDS, way)}
        return {case: _most(of) / _least(of) for case, of in rates.items()}

    return _by_deployment(spread, "The fastest engine answers {} times as fast as the slowest", CARDS)


def _by_model(ask: Ask, platforms: Sequence[str], way: Deployment) -> Iterator[tuple[str, Engines]]:
    """Every platform with every model, in words, and what becomes of a burst there with each engine."""
    for platform, model in product(platforms, MODELS):
        engines = {engine: burst(ask, platform, engine, model, way) for engine in ENGINES}
        yield f"{MODELS[model]} on the {NAMES[platform]}", engines


def _lead(of: Engines, engine: str) -> float:
    """An engine's throughput over the best other one's."""
    return of[engine].tokens_per_s / _most(one.tokens_per_s for name, one in of.items() if name != engine)


def _most(values: Iterable[float]) -> float:
    """The largest, and NaN where one is."""
    return float(np.max(list(values)))


def _least(values: Iterable[float]) -> float:
    """The smallest, and NaN where one is."""
    return float(np.min(list(values)))


def _by_deployment(ratios: Callable[[Deployment], Ratios], said: str, platforms: Sequence[str]) -> list[Interpretation]:
    """Ratios with each deployment on platforms whose servers are as described."""
    return [
        _interpretation(taken(way, REQUEST.first, *as_described(*platforms)), ratios(way.value), said)
        for way in DEPLOYMENT
    ]


def _interpretation(choices: ChoiceBySetting, ratios: Ratios, said: str, *, is_up_to: bool = False) -> Interpretation:
    """Ratios in one interpretation, of a finding that says "up to" the largest alone.

    ``said`` has a place for the smallest and the largest.
    """
    if any(isnan(ratio) for ratio in ratios.values()):
        return Interpretation(choices=choices, values=[None], sentence="A model does not fit.")
    ends = [
        f"{ratios[case]:.3g} ({case})"
        for case in (min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__))
    ]
    values = [max(ratios.values())] if is_up_to else list(ratios.values())
    return Interpretation(choices=choices, values=values, sentence=f"{said.format(' to '.join(ends))}.")


FINDINGS: Findings = {
    "A25": a25,
    "A26": a26,
    "A27": a27,
    "A28": a28,
    "A29": a29,
    "A30": a30,
    "A31": a31,
    "A32": a32,
    "A39": a39,
}


SHARES = tuple(step / 10 for step in range(1, 11))
"""Of the requests, at which the distribution is written down."""
CASE: Mapping[str, Column] = {
    "platform": PLATFORM,
    "model": MODEL,
    "deployment": Column(label="deployment"),
    "engine": Column(label="engine"),
}
SECONDS: Mapping[str, Column] = {
    "latency_s": Column(label="latency", unit="s"),
    "duration_s": Column(label="whole burst", unit="s"),
}
ASSUMPTIONS = (
    f"{REQUESTS:,} requests at once, prompts and answers of {TOKENS} tokens; the study says {REQUESTS:,} x {TOKENS}.",
    "Deployments are not stated: replicas on 1 (7B), 2 (13B) and 8 GPUs (70B), and one server over all 8.",
    "TGI takes all requests in: with its default limit of 128 at once it would refuse the others.",
    "LightLLM's cache, whose size users state, takes 0.85 of what the weights leave, as its documentation tells them.",
)


def throughput(ask: Ask) -> ReproducedTable:
    """Return throughput, mean latency and duration of a burst, by platform, model, deployment and engine."""
    rows = [
        {**case, "tokens_per_s": found.tokens_per_s, "latency_s": found.latency_s, "duration_s": found.duration_s}
        for case, found in _bursts(ask)
    ]
    return table(
        "serving-throughput",
        f"A burst of {REQUESTS:,} requests: throughput and mean latency of three engines",
        rows,
        about={**CASE, "tokens_per_s": THROUGHPUT, **SECONDS},
        figures=[
            Figure(
                kind="bars",
                title=f"Throughput, {way.name}",
                x="model",
                y="tokens_per_s",
                series="engine",
                panel="platform",
                missing=OUT_OF_MEMORY,
                where={"deployment": way.value.name},
            )
            for way in DEPLOYMENT
        ],
        assumptions=ASSUMPTIONS,
    )


def latency(ask: Ask) -> ReproducedTable:
    """Return within which time which share of a burst's requests is answered."""
    rows = [
        {**case, "latency_s": float(seconds), "share": share}
        for case, found in _bursts(ask)
        for share, seconds in zip(SHARES, np.quantile(found.latencies_s, SHARES), strict=True)
    ]
    return table(
        "serving-latency",
        f"A burst of {REQUESTS:,} requests: distribution of latencies with three engines",
        rows,
        about={
            **CASE,
            "latency_s": SECONDS["latency_s"],
            "share": Column(label="requests answered within it", unit="share"),
        },
        figures=[
            Figure(
                kind="lines",
                title=f"Latency of {model}, {way.name}",
                x="latency_s",
                y="share",
                series="engine",
                panel="platform",
                where={"model": model, "deployment": way.value.name},
            )
            for model, way in product(MODELS.values(), DEPLOYMENT)
        ],
        assumptions=ASSUMPTIONS,
    )


def _bursts(ask: Ask) -> Iterator[tuple[dict[str, str], Burst]]:
    """Every case, in words, and what becomes of the burst."""
    for platform, model, way, engine in product(PLATFORMS, MODELS, DEPLOYMENT, ENGINES):
        case = {
            "platform": NAMES[platform],
            "model": MODELS[model],
            "deployment": way.value.name,
            "engine": CALLED[engine],
        }
        yield case, burst(ask, platform, engine, model, way.value)


TABLES: Tables = {"serving-throughput": throughput, "serving-latency": latency}
