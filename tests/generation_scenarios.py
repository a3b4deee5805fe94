"""Generation scenarios for tests, from few words."""

from collections.abc import Mapping
from typing import Any

from sightline.loading import generation_from_mapping
from sightline.scenario import GenerationScenario


def generation(
    *,
    model: Mapping[str, Any] | str = "llama-2-7b",
    cluster: Mapping[str, Any] | str = "1x a100-sxm-80gb",
    batch: int = 1,
    prompt_tokens: int = 512,
    output_tokens: int = 128,
    plan: Mapping[str, Any] | None = None,
    **workload: Any,
) -> GenerationScenario:
    """Return a generation scenario, read as a file would be, by default under the reference engine."""
    sizes = {"batch": batch, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    return generation_from_mapping(
        {
            "model": model,
            "cluster": cluster,
            "workload": {"task": "generate", **sizes, **workload},
            "plan": {"framework": "reference"} | dict(plan or {}),
        }
    )
