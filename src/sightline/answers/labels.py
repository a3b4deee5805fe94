"""Names of scenarios: a title, what runs where and how, what sets several apart; and scenarios as dotted keys."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sightline import loading
from sightline.answers import units
from sightline.content import flatten
from sightline.errors import SightlineError
from sightline.frameworks.choices import CHOICES
from sightline.loading.plans import NOT_NAMED
from sightline.loading.sources import as_text
from sightline.quantities import counted
from sightline.scenario import Plan, Scenario
from sightline.scenario.plan import SHORT_DEGREES

if TYPE_CHECKING:
    from sightline.scenario import GenerationPlan, GenerationScenario, OperatorScenario, ServingScenario, Sessions
    from sightline.scenario.lengths import Lengths

Asked: TypeAlias = "Scenario | OperatorScenario | GenerationScenario | ServingScenario"

_USUAL = (("batch", 1), ("per_token", 1), ("library", "nccl"), ("causal", False), ("latent", False))
"""Values of an operator's keys that go without saying."""
_SERVED = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
_PLAIN = ("bf16", "fp16", "fp32")
_MAIN_KEYS = ("name", "plan.", "workload.")
_DERIVED = ("plan.data_parallel", "plan.replicas")
_NAMES = ("model.name", "cluster.name")
_LONGEST = 10**9
"""Tokens that no length is cut at."""


def title(scenario: Asked) -> str:
    """Return the scenario's name, or the model or operator and what it runs on."""
    cluster = scenario.cluster
    if hasattr(scenario, "model"):
        return scenario.name or f"{scenario.model.name} on {cluster.in_words}"
    from sightline.scenario import CollectiveOperation

    count = f"{cluster.devices} x " if isinstance(scenario.workload, CollectiveOperation) else ""
    return scenario.name or f"{operation(scenario)} on {count}{cluster.device.name}"


def common_title(scenarios: Sequence[Asked]) -> str:
    """Return a title for several scenarios: their one name, or of a sweep what they share and what varies.

    All scenarios of a sweep have the name of its base, which may name a value that the sweep changes.
    """
    if len(scenarios) == 1:
        return title(scenarios[0])
    names = {title(scenario) for scenario in scenarios}
    varied = [key.rpartition(".")[2] for key in _telling(differing(scenarios)[0])]
    if len(names) > 1 or not varied:
        return f"{len(scenarios):,} scenarios compared"
    return title_of_sweep(scenarios, varied)


def title_of_sweep(scenarios: Sequence[Asked], varied: Sequence[str]) -> str:
    """Return what the scenarios of a sweep share, and what varies."""
    models = {s.model.name if hasattr(s, "model") else "" for s in scenarios}
    devices = {s.cluster.in_words for s in scenarios}
    shared = [next(iter(one)) for one in (models, devices) if len(one) == 1]
    return f"{' on '.join(filter(None, shared)) or f'{len(scenarios):,} scenarios'} by {' and '.join(varied)}"


def operation(scenario: "OperatorScenario") -> str:
    """Return an operator with its sizes, such as ``matmul m 4096, n 4096, k 4096, bf16``."""
    keys = {k: v for k, v in loading.to_mapping(scenario)["workload"].items() if (k, v) not in _USUAL}
    sizes = {k: v for k, v in keys.items() if k != "bytes" and isinstance(v, int | float) and v is not True}
    parts = [f"{key.replace('_', ' ')} {size:,}" for key, size in sizes.items()]
    parts += [units.size(keys["bytes"])] if "bytes" in keys else []
    parts += [str(keys[key]) for key in ("format", "dtype", "layout", "library", "version") if key in keys]
    parts += [f"cache {keys['kv_dtype']}"] if "kv_dtype" in keys else []
    parts += [flag for flag in ("causal", "latent") if keys.get(flag) is True]
    return f"{keys['operator'].replace('_', '-')} {', '.join(parts)}"


def subtitle(scenario: Asked) -> tuple[str, ...]:
    """Return what runs on what, and how; of a named operator its sizes."""
    where = scenario.cluster.in_words
    if isinstance(scenario, Scenario):
        what, how = _of_training(scenario)
    else:
        from sightline.scenario import OperatorScenario, ServingScenario

        if isinstance(scenario, OperatorScenario):
            return (f"{operation(scenario)} · {where}",) if scenario.name else ()
        what, how = _of_serving(scenario) if isinstance(scenario, ServingScenario) else _of_generation(scenario)
    return f"{scenario.model.name} ({units.count(scenario.model.parameters)}) · {where} · {what}", " · ".join(how)


def phrases(scenario: "Scenario | GenerationScenario | ServingScenario") -> list[str]:
    """Return how a plan of training or of an engine runs, a phrase for each choice that is not the plainest."""
    how = _of_training(scenario)[1] if isinstance(scenario, Scenario) else _of_engine(scenario)
    return [phrase for part in how for phrase in part.split(", ")]


def _of_training(scenario: Scenario) -> tuple[str, list[str]]:
    plan, work = scenario.plan, scenario.workload
    how = [
        _framework(scenario, f"{'like ' * plan.framework.is_like}{plan.framework.name}", plan.framework.version),
        ", ".join([*_layout(plan), *_techniques(plan)]),
        f"micro-batch {plan.micro_batch}",
        f"{plan.dtype}, {plan.attention} attention",
    ]
    samples = f"{work.global_batch:,} pairs of" if work.sequences > 1 else f"{work.global_batch:,} x"
    trained = "" if work.preference == "none" else f"{work.preference}, "
    return f"{trained}batch {samples} {work.sequence_length:,} tokens", how


def _framework(scenario: "Scenario | GenerationScenario | ServingScenario", name: str, version: str) -> str:
    """The framework with its release line, and whether the scenario names it."""
    assumed = any(warning.startswith(NOT_NAMED) for warning in scenario.warnings)
    return f"{name} {version}".strip() + (" (assumed)" if assumed else "")


def _techniques(plan: Plan) -> list[str]:
    """What is sharded, recomputed, frozen, quantized, moved to the host, compiled or scheduled, a phrase each."""
    layers, adapter, shards = plan.prediction_layers, plan.adapter, plan.data_parallel_shard
    usual = {(plan.framework.plain or plan.framework).tensor_overlap(splits) for splits in (True, False)}
    overlap = plan.to_dict()["tensor_overlap"] if plan.tensor_parallel != 1 else None
    phrases = (
        (plan.zero_stage, f"ZeRO-{plan.zero_stage}"),
        (plan.virtual_stages != 1, f"{plan.virtual_stages} virtual stages"),
        (plan.sequence_parallel, "sequence parallel"),
        (plan.recompute != "none", f"{plan.recompute} recomputation"),
        (adapter, f"{adapter.kind} of rank {adapter.rank}" if adapter else ""),
        (adapter and adapter.upcast is not None, f"norms {'upcast' if adapter and adapter.upcast else 'not upcast'}"),
        (plan.quantization != "none", f"{plan.quantization} weights"),
        (plan.offload, f"{' and '.join(sorted(plan.offload))} offloaded"),
        (layers, f"{counted(layers, 'layer')} of multi-token prediction"),
        (plan.optimizer != "adamw", str(plan.optimizer)),
        (plan.schedule in ("zero-bubble", "dualpipe"), f"{plan.schedule} schedule"),
        (plan.split, f"heterogeneous devices split by {plan.split}"),
        (shards is not None, f"states sharded by {shards:g}" if shards is not None else ""),
        (plan.compile, "compiled"),
        (plan.expert_capacity, f"expert capacity {plan.expert_capacity:g}"),
        (plan.expert_overlap, "expert exchange overlapped"),
        (overlap not in (None, *usual), f"tensor overlap {overlap}"),
        (plan.launch_blocking, "blocking launches"),
        (plan.gradient_reduce_dtype, f"gradients reduced in {plan.gradient_reduce_dtype}"),
    )
    return [phrase for holds, phrase in phrases if holds]


def _of_generation(scenario: "GenerationScenario") -> tuple[str, list[str]]:
    plan, work = scenario.plan, scenario.workload
    cached = f" ({work.prefix_tokens:,} cached)" if work.prefix_tokens and plan.prefix_cache else ""
    loop = "steady load of " if work.continuous else "batch "
    how = _of_engine(scenario)
    return f"{loop}{work.batch:,}, {work.prompt_tokens:,} tokens in{cached}, {work.output_tokens:,} out", how


def _of_engine(scenario: "GenerationScenario | ServingScenario") -> list[str]:
    """The engine, how its devices share the model, the formats, and what it drafts."""
    plan = scenario.plan
    how = [_framework(scenario, plan.engine.name, plan.engine.version), layout(plan), _formats(scenario)]
    if plan.speculative is not None:
        drafted = counted(int(plan.speculative.tokens), "drafted token")
        how.append(f"{drafted}, {units.percent(float(plan.speculative.acceptance))} accepted")
    return how


def layout(plan: "GenerationPlan") -> str:
    """Return how devices share the model, in words."""
    if plan.disaggregate is None:
        return ", ".join(_layout(plan))
    pools = (("prefill", plan.disaggregate.prefill), ("decode", plan))
    return "; ".join(f"{name} {pool.replicas} x {', '.join(_degrees(pool))}" for name, pool in pools)


def _of_serving(scenario: "ServingScenario") -> tuple[str, list[str]]:
    work = scenario.workload
    if work.requests is None:
        what = f"requests from {work.trace}"
    else:
        shape = work.requests
        lengths = f"{_tokens(shape.prompt_tokens)} tokens in, {_tokens(shape.output_tokens)} out"
        what = f"{counted(shape.count, 'request')}{_talks(work.sessions)}, {lengths}{_conversations(work.sessions)}"
    return f"{what}, {_arrival(scenario)}", _of_engine(scenario)


def _talks(sessions: "Sessions | None") -> str:
    """How many turns and calls conversations have, and what the tools of agents take."""
    if sessions is None or (sessions.turns, sessions.calls) == (1, 1):
        return ""
    counts = (sessions.turns, sessions.calls)
    turns, calls = (str(of) if isinstance(of, int) else f"about {of.expected:.3g}" for of in counts)
    talks = f" in conversations of {turns} turns"
    if sessions.calls != 1:
        pause_s = sessions.tool_time_s if isinstance(sessions.tool_time_s, float) else sessions.tool_time_s.expected
        answers = f"{_tokens(sessions.tool_tokens)} tokens from tools after {units.seconds(pause_s)}"
        talks += f" x {calls} calls, {answers} each"
    return f"{talks}, {sessions.agents} agents at a time" if sessions.agents > 1 else talks


def _conversations(sessions: "Sessions | None") -> str:
    """What comes before the stated tokens of a prompt: earlier turns, and a prefix that conversations share."""
    if sessions is None:
        return ""
    shared = f"; {sessions.prefix_tokens:,} shared" if sessions.prefix_tokens else ""
    turns = f"{'; ' if shared == '' else ' and '}all turns before" if (sessions.turns, sessions.calls) != (1, 1) else ""
    return f" ({(shared + turns).removeprefix('; ')} prefix tokens)" if shared or turns else ""


def _tokens(lengths: "int | Lengths") -> str:
    """A length, or the mean of those that are drawn."""
    return f"{lengths:,}" if isinstance(lengths, int) else f"about {lengths.drawn(_LONGEST).mean():,.0f}"


def _arrival(scenario: "ServingScenario") -> str:
    """When requests arrive, in words."""
    arrival = scenario.workload.arrival
    if arrival.process == "closed":
        return counted(arrival.concurrency or 0, "client")
    if arrival.process == "all_at_once":
        return "all at once"
    rate, talks = "" if arrival.rate is None else f" at {units.digits(arrival.rate)}/s", scenario.workload.sessions
    if arrival.rate is not None and talks is not None and talks.requests > 1.0:
        begun = units.digits(arrival.rate / talks.requests)
        rate = f" at {units.digits(arrival.rate)} requests/s ({begun} conversations/s)"
    rate = " at varying rates" if arrival.ramp else rate
    sent = f"{arrival.process}{rate}"
    if arrival.process == "trace":
        sent = f"arriving{rate}" if rate else "at recorded times"
    return f"{sent}, {arrival.concurrency:,} in flight at most" if arrival.concurrency else sent


def _layout(plan: "Plan | GenerationPlan") -> list[str]:
    """Parallel degrees other than 1, and replicas of an engine."""
    several = not isinstance(plan, Plan) and plan.replicas != 1
    return _degrees(plan) + ([f"{plan.replicas} replicas"] if several else [])


def _degrees(plan: Any) -> list[str]:
    """Parallel degrees other than 1."""
    fields = tuple(SHORT_DEGREES) if isinstance(plan, Plan) else _SERVED
    named = [f"{SHORT_DEGREES[field]} {getattr(plan, field)}" for field in fields if getattr(plan, field) != 1]
    named += [f"experts on {apart} further devices"] if (apart := getattr(plan, "expert_devices", 0)) else []
    return named or ["one device"]


def _formats(scenario: "GenerationScenario | ServingScenario") -> str:
    """The type of the arithmetic, and in what format weights and cache are where that is another."""
    stated, published = scenario.plan.quantization, scenario.model.weights
    if stated is None:
        return scenario.plan.dtype if published in _PLAIN else f"{scenario.plan.dtype}, weights in {published}"
    return ", ".join((scenario.plan.dtype, *(stated or ("not quantized",))))


def differing(scenarios: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return each scenario's values of the keys that differ between scenarios, in the order of a sweep's keys.

    What a sweep names last varies fastest, and so changes first in its scenarios.
    """
    flat = [_stated(scenario) for scenario in scenarios]
    keys = dict.fromkeys(key for mapping in flat for key in mapping)
    values = {key: [repr(mapping.get(key)) for mapping in flat] for key in keys}
    first = {key: next((i for i, value in enumerate(said) if value != said[0]), 0) for key, said in values.items()}
    telling = sorted(filter(first.__getitem__, keys), key=lambda key: -first[key])
    return [{key: mapping.get(key) for key in telling} for mapping in flat]


def _stated(scenario: Asked) -> dict[str, Any]:
    """A scenario's values by key, without those that are the framework's own."""
    mapping = flatten({k: v for k, v in loading.to_mapping(scenario).items() if k != "measured"})
    if not isinstance(scenario, Scenario):
        return mapping
    own = {f"plan.{name}" for name in CHOICES if getattr(scenario.plan, name) is None}
    return {key: value for key, value in mapping.items() if key not in own}


def variant_labels(scenarios: Sequence[Asked]) -> list[str]:
    """Return a short, distinct label per scenario: its name, or what sets it apart when names repeat."""
    names = [title(s) for s in scenarios]
    if len(set(names)) == len(names):
        return names
    labels = [_variant(keys) or name for keys, name in zip(differing(scenarios), names, strict=True)]
    seen: dict[str, int] = {}
    for position, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        labels[position] = label if seen[label] == 1 else f"{label} ({seen[label]})"
    return labels


def line_labels(scenarios: Sequence[Asked], axis: str) -> list[str]:
    """Return a label per scenario that is the same for all that differ in the key ``axis`` alone."""
    names = [title(s) for s in scenarios]
    others = [{k: v for k, v in keys.items() if k != axis} for keys in differing(scenarios)]
    variants = [_variant({k: v for k, v in keys.items() if k != "name"}) for keys in others]
    if len(set(names)) == 1:
        return [variant or name for variant, name in zip(variants, names, strict=True)]
    if len(set(names)) == len(set(zip(names, variants, strict=True))):
        return names
    return [", ".join(filter(None, pair)) for pair in zip(names, variants, strict=True)]


def _variant(keys: Mapping[str, Any]) -> str:
    """Name what differs."""
    words = {key: units.word(value) for key, value in _telling(keys).items()}
    return ", ".join(v if k in ("name", *_NAMES) else f"{k.rpartition('.')[2]} {v}" for k, v in words.items())


def setting(chosen: Mapping[str, Any]) -> str:
    """Return what is set, without the part of a scenario that a key belongs to."""
    return ", ".join(f"{key.partition('.')[2] or key} {units.word(value)}" for key, value in chosen.items())


def _telling(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What differs; derived degrees and the figures of a model or device only where nothing else differs."""
    there = {k: v for k, v in keys.items() if v is not None}
    plain = {k: v for k, v in there.items() if k.startswith(_MAIN_KEYS) and k not in _DERIVED}
    whole = {k: v for k, v in there.items() if k in _NAMES}
    return {**whole, **plain} or there


def scenario_yaml(scenario: Any) -> str:
    """Return a fully resolved scenario, or the mapping of one, as a file that can be asked again."""
    import yaml

    mapping = dict(scenario) if isinstance(scenario, Mapping) else loading.to_mapping(scenario)
    return yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=100)


_PARTS: Final = ("workload", "workload.requests", "workload.arrival", "workload.slo", "plan")
"""Keys whose mappings are written key by key; what lies deeper is one text."""
_NAMED: Final = ("model", "cluster")
"""Of a scenario, what the catalog has by name."""
_RESTRICTS: Final = frozenset({"any", "from", "to", "factor", "at_most"})


def by_dotted_key(part: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a question with their values, as ``--set`` names them."""
    for key, value in part.items():
        named = f"{above}.{key}" if above else str(key)
        if named in _PARTS and isinstance(value, Mapping) and not is_restricted(value):
            yield from by_dotted_key(value, named)
        else:
            yield named, value


def is_restricted(value: object) -> bool:
    """Return whether a value states what a search may choose from."""
    return isinstance(value, Mapping) and bool(value) and value.keys() <= _RESTRICTS


def texts_of(mapping: Mapping[str, Any]) -> dict[str, str]:
    """Return a scenario by dotted keys, with values as ``--set`` reads them."""
    return {key: as_text(value) for key, value in by_dotted_key(mapping)}


def asked_with(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question with other values, by dotted keys."""
    return {**dict(by_dotted_key(mapping)), **settings}


def texts_of_scenario(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return a stored scenario as dotted keys with texts: what is of the catalog by its name, all else in full."""
    named = _by_name(scenario)
    whole = {key: json.dumps(value) for key, value in named.items() if key in _NAMED and isinstance(value, Mapping)}
    return {key: text for key, text in {**texts_of(named), **whole}.items() if text != ""}


def _by_name(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scenario with the names of its model and cluster, where they stand for the same."""
    names = {key: part["name"] for key in _NAMED if isinstance(part := scenario.get(key), Mapping) and "name" in part}
    whole = _resolved(scenario)
    for tried in (names, *({key: name} for key, name in names.items())):
        if tried and whole is not None and _resolved(short := {**scenario, **tried}) == whole:
            return short
    return scenario


def _resolved(scenario: Mapping[str, Any]) -> Any:
    try:
        found = loading.load(dict(scenario))
    except SightlineError:
        return None
    return None if isinstance(found, list) else loading.to_mapping(found)
