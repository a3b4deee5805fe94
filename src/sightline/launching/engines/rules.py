"""Rules for what a written server launch can run; a search drops plans that break one."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any, Final

import numpy as np

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.frameworks import Engine
from sightline.launching.engines.requests import as_generation, least_budget, pools
from sightline.launching.engines.servers import largest_node, placed
from sightline.launching.registry import ENGINE_WRITERS
from sightline.quantities import Count, show
from sightline.scenario import Disaggregation, GenerationPlan, GenerationScenario, Model
from sightline.scenario.generation import DEGREES, PREFETCH, WRITE_BACK, KvTier, Speculation
from sightline.scenario.precision import CACHE_BYTES, WEIGHT_FORMATS
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import Broken, Check, Checks, Facts, Mask, Rule, broken_rules, needed, rules_of

TIERS: Final[Mapping[str, int]] = {"vllm": 2**31, "sglang": 2, "tensorrt-llm": 1}
"""Memories behind the device's that an engine takes at most; these engines have servers for prefill or decode alone."""
LIMITED: Final[Mapping[str, tuple[str, ...]]] = {
    "kv_cache_blocks": tuple(TIERS),
    "max_concurrent_requests": ("vllm", "tgi"),
    **dict.fromkeys(("max_queued_requests", "queue_timeout"), ("sglang",)),
    "scheduler": ("vllm", "sglang"),
}
"""Engines with options for a field."""
LACKING: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("lightllm", "tgi"), ("pipeline_parallel", "data_parallel", "expert_parallel")),
    "llama.cpp": ("tensor_parallel", "data_parallel", "expert_parallel"),
    "transformers": DEGREES,
}
"""Degrees that engines lack whose servers have the devices of one node."""


CACHES: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {"kv-fp8": "fp8", "kv-int8": "int8_per_token_head"},
    "tensorrt-llm": {"kv-fp8": "fp8", "kv-int8": "int8"},
    "lightllm": {"kv-fp8": "triton_fp8kv", "kv-int8": "triton_int8kv"},
    "sglang": {"kv-fp8": "fp8_e4m3"},
    "tgi": {"kv-fp8": "fp8_e4m3fn"},
    "llama.cpp": {"kv-int8": "q8_0"},
}
"""Formats of the cache that an engine keeps beside the model's own, with the engine's words."""
GGUF: Final[Mapping[str, str]] = {
    **{word: word for word in ("q4_0", "q4_k_m", "mxfp4")},
    **dict.fromkeys(("w8a16", "int8"), "q8_0"),
}
"""Formats of GGUF files, which llama.cpp reads, by our words."""
WITHOUT_OPTION: Final[Mapping[str, tuple[str, ...]]] = {
    "tgi": ("kv_block_tokens",),
    "lightllm": ("kv_block_tokens", "speculative"),
    "llama.cpp": ("memory_fraction", "kv_block_tokens", "chunked_prefill"),
    "transformers": ("speculative", "chunked_prefill", "max_sequences"),
}
"""Fields of a plan that an engine has no option for."""


def kept_caches(framework: Engine, quantization: tuple[str, ...] | None) -> Checks:
    """Engines keep caches in some formats."""
    kept = CACHES.get(framework.name, ())
    stated = [word for word in quantization or () if word in CACHE_BYTES]
    yield Check(
        all(word in kept for word in stated),
        "plan.quantization is {stated}: {framework.name} keeps no such cache; allowed: {kept}",
        {"stated": ", ".join(stated), "kept": ", ".join(kept) or "none"},
    )


def drafts_of_few(framework: Engine, speculative: Speculation, data_parallel: Count) -> Checks:
    """Some engines draft for any number of sequences."""
    limited, stated = speculative.disable_above is not None, "plan.speculative.disable_above is "
    yield Check(
        not limited or framework.name in ("vllm", "tensorrt-llm"),
        stated + "{speculative.disable_above}: {framework.name} has no option for it",
    )
    yield Check(
        np.logical_not(limited) | (framework.name != "vllm") | (data_parallel == 1),
        stated + "{speculative.disable_above} with plan.data_parallel {data_parallel}: vLLM then drafts for any number",
    )


def limits_of_requests(framework: Engine, plan: Mapping[str, Any]) -> Checks:
    """Few engines take the size of the cache, limit the requests that they hold or their time, or order them."""
    for name, engines in LIMITED.items():
        yield Check(
            plan.get(name) in (None, framework.serving.order) or framework.name in engines,
            f"plan.{name} is {plan.get(name)}: {{framework.name}} has no option for it; allowed with "
            + ", ".join(engines),
        )


def routed(framework: Engine, router: str, servers: list[tuple[Count, Count]], data_parallel: Count) -> Checks:
    """A script starts some routers, which choose among servers, not among the ranks or the pools of one."""
    alone: Any = reduce(and_, [np.equal(count, 1) for _, count in servers])
    written, stated = routers_of(framework.name), "plan.router is {router}"
    yield Check(
        alone | (router in written),
        stated + ", which no script starts for {framework.name}; started: {written}",
        {"written": ", ".join(written)},
    )
    simple = alone | (router == "round-robin")
    yield Check(
        simple | (data_parallel == 1), stated + " with plan.data_parallel {data_parallel}; launched among servers alone"
    )
    yield Check(simple | (len(servers) == 1), stated + " with plan.disaggregate; launched is round-robin")


def routers_of(engine: str) -> tuple[str, ...]:
    """Return the values of ``plan.router`` that a script starts for an engine.

    nginx takes turns or counts connections for any. Left out: ``weighted``, llm-d's picker, runs in Kubernetes alone.
    """
    return ("round-robin", "least-load", *(("prefix-aware", "precise-prefix") if engine in ("vllm", "sglang") else ()))


def gguf_formats(framework: Engine, model: Model, quantization: tuple[str, ...] | None, dtype: str) -> Checks:
    """GGUF files have formats of their own, and those below 16 bits are computed in fp16."""
    if framework.name != "llama.cpp":
        return
    weights = gguf_weights(model, quantization)
    yield Check(
        not weights or weights in GGUF,
        "plan.quantization is {weights}{published}, which is no format of GGUF files; allowed: none, "
        + ", ".join(GGUF),
        {"weights": weights, "published": f", as {model.name} is published" if quantization is None else ""},
    )
    yield Check(
        dtype in ("fp16", "bf16"), "plan.dtype is {dtype}: llama.cpp computes in fp16, or in bf16; allowed: fp16, bf16"
    )


def gguf_weights(model: Model, quantization: tuple[str, ...] | None) -> str:
    """Return the format that weights have below 16 bits; empty for none."""
    words = (model.weights,) if quantization is None else quantization
    return next((word for word in words if word in WEIGHT_FORMATS), "")


def vllm_budget(
    framework: Engine, plan: Mapping[str, Any], batch: Count, prompt_tokens: Count, output_tokens: Count
) -> Checks:
    """An iteration of vLLM has no fewer tokens than sequences of a rank."""
    stated, running = plan.get("max_batched_tokens"), plan.get("max_sequences")
    if framework.name != "vllm" or stated is None:
        return
    if running is None:
        running = np.ceil(batch / (plan["data_parallel"] * plan["replicas"]))
    least = least_budget(framework.name, prompt_tokens, output_tokens)
    budget = np.where(plan["chunked_prefill"], stated, np.maximum(stated, least))
    yield Check(
        running <= budget,
        "plan.max_batched_tokens is {budget}; vLLM takes no fewer tokens than sequences of a rank, {running:g}",
        {"budget": budget, "running": running},
    )


def whole_prompts(
    framework: Engine,
    plan: Mapping[str, Any],
    prompt_tokens: Count,
    output_tokens: Count,
    prefix_tokens: Count,
    continuous: bool,
) -> Checks:
    """Engines take no budget below that of a whole prompt or sequence, with which more prompts may share a pass."""
    stated = plan.get("max_batched_tokens")
    if stated is None:
        return
    least = least_budget(framework.name, prompt_tokens, output_tokens)
    new = prompt_tokens - np.where(plan["prefix_cache"], prefix_tokens, 0)
    shares_alike = np.maximum(stated, least) // new == np.maximum(stated // new, 1)
    # In a steady loop a larger budget has room for more decoding sequences beside a prompt.
    shares_alike &= not (continuous and framework.scheduling.mixed_batches)
    yield Check(
        plan["chunked_prefill"] | (least <= stated) | shares_alike,
        "plan.max_batched_tokens is {stated} with plan.chunked_prefill false; {framework.name} takes no fewer than "
        "{least} for these requests; allowed: {least} or more, or plan.chunked_prefill true",
        {"stated": stated, "least": least},
    )


def engine_workers(framework: Engine, disaggregate: Disaggregation, expert_devices: Count) -> Checks:
    """Servers of some engines only prefill and decode together; none has experts apart (vLLM 0.19 in a plugin)."""
    yield Check(expert_devices == 0, "plan.expert_devices is {expert_devices}; no release of an engine launches them")
    yield Check(
        framework.name in TIERS,
        "plan.disaggregate is not launched with {framework.name}; launched with " + ", ".join(TIERS),
    )


def engine_tiers(framework: Engine, kv_tiers: tuple[KvTier, ...], prefix_cache: bool) -> Checks:
    """Engines keep evicted keys and values in so many memories behind the device's, or in none."""
    most, count = TIERS.get(framework.name, 0), len(kv_tiers)
    yield Check(
        count <= most,
        "plan.kv_tiers has {count} memories; {framework.name} keeps keys and values in at most {most} behind the "
        "device's, vllm in any number",
        {"count": count, "most": most},
    )
    yield Check(not count or prefix_cache, "plan.kv_tiers needs plan.prefix_cache true, whose blocks the tiers keep")


def shared_tiers(framework: Engine, kv_tiers: tuple[KvTier, ...], replicas: Count, data_parallel: Count) -> Checks:
    """Engines keep host memory for each rank alone; the ranks of a server have one folder of files."""
    for place, tier in enumerate(kv_tiers):
        stated = f"plan.kv_tiers[{place}].shared is {tier.shared}"
        yield Check(
            (place > 0) | (tier.shared == "rank") | (replicas * data_parallel == 1),
            stated + " with several ranks, each of which has host memory of its own in {framework.name}; allowed: rank",
        )
        yield Check(
            (place == 0) | (tier.shared != "rank") | (data_parallel == 1),
            stated + " with plan.data_parallel {data_parallel}, whose ranks share files in {framework.name}; allowed: "
            "node, all",
        )


def ways_of_tiers(framework: Engine, kv_tiers: tuple[KvTier, ...]) -> Checks:
    """Each engine writes to and loads from other memories in its own way."""
    name = framework.name
    for place, tier in enumerate(kv_tiers):
        own = {
            # SGLang stores what host memory gets, as soon as it has it (mem_cache/hiradix_cache.py, writing_check).
            "write": tier.write in (None, "back" if name in WRITE_BACK else "through")
            or (name, place) == ("sglang", 0),
            "fetch": tier.fetch == "always",
            "prefetch": tier.prefetch in (None, place > 0 and name in PREFETCH),
        }
        for way, is_launched in own.items():
            yield Check(
                is_launched,
                f"plan.kv_tiers[{place}].{way} is {show(getattr(tier, way))}, which {{framework.name}} does not do",
            )


def tiers_of_workers(kv_tiers: tuple[KvTier, ...], disaggregate: Disaggregation) -> Checks:
    """Servers for prefill or decode alone have no memories behind the device's."""
    yield Check(not kv_tiers, "plan.kv_tiers is not launched with plan.disaggregate; one of them is")


def server_degrees(framework: Engine, key: str, degrees: Mapping[str, Count]) -> Checks:
    """Some engines launch no pipeline, data or expert parallelism."""
    for name in LACKING.get(framework.name, ()):
        yield Check(
            degrees[name] == 1,
            "{key}.{name} is {degree}; {framework.name} launches only 1",
            {"name": name, "degree": degrees[name]},
        )


def server_on_a_node(framework: Engine, key: str, node_devices: int, degrees: Mapping[str, Count]) -> Checks:
    """Servers of some engines, and data-parallel ranks of vLLM, have the devices of one node."""
    taken, replicated = degrees["tensor_parallel"] * degrees["pipeline_parallel"], degrees["data_parallel"] > 1
    confined = replicated if framework.name == "vllm" else framework.name in LACKING
    yield Check(
        np.logical_not(confined) | (taken <= node_devices),
        "{key}.tensor_parallel x pipeline_parallel is {taken}; allowed with {framework.name} and data_parallel "
        "{degrees[data_parallel]}: the devices of a node, {node_devices}",
        {"taken": taken},
    )


def vllm_experts(framework: Engine, key: str, degrees: Mapping[str, Count]) -> Checks:
    """Ranks of vLLM share the experts, all of them or none."""
    ranks, split = degrees["tensor_parallel"] * degrees["data_parallel"], degrees["expert_parallel"]
    yield Check(
        (split == 1) | (split == ranks) | (framework.name != "vllm"),
        "{key}.expert_parallel is {degrees[expert_parallel]}; vLLM spreads experts over all ranks of tensor x data "
        "parallel or splits each over them: allowed are 1 and {ranks}",
        {"ranks": ranks},
    )


def tensorrt_attention(framework: Engine, key: str, model: Model, degrees: Mapping[str, Count]) -> Checks:
    """Data-parallel attention of TensorRT-LLM spans all ranks of a model with experts."""
    alone = (degrees["data_parallel"] == 1) | (framework.name != "tensorrt-llm")
    yield Check(
        alone | ((degrees["tensor_parallel"] == 1) & (model.experts is not None)),
        "{key}.data_parallel is {degrees[data_parallel]}; TensorRT-LLM has it for attention of models with experts, "
        "with tensor_parallel 1; plan.replicas are servers of their own",
    )


def tgi_dtype(framework: Engine, dtype: str) -> Checks:
    """TGI computes in float16 or bfloat16."""
    yield Check(framework.name != "tgi" or dtype != "fp32", "plan.dtype is fp32; TGI computes in float16 or bfloat16")


def servers_on_nodes(
    servers: list[tuple[Count, Count]], nodes: tuple[int, int, int], group_devices: tuple[int, ...] | None
) -> Checks:
    """Each server has devices of one node, or whole nodes."""
    if group_devices is not None:
        return  # `refusals` places them
    whole, per_node, rest = nodes
    sizes = " and ".join(str(count) for count in dict.fromkeys(count for count in (per_node, rest) if count))
    yield Check(_have_room(servers, whole, per_node, rest), "servers do not fit whole onto nodes of " + sizes)


def _have_room(servers: list[tuple[Count, Count]], whole: int, per_node: int, rest: int) -> Mask:
    """Whether servers fit as `placed` puts them, on whole nodes and one with the ``rest`` of the devices.

    ``servers`` are sizes and counts, those of one role after those of the other.
    """
    untouched: Any = whole
    begun: list[tuple[Any, Any]] = [(1, rest)]
    found: Any = True
    for size, count in servers:
        spans, each = size > per_node, np.maximum(per_node // size, 1)
        within = sum(nodes * (free // size) for nodes, free in begun) + untouched * (per_node // size)
        across = (size % per_node == 0) & (untouched // np.maximum(size // per_node, 1) >= count)
        found = found & np.where(spans, across, within >= count)
        full = np.where(spans, 0, np.minimum(count // each, untouched))
        left = np.where(spans, 0, np.minimum(count, untouched * each) - full * each)
        last = np.where(spans, 0, np.maximum(count - untouched * each, 0))
        begun = [(full, per_node - each * size), (left > 0, per_node - left * size), (1, rest - last * size)]
        untouched = untouched - full - (left > 0) - np.where(spans, count * size // per_node, 0)
    return np.asarray(found)


LAUNCH_RULES: tuple[Rule, ...] = rules_of(sys.modules[__name__])
"""What a launch can run, some of them for the engines that they name."""
STATED: Final[tuple[Rule, ...]] = (
    *(drafts_of_few, limits_of_requests, routed, engine_tiers, shared_tiers, ways_of_tiers),
)
"""Those of fields that no search chooses: it ranks what breaks them, and says that it cannot be launched."""


def lets_launch(engine: Engine, plan: GenerationPlan) -> bool:
    """Whether an engine launches what a plan states beside its layout, on one server or several."""
    stated = fields_of(plan)
    facts = {**stated, "plan": stated, "framework": engine, "servers": [(1, 1)], "replicas": 1, "data_parallel": 1}
    asked = tuple(rule for rule in STATED if all(facts.get(name) is not None for name in needed(rule)))
    return plan.router in routers_of(engine.name) and not list(broken_rules(asked, facts))


def launch_questions(scenario: Any, without: tuple[Rule, ...] = ()) -> Iterator[tuple[tuple[Rule, ...], Facts]]:
    """Yield the rules and the facts that they are asked of: those with a ``key`` of the servers of each role.

    They say nothing of an engine for which no launch is written. Some are left ``without``.
    """
    if scenario.plan.engine.name not in ENGINE_WRITERS:
        return
    cluster, roles = scenario.cluster, pools(scenario)
    of_role = tuple(rule for rule in LAUNCH_RULES if "key" in needed(rule))
    facts = {
        **facts_of(scenario),
        "node_devices": largest_node(cluster),
        "nodes": (cluster.devices // cluster.per_node, cluster.per_node, cluster.devices % cluster.per_node),
        "servers": [
            (plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel, plan.replicas)
            for plan in roles.values()
        ],
    }
    yield tuple(rule for rule in LAUNCH_RULES if rule not in (*of_role, *without)), facts
    for role, plan in roles.items():
        degrees = {name: getattr(plan, name) for name in DEGREES}
        yield of_role, {**facts, "degrees": degrees, "key": f"plan.disaggregate.{role}" if role else "plan"}


def without_option(scenario: Any) -> Iterator[tuple[str, bool]]:
    """Yield a sentence for each stated field that the engine has no option for, and whether it changes figures."""
    # Imported here because few plans state what their engine has no option for.
    from sightline.prediction import predict

    plan, engine = scenario.plan, scenario.plan.engine
    defaults = {
        "memory_fraction": engine.memory.memory_fraction,
        "chunked_prefill": False,
        "dtype": "fp16",
        **engine.defaults,
    }
    # Files below 16 bits are computed in fp16.
    is_fp16 = engine.name == "llama.cpp" and gguf_weights(scenario.model, plan.quantization)
    keys = (*WITHOUT_OPTION.get(engine.name, ()), *(["dtype"] if is_fp16 else []))
    if all(getattr(plan, key) == defaults.get(key) for key in keys):
        return
    if not isinstance(scenario, GenerationScenario):
        scenario = as_generation(scenario)
        plan = scenario.plan
    for key in keys:
        stated, own = getattr(plan, key), defaults.get(key)
        if stated == own:
            continue
        other = replace(scenario, plan=GenerationPlan(**{**fields_of(plan), key: own}))
        one, two = ((p.fits, p.memory_bytes["total"], p.latency_s) for p in map(predict, (scenario, other)))
        shown = show(stated) if isinstance(stated, int | float) else "stated"
        sentence = f"plan.{key} is {shown}: {engine.name} has no option for it; allowed: {show(own or 'none')}"
        yield sentence, one != two


def refusals(scenario: Any, without: tuple[Rule, ...] = ()) -> list[Broken]:
    """Return a sentence for all of one plan, of generation or of serving, that the launch of its engine cannot run."""
    found = [broken for rules, facts in launch_questions(scenario, without) for broken in broken_rules(rules, facts)]
    left_out = (sentence for sentence, matters in without_option(scenario) if matters)
    found += [Broken(sentence, without_option.__name__) for sentence in left_out]
    if scenario.plan.engine.name in ENGINE_WRITERS:
        try:
            placed(scenario)
        except InputError as error:
            others = [one for one in found if one.rule != servers_on_nodes.__name__]
            return [*others, *(Broken(problem, servers_on_nodes.__name__) for problem in error.problems)]
    return found
