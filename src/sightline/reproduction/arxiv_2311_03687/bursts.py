"""The study's load in serving: a burst of requests to one of three engines, deployed in two ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np

from sightline.reproduction.arxiv_2311_03687.settings import DATE, GPUS, MODELS, SEVEN, SEVENTY, THIRTEEN
from sightline.reproduction.asking import Ask, Asked
from sightline.simulation.load import Floats
from sightline.simulation.results.times import times_of

VLLM, LIGHTLLM, TGI = ENGINES = ("vllm", "lightllm", "tgi")
CALLED: Mapping[str, str] = {VLLM: "vLLM", LIGHTLLM: "LightLLM", TGI: "TGI"}
REQUESTS, FEW_REQUESTS = 1000, 100
TOKENS = 512
"""Of each prompt, and of each answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How a platform's GPUs serve a model."""

    name: str
    gpus: Mapping[str, int]
    """Of a replica, over which tensor parallelism splits the model."""


REPLICAS = Deployment(
    name="replicas",
    gpus={SEVEN: 1, THIRTEEN: 2, SEVENTY: GPUS},
)
SPLIT = Deployment(
    name="one server",
    gpus=dict.fromkeys(MODELS, GPUS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What becomes of a burst; all is NaN where the model does not fit."""

    tokens_per_s: float
    """Of answers."""
    latency_s: float
    """Mean over the requests: the area above the distribution that the study draws."""
    duration_s: float
    latencies_s: Floats
    """Of each request."""


NOTHING = Burst(tokens_per_s=nan, latency_s=nan, duration_s=nan, latencies_s=np.array([nan]))


def served(
    platform: str, engine: str, model: str, deployment: Deployment, *, requests: int = REQUESTS, tokens: int = TOKENS
) -> Asked:
    """Return a scenario of a burst: all requests come at once, with prompts and answers of so many ``tokens``."""
    # TGI refuses requests while it holds 128; with that limit it would answer an eighth of the burst.
    limit = {"max_concurrent_requests": requests} if engine == TGI else {}
    return {
        "model": model,
        "cluster": platform,
        "workload": {
            "task": "serve",
            "requests": {"count": requests, "prompt_tokens": tokens, "output_tokens": tokens},
            "arrival": {"process": "all_at_once"},
        },
        "plan": {
            "framework": engine,
            "framework_version": DATE,
            "tensor_parallel": deployment.gpus[model],
            **limit,
        },
    }


def burst(ask: Ask, platform: str, engine: str, model: str, deployment: Deployment, *, tokens: int = TOKENS) -> Burst:
    """Return what becomes of the burst."""
    requests = FEW_REQUESTS if ask.small else REQUESTS
    found = ask.profile(served(platform, engine, model, deployment, requests=requests, tokens=tokens))
    if not found.fits or found.outcome is None:
        return NOTHING
    return Burst(
        tokens_per_s=float(found.output_tokens_per_s),
        latency_s=float(found.latency_s["mean"]),
        duration_s=float(found.duration_s),
        latencies_s=times_of(found.outcome)["latency_s"],
    )
