"""A predicted training step as a Chrome trace: a process per pipeline stage, modules nested in passes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.prediction.schedules.simulation import BACKWARD, FORWARD, TRANSFER, WEIGHT, Span
from sightline.prediction.schedules.timeline import HOST as ON_HOST
from sightline.prediction.schedules.timeline import OMITTED, ONCE, drawn_micro_batches, timeline
from sightline.prediction.training.stages import layers_to_spread
from sightline.profile import Profile
from sightline.report.chrome import events
from sightline.report.chrome.contents import Block, blocks_of, drawn, kernel_name, resized
from sightline.report.chrome.events import COMPUTE, IDLE, RANGE, STAGES_SEND, STEP_SENDS, Event, slice_of, trace_text

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
        layers = plan.stage_layers or stage_layers(layers_to_spread(profile.scenario), stages)
        self._layers, most = layers, max(layers)
        self._share = [count / most / self._chunks for count in layers]
        forward = blocks_of(profile, (FORWARD,), micro_batches)
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
    found = [
        Block(
            name=one.name,
            repeats=one.repeats,
            modules=[
                (module, own)
                for module, operators in one.modules
                if (own := [op for op in operators if (op.name in _WEIGHTS) == weights])
            ],
        )
        for one in blocks
    ]
    return [one for one in found if one.modules]


def _events(profile: Profile, spans: Sequence[Span], inside: _Inside, detailed: int, omitted: int) -> Iterator[Event]:
    by_stage: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_stage[span.stage].append(span)
    passes: dict[tuple[str, int, int], Event] = {}
    for stage, own in by_stage.items():
        # The same name as PyTorch's, so that the step is recognized.
        yield slice_of("ProfilerStep#0", events.STEP, stage, events.HOST, 0.0, own[-1].end_s)
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
                    is_backward = span.kind != FORWARD
                    yield from drawn(blocks, stage, span.start_s, span.end_s, first=first, is_backward=is_backward)
    if len(by_stage) > 1 and profile.scenario.plan.schedule != "dualpipe":
        yield from _flows(passes)


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
        row = events.HOST
    is_kernel = row in (STAGES_SEND, STEP_SENDS) or span.kind == "optimizer"
    cat = events.CALL if row == events.HOST else events.KERNEL if is_kernel else RANGE
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
    yield events.counter("memory", stage, 0.0, persistent=persistent, activations=0.0)
    for at_s, count in counts:
        yield events.counter("memory", stage, at_s, persistent=persistent, activations=activations * count / peak)


def _flows(passes: dict[tuple[str, int, int], Event]) -> Iterator[Event]:
    """Arrows from a pass to the one that takes its result, of the first micro-batches."""
    for number, ((kind, micro_batch, piece), sender) in enumerate(passes.items()):
        if number >= _MOST_FLOWS:
            return
        following = piece + 1 if kind == FORWARD else piece - 1
        receiver = passes.get((kind, micro_batch, following)) if kind in (FORWARD, BACKWARD) else None
        if receiver is not None:
            yield from events.flow(number, sender, receiver)
