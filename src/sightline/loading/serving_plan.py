"""Fields of a plan that only serving has: tiers of the cache, adapters, and replicas that come and go."""

from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError
from sightline.loading.checks import Complaints, built
from sightline.quantities import show
from sightline.scenario import Autoscale, KvTier, Model, ServedAdapters
from sightline.validators import whole

NOTHING: tuple[Any, ...] = ("none", None, False, 0, [])
"""What these fields say where they are not used."""


def read_serving_options(stated: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """Return the fields as a plan holds them, mistakes noted; those that are not stated or not used are neutral."""
    return {
        "kv_tiers": _tiers(stated.get("kv_tiers"), complaints),
        "lora_adapters": _adapters(stated.get("lora_adapters"), complaints),
        "autoscale": _autoscale(stated.get("autoscale"), complaints),
    }


def in_attention_groups(stated: Mapping[str, Any], complaints: Complaints) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a plan whose ``attention_data_parallel`` groups are data-parallel ranks, and what to say about that.

    Tensor-parallel ranks that form groups in attention are as many data-parallel ranks of smaller tensor parallelism,
    which share the experts.
    """
    groups, ranks = stated.get("attention_data_parallel", 1), stated.get("tensor_parallel", 1)
    if groups == 1:
        return stated, ()
    if ranks % groups:
        allowed = f"a divisor of plan.tensor_parallel {ranks}"
        complaints.add(f"plan.attention_data_parallel is {groups}; allowed: {allowed}")
        return stated, ()
    degrees = {"tensor_parallel": ranks // groups, "data_parallel": groups * stated.get("data_parallel", 1)}
    said = (
        f"plan.attention_data_parallel {groups} with plan.tensor_parallel {ranks} is read as tensor_parallel "
        f"{degrees['tensor_parallel']} x data_parallel {degrees['data_parallel']} with shared experts"
    )
    return {**stated, **degrees, "attention_data_parallel": 1}, (said,)


def check_attention_groups(plan: object, model: Model | None, complaints: Complaints) -> None:
    """Note groups in attention of a model that has no experts for them to share."""
    groups = plan.get("attention_data_parallel", 1) if isinstance(plan, Mapping) else 1
    if groups not in NOTHING and groups != 1 and model is not None and model.experts is None:
        none = f"{model.name} has no experts to share"
        complaints.add(f"plan.attention_data_parallel is {show(groups)}; {none}; allowed: 1, or plan.data_parallel")


def _tiers(stated: object, complaints: Complaints) -> tuple[KvTier, ...]:
    if stated in NOTHING:
        return ()
    if not isinstance(stated, list | tuple):
        allowed = "a list of mappings with bytes or tokens, and bandwidth"
        complaints.add(f"plan.kv_tiers is {show(stated)}; allowed: {allowed}")
        return ()
    read = (_tier(tier, f"plan.kv_tiers[{place}]", complaints) for place, tier in enumerate(stated))
    return tuple(tier for tier in read if tier is not None)


def _tier(stated: object, key: str, complaints: Complaints) -> KvTier | None:
    tier = built(KvTier, stated, key, complaints)
    sizes = {"bytes", "tokens"} & stated.keys() if isinstance(stated, Mapping) else set()
    if len(sizes) != 1:
        complaints.add(f"{key} has {'both bytes and tokens' if sizes else 'no size'}; needed: bytes or tokens")
    return tier


def _adapters(stated: object, complaints: Complaints) -> ServedAdapters | None:
    if stated in NOTHING:
        return None
    if isinstance(stated, int | float):
        count = complaints.note(_number_of_adapters, stated)
        return None if count is None else ServedAdapters(count=count)
    return built(ServedAdapters, stated, "plan.lora_adapters", complaints)


def _number_of_adapters(stated: object) -> int:
    """How many adapters there are; none is 0."""
    try:
        return int(whole(0)(stated))
    except InputError as error:
        raise InputError(f"plan.lora_adapters {error}, or a mapping with count and rank") from None


def _autoscale(stated: object, complaints: Complaints) -> Autoscale | None:
    if stated in NOTHING:
        return None
    scale = built(Autoscale, stated, "plan.autoscale", complaints)
    if scale is not None and scale.least > scale.most:
        complaints.add(f"plan.autoscale.min is {scale.least}; allowed: up to plan.autoscale.max {scale.most}")
    return scale
