"""The study's figures on serving: throughput of a burst, and how its latencies are distributed."""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from sightline.exploration.answer import Column, Figure
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.arxiv_2311_03687.bursts import CALLED, ENGINES, REQUESTS, TOKENS, Burst, burst
from sightline.reproduction.arxiv_2311_03687.columns import MODEL, PLATFORM, THROUGHPUT
from sightline.reproduction.arxiv_2311_03687.open_settings import DEPLOYMENT
from sightline.reproduction.arxiv_2311_03687.settings import MODELS, NAMES, OUT_OF_MEMORY, PLATFORMS
from sightline.reproduction.asking import Ask, Tables

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
