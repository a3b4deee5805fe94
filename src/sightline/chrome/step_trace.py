"""A predicted training step as a Chrome trace: a process per pipeline stage, modules nested in passes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sightline.chrome import trace_events
from sightline.chrome.trace_events import (
    CALL,
    COMPUTE,
    IDLE,
    RANGE,
    STAGES_SEND,
    STEP_SENDS,
    Block,
    Event,
    blocks_of,
    drawn,
    kernel_name,
    resized,
    slice_of,
    trace_text,
)
from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.prediction.schedules.timeline import (
    BACKWARD,
    FORWARD,
    OMITTED,
    ONCE,
    TRANSFER,
    WEIGHT,
    Span,
    drawn_micro_batches,
    timeline,
)
from sightline.prediction.schedules.timeline import HOST as ON_HOST
from sightline.prediction.training.stages import layers_to_spread
from sightline.profile import GENERATION, REFERENCE, Profile

MOST_EVENTS = 150_000
"""Slices of modules and operators; viewers stay quick with as many."""
_MOST_FLOWS = 10_000
_PASSES = (FORWARD, BACKWARD, WEIGHT)
_WEIGHTS = ("weight gradient", "bias gradient", "gradient accumulation")
"""Operators of the weight gradients, which zero-bubble schedules run apart."""


def training_trace(profile: Profile) -> str:
    """Return the JSON text of a predicted step's trace.

    The modules of the first micro-batches are drawn, as many as `MOST_EVENTS` allows; of the others their passes.
    """
    scenario = profile.scenario
    in_step = int(profile.micro_batches or 1)
    spans = timeline(profile)
    shown = drawn_micro_batches(scenario, in_step)
    stages = max((span.stage for span in spans), default=0) + 1
    inside = _Inside(profile, stages, in_step)
    detailed = min(shown, max(1, int((MOST_EVENTS - len(spans)) / max(1, inside.events_of_micro_batch))))
    about = {
        "scenario": scenario.name,
        "source": f"sightline, {profile.source}",
        "step_time_s": float(profile.step_time_s),
        "micro_batches": in_step,
        "micro_batches_drawn": shown,
        "micro_batches_with_modules": detailed,
    }
    names = {stage: f"stage {stage}" if stages > 1 else "device" for stage in range(stages)}
    found = list(_events(profile, spans, inside, detailed, in_step - shown))
    return trace_text(names, found, about)


class _Inside:
    """What is inside of the passes of each stage."""

    def __init__(self, profile: Profile, stages: int, micro_batches: int) -> None:
        plan = profile.scenario.plan
        self._stages, self._chunks = stages, int(plan.virtual_stages)
        layers = plan.stage_layers or stage_layers(
            layers_to_spread(profile.scenario), stages, plan.framework.pipeline_ends
        )
        self._layers, most = layers, max(layers)
        self._share = [count / most / self._chunks for count in layers]
        forward = blocks_of(profile, (FORWARD, REFERENCE), micro_batches)
        backward = blocks_of(profile, ("recompute", BACKWARD), micro_batches)
        if plan.schedule in ("zero-bubble", "dualpipe"):
            self._of = {
                FORWARD: forward,
                BACKWARD: _only(backward, weights=False),
                WEIGHT: _only(backward, weights=True),
            }
        else:
            self._of = {FORWARD: forward, BACKWARD: backward}

    def blocks(self, span: Span) -> list[Block]:
        """Return the blocks of a pass: the embedding is on the first stage alone, the head on the last."""
        found = resized(self._of.get(span.kind, ()), self._share[span.stage])
        piece = span.chunk * self._stages + span.stage
        missing = {"embedding"} if piece > 0 else set()
        missing |= {"head", "prediction"} if piece < self._stages * self._chunks - 1 else set()
        return [one for one in found if one.name not in missing] or found

    def first_layer(self, span: Span) -> int:
        """Return the number of the first layer of a pass: chunks follow each other over all stages."""
        before = sum(self._layers) / self._chunks * span.chunk
        return round(before + sum(self._layers[: span.stage]) / self._chunks)

    @property
    def events_of_micro_batch(self) -> int:
        """Slices that the modules of a micro-batch take on all stages."""
        blocks = [one for of in self._of.values() for one in of]
        return sum(one.events for one in blocks) * self._stages


def _only(blocks: Sequence[Block], *, weights: bool) -> list[Block]:
    """Of backward passes the weight gradients, or the rest."""
    found = []
    for one in blocks:
        kept = [(module, [op for op in inside if (op.name in _WEIGHTS) == weights]) for module, inside in one.modules]
        found.append(replace(one, modules=[(module, inside) for module, inside in kept if inside]))
    return [one for one in found if one.modules]


def _events(profile: Profile, spans: Sequence[Span], inside: _Inside, detailed: int, omitted: int) -> Iterator[Event]:
    by_stage: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_stage[span.stage].append(span)
    passes: dict[tuple[str, int, int], Event] = {}
    code_s = _code_s(profile) / int(profile.scenario.plan.virtual_stages)
    for stage, own in by_stage.items():
        # The same name as PyTorch's, so that the step is recognized.
        yield slice_of("ProfilerStep#0", trace_events.STEP, stage, trace_events.HOST, 0.0, own[-1].end_s)
        yield from _idle(own)
        yield from _memory(profile, stage, len(by_stage), own)
        for span in own:
            event = _event(profile, span, omitted)
            yield event
            if span.kind in _PASSES and span.micro_batch is not None:
                piece = span.chunk * len(by_stage) + stage
                passes[span.kind, span.micro_batch, piece] = event
                if span.micro_batch < detailed:
                    blocks, first = inside.blocks(span), inside.first_layer(span)
                    is_backward, begun_s = span.kind != FORWARD, span.start_s
                    if not is_backward and code_s > 0.0 and stage in (0, len(by_stage) - 1):
                        begun_s += min(code_s, 0.9 * (span.end_s - span.start_s))
                        yield slice_of("host: data and loss", CALL, stage, trace_events.HOST, span.start_s, begun_s)
                    yield from drawn(blocks, stage, begun_s, span.end_s, first=first, is_backward=is_backward)
    if len(by_stage) > 1 and profile.scenario.plan.schedule != "dualpipe":
        yield from _flows(passes)


def _code_s(profile: Profile) -> float:
    """Seconds of the framework's code around a micro-batch where an end of the pipeline sets the pace; else 0."""
    own = (row for row in profile.rows if row.block == "step" and row.operator == "framework, per micro-batch")
    return next((float(row.time_s / row.count) for row in own), 0.0)


def _event(profile: Profile, span: Span, omitted: int) -> Event:
    """A span of the timeline on its row."""
    name, row, args, start_s = span.kind, COMPUTE, {"stage": span.stage}, span.start_s
    if span.micro_batch is not None:
        name = f"{span.kind} {span.micro_batch}"
        args |= {"micro_batch": span.micro_batch, "chunk": span.chunk}
    if span.kind == OMITTED:
        name = f"{omitted} more micro-batches, not drawn individually"
        args["micro_batches"] = omitted
    elif span.kind == TRANSFER:
        row, name = STAGES_SEND, kernel_name(f"send-recv {span.micro_batch}", is_communication=True)
    elif span.kind in ONCE.values():
        row, start_s = STEP_SENDS, max(0.0, start_s - _hidden_s(profile, span.kind))
        is_waiting = span.kind.startswith("waiting")
        name = name if is_waiting else kernel_name(name, is_communication=True)
    elif span.kind == ON_HOST:
        row = trace_events.HOST
    is_kernel = row in (STAGES_SEND, STEP_SENDS) or span.kind == "optimizer"
    cat = trace_events.CALL if row == trace_events.HOST else trace_events.KERNEL if is_kernel else RANGE
    return slice_of(name, cat, span.stage, row, start_s, span.end_s, **args)


def _hidden_s(profile: Profile, kind: str) -> float:
    """Seconds of what is sent once per step that run behind the last backward passes; waiting has none."""
    own = [row for row in profile.rows if row.block == "step" and ONCE.get(row.module) == kind]
    is_first = kind == next(iter(ONCE.values()))
    return sum(max(0.0, float(row.time_s) - float(row.exposed_s)) for row in own) if is_first else 0.0


def _idle(own: Sequence[Span]) -> Iterator[Event]:
    """What a stage waits between two spans: the bubble."""
    at_s = 0.0
    for span in own:
        if span.start_s - at_s > 1e-9:
            yield slice_of("bubble", IDLE, span.stage, COMPUTE, at_s, span.start_s)
        at_s = max(at_s, span.end_s)


def _memory(profile: Profile, stage: int, stages: int, own: Sequence[Span]) -> Iterator[Event]:
    """The memory of a stage as micro-batches come and go, in bytes."""
    ledger = {one.stage: one for one in profile.stages}
    name = "first" if stage == 0 else "last" if stage == stages - 1 else "middle"
    found = ledger.get(name) or ledger.get(str(stage)) or next(iter(ledger.values()), None)
    if found is None:
        return
    activations = float(found.parts.get("activations", 0.0))
    persistent = float(found.total) - activations
    changes = [(span.start_s, 1) for span in own if span.kind == FORWARD]
    last = WEIGHT if any(span.kind == WEIGHT for span in own) else BACKWARD
    changes += [(span.end_s, -1) for span in own if span.kind == last]
    held, counts = 0, []
    for at_s, change in sorted(changes):
        held += change
        counts.append((at_s, held))
    peak = max((count for _, count in counts), default=0) or 1
    yield trace_events.counter("memory", stage, 0.0, persistent=persistent, activations=0.0)
    for at_s, count in counts:
        yield trace_events.counter("memory", stage, at_s, persistent=persistent, activations=activations * count / peak)


def _flows(passes: dict[tuple[str, int, int], Event]) -> Iterator[Event]:
    """Arrows from a pass to the one that takes its result, of the first micro-batches."""
    for number, ((kind, micro_batch, piece), sender) in enumerate(passes.items()):
        if number >= _MOST_FLOWS:
            return
        following = piece + 1 if kind == FORWARD else piece - 1
        receiver = passes.get((kind, micro_batch, following)) if kind in (FORWARD, BACKWARD) else None
        if receiver is not None:
            yield from trace_events.flow(number, sender, receiver)


_FIRST, _LAST = 3, 1
"""Steps of decoding with their modules: the first and the last ones."""
_MOST_PREFILLS = 8
"""Passes of a prefill in pieces that are drawn with their modules."""


def generation_trace(profile: Profile) -> str:
    """Return the JSON text of a generation's trace, of one device: those of a replica do the same.

    Every step of decoding has the mean length of all of them; between the first and the last ones, one slice stands for
    the others.
    """
    work = profile.scenario.workload
    steps = max(0, int(work.output_tokens) - 1)
    about = {
        "scenario": profile.scenario.name,
        "source": f"sightline, {profile.source}",
        "latency_s": float(profile.latency_s),
        "ttft_s": float(profile.ttft_s),
        "tpot_s": profile.tpot_s,
        "decode_steps": steps,
        "decode_steps_with_modules": min(steps, _FIRST + _LAST),
    }
    return trace_text({0: "device"}, list(_generation_events(profile, steps)), about)


def _generation_events(profile: Profile, steps: int) -> Iterator[Event]:
    ttft_s, whole_s = float(profile.ttft_s), float(profile.latency_s)
    yield slice_of("ProfilerStep#0", trace_events.STEP, 0, trace_events.HOST, 0.0, whole_s)
    yield from _generation_memory(profile, ttft_s, whole_s)
    yield from _prefill(profile, ttft_s)
    if not steps:
        return
    step_s = (whole_s - ttft_s) / steps
    # A step is one pass of decoding; the rows hold all of them.
    blocks = blocks_of(profile, ("decode",), steps)
    host_s = _host_s(profile, "decode") / steps
    full = [*range(min(_FIRST, steps)), *range(max(_FIRST, steps - _LAST), steps)]
    for step in full:
        start_s = ttft_s + step * step_s
        yield from _pass(f"decode {step + 1}", blocks, start_s, start_s + step_s, host_s)
    left = steps - len(full)
    if left > 0:
        start_s = ttft_s + _FIRST * step_s
        name = f"{left:,} more decode steps, not drawn individually"
        yield slice_of(name, RANGE, 0, COMPUTE, start_s, start_s + left * step_s, steps=left)


def _prefill(profile: Profile, ttft_s: float) -> Iterator[Event]:
    """The pass, or the passes of a prefill in pieces, up to the first token."""
    counts = [float(row.count) for row in profile.rows if row.phase == "prefill" and row.block in ("head", "embedding")]
    passes = max(1, round(max(counts, default=1.0)))
    blocks, host_s = blocks_of(profile, ("prefill",), passes), _host_s(profile, "prefill")
    each_s = ttft_s / passes
    for number in range(min(passes, _MOST_PREFILLS)):
        name = f"prefill {number}" if passes > 1 else "prefill"
        yield from _pass(name, blocks, number * each_s, (number + 1) * each_s, host_s / passes)
    if passes > _MOST_PREFILLS:
        left = passes - _MOST_PREFILLS
        name = f"{left:,} more prefill passes, not drawn individually"
        yield slice_of(name, RANGE, 0, COMPUTE, _MOST_PREFILLS * each_s, ttft_s, passes=left)


def _pass(name: str, blocks: list[Block], start_s: float, end_s: float, host_s: float) -> Iterator[Event]:
    """A pass with its modules, and before it the host's part that the device waits for."""
    begun_s = start_s + min(host_s, 0.9 * (end_s - start_s))
    yield slice_of(name, RANGE, 0, COMPUTE, start_s, end_s)
    if begun_s > start_s:
        yield slice_of(f"host: {name}", CALL, 0, trace_events.HOST, start_s, begun_s)
    yield from drawn(blocks, 0, begun_s, end_s)


def _host_s(profile: Profile, phase: str) -> float:
    own = [row for row in profile.rows if row.phase == "host" and row.operator.endswith(f"in {phase}")]
    return sum(float(row.exposed_s) for row in own)


def _generation_memory(profile: Profile, ttft_s: float, whole_s: float) -> Iterator[Event]:
    """The memory of the fullest device as the cache fills, in bytes."""
    memory, work = profile.memory_bytes, profile.scenario.workload
    if not memory:
        return
    cache = float(memory.get("kv_cache", 0.0))
    rest = float(memory["total"]) - cache
    prompt, tokens = float(work.prompt_tokens), float(work.prompt_tokens) + float(work.output_tokens)
    for at_s, share in ((0.0, 0.0), (ttft_s, prompt / tokens), (whole_s, 1.0)):
        yield trace_events.counter("memory", 0, at_s, other=rest, kv_cache=cache * share)


def chrome_trace(profile: Profile) -> str:
    """Return the JSON text of the trace of a predicted training step or generation."""
    if profile.task is GENERATION:
        return generation_trace(profile)

    return training_trace(profile)
