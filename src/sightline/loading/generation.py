"""A scenario of ``task: generate`` into a `GenerationScenario`, or every mistake in it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import gcd, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline import catalog
from sightline.errors import InputError
from sightline.loading.checks import Complaints, built, check, lengths_read, not_among
from sightline.loading.parts import CLUSTER, MODEL, Parts, facts_of, read_parts
from sightline.loading.plans import ReadPlan, read_generation_plan, read_pools
from sightline.loading.serving_plan import NOTHING
from sightline.scenario import (
    Cluster,
    Disaggregation,
    Engine,
    Generate,
    GenerationPlan,
    GenerationScenario,
    Model,
    Sampling,
)
from sightline.scenario.precision import MATMUL_FORMATS, WEIGHT_FORMATS
from sightline.scenario.rules import ENGINE_DEGREES, GENERATION_RULES, PREFILLS, further_devices, generation_questions
from sightline.scenario.rules.rulebook import broken_rules
from sightline.validators import Keys, keys_of, text

if TYPE_CHECKING:
    from sightline.scenario import ServingScenario

GENERATE: Keys = {"task": text, **keys_of(Generate)}
"""``workload`` of generation."""
LOW_PRECISION_WORDS = ("nvfp4", "fp8", "awq", "gptq", "int4", "w4a16")
"""What names of checkpoints with quantized weights have in them."""
MOST_WEIGHTS = 0.75
"""Share of a node's memory for the weights of a replica, at most: the rest is cache and what the engine needs."""
TWO_KINDS = 2
"""Kinds of devices that prefill and decode are split over."""
Values = Mapping[str, Any]


def generation_from_mapping(
    mapping: Mapping[str, Any], base: Path | str | None = None, free: frozenset[str] = frozenset()
) -> GenerationScenario:
    """Return the scenario of a mapping whose task is generate; raise `InputError` with every mistake in it.

    Fields that are ``free`` are not held against the rules: a search does that.
    """
    complaints = Complaints()
    parts = read_parts(mapping, {**MODEL, **CLUSTER}, base, complaints)
    asked = check(GENERATE, parts.workload, "workload", complaints).values
    workload = {key: value for key, value in asked.items() if key != "task"}
    workload["sampling"] = read_sampling(asked.get("sampling"), complaints)
    if workload.get("output_tokens") == 1 and "tpot_s" in parts.measured:
        complaints.add("measured.tpot_s has no meaning with workload.output_tokens 1; leave it out")
    plan, remarks = settled_plan(parts, workload, complaints, free, "generate")
    if complaints.problems or parts.model is None or parts.cluster is None or plan is None:
        raise InputError(complaints.problems)
    scenario = GenerationScenario(**parts.described, workload=Generate(**workload), plan=plan)
    lengths = lengths_read(parts.workload, workload, "workload")
    own = (*_remarks(scenario), *plan_remarks(scenario, free))
    said = (*remarks, *lengths, *parts.model.remarks, *own, *parts.remarks)
    return replace(scenario, warnings=said)


def read_sampling(stated: object, complaints: Complaints) -> Sampling | None:
    """Return how tokens are drawn, mistakes noted; None where nothing is stated."""
    return None if stated is None else built(Sampling, stated, "workload.sampling", complaints)


def settled_plan(
    parts: Parts, workload: Values, complaints: Complaints, free: frozenset[str], task: str
) -> tuple[GenerationPlan | None, tuple[str, ...]]:
    """Return the resolved plan of a ``task`` of an engine and the remarks on it; None with what is wrong noted.

    Of the ``workload``, rules look at the sizes that it has.
    """
    plan = read_generation_plan(parts.plan, complaints, task)
    pools = read_pools(plan.stated.get("disaggregate"), complaints)
    filled = _filled(plan, parts, task) if not pools else plan.values
    prefill_device = _prefill_device(pools, parts, complaints)
    pools = {pool: {key: value for key, value in of.items() if key != "device"} for pool, of in pools.items()}
    known = {name: value for name, value in filled.items() if name not in free}
    held = {name: fact for name, fact in facts_of(parts, workload, plan, known).items() if name not in free}
    asked_of = [*generation_questions(held, pools), *further_devices(GENERATION_RULES, parts.cluster, held)]
    for rules, facts in asked_of:
        complaints.add(*broken_rules(rules, facts))
    if complaints.problems or plan.framework is None:
        return None, ()
    own = () if "framework" in free else (*plan.remarks, *_assumed_degrees(plan, filled, parts, task, free))
    # Under a load an engine's limits say how many prompts a worker takes at once.
    together = 0 if task == "serve" else 1
    settled = _plan(plan.framework, filled, pools, together, prefill_device)
    return _on_devices(settled, {*plan.stated, *plan.framework.defaults}, parts, task), own


def _on_devices(plan: GenerationPlan, stated: Collection[str], parts: Parts, task: str) -> GenerationPlan:
    """The plan with what its engine takes by itself of these devices: of memory, and of a batch new tokens a pass."""
    if parts.cluster is None or parts.model is None:
        return plan
    model, split = parts.model.model, plan.disaggregate
    device = min((part.device for part in parts.cluster.parts), key=lambda device: float(device.memory_bytes))
    if split is not None:
        prefill = _on_devices(split.prefill, stated, parts, task)
        plan = replace(plan, disaggregate=replace(split, prefill=prefill))
    if "memory_fraction" not in stated:
        plan = plan.with_usual_memory(model, device)
    if "max_batched_tokens" not in stated and task != "serve":
        asked = device.name, float(device.memory_bytes), model.max_positions
        plan = replace(plan, max_batched_tokens=plan.engine.usual_budget(*asked, int(plan.groups(model))))
    return plan


def _assumed_degrees(
    plan: ReadPlan[Engine], filled: Values, parts: Parts, task: str, free: frozenset[str]
) -> Iterator[str]:
    """Yield which degrees serve on several nodes where none is stated, and what finds better ones."""
    names = ("tensor_parallel", "replicas")
    if (
        task != "serve"
        or parts.cluster is None
        or parts.cluster.nodes == 1
        or {*ENGINE_DEGREES} & {*plan.stated, *free}
    ):
        return
    assumed = ", ".join(f"plan.{name} {filled[name]}" for name in names if filled[name] != plan.values[name])
    if assumed:
        yield f"assumed: {assumed}; `sightline plan` finds the best layout for {parts.cluster.nodes} nodes"


def _filled(plan: ReadPlan[Engine], parts: Parts, task: str) -> Values:
    """The plan with the devices that no degree claims: more data-parallel ranks where experts span them, else replicas.

    Without any degree stated one replica spans the cluster by tensor parallelism, as far as the heads divide, unless
    replicas come and go. A load is served by a replica for each node that holds the weights.
    """
    values, engine, cluster = dict(plan.values), plan.framework, parts.cluster
    if engine is None or cluster is None or not {*ENGINE_DEGREES, "expert_parallel"} <= values.keys():
        return values
    stated = {*ENGINE_DEGREES, "expert_parallel"} & {*plan.stated, *engine.defaults}
    devices = cluster.devices
    scales = values.get("autoscale") not in NOTHING
    if not stated and not scales and not engine.scheduling.splits_layers:
        # A replica stays on devices of one kind.
        whole = gcd(*(part.devices for part in cluster.parts))
        if task == "serve" and parts.model is not None and _holds(cluster, parts.model.model, values):
            whole = gcd(whole, *(part.per_node for part in cluster.parts))
        values["tensor_parallel"] = whole if parts.model is None or parts.model.model.heads % whole == 0 else 1
    left, rest = divmod(devices, prod(values[degree] for degree in ENGINE_DEGREES))
    if rest or left == 1:
        return values
    if engine.scheduling.splits_layers and "pipeline_parallel" not in stated:
        taker = "pipeline_parallel"
    elif "data_parallel" not in stated and values["expert_parallel"] > values["tensor_parallel"]:
        taker = "data_parallel"
    elif "replicas" not in stated:
        taker = "replicas"
    else:
        return values
    return {**values, taker: left * values[taker]}


def _holds(cluster: Cluster, model: Model, values: Values) -> bool:
    """Whether every node has memory for the weights of a replica, and for a cache beside them."""
    stated = values.get("quantization")
    words = (*((model.weights,) if stated is None else stated), "16-bit")
    weights = next(WEIGHT_FORMATS.get(word, word) for word in words if word in {*WEIGHT_FORMATS, *MATMUL_FORMATS})
    least = min(part.per_node * float(part.device.memory_bytes) for part in cluster.parts)
    return model.parameters * MATMUL_FORMATS[weights].weight_bytes <= MOST_WEIGHTS * least


def _prefill_device(pools: Mapping[str, Values], parts: Parts, complaints: Complaints) -> str:
    """The devices of unlike ones that prefill, where the plan names those of either pool; mistakes are noted."""
    stated = {pool: of["device"] for pool, of in pools.items() if "device" in of}
    if not stated or parts.cluster is None:
        return ""
    names = [part.device.name for part in parts.cluster.parts]
    named = {pool: catalog.name_of("devices", name) for pool, name in stated.items()}
    wrong = {pool: name for pool, name in named.items() if name not in names}
    for pool, name in wrong.items():
        complaints.add(not_among(f"plan.disaggregate.{pool}.device", name, names))
    if wrong or len(names) != TWO_KINDS:
        return ""
    if len(set(named.values())) < len(named):
        allowed = f"{names[0]} in one and {names[1]} in the other"
        complaints.add(f"plan.disaggregate has {named['prefill']} in both pools; allowed: {allowed}")
    return named["prefill"] if "prefill" in named else next(name for name in names if name != named["decode"])


def _plan(
    engine: Engine, values: Values, pools: Mapping[str, Values], together: int, prefill_device: str
) -> GenerationPlan:
    """The resolved plan; with workers of their own that of the decode workers, which names the other.

    Workers that prefill take ``together`` prompts at once, unless the plan states their number.
    """
    if not pools:
        return GenerationPlan(engine=engine, **values)
    prefill, decode = ({k: v for k, v in pools[pool].items() if k != "batch"} for pool in ("prefill", "decode"))
    split = Disaggregation(
        prefill=GenerationPlan(engine=engine, **{**values, **prefill, **PREFILLS}),
        prefill_batch=pools["prefill"].get("batch", together),
        prefill_device=prefill_device,
    )
    return GenerationPlan(engine=engine, **{**values, **decode, "disaggregate": split})


def _remarks(scenario: GenerationScenario) -> Iterator[str]:
    """What is answered of a batch although it may not be meant."""
    model, workload, plan = scenario.model, scenario.workload, scenario.plan
    if workload.prompt_tokens + workload.output_tokens > model.max_positions:
        asked = f"workload.prompt_tokens {workload.prompt_tokens} and output_tokens {workload.output_tokens}"
        yield f"{asked} exceed the {model.max_positions} tokens {model.name} was trained for"
    if workload.prefix_tokens and not plan.prefix_cache:
        yield f"workload.prefix_tokens {workload.prefix_tokens} are recomputed because plan.prefix_cache is off"


def plan_remarks(scenario: "GenerationScenario | ServingScenario", free: Collection[str] = ()) -> Iterator[str]:
    """Yield what is answered of a model and its plan although it may not be meant; nothing of ``free`` degrees."""
    model, plan = scenario.model, scenario.plan
    word = next((word for word in LOW_PRECISION_WORDS if word in model.name.lower()), None)
    if word and model.weights == "bf16" and plan.quantization is None:
        yield (
            f"{model.name} has {word} in its name but no quantization in its config, so its weights are read as "
            "bf16; override with plan.quantization or model.weights"
        )
    if plan.redundant_experts is not None and plan.expert_spread is None:
        yield "plan.redundant_experts evens out nothing without plan.expert_spread: experts are taken as equally busy"
    if plan.balanced_prompts and plan.data_parallel == 1 and "data_parallel" not in free:
        yield "plan.balanced_prompts has no effect with plan.data_parallel 1: no other rank is waited for"
    most = None if plan.speculative is None else plan.speculative.disable_above
    if most is not None and plan.max_sequences is not None and most >= plan.max_sequences:
        yield f"plan.speculative.disable_above {most} has no effect: plan.max_sequences is {plan.max_sequences}"
    if plan.speculative is not None and not model.prediction_layers:
        yield f"{model.name} has no prediction layer; drafts of plan.speculative are assumed to cost nothing"
