"""Serving scenarios for tests, from few words."""

from collections.abc import Mapping
from typing import Any

from sightline.loading import load
from sightline.scenario import ServingScenario


def serving(
    *,
    model: Mapping[str, Any] | str = "llama-3.1-8b",
    cluster: Mapping[str, Any] | str = "1x h100-sxm-80gb",
    count: int = 100,
    prompt_tokens: Any = 512,
    output_tokens: Any = 128,
    plan: Mapping[str, Any] | None = None,
    **workload: Any,
) -> ServingScenario:
    """Return a serving scenario, read as a file would be, by default a Poisson process of 2 requests per second."""
    lengths = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    asked = {"arrival": {"process": "poisson", "rate": 2.0}, "requests": {"count": count, **lengths}} | workload
    mapping = {"model": model, "cluster": cluster, "workload": {"task": "serve", **asked}}
    found = load({**mapping, "plan": {"framework": "vllm", **dict(plan or {})}})
    assert isinstance(found, ServingScenario)
    return found
