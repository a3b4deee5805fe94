"""Work out what a plan asks of an engine: sizes of servers, number formats, memories, what has no option.

Of the memories behind the device's the first is host memory, from which alone engines load directly. What stands
behind it is storage, in which engines write as much as it takes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import Any

from sightline.catalog import names
from sightline.errors import InputError
from sightline.launching.hugging_face import model_of, repository_of
from sightline.loading.models import resolve_model
from sightline.program.blocks.layer import cached_bytes
from sightline.program.formats import formats_of
from sightline.quantities import Count
from sightline.scenario import Generate, GenerationPlan, GenerationScenario, Serve, ServingScenario
from sightline.scenario.lengths import Lengths
from sightline.scenario.precision import CACHE_BYTES, LOW_PRECISION, ROUTER_DTYPES, WEIGHT_FORMATS
from sightline.simulation.load import Requests, load_of


def pools(scenario: GenerationScenario) -> dict[str, GenerationPlan]:
    """Return the plan of the servers by role: prefill and decode where they are apart, else one without a name."""
    split = scenario.plan.disaggregate
    return {"": scenario.plan} if split is None else {"prefill": split.prefill, "decode": scenario.plan}


def size(plan: GenerationPlan) -> int:
    """Return the devices of one server."""
    return int(plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel)


def operation_notes(scenario: GenerationScenario) -> Iterator[str]:
    """Yield what of a plan is up to whoever operates the servers, and no command that is written says."""
    plan = scenario.plan
    if plan.scheduler == "priority":
        yield "plan.scheduler priority: clients send `priority` with each request; smaller goes first"
    for name in ("expert_skew", "expert_spread"):
        if uneven := getattr(plan, name):
            yield f"plan.{name} is {uneven:g}: not written; the requests choose the experts"
    if plan.lora_adapters is not None:
        yield f"plan.lora_adapters {plan.lora_adapters.count}: not written; name the adapters' files to the servers"
    if plan.autoscale is not None:
        yield f"plan.autoscale: written are all {plan.replicas} replicas; an orchestrator starts and stops them"


def model_argument(scenario: GenerationScenario) -> tuple[str, tuple[str, ...]]:
    """Return what a command calls the scenario's model, and what to say where that is not known."""
    name = scenario.model.name
    if repository := repository_of(name):
        return repository, ()
    called = name.replace(" ", "-") or "model"
    unknown = f"model: the catalog knows no Hugging Face repository of {called}; put a repository or a path there"
    return called, (unknown,)


DTYPES: Mapping[str, str] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Compute dtypes as engines of PyTorch name them."""
READ_DTYPES: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in DTYPES.items()},
    "half": "fp16",
    "float": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp32": "fp32",
    "auto": "",
}
"""And back; empty for the checkpoint's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedFormats:
    """What a scenario asks of an engine beyond what the checkpoint brings."""

    weights: str = ""
    """Format that 16-bit weights are converted to; empty for none."""
    cache: str = ""
    """Format of the cache; empty for the engine's own."""
    checkpoint: str = ""
    """Format that a checkpoint of its own has to bring; empty where the model's repository does."""
    notes: tuple[str, ...] = ()


def requested_formats(scenario: GenerationScenario, known: Mapping[str, str]) -> RequestedFormats:
    """Return the formats that a scenario asks for, by the engine's words for those it converts weights to itself."""
    plan, model = scenario.plan, scenario.model
    words = plan.quantization or ()
    weights = next((word for word in words if word in WEIGHT_FORMATS), "")
    is_open = plan.quantization is None
    if plan.dtype in LOW_PRECISION and not weights and (is_open or words):
        weights, is_open = plan.dtype, False
    published = WEIGHT_FORMATS.get(model.weights, "")
    notes = [f"plan.dtype {plan.dtype}: written as the format of the weights"] if plan.dtype not in DTYPES else []
    is_converted = not published and weights in known
    checkpoint = "" if is_open or is_converted or WEIGHT_FORMATS.get(weights, "") == published else weights or "bf16"
    notes += [f"plan.quantization {word}: no argument chooses it" for word in words if word in ROUTER_DTYPES]
    cache = next((word for word in words if word in CACHE_BYTES), "")
    written = known[weights] if is_converted else ""
    return RequestedFormats(weights=written, cache=cache, checkpoint=checkpoint, notes=tuple(notes))


_QUANTIZED = re.compile(r"[-.](?:quantized\.([\w-]+)|(bf16|awq|gptq(?:-int4)?|(?:nv)?fp4))$", re.IGNORECASE)
_FORMATS: Mapping[str, str] = {**dict.fromkeys(("awq", "gptq", "gptq-int4"), "w4a16"), "bf16": "none", "fp4": "nvfp4"}
"""Endings of repositories that are called after a format, and our words for them."""


def in_format(model: str, formats: RequestedFormats) -> tuple[str, tuple[str, ...]]:
    """Return what a checkpoint of a model is called that the formats need, and what to say about it."""
    word = formats.checkpoint
    if not word:
        return model, ()
    name = f"{model.rpartition('/')[2]}-{'bf16' if word == 'bf16' else f'quantized.{word}'}"
    return name, (f"model: {name} stands for a folder or repository with the weights of {model} in {word}",)


def checkpoint_of(written: str) -> tuple[str, str]:
    """Return a repository without the format that it is called after, and the format; both as written without one.

    A model that the catalog has in the format is that one.
    """
    found = _QUANTIZED.search(written)
    if found is None or model_of(written):
        return written, ""
    base, word = written[: found.start()], (found[1] or found[2]).lower()
    form = _FORMATS.get(word, word)
    stored = f"{model_of(base)}-{form}"
    return (stored, "") if found[2] and stored in names("models") else (base, form)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """What the servers of one role are asked for."""

    scenario: GenerationScenario
    role: str
    """prefill or decode; empty for servers that do both."""
    plan: GenerationPlan
    formats: RequestedFormats

    @property
    def sequences(self) -> int | None:
        """Sequences that a data-parallel rank of a server has in flight; None for the engine's own limit."""
        plan, split = self.plan, self.scenario.plan.disaggregate
        if self.role == "prefill" and split is not None:
            most = split.prefill_batch or split.prefill.max_sequences
            return None if most is None else int(most)
        if plan.max_sequences is not None:
            return int(plan.max_sequences)
        return int(-(-self.scenario.workload.batch // (plan.data_parallel * plan.replicas)))

    @property
    def publishes(self) -> bool:
        """Whether its router is told what each of several servers keeps."""
        return self.scenario.plan.router == "precise-prefix" and bool(self.plan.replicas > 1)

    @property
    def longest(self) -> int:
        """Tokens of a sequence, prompt and output."""
        return int(self.scenario.workload.prompt_tokens + self.scenario.workload.output_tokens)

    @property
    def block_tokens(self) -> int | None:
        """Tokens of a cache block where they are not the engine's default, which kernels may round up."""
        stated = self.plan.kv_block_tokens
        return None if stated == self.plan.engine.defaults.get("kv_block_tokens") else stated

    @property
    def budget(self) -> int | None:
        """Tokens of an iteration: at least what the engine needs where prompts are not cut; None for no limit."""
        stated = self.plan.max_batched_tokens
        if stated is None:
            return None
        work, engine = self.scenario.workload, self.plan.engine.name
        least = least_budget(engine, work.prompt_tokens, work.output_tokens)
        return int(stated) if self.plan.chunked_prefill else max(int(stated), int(least))

    @property
    def most_with_drafts(self) -> int | None:
        """Sequences of a rank above which nothing is drafted; None for any number."""
        speculative = self.scenario.plan.speculative
        return None if speculative is None or speculative.disable_above is None else int(speculative.disable_above)

    @property
    def drafts(self) -> int | None:
        """Tokens drafted per pass; None without drafts."""
        return None if self.scenario.plan.speculative is None else int(self.scenario.plan.speculative.tokens)


def requests_of(scenario: GenerationScenario, weights: Mapping[str, str]) -> list[Request]:
    """Return what servers are asked for by role, those that decode last.

    ``weights`` are the engine's words for the formats that it converts weights to.
    """
    formats = requested_formats(scenario, weights)
    return [Request(scenario=scenario, role=role, plan=plan, formats=formats) for role, plan in pools(scenario).items()]


def least_budget(engine: str, prompt_tokens: Count, output_tokens: Count) -> Count:
    """Return the fewest tokens of an iteration that an engine takes where prompts are not cut.

    vLLM and LightLLM need those of the longest sequence, TGI and TensorRT-LLM those of its prompt; 0 for others.
    """
    if engine in ("vllm", "lightllm"):
        return prompt_tokens + output_tokens
    return prompt_tokens if engine in ("tgi", "tensorrt-llm") else 0


def budget_notes(request: Request) -> Iterator[str]:
    """Yield where the tokens of an iteration that are written are more than the plan's."""
    stated, written = request.plan.max_batched_tokens, request.budget
    if written != stated:
        yield f"plan.max_batched_tokens {stated}: written as {written}, the fewest that whole prompts need"


def quantization(weights: str, cache: str, model: str) -> list[str]:
    """Return ``plan.quantization`` of what an engine's arguments say; of the checkpoint's own formats there is none.

    A list that names a format of the cache alone means weights in 16 bits, so the checkpoint's format joins it.
    """
    if not cache:
        return [weights] if weights else []
    return [*filter(None, [weights or published_format(model)]), cache] if weights != "none" else [cache]


def published_format(model: str) -> str:
    """Return the low-precision format that a catalog model's weights are published in; empty for none."""
    try:
        found = resolve_model(model, Path()).model.weights
    except InputError:
        return ""
    return found if found in WEIGHT_FORMATS else ""


def host_bytes(scenario: GenerationScenario) -> float:
    """Return the bytes of host memory behind the devices of one server; 0 where the plan has no such memory."""
    if not scenario.plan.kv_tiers:
        return 0.0
    first = scenario.plan.kv_tiers[0]
    if first.capacity_bytes is not None:
        return first.capacity_bytes
    return float(first.capacity_tokens or 0) * _token_bytes(scenario)


def _token_bytes(scenario: GenerationScenario) -> float:
    """Keys and values of a token on the devices of a rank; those that hold the same count each, as in engines."""
    model, plan = scenario.model, scenario.plan
    formats = formats_of(model, plan.quantization, plan.dtype, scenario.cluster.device)
    one, two = (cached_bytes(model, formats, tokens, float(plan.tensor_parallel)) for tokens in (1.0, 2.0))
    return float((two - one) * plan.tensor_parallel)


def device_host_bytes(scenario: GenerationScenario) -> float:
    """Return the bytes of host memory behind each device of a server."""
    return host_bytes(scenario) / size(scenario.plan)


def storage_folders(scenario: GenerationScenario, server: int | None = None) -> list[str]:
    """Return the folders of the storage behind host memory; those of one server where ranks have them alone."""
    own = "" if server is None else f"-{server}"
    tiers = enumerate(scenario.plan.kv_tiers[1:], start=1)
    return [f"kv-tier-{place}{own if tier.shared == 'rank' else ''}" for place, tier in tiers]


def storage_notes(scenario: GenerationScenario, *folders: str) -> Iterator[str]:
    """Yield where the storage behind host memory is, of each of these folders, and what engines do not limit."""
    name, several = scenario.plan.engine.name, scenario.cluster.nodes > 1
    for place, (tier, folder) in enumerate(zip(scenario.plan.kv_tiers[1:], folders, strict=True), start=1):
        where = ", on a file system of all nodes" if several and tier.shared == "all" else ""
        yield f"plan.kv_tiers[{place}] {tier.name}: files in {folder}{where}; {name} does not limit their size"


CONTEXT_STEP = 1024
"""The longest request is rounded up to a multiple of this many tokens where no length limits it."""


def _longest(scenario: ServingScenario, parts: Sequence[Requests]) -> tuple[int, int]:
    """Return the most tokens of a request and of its answer: as lengths state them, else of those that there are.

    They are no more than the model's context.
    """
    plan = scenario.plan
    longest = max(int((part.prompt_tokens + part.output_tokens).max()) for part in parts)
    output = max(int(part.output_tokens.max()) for part in parts)
    stated, answer = _stated_most(scenario.workload)
    if stated < inf:
        longest, output = max(longest, int(stated)), int(answer)
    elif plan.chunked_prefill or plan.max_batched_tokens is None:
        longest = -(-longest // CONTEXT_STEP) * CONTEXT_STEP
    longest = min(longest, scenario.model.max_positions)
    return longest, min(output, longest - 1)


def _stated_most(work: Serve) -> tuple[float, float]:
    """The most tokens of a request, with those that it shares, and of its answer; infinite where nothing limits them.

    The last request of a conversation has all of its tokens, up to the stated context.
    """
    shape, talk = work.requests, work.sessions
    if shape is None or work.trace is not None:
        return inf, inf
    answer = _most(shape.output_tokens)
    longest = _most(shape.prompt_tokens) + answer
    if talk is None:
        return longest, answer
    calls = _most(talk.calls)
    longest += (calls - 1) * (_most(talk.tool_tokens) + answer) if calls > 1 else 0
    return min(talk.prefix_tokens + _most(talk.turns) * longest, talk.context_tokens or inf), answer


def _most(lengths: float | Lengths) -> float:
    """The largest number of a distribution; infinite where it has none."""
    if not isinstance(lengths, Lengths):
        return lengths
    return min(lengths.high, max(lengths.values, default=inf))


def as_generation(scenario: ServingScenario, load: Requests | None = None) -> GenerationScenario:
    """Return the generation that an engine has to be started for: the longest request, as many as may run at once.

    Args:
        scenario: A load and the plan that serves it.
        load: All of its requests; without them they are read.
    """
    parts = list(load_of(scenario)) if load is None else [load]
    plan, engine = scenario.plan, scenario.plan.engine
    running = plan.max_sequences or min(sum(map(len, parts)), engine.serving.running_of())
    longest, output = _longest(scenario, parts)
    work = Generate(
        batch=int(running * plan.data_parallel * plan.replicas),
        prompt_tokens=longest - output,
        output_tokens=output,
        sampling=scenario.workload.sampling,
    )
    stated = {field.name: getattr(scenario, field.name) for field in fields(scenario)}
    # An engine that takes other blocks for a load than for a batch does so by itself.
    usual: Mapping[str, Any] = engine.defaults
    block = plan.kv_block_tokens
    if block == engine.serving.defaults.get("kv_block_tokens"):
        block = usual.get("kv_block_tokens", block)
    plan = replace(plan, max_sequences=running, kv_block_tokens=block)
    return GenerationScenario(**{**stated, "workload": work, "plan": plan})
