"""Mixers that keep a state of fixed size: linear attention, Mamba and gated convolutions.

Linear attention is the gated delta rule (arXiv 2412.06464), or Kimi's with a decay per channel (2510.26692): a short
convolution over queries, keys and values, norms of queries and keys, the rule itself, a gated norm of its output.
Mamba-2 (arXiv 2405.21060), as Nemotron-H has it: one projection, a short convolution, the scan, a gated norm. Its fused
kernel keeps the projection's output and its own, and runs the convolution once more in the backward pass, as the
authors' implementation and the frameworks that call it do.
"""

from dataclasses import replace
from typing import TypeVar

from sightline.program.blocks.attention import SoftmaxAttention
from sightline.program.blocks.layer import TokenMixer, by_group
from sightline.program.kernels import Kernels
from sightline.program.mixer_operators import GatedDelta, ShortConvolution, StateSpaceScan
from sightline.program.operators import LINEAR_ATTENTION, STATE_SPACE, Module
from sightline.program.program import LinearLayer, Step, Sublayer
from sightline.quantities import Number, larger
from sightline.scenario import GatedConvolution, Heads, LinearAttention, SideBySide, StateSpace

CHUNK = 64.0
"""Tokens of a chunk of the rule, whose inverted triangle of corrections training keeps."""
STATE_BYTES = 4.0
"""Recurrent states are kept in fp32."""

Recurrent = TypeVar("Recurrent", LinearAttention, StateSpace, GatedConvolution)


class StateMixer(TokenMixer[Recurrent]):
    """A mixer that keeps a state instead of a cache of tokens."""

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """The state, in fp32, however long the sequence is; heads are split over the ranks."""
        return STATE_BYTES * self.figures.state_elements / t

    def products(self, tokens: float) -> float:
        """Three per element of the state: input, decay or correction, output."""
        return 3.0 * self.figures.state_elements

    def _between(
        self, x: Kernels, module: Module, projections: list[Step], inputs: Number, core: list[Step], outputs: Number
    ) -> Sublayer:
        """``core`` on whole sequences between its projections, of ``inputs`` elements per token and of ``outputs``."""
        return Sublayer(
            module="attention norm",
            steps=[
                *x.region("qkv", projections),
                *x.whole_sequences(module, inputs, outputs, core),
                x.projection(LinearLayer("output projection", "matmul", outputs, x.h)),
                *x.leave("output projection"),
            ],
            small_parameters=self.figures.small_parameters / x.t,
            widest=x.tokens * inputs,
            widest_weight=x.h * inputs,
        )


class GatedDeltaNet(StateMixer[LinearAttention]):
    """Linear attention."""

    @property
    def calibration(self) -> tuple[str, str]:
        """The rule's kernels."""
        return "linear attention", "linear"

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return its steps."""
        linear = self.figures
        key, value = linear.key_width / x.t, linear.value_width / x.t
        kept = x.element_bytes * x.tokens * linear.value_heads / x.t * CHUNK
        conv = (
            convolution(x, LINEAR_ATTENTION, 2.0 * key + value, float(linear.conv_width)) if linear.conv_width else []
        )
        rule = [
            *conv,
            *x.rule_inputs(linear),
            *by_group(
                x,
                lambda group: [x.recurrent(_rule(group, linear), saved_bytes=kept, kernels=(5.0, 9.0))],
            ),
            x.gated_norm(LINEAR_ATTENTION, value),
        ]
        exchanged = 2.0 * key + 2.0 * value
        return self._between(x, LINEAR_ATTENTION, _projections(x, linear, key, value), exchanged, rule, value)


def _projections(x: Kernels, linear: LinearAttention, key: Number, value: Number) -> list[Step]:
    """What precedes the rule: joined queries, keys and values; output gate; decay and strength.

    With a ``gate_rank`` decay and, unless it is direct, output gate pass through that many elements, which all ranks
    make.
    """
    heads, entered = linear.value_heads / x.t, x.entered_share
    if linear.gate_rank is None:
        joined, made = 2.0 * key + 2.0 * value, (linear.decays + linear.strengths) / x.t
        steps = [x.projection(LinearLayer("qkv", "query, key, value, gate", x.h, joined, kept=entered))]
        decays = LinearLayer("qkv", "decay, strength", x.h, made, kept=0.0)
        return [*steps, x.projection(decays)] if linear.decays else steps
    rank, direct = float(linear.gate_rank), linear.full_rank_gate
    steps = [
        x.projection(LinearLayer("qkv", "query, key, value", x.h, 2.0 * key + value * (1.0 + direct), kept=entered)),
        x.projection(LinearLayer("qkv", "strength, gates down", x.h, heads + rank * (2.0 - direct), kept=0.0)),
        x.projection(LinearLayer("qkv", "decay up", rank, key)),
    ]
    return steps if direct else [*steps, x.projection(LinearLayer("qkv", "gate up", rank, value))]


def _rule(x: Kernels, linear: LinearAttention) -> GatedDelta:
    """The rule in chunks over whole sequences, or an update of each sequence's state."""
    return GatedDelta(
        module=LINEAR_ATTENTION,
        part="gated delta",
        sequences=x.b,
        new_tokens=x.sequence_tokens,
        key_heads=x.key_heads(linear),
        value_heads=linear.value_heads / x.head_ranks,
        key_dim=float(linear.key_dim),
        value_dim=float(linear.value_dim),
        decode=x.decode,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
    )


def convolution(
    x: Kernels, module: Module, channels: Number, width: float, *, gates: Number = 0.0, again: bool = False
) -> list[Step]:
    """Return a short convolution, whose inputs are kept with ``gates`` elements per token that others need."""
    kept = x.element_bytes * x.tokens * (channels + gates)

    def of_group(group: Kernels) -> list[Step]:
        op = ShortConvolution(
            module=module,
            part="conv",
            sequences=group.b,
            new_tokens=group.sequence_tokens,
            channels=channels * x.t / x.head_ranks,
            width=width,
            decode=group.decode,
            element_bytes=x.element_bytes,
        )
        return [x.recurrent(op, saved_bytes=kept, again=again)]

    return by_group(x, of_group)


class Mamba2(StateMixer[StateSpace]):
    """A state-space mixer."""

    @property
    def calibration(self) -> tuple[str, str]:
        """The scan's kernels."""
        return "state space", "linear"

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return its steps."""
        space = self.figures
        inner, projected = space.inner_width / x.t, space.projected_width / x.t
        channels, heads = space.conv_channels / x.t, space.heads / x.t
        shape, kernels = (space.heads, space.head_dim, space.groups, space.state), (5.0, 10.0)
        if space.step_rank:
            heads, kernels = 0.0, (1.0, 1.0)
        scan = [
            # Gate and steps, which the gated norm and the scan keep, lie next to the channels.
            *convolution(x, STATE_SPACE, channels, float(space.conv_width), gates=heads, again=True),
            *_steps(x, space, inner),
            *by_group(x, lambda group: [x.recurrent(_scan(group, *shape), kernels=kernels)]),
            x.gated_norm(STATE_SPACE, inner),
        ]
        into = x.projection(LinearLayer("qkv", "input", x.h, projected, kept=x.entered_share))
        return self._between(x, STATE_SPACE, [into], projected, scan, inner)


def _steps(x: Kernels, space: StateSpace, inner: Number) -> list[Step]:
    """Mamba-1 makes steps, B and C of the convolution's output."""
    if space.step_rank is None:
        return []
    widths = ((inner, float(space.step_width)), (float(space.step_rank), inner))
    return [x.projection(LinearLayer(STATE_SPACE, "input", a, b)) for a, b in widths]


def _scan(x: Kernels, heads: int, head_dim: int = 1, groups: int = 0, state: int = 1) -> StateSpaceScan:
    """The scan in chunks over whole sequences, or an update of each sequence's state; by default of each channel."""
    return StateSpaceScan(
        module=STATE_SPACE,
        part="scan",
        sequences=x.b,
        new_tokens=x.sequence_tokens,
        heads=heads / x.head_ranks,
        head_dim=float(head_dim),
        groups=groups / x.head_ranks,
        state=float(state),
        decode=x.decode,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
    )


class AttentionBesideStates(TokenMixer[SideBySide]):
    """Attention and Mamba-2 on one input; what follows adds their outputs up."""

    @property
    def heads(self) -> Heads:
        """Those of its attention."""
        return self.figures.attention

    @property
    def calibration(self) -> tuple[str, str]:
        """The scan's kernels."""
        return self._parts[1].calibration

    @property
    def _parts(self) -> tuple[SoftmaxAttention, Mamba2]:
        attention, states = self.figures.attention, self.figures.states
        return (
            SoftmaxAttention(model=self.model, kind=self.kind, figures=attention),
            Mamba2(model=self.model, kind=self.kind, figures=states),
        )

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return the steps of both, one after the other."""
        attention, states = (part.sublayer(x) for part in self._parts)
        return replace(
            attention,
            steps=[*attention.steps, *states.steps],
            small_parameters=attention.small_parameters + states.small_parameters,
            widest=larger(attention.widest, states.widest),
            widest_weight=larger(attention.widest_weight, states.widest_weight),
        )

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """Keys and values, and the state."""
        return sum(part.cached_bytes(tokens, element_bytes, t) for part in self._parts)

    def products(self, tokens: float) -> float:
        """Those of both."""
        return sum(part.products(tokens) for part in self._parts)


class ConvolutionMixer(StateMixer[GatedConvolution]):
    """A gated short convolution, with or without a recurrence."""

    @property
    def calibration(self) -> tuple[str, str]:
        """The convolution's kernels."""
        return "short convolution", "linear"

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """The last inputs of the convolution in 16 bits, and the state of the recurrence."""
        kept = 2.0 * self.figures.width * (self.figures.conv_width - 1.0) / t
        return kept + super().cached_bytes(tokens, element_bytes, t)

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return its steps: gates before and after the convolution, or gates, recurrence and one gate after it."""
        conv = self.figures
        width, inputs = conv.width / x.t, conv.inputs * conv.width / x.t
        gate, core = x.activation(width, module=STATE_SPACE), convolution(x, STATE_SPACE, width, float(conv.conv_width))
        if conv.gate_blocks:
            size, blocks = float(conv.block_width), 2.0 * conv.gate_blocks / x.t
            core.append(x.linear(LinearLayer(STATE_SPACE, "input", size, size, batch=blocks)))
        if conv.channel_state:
            core += by_group(x, lambda group: [x.recurrent(_scan(group, conv.width, state=conv.channel_state))])
        else:
            core.insert(0, gate)
        into = x.projection(LinearLayer("qkv", "input", x.h, inputs, kept=x.entered_share))
        return self._between(x, STATE_SPACE, [into], inputs, [*core, gate], width)
