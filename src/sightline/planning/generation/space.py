"""What a search of serving plans may choose: fields that are fixed, restricted to some values, or free."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any, NamedTuple, TypeAlias

from sightline import catalog
from sightline.content import content, fields_of
from sightline.frameworks import Engine, read_engine
from sightline.frameworks.engine import serving_limits
from sightline.launching.engines.rules import STATED, lets_launch, refusals
from sightline.launching.registry import ENGINE_WRITERS
from sightline.program.formats import formats_of
from sightline.scenario import Device, GenerationPlan, GenerationScenario, Model
from sightline.scenario.precision import CACHE_BYTES, WEIGHT_FORMATS
from sightline.scenario.rules import breaks_no_rule
from sightline.scenario.space import Space

Values: TypeAlias = tuple[Any, ...]
GenerationSpace: TypeAlias = Space[GenerationScenario]
"""Its ``values`` are of fields of the plan, of ``batch`` of the workload, and of ``prefill.FIELD`` and ``decode.FIELD``
of disaggregated workers. The engine goes by the name ``framework``."""
SOFTMAX = ("attention", "sliding", "chunked", "none")
"""Mixers that every engine runs."""
TRIED_FORMATS = ("fp8", "nvfp4", "w8a8", "w4a16", "nf4", "q4_k_m")
"""Formats that a search quantizes weights in 16 bits to, the most accurate first. Others are served as checkpoints
have them, or where a plan restricts the field to them."""


def values_in(space: GenerationSpace, name: str, free: Iterable[Any]) -> Values:
    """Return the values that a field may take: the one that is fixed, those allowed, or those it has when ``free``."""
    if name not in space.values:
        return (getattr(space.scenario.plan, name),)
    allowed = space.values[name]
    return tuple(free) if allowed is None else allowed


def restricted(space: GenerationSpace, name: str) -> Values | None:
    """Return the values that a restricted field may take; None for one that is fixed or free."""
    return space.values.get(name)


class Variant(NamedTuple):
    """What decides which operators there are: an engine and formats; degrees and sizes are arrays in it."""

    scenario: GenerationScenario
    pooled: bool
    """Whether prefill and decode have workers of their own."""
    usual: bool
    """Whether formats are those of the checkpoint."""
    launched: bool = False
    """Whether only plans that the engine's launch can run are candidates."""
    max_sequences: int | None = None
    """Most sequences in flight on a rank; None means any number."""
    usual_memory: bool = False
    """The engine takes the share of memory that it does by itself with a plan's degrees."""


def variants(space: GenerationSpace) -> Iterator[Variant]:
    """Yield every engine and choice of formats that can run the model."""
    for engine in engines(space):
        most, usual_memory = _most_sequences(space, engine), space.values.get("memory_fraction", ()) is None
        scenario = replace(space.scenario, plan=plan_of(space, engine))
        for words in _formats(space, scenario):
            quantized = replace(scenario, plan=replace(scenario.plan, quantization=words))
            for pooled in _pooled(space, engine):
                yield Variant(quantized, pooled, words is None, space.launchable, most, usual_memory)


def may_be_tried(space: Space[Any], scenario: GenerationScenario) -> bool:
    """Return whether a plan breaks no rule and, of a space of launchable plans, its launch can run it."""
    return breaks_no_rule(scenario) and not (space.launchable and refusals(scenario, STATED))


def _most_sequences(space: GenerationSpace, engine: Engine) -> int | None:
    """Sequences in flight on a rank at most: as stated, the engine's own of a free field; None for any number."""
    if "max_sequences" not in space.values:
        return None
    stated, device = space.values["max_sequences"], space.scenario.cluster.device
    if stated is not None:
        return int(stated[0])
    limits = serving_limits(engine.serving, device.name, float(device.memory_bytes), space.scenario.model.max_positions)
    return limits.max_sequences


def engines(space: GenerationSpace) -> tuple[Engine, ...]:
    """Return the engines to choose from: those named, else those of the catalog that run the model on the device.

    Of a space of launchable plans those of them that launch what the plan states, if there are any.
    """
    if "framework" not in space.values:
        return (space.scenario.plan.engine,)
    named = restricted(space, "framework")
    if named is not None:
        found = tuple(map(read_engine, named))
    else:
        found = tuple(engine for engine in map(read_engine, catalog.names("engines")) if runs(engine, space))
    written = tuple(engine for engine in found if engine.name in ENGINE_WRITERS)
    able = tuple(engine for engine in written if lets_launch(engine, space.scenario.plan))
    return (able or written or found) if space.launchable else found


def runs(engine: Engine, space: GenerationSpace) -> bool:
    """Whether an engine has kernels for the device, the layers of the model, and the format of its checkpoint."""
    has, model, target = engine.support, space.scenario.model, space.scenario.cluster.device.architecture
    known = target == "unknown" or target.startswith(has.architectures)
    mixers = {kind.mixer for kind in model.kinds} <= {*SOFTMAX, *has.mixers}
    chosen = space.values.get("quantization", ()) is not None
    stored = chosen or _is_plain(model) or WEIGHT_FORMATS[model.weights] in has.formats
    return bool(has.architectures) and known and mixers and (has.experts or model.experts is None) and stored


def plan_of(space: GenerationSpace, engine: Engine) -> GenerationPlan:
    """Return the plan with what is fixed, and the engine's own values of the rest, searched or not."""
    rates = space.scenario.cluster.device.peak_flops
    device, model = space.scenario.cluster.device, space.scenario.model
    budget = engine.usual_budget(device.name, float(device.memory_bytes), model.max_positions)
    own = {"memory_fraction": engine.memory.memory_fraction, "max_batched_tokens": budget, **engine.defaults}
    plain = {f.name: own.get(f.name, f.default) for f in fields(GenerationPlan) if f.default is not MISSING}
    if plain["dtype"] not in rates:
        plain["dtype"] = next((dtype for dtype in ("bf16", "fp16") if dtype in rates), "bf16")
    stated = {name: value for name, value in fields_of(space.scenario.plan).items() if name not in space.values}
    return GenerationPlan(**{**plain, **stated, "engine": engine})


def _pooled(space: GenerationSpace, engine: Engine) -> tuple[bool, ...]:
    """Whether workers are disaggregated, as far as that is a question."""
    if "disaggregate" not in space.values:
        return (space.scenario.plan.disaggregate is not None,)
    allowed = space.values["disaggregate"]
    if allowed is not None:
        return tuple(dict.fromkeys(map(bool, allowed)))
    apart = engine.support.disaggregation and space.scenario.cluster.devices > 1
    return (False, True) if apart else (False,)


def _formats(space: GenerationSpace, scenario: GenerationScenario) -> tuple[tuple[str, ...] | None, ...]:
    """The choices of quantization, each with other formats than those before it."""
    if space.values.get("quantization", ()) is not None:
        return values_in(space, "quantization", ())
    model, engine, device = scenario.model, scenario.plan.engine, scenario.cluster.device
    served = set(engine.support.formats)
    weights: list[tuple[str, ...]] = [()]
    if _is_plain(model):
        weights += [(word,) for word in TRIED_FORMATS if word in served and _is_of_use(word, device)]
    caches = [(), *((word,) for word in CACHE_BYTES if word in served)]
    seen: set[Hashable] = set()
    found: list[tuple[str, ...] | None] = []
    for words in ((*format_, *cache) for cache in caches for format_ in weights):
        # A cache's format alone leaves the checkpoint's weights as they are.
        own = (
            words
            if any(word in WEIGHT_FORMATS for word in words)
            else (*(word for word in model.published if word in WEIGHT_FORMATS), *words)
        )
        key = content(formats_of(model, own or None, scenario.plan.dtype, device), largest_array=0)
        if key not in seen:
            seen.add(key)
            found.append(own if words else None)
    return tuple(found)


def _is_of_use(word: str, device: Device) -> bool:
    """Whether a device has products in a format; int8 stands in for fp8, weights of other formats are expanded."""
    rates = device.peak_flops
    return {"nvfp4": "nvfp4" in rates, "w8a8": "int8" in rates and "fp8" not in rates}.get(word, True)


def _is_plain(model: Model) -> bool:
    """Whether no weight of a checkpoint is quantized."""
    return model.weights not in WEIGHT_FORMATS
