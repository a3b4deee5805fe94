"""The tables of a replica's iteration times, written from `iteration_time`'s own parts.

What a pass takes on its device is a sum over operators. Those of all tokens depend on the pass's new tokens and on the
tokens whose logits are wanted; attention is a sum over the decoding sequences and over each prompt. The host's part is
a function of counts. Every table is one pass over arrays of sizes.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sightline.prediction.generation.engine_constants import LONG_PREFILL_TOKENS, InferenceConstants
from sightline.prediction.generation.iteration import device_times, drafted_tokens, handover_s
from sightline.prediction.generation.worker import PricedPass, Worker
from sightline.prediction.pass_times import PassTimes
from sightline.program import Batch, decoding, prompts
from sightline.program.batch import SequenceGroup
from sightline.quantities import Number
from sightline.simulation.requests import Floats
from sightline.simulation.times.axes import axis_points

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
    """A replica's iteration times; arrays are tables over the axes of `sightline.simulation.times.axes`."""

    tokens: Floats
    """By new tokens of a pass with prompts: what all tokens take, with two tokens' logits."""
    logits: Floats
    """By tokens whose logits are wanted: what they take more than two tokens' do."""
    decodes: Floats
    """By sequences of a pass that only decodes: what all tokens take, drafts included."""
    drafts: Floats
    """By decoding sequences: what drafting takes of that, without attention."""
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
    captured: bool
    """Whether a pass that only decodes is launched as one graph."""
    captured_tokens: float
    """New tokens of a pass with prompts up to which it is launched as graphs too; 0 where none is."""
    launch_s: float
    iteration_s: float
    sequence_s: float
    prefill_s: float
    prompt_token_s: float
    ahead: bool
    """Whether iterations are scheduled while the ones before them run, so that the host's time hides behind the
    device's."""
    request_s: float
    """Seconds from a request's arrival to the engine's queue, in a process of the server's own."""
    request_token_s: float
    """The same per token of its prompt."""
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


def iteration_times(
    worker: Worker,
    constants: InferenceConstants,
    *,
    tokens: float,
    sequences: float,
    context: float,
    ahead: bool = False,
    passes: Passes | None = None,
) -> IterationTimes:
    """Return the tables of a replica for passes of up to so many new tokens, sequences and tokens in a cache.

    ``constants`` are the engine's as they are on the worker's cluster (``InferenceConstants.running_on``). Beyond the
    tables' ends times go on in straight lines. ``ahead``: the engine schedules iterations while the ones before them
    run (``Serving.schedules_ahead``). ``passes`` keeps what does not hang on the constants, so that tables of the same
    sizes with other constants take a tenth of the time.
    """
    plan, c = worker.plan, in_loop(constants, ahead=ahead)
    even = _Tables(worker, replace(c, long_prefill_slowdown=1.0), {} if passes is None else passes)
    new = float(1.0 + drafted_tokens(plan))
    speculates = plan.speculative is not None
    decodes, drafts = even.decodes(axis_points(sequences, COUNT_BITS), new)
    decode_attention, decode_launches = even.decode_attention(sequences, context, new)
    prompt_attention, prompt_launches = even.prompt_attention(tokens, context)
    return IterationTimes(
        tokens=even.tokens(axis_points(tokens + sequences * new, COUNT_BITS)),
        logits=even.logits(axis_points(2.0 * sequences * new, COUNT_BITS)),
        decodes=decodes,
        drafts=drafts,
        decode_attention=decode_attention,
        prompt_attention=prompt_attention,
        attention_start_s=float(prompt_attention[1, 0]),
        joins_attention=plan.engine.kernels.joins_attention,
        decode_launches=decode_launches,
        prompt_launches=prompt_launches,
        tokens_per_decode=new,
        captured=bool(plan.cuda_graphs),
        captured_tokens=float(plan.engine.kernels.captured_tokens if plan.cuda_graphs else 0.0),
        launch_s=float(c.launch_s),
        iteration_s=float(c.iteration_s + speculates * c.drafting_s),
        sequence_s=float(c.sequence_s + speculates * c.drafted_sequence_s),
        prefill_s=float(c.prefill_s),
        prompt_token_s=float(c.prompt_token_s),
        ahead=ahead,
        request_s=float(constants.prefill_s - c.prefill_s),
        request_token_s=float(constants.prompt_token_s - c.prompt_token_s),
        single_tokens_decode=bool(plan.engine.lmdeploy.decodes_single_tokens),
        long_prompt_tokens=float(LONG_PREFILL_TOKENS),
        long_prompt_slowdown=float((c.long_prefill_slowdown - 1.0) * (plan.tensor_parallel > 2)),
        stages=float(plan.pipeline_parallel),
        boundaries_s=float(c.handover_s * (plan.pipeline_parallel - 1.0)),
    )


def in_loop(constants: InferenceConstants, *, ahead: bool) -> InferenceConstants:
    """Return the constants of an engine's loop alone.

    Engines that schedule ahead take requests in and tokenize them in a process of its own: what a prompt costs the host
    passes before the engine sees it, and holds up no iteration.
    """
    return replace(constants, prefill_s=0.0, prompt_token_s=0.0) if ahead else constants


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Tables of one replica; a second group next to what is asked for makes each group's own operators known."""

    worker: Worker
    constants: InferenceConstants
    passes: Passes

    def tokens(self, points: Floats) -> Floats:
        """Passes with prompts, by their new tokens."""
        whole = self._pass("tokens", prompts(1.0, _some(points) - HALF), prompts(1.0, HALF))
        return self._columns(whole.of_group(None), points)

    def logits(self, points: Floats) -> Floats:
        """What the logits of so many tokens add to a pass of one token, over those of two."""
        first = replace(prompts(HALF, 1.0), logits=2.0)
        whole = self._pass("logits", replace(first, logits=2.0 * _some(points) - 2.0), first)
        usual = self._pass("two logits", first, first)
        return self._columns(whole.of_group(None), points) - self._columns(usual.of_group(None), points)

    def decodes(self, points: Floats, new: float) -> tuple[Floats, Floats]:
        """Passes that only decode, and what drafting takes of them, by sequences."""
        whole = self._pass("decodes", decoding(_some(points) - HALF, 1.0, new), decoding(HALF, 1.0, new)).of_group(None)
        found = self._columns(whole, points)
        if self.worker.plan.speculative is None:
            return found, np.zeros_like(found)
        alone = self._of_times(whole.times(whole.in_engine(self.constants)), 0.0, points)
        drafts = found - alone
        drafts[:, HANDOVER] = 0.0
        return found, drafts

    def decode_attention(self, sequences: float, context: float, new: float) -> tuple[Floats, float]:
        """Seconds of attention by sequences and context, and its kernels."""
        n, c = axis_points(sequences, ATTENTION_BITS), axis_points(context, CONTEXT_BITS)
        group = decoding(_some(n)[:, None], c[None, :], new)
        return self._attention("decode attention", group, decoding(1.0, 1.0, new), (n.size, c.size))

    def prompt_attention(self, tokens: float, context: float) -> tuple[Floats, float]:
        """Seconds of attention by a prompt's new tokens and those before them, and its kernels."""
        q, c = axis_points(tokens, ATTENTION_BITS), axis_points(context, CONTEXT_BITS)
        group = prompts(1.0, _some(q)[:, None], c[None, :])
        return self._attention("prompt attention", group, prompts(1.0, 1.0), (q.size, c.size))

    def _attention(
        self, table: str, group: SequenceGroup, other: SequenceGroup, shape: tuple[int, int]
    ) -> tuple[Floats, float]:
        times = device_times(self.worker, self._pass(table, group, other).of_group(0), self.constants)
        seconds = np.broadcast_to(times.device_s, shape).astype(float)
        # Nothing takes no time.
        seconds[0] = 0.0
        return seconds, float(np.max(times.launches))

    def _pass(self, table: str, *groups: SequenceGroup) -> PricedPass:
        if table not in self.passes:
            (self.passes[table],) = self.worker.priced([Batch.of(*groups)])
        return self.passes[table]

    def _columns(self, whole: PricedPass, points: Floats) -> Floats:
        times = device_times(self.worker, whole, self.constants)
        return self._of_times(times, handover_s(self.worker, whole, self.constants), points)

    def _of_times(self, times: PassTimes, boundary_s: Number, points: Floats) -> Floats:
        columns = (times.work_s, times.collective_s, times.launches, boundary_s)
        return np.stack([np.broadcast_to(column, points.shape) for column in columns], axis=1).astype(float)


def _some(points: Floats) -> Floats:
    """Points of an axis whose passes have at least one token or sequence."""
    return np.maximum(points, 1.0)
