"""What a plan may state and no simulation follows yet: refused by name, so that nothing is answered as if unsaid."""

from collections.abc import Iterator

from sightline.errors import InputError
from sightline.quantities import show
from sightline.scenario import GenerationPlan, ServingScenario

CUTS_BY_CHOICE = ("vllm", "tgi", "tensorrt-llm")
"""Policies that cut prompts or not, as the plan says; the others have one way."""
DISAGGREGATED = ("vllm", "sglang", "tensorrt-llm")
"""Policies of engines whose workers for prompts and for decoding are apart."""
WITHOUT_PREFIX_CACHE = ("vllm-0", "orca", "static")
WITHOUT_BUDGET = ("orca", "static")
WITH_TIERS = ("vllm", "sglang", "tensorrt-llm")
"""Policies of engines that keep what the device evicts in other memories."""
WITH_DRAFTS = ("vllm", "sglang", "tgi", "tensorrt-llm")
"""Policies whose decode passes may verify drafted tokens."""


def check_plan(scenario: ServingScenario) -> None:
    """Refuse what the simulator would otherwise leave out.

    Raises:
        InputError: A sentence for each key of the plan that no simulation follows.
    """
    plan = scenario.plan
    problems = (
        *_not_simulated(plan),
        *_not_scaled(scenario),
        *_not_of_the_policy(plan),
        *_tiers_without_use(plan),
    )
    if problems:
        raise InputError(problems)


def _not_simulated(plan: GenerationPlan) -> Iterator[str]:
    """Keys that no policy of the simulator knows."""
    adapters = plan.lora_adapters
    if adapters is not None and adapters.loaded is not None and adapters.loaded < adapters.count:
        yield (
            f"plan.lora_adapters.loaded is {adapters.loaded}; supported: all in device memory, "
            f"plan.lora_adapters.count {adapters.count}"
        )
    if plan.attention_data_parallel > 1:
        yield (
            f"plan.attention_data_parallel is {show(plan.attention_data_parallel)}; allowed in a Scenario: 1, "
            "with its groups as plan.data_parallel"
        )


def _not_scaled(scenario: ServingScenario) -> Iterator[str]:
    """What replicas that come and go cannot be."""
    plan, scale = scenario.plan, scenario.plan.autoscale
    if scale is None:
        return
    others = {
        "plan.disaggregate": plan.disaggregate is not None,
        "plan.kv_tiers": bool(plan.kv_tiers),
        "plan.data_parallel above 1": bool(plan.data_parallel > 1),
        "heterogeneous devices": bool(scenario.cluster.groups),
    }
    for name, stated in others.items():
        if stated:
            yield f"plan.autoscale is not supported with {name}"
    if scale.most > plan.replicas and not any(others.values()):
        yield (
            f"plan.autoscale.max is {scale.most}; allowed: up to plan.replicas {plan.replicas}, for which the cluster "
            "has devices"
        )


def _not_of_the_policy(plan: GenerationPlan) -> Iterator[str]:
    """Keys that the engine's policy, as it is simulated, does not look at."""
    engine, policy = plan.engine, plan.engine.serving.policy
    usual = {**engine.defaults, **engine.serving.defaults}
    release = f"{engine.name} {engine.version}".rstrip()
    if policy not in CUTS_BY_CHOICE and plan.chunked_prefill != usual.get("chunked_prefill", False):
        yield f"plan.chunked_prefill is {show(plan.chunked_prefill)}; supported for {release}: its default"
    if plan.disaggregate is not None and plan.speculative is not None:
        yield "plan.speculative cannot be combined with plan.disaggregate"
    if plan.disaggregate is not None and policy not in DISAGGREGATED:
        yield f"plan.disaggregate is not supported for {release}; supported: {', '.join(DISAGGREGATED)}"
    if policy in WITHOUT_PREFIX_CACHE and plan.prefix_cache:
        yield f"plan.prefix_cache is true; supported for {release}: false"
    if policy not in WITH_DRAFTS and plan.speculative is not None:
        yield f"plan.speculative is not supported for {release}; supported: {', '.join(WITH_DRAFTS)}"
    if policy in WITHOUT_BUDGET and plan.max_batched_tokens:
        yield f"plan.max_batched_tokens is {show(plan.max_batched_tokens)}; {release} has no such limit"


def _tiers_without_use(plan: GenerationPlan) -> Iterator[str]:
    """Tiers that nothing would be kept in or loaded from."""
    engine = plan.engine
    if not plan.kv_tiers:
        return
    if engine.serving.policy not in WITH_TIERS:
        release = f"{engine.name} {engine.version}".rstrip()
        yield f"plan.kv_tiers is not supported for {release}; supported: {', '.join(WITH_TIERS)}"
    elif not plan.prefix_cache:
        yield "plan.kv_tiers requires plan.prefix_cache true"
    if plan.disaggregate is not None:
        yield "plan.kv_tiers cannot be combined with plan.disaggregate"
