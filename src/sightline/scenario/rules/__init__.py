"""What a plan may be: one list of rules per task, by which loading reports, meshes mask and searches count."""

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sightline.content import fields_of
from sightline.frameworks import Framework
from sightline.scenario.cluster import Cluster
from sightline.scenario.model import Model
from sightline.scenario.rules import degrees, engines, heterogeneous, techniques
from sightline.scenario.rules.rulebook import Broken, Rule, Verdict, broken_rules, judged, needed, rules_of
from sightline.scenario.training import Scenario

if TYPE_CHECKING:
    from sightline.frameworks import Engine
    from sightline.scenario.generation import GenerationPlan, GenerationScenario

TRAINING_RULES: tuple[Rule, ...] = (*rules_of(degrees), *rules_of(techniques), *rules_of(heterogeneous))
"""What a training plan may be."""

_OF_POOLS = (engines.engine_stages, engines.engine_experts, engines.engine_copies, engines.experts_apart)
POOL_RULES: tuple[Rule, ...] = (degrees.tensor_heads, *_OF_POOLS)
"""What the degrees of an engine, or of its prefill or decode workers, may be."""

GENERATION_RULES: tuple[Rule, ...] = (degrees.tensor_heads, *rules_of(engines), techniques.framework_options)
"""What a plan of generation may be."""


def known_facts(
    *,
    model: Model | None,
    cluster: Cluster | None,
    workload: Mapping[str, Any],
    plan: Mapping[str, Any],
    framework: "Framework | Engine | None",
    stated: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what is known of a scenario, by the names that rules use.

    ``plan`` holds resolved values and ``stated`` what the scenario itself states.
    """
    facts = {
        "continuous": False,
        **{key: value for key, value in workload.items() if value is not None},
        **plan,
        **{f"{key}_is_stated": key in stated for key in ("dtype", "fp8_recipe", "schedule")},
        "plan": plan,
        "key": "plan",
        "stated_data_parallel": plan.get("data_parallel"),
        "stated_expert_tensor_parallel": stated.get("expert_tensor_parallel"),
        "max_sequences": stated.get("max_sequences"),
        "framework": framework,
        **({} if model is None else {"model": model, "heads": model.heads, "layers": model.layers}),
        **({} if cluster is None else _of_cluster(cluster)),
    }
    return {name: fact for name, fact in facts.items() if fact is not None or name in _MAY_BE_NONE}


def _of_cluster(cluster: Cluster) -> dict[str, Any]:
    groups = tuple(group.devices for group in cluster.groups)
    return {
        "devices": cluster.devices,
        "nodes": cluster.nodes,
        "device": cluster.device,
        "group_devices": groups or None,
    }


def further_devices(
    rules: tuple[Rule, ...], cluster: Cluster | None, facts: Mapping[str, Any]
) -> Iterator[tuple[tuple[Rule, ...], Mapping[str, Any]]]:
    """Yield the rules about a device once more for each further group of unlike ones, and the facts they look at."""
    of_device = tuple(rule for rule in rules if "device" in needed(rule))
    for group in () if cluster is None else cluster.groups[1:]:
        yield of_device, {**facts, "device": group.device}


_MAY_BE_NONE = (
    *("adapter", "micro_batch", "data_parallel_shard", "quantization", "stated_data_parallel"),
    *("group_devices", "group_batches", "split", "stage_layers"),
)
"""Facts whose absence means something; any other that is None is not known."""


ENGINE_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "replicas")
"""Degrees whose product is the devices of an engine's plan."""
PREFILLS: dict[str, Any] = {"expert_devices": 0, "expert_micro_batches": 1}
"""What the plan of workers has that only prefill."""


def generation_questions(
    facts: Mapping[str, Any], pools: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[tuple[Rule, ...], Mapping[str, Any]]]:
    """Yield rules and the facts they are asked of; prefill and decode workers, where they differ, one after the other.

    ``pools`` holds the degrees that each kind of workers states.
    """
    if not pools:
        yield GENERATION_RULES, facts
        return
    pools = {**pools, "prefill": {**pools["prefill"], **PREFILLS}}
    for pool, own in pools.items():
        yield POOL_RULES, {**facts, **own, "key": f"plan.disaggregate.{pool}"}
    whole = {pool: {**facts, **own} for pool, own in pools.items()}
    taken = {
        f"{pool}_devices": prod(known[degree] for degree in ENGINE_DEGREES)
        + known["expert_devices"] * known["replicas"]
        for pool, known in whole.items()
        if known.keys() >= {*ENGINE_DEGREES, "expert_devices"}
    }
    # No single degree is the plan's: rules about degrees were asked of each kind of workers.
    of_pools = ("tensor_parallel", "pipeline_parallel", "expert_parallel")
    shared = {k: v for k, v in {**facts, **pools["decode"]}.items() if k not in of_pools}
    yield GENERATION_RULES, shared | taken


def verdict(
    scenario: "Scenario | GenerationScenario",
    stated: Mapping[str, Any] = MappingProxyType({}),
    further: Iterable[tuple[tuple[Rule, ...], Mapping[str, Any]]] = (),
) -> Verdict:
    """Return which plans of a scenario with array-valued fields break no rule, and how many break each.

    ``stated`` are keys of the plan that no field holds, such as ``max_sequences``; ``further`` are rules with the facts
    of a plan of generation that they are asked of, beside its own.
    """
    facts = {**facts_of(scenario), **stated}
    if isinstance(scenario, Scenario):
        return judged([(TRAINING_RULES, facts), *further_devices(TRAINING_RULES, scenario.cluster, facts)])
    split = scenario.plan.disaggregate
    pools = {} if split is None else {"prefill": _degrees(split.prefill), "decode": _degrees(scenario.plan)}
    questions = list(generation_questions(facts, pools))
    return judged([*questions, *further_devices(GENERATION_RULES, scenario.cluster, facts), *further])


def facts_of(scenario: "Scenario | GenerationScenario") -> dict[str, Any]:
    """Return what rules are asked about in a resolved scenario, whose fields may be arrays."""
    plan, workload = fields_of(scenario.plan), fields_of(scenario.workload)
    return known_facts(
        model=scenario.model,
        cluster=scenario.cluster,
        workload={"task": scenario.workload.task, **workload},
        plan=plan,
        framework=scenario.plan.framework if isinstance(scenario, Scenario) else scenario.plan.engine,
        # A resolved plan has a recipe of plain fp8 whether or not it computes in it.
        stated={key: value for key, value in plan.items() if key != "fp8_recipe"},
    )


def broken_by(scenario: Scenario, among: tuple[Rule, ...] = TRAINING_RULES) -> list[Broken]:
    """Return a sentence for every rule that one training plan breaks."""
    facts = facts_of(scenario)
    asked = ((among, facts), *further_devices(among, scenario.cluster, facts))
    return [broken for rules, of in asked for broken in broken_rules(rules, of)]


def breaks_no_rule(scenario: "Scenario | GenerationScenario") -> bool:
    """Return whether a scenario with one plan breaks no rule."""
    return bool(verdict(scenario).valid)


def _degrees(plan: "GenerationPlan") -> dict[str, Any]:
    return {name: getattr(plan, name) for name in (*ENGINE_DEGREES, "expert_parallel")}
