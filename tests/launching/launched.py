"""Scenarios to be launched, and what of them has to come back."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.launching import Launch, read, write
from sightline.launching.training.shared import with_micro_batch
from sightline.loading import scenario_from_mapping
from sightline.scenario import Scenario

SMALL = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
}
MIXTURE = {**SMALL, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


def asked(
    plan: Mapping[str, Any],
    model: Any = None,
    cluster: Any = "8x h100-sxm-80gb",
    batch: int = 64,
    task: str = "pretrain",
    **workload: Any,
) -> Scenario:
    """Return the scenario of a plan on a node."""
    return scenario_from_mapping(
        {
            "model": model or SMALL,
            "cluster": cluster,
            "workload": {"task": task, "sequence_length": 512, "global_batch": batch, **workload},
            "plan": {"micro_batch": 1, **plan},
        }
    )


def launched(scenario: Scenario) -> Launch | None:
    """Return a scenario's launch; None where its framework cannot run it, which is then said in sentences."""
    try:
        return write(scenario)
    except InputError:
        return None


def possible(plan: Mapping[str, Any], **others: Any) -> Scenario | None:
    """Return the scenario of a plan; None where its own rules refuse it."""
    try:
        return asked(plan, **others)
    except InputError:
        return None


def read_back(source: Any, cluster: Any = "8x h100-sxm-80gb") -> Scenario:
    """Return what a source says, with the cluster of a scenario, and its model where the source has none."""
    reading = read(source)
    model = reading.scenario.get("model", SMALL)
    whole = {"model": model, "cluster": cluster, **reading.scenario}
    return with_micro_batch(scenario_from_mapping(whole))


def fields_that_differ(one: Scenario, other: Scenario, fields: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Return the fields of two plans, out of ``fields``, that are not the same."""
    a, b = one.plan.to_dict(), other.plan.to_dict()
    return {name: (a.get(name), b.get(name)) for name in fields if a.get(name) != b.get(name)}


def plans(framework: str, **fields: Sequence[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw plans with values of the fields, each of which may be left out."""
    optional = {name: st.sampled_from(list(values)) for name, values in fields.items()}
    return st.fixed_dictionaries({"framework": st.just(framework)}, optional=optional)
