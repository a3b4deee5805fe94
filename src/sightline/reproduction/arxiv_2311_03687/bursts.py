"""Findings on serving: three engines against each other, and the platforms.

The study does not state how models were deployed: each finding is interpreted with replicas and with one
server. Its burst is prompts and answers of 512 tokens each; latency is the mean over the burst's requests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import product
from math import isnan
from typing import Any

import numpy as np

from sightline.exploration.study_answer import Column, Figure
from sightline.reproduction.arxiv_2311_03687 import settings
from sightline.reproduction.asking import Ask, Findings, Row, Tables
from sightline.reproduction.outcomes import Choice, Interpretation, taken

FINDINGS, TABLES = Findings(), Tables()
Ratios = Iterator[tuple[str, float]]
"""Cases in words, each with its number; NaN where a model does not fit."""


def by_deployment(said: str, *platforms: str) -> Callable[[Callable[[Ask, settings.Deployment], Ratios]], Any]:
    """Return a decorator that adds a finding of ratios with each deployment, on servers as they are described.

    ``said`` has a place for the smallest and the largest.
    """

    def added(ratios: Callable[[Ask, settings.Deployment], Ratios]) -> Any:
        @FINDINGS.add(settings.DEPLOYMENT)
        @wraps(ratios)
        def interpret(ask: Ask, deployment: Choice[settings.Deployment]) -> Interpretation:
            by_case = {case: float(ratio) for case, ratio in ratios(ask, deployment.value)}
            return _interpretation(by_case, said, settings.REQUEST.first, platforms)

        return interpret

    return added


@by_deployment("TGI answers {} times as fast as the best other engine", *settings.CARDS)
def a25(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return TGI's throughput over the best other engine's on 24 GB cards."""
    return ((case, _lead(bursts, settings.TGI)) for case, bursts in _by_model(ask, settings.CARDS, deployment))


@by_deployment("LightLLM answers {} times as fast as the best other engine", settings.A800)
def a26(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return LightLLM's throughput over the best other engine's on the A800."""
    return ((case, _lead(bursts, settings.LIGHTLLM)) for case, bursts in _by_model(ask, (settings.A800,), deployment))


@by_deployment("The best other engine's mean latency is {} times TGI's", settings.RTX_3090, settings.A800)
def a27(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return the mean latency of the best other engine over TGI's on RTX 3090 and A800."""
    for case, bursts in _by_model(ask, (settings.RTX_3090, settings.A800), deployment):
        yield (
            case,
            np.min([bursts[other].latency_s for other in (settings.VLLM, settings.LIGHTLLM)])
            / bursts[settings.TGI].latency_s,
        )


@FINDINGS.add(settings.REQUEST, settings.DEPLOYMENT, last_first=True)
def a28(ask: Ask, request: Choice[int], deployment: Choice[settings.Deployment]) -> Interpretation:
    """Return how many times as long as 7B a burst to 70B takes on the RTX 4090, with the engine where it is most."""
    seconds = {
        settings.CALLED[engine]: [
            settings.burst(ask, settings.RTX_4090, engine, model, deployment.value, tokens=request.value).duration_s
            for model in (settings.SEVEN, settings.SEVENTY)
        ]
        for engine in settings.ENGINES
    }
    listed = ", ".join(f"{engine} {small:.0f} s and {large:.0f} s" for engine, (small, large) in seconds.items())
    ratios = {engine: large / small for engine, (small, large) in seconds.items()}
    found = _interpretation(ratios, f"70B takes {{}} times as long as 7B: {listed}", request, (settings.RTX_4090,))
    # The study says "up to": the largest alone is judged.
    return replace(found, values=[None if None in found.values else max(ratios.values())])


@by_deployment("The A800 is {} times ahead", *settings.CARDS)
def a29(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return the A800's lead over both cards in throughput and mean latency."""
    for card, model, engine in product(settings.CARDS, settings.MODELS, settings.ENGINES):
        a800, other = (settings.burst(ask, platform, engine, model, deployment) for platform in (settings.A800, card))
        case = f"{settings.CALLED[engine]} with {settings.MODELS[model]} against the {settings.NAMES[card]}"
        yield f"in throughput, {case}", a800.tokens_per_s / other.tokens_per_s
        yield f"in latency, {case}", other.latency_s / a800.latency_s


@by_deployment("The RTX 3090 answers {} times as fast as the RTX 4090", *settings.CARDS)
def a30(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return the RTX 3090's throughput over the RTX 4090's."""
    for model, engine in product(settings.MODELS, settings.ENGINES):
        ampere, ada = (
            settings.burst(ask, card, engine, model, deployment) for card in (settings.RTX_3090, settings.RTX_4090)
        )
        yield f"{settings.CALLED[engine]} with {settings.MODELS[model]}", ampere.tokens_per_s / ada.tokens_per_s


@by_deployment("vLLM's mean latency is {} times the worst other engine's", *settings.CARDS)
def a31(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return vLLM's mean latency over the worst other engine's."""
    for case, bursts in _by_model(ask, (settings.A800, *settings.CARDS), deployment):
        yield (
            case,
            bursts[settings.VLLM].latency_s
            / np.max([bursts[other].latency_s for other in (settings.LIGHTLLM, settings.TGI)]),
        )


@by_deployment("From 7B to 70B latency grows {} times as much on the RTX 4090 as on the A800", settings.RTX_4090)
def a32(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return the step in mean latency from 7B to 70B on the RTX 4090 over that on the A800."""

    def step(platform: str, engine: str) -> float:
        small, large = (
            settings.burst(ask, platform, engine, model, deployment).latency_s
            for model in (settings.SEVEN, settings.SEVENTY)
        )
        return large / small

    return (
        (settings.CALLED[engine], step(settings.RTX_4090, engine) / step(settings.A800, engine))
        for engine in settings.ENGINES
    )


@by_deployment("The fastest engine answers {} times as fast as the slowest", *settings.CARDS)
def a39(ask: Ask, deployment: settings.Deployment) -> Ratios:
    """Return the largest throughput of an engine over the smallest on 24 GB cards."""
    for case, bursts in _by_model(ask, settings.CARDS, deployment):
        rates = [engine.tokens_per_s for engine in bursts.values()]
        yield case, np.max(rates) / np.min(rates)


def _by_model(
    ask: Ask, platforms: Sequence[str], deployment: settings.Deployment
) -> Iterator[tuple[str, Mapping[str, settings.Burst]]]:
    """Every platform with every model, in words, and what becomes of a burst there with each engine."""
    for platform, model in product(platforms, settings.MODELS):
        bursts = {engine: settings.burst(ask, platform, engine, model, deployment) for engine in settings.ENGINES}
        yield f"{settings.MODELS[model]} on the {settings.NAMES[platform]}", bursts


def _lead(bursts: Mapping[str, settings.Burst], engine: str) -> float:
    """An engine's throughput over the best other one's; NaN where a model does not fit."""
    others = [other.tokens_per_s for name, other in bursts.items() if name != engine]
    return float(bursts[engine].tokens_per_s / np.max(others))


def _interpretation(
    ratios: Mapping[str, float], said: str, request: Choice[int], platforms: Sequence[str]
) -> Interpretation:
    """Ratios by case in one interpretation."""
    choices = {**taken(request), **settings.as_described(*platforms)}
    if any(isnan(ratio) for ratio in ratios.values()):
        return Interpretation(choices=choices, values=[None], sentence="A model does not fit.")
    ends = [f"{ratios[case]:.3g} ({case})" for case in (end(ratios, key=ratios.__getitem__) for end in (min, max))]
    sentence = f"{said.format(' to '.join(ends))}."
    return Interpretation(choices=choices, values=list(ratios.values()), sentence=sentence)


SHARES = tuple(step / 10 for step in range(1, 11))
"""Of the requests, at which the distribution is written down."""
CASE: Mapping[str, Column] = {
    "platform": settings.PLATFORM,
    "model": settings.MODEL,
    "deployment": Column(label="deployment"),
    "engine": Column(label="engine"),
}
BY_ENGINE: Mapping[str, Any] = {"series": "engine", "panel": "platform"}
SECONDS: Mapping[str, Column] = {
    "latency_s": Column(label="latency", unit="s"),
    "duration_s": Column(label="whole burst", unit="s"),
}
ASSUMPTIONS = (
    (
        f"{settings.REQUESTS:,} requests at once, prompts and answers of {settings.TOKENS} tokens; "
        f"the study states {settings.REQUESTS:,} x {settings.TOKENS}."
    ),
    "Deployments are not stated; shown are replicas on 1 (7B), 2 (13B) and 8 GPUs (70B), and one server over all 8.",
    "TGI accepts all requests; with its default limit of 128 it would reject the others.",
    "The LightLLM cache takes 0.85 of the memory left by the weights, as its documentation recommends.",
)


@TABLES.add(
    "serving-throughput",
    f"A burst of {settings.REQUESTS:,} requests: throughput and mean latency of three engines",
    about={**CASE, "tokens_per_s": settings.THROUGHPUT, **SECONDS},
    figures=[
        Figure(
            kind="bars",
            title=f"Throughput, {way.name}",
            x="model",
            y="tokens_per_s",
            missing=settings.OUT_OF_MEMORY,
            where={"deployment": way.value.name},
            **BY_ENGINE,
        )
        for way in settings.DEPLOYMENT
    ],
    assumptions=ASSUMPTIONS,
)
def throughput(ask: Ask) -> Iterator[Row]:
    """Yield throughput, mean latency and duration of a burst, by platform, model, deployment and engine."""
    for case, found in _bursts(ask):
        yield {**case, **{key: getattr(found, key) for key in ("tokens_per_s", "latency_s", "duration_s")}}


@TABLES.add(
    "serving-latency",
    f"A burst of {settings.REQUESTS:,} requests: distribution of latencies with three engines",
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
            where={"model": model, "deployment": way.value.name},
            **BY_ENGINE,
        )
        for model, way in product(settings.MODELS.values(), settings.DEPLOYMENT)
    ],
    assumptions=ASSUMPTIONS,
)
def latency(ask: Ask) -> Iterator[Row]:
    """Yield within which time which share of a burst's requests is answered."""
    for case, found in _bursts(ask):
        for share, seconds in zip(SHARES, np.quantile(found.latencies_s, SHARES), strict=True):
            yield {**case, "latency_s": float(seconds), "share": share}


def _bursts(ask: Ask) -> Iterator[tuple[dict[str, str], settings.Burst]]:
    """Every case, in words, and what becomes of the burst."""
    for platform, model, way, engine in product(
        settings.PLATFORMS, settings.MODELS, settings.DEPLOYMENT, settings.ENGINES
    ):
        case = {
            "platform": settings.NAMES[platform],
            "model": settings.MODELS[model],
            "deployment": way.value.name,
            "engine": settings.CALLED[engine],
        }
        yield case, settings.burst(ask, platform, engine, model, way.value)
