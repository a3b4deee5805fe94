"""Iteration times of a replica as tables, error-checked against `iteration_time`, for the simulator's compiled loop."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from sightline.prediction.generation.engine_constants import LONG_PREFILL_TOKENS, InferenceConstants
from sightline.prediction.generation.replica import (
    PricedPass,
    Worker,
    device_times,
    handover_s,
    iteration_host_s,
    launch_time_s,
)
from sightline.prediction.pass_times import PassTimes
from sightline.program import Batch, decoding, prompts
from sightline.program.routing import SequenceGroup
from sightline.quantities import Number
from sightline.simulation.compiled import compiled, entry
from sightline.simulation.load import Floats
from sightline.simulation.rows import bundle


def axis_points(limit: float, bits: int) -> Floats:
    """Return the points from 0 to ``limit`` and to the first beyond it."""
    p = 1 << bits
    doubling = max(math.frexp(limit)[1] - 1 - bits, 0)
    index = np.arange(math.floor(p * doubling + limit / 2.0**doubling) + 2)
    doublings = np.maximum(index // p - 1, 0)
    return np.asarray(np.ldexp(1.0 * (index - p * doublings), doublings))


@entry
def place_on(bits: int, size: int, x: float) -> tuple[int, float]:
    """Return where ``x`` lies on an axis of ``size`` points: the point before it, and the share of the way to the next.

    Beyond the last point the share grows beyond 1: what is read there goes on in a straight line.
    """
    doubling = math.frexp(x)[1] - 1 - bits
    position = x if doubling <= 0 else (1 << bits) * doubling + math.ldexp(x, -doubling)
    before = min(int(position), size - 2)
    return before, position - before


COUNT_BITS = 10
"""Points of a doubling for new tokens and sequences: every one up to 2,048, since tiles of products make steps."""
ATTENTION_BITS = 7
CONTEXT_BITS = 4
HALF = 0.5
WORK, COLLECTIVES, LAUNCHES, HANDOVER = range(4)
"""Columns of the tables over counts: device seconds of operators and of collectives, kernels that the host launches,
and seconds of one pipeline boundary."""


Passes = dict[str, PricedPass]
"""Passes of a worker whose operators are priced, by the table that they are of."""


class IterationTimes(NamedTuple):
    """A replica's iteration times; arrays are tables over the axes of `sightline.simulation.times`."""

    tokens: Floats
    """By new tokens of a pass with prompts: what all tokens take, with two tokens' logits."""
    logits: Floats
    """By tokens whose logits are wanted: what they take more than two tokens' do."""
    decodes: Floats
    """By sequences of a pass that only decodes: what all tokens take, drafts included."""
    drafts: Floats
    """By decoding sequences: what drafting takes of that, without attention."""
    experts: Floats
    """By new tokens of each of several ranks: what of a pass hangs on those of all (`PricedPass.of_all_ranks`).
    Left out: experts on devices of their own, which see the tokens of the busiest rank everywhere."""
    decode_attention: Floats
    """By sequences and tokens in each one's cache: seconds of attention, drafts included."""
    prompt_attention: Floats
    """By a prompt's new tokens and those before them: seconds of attention."""
    attention_start_s: float
    """Of the attention of each prompt: what all prompts of a pass spend once, since one kernel serves them."""
    joins_attention: bool
    """Whether that kernel serves the decoding sequences of the pass too."""
    decode_launches: float
    """Kernels of attention of decoding sequences."""
    prompt_launches: float
    """The same of each prompt."""
    tokens_per_decode: float
    """New tokens of a decoding sequence: its own and the drafted ones."""
    captured_decodes: float
    """New tokens of a pass that only decodes up to which it is launched as one graph."""
    captured_tokens: float
    """The same of a pass with prompts; 0 where none is."""
    launch_s: float
    iteration_s: float
    sequence_s: float
    prefill_s: float
    prompt_token_s: float
    ahead: bool
    """Whether iterations are scheduled while the ones before them run, so that the host's time hides behind the
    device's."""
    exposed_share: float
    request_s: float
    """Seconds from a request's arrival to the engine's queue, in a process of the server's own."""
    single_tokens_decode: bool
    """Whether prompts of one token each begin no prefill."""
    long_prompt_tokens: float
    long_prompt_slowdown: float
    """Time of collectives beyond so many tokens of prompts over that of the others, less 1."""
    stages: float
    """Pipeline stages. A pass's seconds are those from its first stage to its last; while it is under way each other
    stage may have a pass of its own, so that one begins every ``1 / stages`` of them."""
    boundaries_s: float
    """Host time of all boundaries."""
    coarser: float = 0.0
    """Bits by which the axes have fewer points of a doubling than those of `COUNT_BITS`, `ATTENTION_BITS` and
    `CONTEXT_BITS`."""
    drafts_up_to: float = math.inf
    """Decoding sequences above which a pass has no drafts."""
    drafting_s: float = 0.0
    """Host time of a pass with drafts, and of each sequence in it."""
    drafted_sequence_s: float = 0.0
    micro_batches: float = 1.0
    """Of a pass that only decodes, which devices with attention and others with experts take in turns. Columns of
    ``decodes`` then are what paces the ones, what a micro-batch waits for, and what paces the others."""
    layers: float = 1.0


def iteration_times(
    worker: Worker,
    constants: InferenceConstants,
    *,
    tokens: float,
    sequences: float,
    context: float,
    passes: Passes | None = None,
    coarser: int = 0,
) -> IterationTimes:
    """Return the tables of a replica for passes of up to so many new tokens, sequences and tokens in a cache.

    ``constants`` are the engine's as they are on the worker's cluster (``InferenceConstants.running_on``). Beyond the
    tables' ends times go on in straight lines. ``passes`` keeps what does not hang on the constants, so that tables of
    the same sizes with other constants take a tenth of the time. Tables that are ``coarser`` by 3 bits take half of it,
    and are off by a few percent where products or attention step.
    """
    plan, c = worker.plan, in_loop(worker, constants)
    new, drafts_up_to = float(1.0 + plan.drafted_tokens), plan.speculative.disable_above if plan.speculative else None
    speculates, about = plan.speculative is not None, (worker.model, worker.scenario.cluster.device)
    axes = _Axes(
        counts=axis_points(max(tokens, sequences * new) + sequences * new, COUNT_BITS - coarser),
        sequences=axis_points(sequences, ATTENTION_BITS - coarser),
        prompts=axis_points(tokens, ATTENTION_BITS - coarser),
        context=axis_points(context, CONTEXT_BITS - coarser),
    )
    passes = {} if passes is None else passes
    if not passes:
        passes.update(_priced(worker, axes))
    even = _Tables(worker, replace(c, long_prefill_slowdown=1.0), passes, axes)
    decodes, drafts = even.decodes()
    decode_attention, decode_launches = even.attention("decode attention", axes.sequences)
    prompt_attention, prompt_launches = even.attention("prompt attention", axes.prompts)
    return IterationTimes(
        tokens=even.tokens(),
        logits=even.logits(),
        decodes=decodes,
        drafts=drafts,
        experts=even.experts(),
        decode_attention=decode_attention,
        prompt_attention=prompt_attention,
        attention_start_s=float(prompt_attention[1, 0]),
        joins_attention=plan.engine.kernels.joins_attention,
        decode_launches=decode_launches,
        prompt_launches=prompt_launches,
        tokens_per_decode=new,
        captured_decodes=float(plan.captured_tokens(*about, decode=True) * plan.expert_micro_batches),
        captured_tokens=float(plan.captured_tokens(*about, decode=False)),
        launch_s=float(launch_time_s(plan, c)),
        iteration_s=float(iteration_host_s(plan, c)),
        sequence_s=float(c.sequence_s),
        prefill_s=float(c.prefill_s),
        prompt_token_s=float(c.prompt_token_s),
        ahead=worker.schedules_ahead,
        exposed_share=float(c.exposed_share),
        request_s=float(constants.prefill_s - c.prefill_s),
        single_tokens_decode=bool(plan.engine.lmdeploy.decodes_single_tokens),
        long_prompt_tokens=float(LONG_PREFILL_TOKENS),
        long_prompt_slowdown=float((c.long_prefill_slowdown - 1.0) * (plan.tensor_parallel > 2)),
        stages=float(plan.pipeline_parallel),
        boundaries_s=float(c.handover_s * (plan.pipeline_parallel - 1.0)),
        coarser=float(coarser),
        drafts_up_to=math.inf if drafts_up_to is None else float(drafts_up_to),
        drafting_s=float(speculates * c.drafting_s),
        drafted_sequence_s=float(speculates * c.drafted_sequence_s),
        micro_batches=float(plan.expert_micro_batches),
        layers=float(worker.model.layers),
    )


def in_loop(worker: Worker, constants: InferenceConstants) -> InferenceConstants:
    """Return the constants of an engine's loop alone.

    Engines that schedule ahead take requests in and tokenize them in a process of its own: what a prompt costs the host
    passes before the engine sees it, and holds up no iteration.
    """
    return replace(constants, prefill_s=0.0, prompt_token_s=0.0) if worker.schedules_ahead else constants


class _Axes(NamedTuple):
    """Sizes of passes, of which tables have a row or a column each."""

    counts: Floats
    """Of new tokens, of logits and of sequences of a pass."""
    sequences: Floats
    """In whose caches attention reads, all together."""
    prompts: Floats
    """A prompt's new tokens, in attention."""
    context: Floats
    """Tokens before these in each cache."""


def _priced(worker: Worker, axes: _Axes) -> Passes:
    """Return passes of all sizes; a second group next to what is asked for makes each group's own operators known."""
    count, sequences = _some(axes.counts), _some(axes.sequences)[:, None]
    new, first = 1.0 + worker.plan.drafted(axes.counts), replace(prompts(HALF, 1.0), logits=2.0)

    def in_turns(n: Floats, groups: Callable[[Floats], tuple[SequenceGroup, ...]]) -> Batch:
        m = np.minimum(worker.plan.expert_micro_batches, n)
        return Batch.of(*groups(n / m), in_turns=m)

    whole = {
        "tokens": Batch.of(prompts(1.0, count - HALF), prompts(1.0, HALF)),
        "logits": Batch.of(replace(first, logits=2.0 * count - 2.0), first),
        "decodes": in_turns(count, lambda n: (decoding(n - HALF, 1.0, new), decoding(HALF, 1.0, new))),
    }
    drafting = 1.0 + worker.plan.drafted(axes.sequences[:, None])
    own = {
        "decode attention": in_turns(
            sequences, lambda n: (decoding(n, axes.context, drafting), decoding(1.0, 1.0, drafting))
        ),
        "prompt attention": Batch.of(prompts(1.0, _some(axes.prompts)[:, None], axes.context), prompts(1.0, 1.0)),
    }
    return {
        **dict(zip(whole, worker.priced([*whole.values()]), strict=True)),
        **dict(zip(own, worker.priced([*own.values()], group=0), strict=True)),
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Tables of one replica."""

    worker: Worker
    constants: InferenceConstants
    passes: Passes
    axes: _Axes

    def tokens(self) -> Floats:
        """Passes with prompts, by their new tokens."""
        return self._columns(self.passes["tokens"].of_group(None))

    def experts(self) -> Floats:
        """What of a pass hangs on the tokens of all ranks, by those of each: nothing where each is alone."""
        if not self.worker.plan.data_parallel > 1 or self.worker.plan.expert_devices:
            return np.zeros((2, 4))
        return self._columns(self.passes["tokens"].of_all_ranks())

    def logits(self) -> Floats:
        """What the logits of so many tokens add to a pass of one token, over those of two."""
        columns = self._columns(self.passes["logits"].of_group(None))
        return columns - columns[2]

    def decodes(self) -> tuple[Floats, Floats]:
        """Passes that only decode, and what drafting takes of them, by sequences."""
        whole = self.passes["decodes"].of_group(None)
        columns = self._columns(whole)
        if (m := self.worker.plan.expert_micro_batches) > 1:
            m = np.minimum(m, _some(self.axes.counts))
            attention_s, experts_s, sent_s = whole.sides(whole.in_engine(self.constants))
            columns[:, WORK], columns[:, COLLECTIVES] = m * attention_s, attention_s + experts_s + sent_s
            columns[:, HANDOVER] = m * np.maximum(experts_s, sent_s / 2.0)
        if self.worker.plan.speculative is None:
            return columns, np.zeros_like(columns)
        drafts = columns - self._of_times(whole.times(whole.in_engine(self.constants)), 0.0)
        drafts[:, HANDOVER] = 0.0
        return columns, drafts

    def attention(self, table: str, rows: Floats) -> tuple[Floats, float]:
        """Seconds of attention by sequences or a prompt's new tokens and by the context of each, and its kernels."""
        times = device_times(self.worker, self.passes[table].of_group(0), self.constants)
        seconds = np.broadcast_to(times.device_s, (rows.size, self.axes.context.size)).astype(float)
        # Nothing takes no time.
        seconds[0] = 0.0
        return seconds, float(np.max(times.launches))

    def _columns(self, whole: PricedPass) -> Floats:
        times = device_times(self.worker, whole, self.constants)
        return self._of_times(times, handover_s(self.worker, whole, self.constants))

    def _of_times(self, times: PassTimes, boundary_s: Number) -> Floats:
        columns, shape = (times.work_s, times.collective_s, times.launches, boundary_s), self.axes.counts.shape
        return np.stack([np.broadcast_to(column, shape) for column in columns], axis=1).astype(float)


def _some(points: Floats) -> Floats:
    """Points of an axis whose passes have at least one token or sequence."""
    return np.maximum(points, 1.0)


ROWS: Final = ("tokens", "logits", "decodes", "drafts", "experts")
"""Tables over counts."""
OF_PROMPTS: Final = (
    *("tokens", "logits", "experts", "prompt_attention", "attention_start_s"),
    *("prefill_s", "prompt_token_s", "request_s"),
)
OF_DECODES: Final = (
    *("decodes", "drafts", "decode_attention", "iteration_s", "sequence_s", "boundaries_s"),
    *("drafting_s", "drafted_sequence_s"),
)
"""Times that a factor on iterations with prompts changes, and those that one on the others does."""


def at_pace(times: IterationTimes, prompts: float, decodes: float) -> IterationTimes:
    """Return the times with factors on those of iterations with prompts, and of iterations that only decode."""
    # What the host launches counts in both; captured graphs leave it to prompts.
    launching = prompts if times.captured_decodes else decodes
    factors = dict.fromkeys(OF_PROMPTS, prompts) | dict.fromkeys(OF_DECODES, decodes) | {"launch_s": launching}
    scaled = {name: getattr(times, name) * factor for name, factor in factors.items()}
    for name in ROWS:
        # One column holds kernels, not seconds.
        scaled[name][:, LAUNCHES] = getattr(times, name)[:, LAUNCHES]
    return times._replace(**scaled)


def without_collectives(times: IterationTimes) -> IterationTimes:
    """Return the times of passes whose collectives take none."""
    kept = np.arange(4) != COLLECTIVES
    return times._replace(**{name: getattr(times, name) * kept for name in ROWS})


CELLS: Final = ("decode_attention", "prompt_attention")
"""Tables of attention."""
FIGURES: Final = tuple(name for name in IterationTimes._fields if name not in (*ROWS, *CELLS))
PLACES: Final = tuple(f"{name}_{of}" for name in (*ROWS, *CELLS) for of in ("at", "size", "width"))
"""Where a table begins, and its rows and columns."""


@bundle
class PackedTimes(NamedTuple):
    """A replica's iteration times."""

    rows: Floats
    """All tables over counts, one behind the other."""
    cells: Floats
    """All tables of attention, row by row."""
    figures: Any
    """A record of the other figures, and of where each table stands; for several pools a record each."""


def packed(times: IterationTimes) -> PackedTimes:
    """Return the same times for compiled code."""
    together = packed_together([times])
    return together._replace(figures=together.figures[0])


def packed_together(pools: Sequence[IterationTimes]) -> PackedTimes:
    """Return the times of several pools for compiled code, with a record of figures for each."""
    records = np.zeros(len(pools), [(name, np.float64) for name in FIGURES] + [(name, np.int64) for name in PLACES])
    rows: list[Floats] = []
    cells: list[Floats] = []
    for record, times in zip(records, pools, strict=True):
        for name in FIGURES:
            record[name] = getattr(times, name)
        for names, tables in ((ROWS, rows), (CELLS, cells)):
            for name in names:
                table = getattr(times, name)
                record[f"{name}_at"] = sum(map(len, tables))
                record[f"{name}_size"], record[f"{name}_width"] = table.shape
                tables.append(table if names is ROWS else table.ravel())
    return PackedTimes(np.concatenate(rows), np.concatenate(cells), records)


@entry
def step_seconds(
    times: PackedTimes, decodes: int, context_sum: int, new_tokens: int, prompts: int, attention_s: float
) -> float:
    """Return the seconds of an iteration from its begin to its tokens, through all pipeline stages.

    ``decodes`` sequences that decode have ``context_sum`` tokens in the cache; ``prompts`` prompts or chunks of them
    have ``new_tokens`` new tokens, whose attention takes ``attention_s`` (`prompt_attention_seconds` of each, and what
    other ranks change, `shared_seconds`).
    """
    f = times.figures
    if prompts == 0:
        work_s, collective_s, launches, boundary_s = _row(times, f.decodes_at, f.decodes_size, 1.0 * decodes)
        work_s += decode_attention_seconds(times, decodes, context_sum) + attention_s
        launches += f.decode_launches
    else:
        work_s, collective_s, launches, boundary_s = _mixed(times, decodes, context_sum, new_tokens, prompts)
        work_s += attention_s - f.attention_start_s * (prompts - 1.0 + (decodes > 0 and f.joins_attention > 0))
    device_s = work_s + collective_s
    if f.micro_batches > 1.0 and prompts == 0:
        attention_s = decode_attention_seconds(times, decodes, context_sum)
        m = min(f.micro_batches, 1.0 * decodes)
        paced_s, through_s = max(work_s, boundary_s), collective_s + attention_s / m
        device_s = max(paced_s, through_s)
        device_s += (through_s + (1.0 - 1.0 / m) * paced_s - device_s) / f.layers
    # A pass that is launched as graphs keeps the device waiting for nothing.
    most = f.captured_tokens if prompts > 0 else f.captured_decodes
    launching_s = 0.0 if _decoded(times, decodes) + new_tokens <= most else f.launch_s * launches
    wait_s = 0.0 if launching_s == 0.0 else _joined(launching_s, device_s) - device_s
    sends = 0.0 if f.stages == 1.0 else f.stages - 1.0 + (decodes > 0)
    host_s = _host(times, decodes, new_tokens, prompts)
    if f.ahead:
        # What a prompt costs the host was before the queue.
        host_s = max(host_s + launching_s - device_s - wait_s, f.exposed_share * host_s)
    return device_s + wait_s + sends * boundary_s + f.boundaries_s + host_s


@entry
def shared_seconds(times: PackedTimes, tokens: float) -> float:
    """Return the device's seconds of what hangs on the tokens of all ranks, if each has so many new ones."""
    work_s, collective_s, _, _ = _row(times, times.figures.experts_at, times.figures.experts_size, tokens)
    return work_s + collective_s


@entry
def prompt_attention_seconds(times: PackedTimes, new_tokens: int, context_tokens: int) -> float:
    """Return the seconds that the attention of a prompt's new tokens takes behind those of it that are cached."""
    f = times.figures
    at, size, width = f.prompt_attention_at, f.prompt_attention_size, f.prompt_attention_width
    return _cell(times, at, size, width, 1.0 * new_tokens, 1.0 * context_tokens)


@entry
def decode_attention_seconds(times: PackedTimes, decodes: int, context_sum: int) -> float:
    """Return the seconds that the attention of decoding sequences takes, drafts included."""
    f = times.figures
    if decodes == 0:
        return 0.0
    at, size, width = f.decode_attention_at, f.decode_attention_size, f.decode_attention_width
    return _cell(times, at, size, width, 1.0 * decodes, context_sum / decodes)


@compiled
def _joined(host_s: float, device_s: float) -> float:
    """The norm of exponent 4 (``HOST_OVERLAP``) in which launches and the device's work join; roots are fast."""
    return sqrt(sqrt(host_s * host_s * host_s * host_s + device_s * device_s * device_s * device_s))


@compiled
def _mixed(
    times: PackedTimes, decodes: int, context_sum: int, new_tokens: int, prompts: int
) -> tuple[float, float, float, float]:
    """Seconds of work and collectives, launches, and seconds of a boundary, of a pass with prompts but their attention.

    Collectives slow down with prompts beyond a length (``InferenceConstants.long_prefill_slowdown``).
    """
    f = times.figures
    decoded = _decoded(times, decodes)
    work_s, collective_s, launches, boundary_s = _row(times, f.tokens_at, f.tokens_size, decoded + new_tokens)
    logits = _row(times, f.logits_at, f.logits_size, decoded + prompts)
    work_s += logits[0]
    collective_s += logits[1]
    if decodes > 0:
        drafts = _row(times, f.drafts_at, f.drafts_size, 1.0 * decodes)
        work_s += drafts[0] + decode_attention_seconds(times, decodes, context_sum)
        collective_s += drafts[1]
        launches += drafts[2] + f.decode_launches
    if new_tokens > f.long_prompt_tokens:
        collective_s *= 1.0 + (1.0 - f.long_prompt_tokens / new_tokens) * f.long_prompt_slowdown
    return work_s, collective_s, launches + prompts * f.prompt_launches, boundary_s


@compiled
def _decoded(times: PackedTimes, decodes: int) -> float:
    """New tokens of so many decoding sequences."""
    f = times.figures
    return f.tokens_per_decode * decodes if decodes <= f.drafts_up_to else 1.0 * decodes


@compiled
def _host(times: PackedTimes, decodes: int, new_tokens: int, prompts: int) -> float:
    """Seconds of the engine's own code: once per iteration, per token of a prompt, per decoding sequence."""
    f = times.figures
    once_s, each_s = f.iteration_s if decodes > 0 else 0.0, f.sequence_s
    if 0 < decodes <= f.drafts_up_to:
        once_s, each_s = once_s + f.drafting_s, each_s + f.drafted_sequence_s
    if new_tokens > prompts or (prompts > 0 and not f.single_tokens_decode):
        once_s = max(once_s, f.prefill_s)
    return once_s + each_s * decodes + f.prompt_token_s * new_tokens


@compiled
def _row(times: PackedTimes, at: int, size: int, x: float) -> tuple[float, float, float, float]:
    """The columns of a table over counts at ``x``."""
    i, share = place_on(COUNT_BITS - int(times.figures.coarser), size, x)
    low, high = at + i, at + i + 1
    rows = times.rows
    return (
        rows[low, WORK] + share * (rows[high, WORK] - rows[low, WORK]),
        rows[low, COLLECTIVES] + share * (rows[high, COLLECTIVES] - rows[low, COLLECTIVES]),
        rows[low, LAUNCHES] + share * (rows[high, LAUNCHES] - rows[low, LAUNCHES]),
        rows[low, HANDOVER] + share * (rows[high, HANDOVER] - rows[low, HANDOVER]),
    )


@compiled
def _cell(times: PackedTimes, at: int, size: int, width: int, tokens: float, context: float) -> float:
    """A table of attention at so many new tokens or sequences and so much context."""
    coarser = int(times.figures.coarser)
    i, down = place_on(ATTENTION_BITS - coarser, size, tokens)
    j, along = place_on(CONTEXT_BITS - coarser, width, context)
    cells, first = times.cells, at + i * width + j
    second = first + width
    upper = cells[first] + along * (cells[first + 1] - cells[first])
    lower = cells[second] + along * (cells[second + 1] - cells[second])
    seconds: float = upper + down * (lower - upper)
    return seconds
