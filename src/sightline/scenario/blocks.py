"""The blocks a decoder layer is made of beyond full attention and a dense MLP, and the parameters of each.

Legend of the formulas: ``h`` is the model's hidden size. Biases and norms inside a block are counted where they exist.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from sightline.content import description

if TYPE_CHECKING:
    from sightline.scenario.model import Model

_Softmax = Literal["attention", "sliding", "chunked", "latent", "sparse", "compressed"]
Mixer = Literal[_Softmax, "linear", "state-space", "side-by-side", "convolution", "none"]
"""How a layer mixes tokens: full, sliding-window or chunked attention; multi-head latent attention (arXiv 2405.04434);
attention to tokens an indexer selects; attention to folded keys and values (DeepSeek V4); gated delta net
(arXiv 2412.06464); Mamba (arXiv 2312.00752, 2405.21060), alone or beside full attention (Falcon-H1); a gated short
convolution (LFM2), with a recurrence per channel in RecurrentGemma."""


class MixerWord(NamedTuple):
    """What a mixer is called in sentences, and the fields of a model that describe its layers."""

    label: str
    needs: str = ""
    """The field that a model with such layers has to state."""
    figures: tuple[str, ...] = ()
    """Fields of which the first that a model has is the mixer's `MixerFigures`; none where nothing is mixed."""


SOFTMAX = "own_heads"
"""The head shape of softmax attention, which every model has and a layer kind may override."""

MIXER_WORDS: Mapping[Mixer, MixerWord] = {
    "attention": MixerWord("full attention", figures=(SOFTMAX,)),
    "sliding": MixerWord("sliding-window attention", "window", (SOFTMAX,)),
    "chunked": MixerWord("chunked attention", "window", (SOFTMAX,)),
    "latent": MixerWord("latent attention", "latent", ("latent",)),
    "sparse": MixerWord("sparse attention", "sparse", ("latent", SOFTMAX)),
    "compressed": MixerWord("attention to folded tokens", "compressed", ("compressed",)),
    "linear": MixerWord("gated delta net", "linear", ("linear",)),
    "state-space": MixerWord("Mamba-2", "state_space", ("state_space",)),
    "side-by-side": MixerWord("attention beside Mamba-2", "state_space", ("side_by_side",)),
    "convolution": MixerWord("gated convolution", "convolution", ("convolution",)),
    "none": MixerWord(""),
}

Mlp = Literal["dense", "experts", "none"]


@description
class Heads:
    """The head shape of a softmax attention."""

    heads: int
    kv_heads: int
    head_dim: int
    """Width of a query and a key head."""
    value_head_dim: int | None = None
    """Width of a value head; None means ``head_dim``."""
    values_are_keys: bool = False
    """There is no value projection: values are the key projection's output with a norm of its own (Gemma 4)."""
    reused: bool = False
    """Keys and values are those of an earlier layer, neither projected nor cached again (Gemma 3n)."""

    @property
    def value_dim(self) -> int:
        """Width of a value head."""
        return self.value_head_dim or self.head_dim

    @property
    def query_width(self) -> int:
        """Elements of all query heads of a token."""
        return self.heads * self.head_dim

    @property
    def key_width(self) -> int:
        """Elements of all key heads of a token."""
        return self.kv_heads * self.head_dim

    @property
    def value_width(self) -> int:
        """Elements of all value heads of a token."""
        return self.kv_heads * self.value_dim

    @property
    def output_width(self) -> int:
        """Elements that the output projection reads."""
        return self.heads * self.value_dim

    def projected_width(self, *, gate: bool) -> int:
        """Outputs of the query (twice with a gate), key and value projections together."""
        queries = self.query_width * (2 if gate else 1)
        keys = self.key_width + (0 if self.values_are_keys else self.value_width)
        return queries + keys * (not self.reused)

    def parameters(self, model: "Model", kind: "LayerKind") -> int:
        """Projections with their biases, the norms of heads, and an indexer."""
        projected = self.projected_width(gate=model.attention_gate)
        weights = model.hidden_size * (projected + self.output_width)
        biases = projected * model.attention_bias + model.hidden_size * model.output_bias
        head_norms = self.query_width + self.key_width if model.wide_qk_norm else 2 * self.head_dim
        return weights + biases + head_norms * model.qk_norm + model.indexer_parameters(kind)


@description
class LayerKind:
    """Layers of one make. Of their order in the model only ``leading`` is kept."""

    mixer: Mixer = "attention"
    mlp: Mlp = "dense"
    count: int
    attention: Heads | None = None
    """Head shape where it is not the model's."""
    intermediate_size: int | None = None
    """Width of the dense MLP where it is not the model's (pruned models)."""
    compression: int = 1
    """Context tokens folded into one cached entry, next to the window's own (mixer "compressed"); 1 keeps the
    window alone."""
    indexed: bool = False
    """An indexer of the layer's own selects what it attends to; a sparse layer without one reuses another's choice."""
    leading: bool = False
    """They come before all layers of other kinds."""


@description
class Experts:
    """A mixture of experts in place of the dense MLP; activation and gating are the model's."""

    count: int
    """Routed experts."""
    per_token: int
    width: int
    """Width of a routed expert."""
    shared: int = 0
    """Experts every token passes."""
    shared_width: int = 0
    """Width of each shared expert."""
    latent_width: int | None = None
    """Routed experts work on a projection of the token to this width; None means the hidden size."""
    groups: int = 1
    """Groups of experts, of which a token chooses ``chosen_groups`` first (DeepSeek V3, arXiv 2412.19437)."""
    chosen_groups: int = 1

    def expert_parameters(self, h: int, *, gated: bool, bias: bool) -> int:
        """Parameters of one routed expert."""
        return mlp_parameters(self.latent_width or h, self.width, gated=gated, bias=bias)

    def shared_parameters(self, h: int, *, gated: bool, bias: bool) -> int:
        """Parameters of the shared experts of a layer together."""
        return self.shared * mlp_parameters(h, self.shared_width, gated=gated, bias=bias) if self.shared else 0

    def router_parameters(self, h: int, *, bias: bool) -> int:
        """Parameters of the router and of the projections to and from the latent width."""
        return (h + bias) * self.count + 2 * h * (self.latent_width or 0)


@description
class LatentAttention:
    """Multi-head latent attention: keys and values are kept as one latent vector and a rotary key per token."""

    query_rank: int | None = None
    """Width of the queries' latent vector; None projects queries directly."""
    kv_rank: int
    nope_head_dim: int
    """Width of a query and key head without positions."""
    rope_head_dim: int
    """Width of the rotary part, whose key all heads share."""
    value_head_dim: int

    @property
    def head_dim(self) -> int:
        """Width of a whole query and key head."""
        return self.nope_head_dim + self.rope_head_dim

    def parameters(self, model: "Model", kind: LayerKind) -> int:
        """Projections, the norms of the latent vectors, and an indexer."""
        h, heads = model.hidden_size, model.heads
        queries = heads * self.head_dim
        query = h * queries if self.query_rank is None else self.query_rank * (h + 1 + queries)
        down = h * (self.kv_rank + self.rope_head_dim) + self.kv_rank
        up = self.kv_rank * heads * (self.nope_head_dim + self.value_head_dim)
        gate = h * heads * self.value_head_dim * model.attention_gate
        return query + down + up + gate + heads * self.value_head_dim * h + model.indexer_parameters(kind)


@description
class SparseAttention:
    """An indexer scores the context and each query attends only to what scored highest."""

    heads: int
    """Query heads of the indexer, which has one key head."""
    head_dim: int
    selected_tokens: int
    """Cached entries that a query attends to, in blocks where those are more than one token."""
    block_tokens: int = 1
    """Neighbouring tokens selected together."""

    def parameters(self, h: int, query_width: int) -> int:
        """Query projection (from ``query_width`` elements), key projection with its norm, and head weights."""
        return query_width * self.heads * self.head_dim + h * (self.head_dim + self.heads) + 2 * self.head_dim


@description
class CompressedAttention:
    """DeepSeek V4: low-rank queries, one shared key/value head, folded context, a grouped low-rank output."""

    query_rank: int
    output_rank: int
    """Width of each output group's latent vector."""
    output_groups: int

    def parameters(self, model: "Model", kind: LayerKind) -> int:
        """Projections; the folding of the context; and, where selected, an indexer with a folding of its own."""
        h, dim, sparse = model.hidden_size, model.head_dim, model.sparse
        query = self.query_rank * (h + 1 + model.heads * dim)
        output = self.output_rank * (model.heads * dim + self.output_groups * h)
        total = query + (h + 1) * dim + output
        if kind.compression > 1:
            total += _folding_parameters(h, dim, kind)
        if kind.indexed and sparse:
            total += self.query_rank * sparse.heads * sparse.head_dim + h * sparse.heads
            total += _folding_parameters(h, sparse.head_dim, kind)
        return total


def _folding_parameters(h: int, width: int, kind: LayerKind) -> int:
    """Key/value and gate projections of the folding, twice as wide where neighbouring folds overlap (an indexer's)."""
    return (2 * h + kind.compression) * width * (2 if kind.indexed else 1) + width


@description
class LinearAttention:
    """Gated delta net: a state of key_dim x value_dim per value head instead of a cache of tokens."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int
    """Tokens of the short convolution over queries, keys and values."""
    gate_rank: int | None = None
    """Width that the output gate and a decay for every key channel pass through (Kimi); None projects them directly."""
    full_rank_gate: bool = False
    """The output gate is projected directly, where the decay passes through ``gate_rank`` (Kimi K3)."""
    decay: Literal["head", "channel", "fixed"] = "head"
    """What has a decay of its own without ``gate_rank``; a fixed one is no part of the token (MiniMax's lightning
    attention, arXiv 2501.08313, which corrects nothing)."""

    @property
    def key_width(self) -> int:
        """Elements of all key (and of all query) heads of a token."""
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        """Elements of all value heads of a token."""
        return self.value_heads * self.value_dim

    @property
    def conv_channels(self) -> int:
        """Channels that the short convolution runs over."""
        return 2 * self.key_width + self.value_width

    @property
    def state_elements(self) -> int:
        """Elements of one sequence's state in one layer, without the convolution's."""
        return self.value_heads * self.key_dim * self.value_dim

    @property
    def decays(self) -> int:
        """Decays that a token makes."""
        if self.decay == "fixed":
            return 0
        return self.key_width if self.gate_rank or self.decay == "channel" else self.value_heads

    @property
    def strengths(self) -> int:
        """Strengths of a token's corrections."""
        return self.value_heads * (self.decay != "fixed")

    @property
    def small_parameters(self) -> int:
        """Convolution, decay and its bias, norm."""
        return self.conv_channels * self.conv_width + self.strengths + self.decays + self.value_dim

    def parameters(self, model: "Model", kind: LayerKind) -> int:
        """Projections of query, key, value, gate, decay and step; convolution; norm; output."""
        h = model.hidden_size
        if self.gate_rank is None:
            gates = h * (self.value_width + self.decays + self.strengths)
        else:
            output = h * self.value_width if self.full_rank_gate else self.gate_rank * (h + self.value_width)
            gates = h * self.value_heads + self.gate_rank * (h + self.key_width) + output
        return h * self.conv_channels + gates + self.small_parameters + self.value_width * h


@description
class StateSpace:
    """Mamba-2: a state of head_dim x state per head instead of a cache of tokens. Mamba-1 has heads of one channel."""

    heads: int
    head_dim: int
    groups: int
    """Groups of heads that share the input and output matrices B and C."""
    state: int
    """Width of the state of each channel."""
    conv_width: int
    step_rank: int | None = None
    """Mamba-1: width that a step for every channel passes through; it and B, C are projected from the convolution."""

    @property
    def inner_width(self) -> int:
        """Channels of the block."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Channels that the short convolution runs over."""
        return self.inner_width + (0 if self.step_rank else 2 * self.groups * self.state)

    @property
    def state_elements(self) -> int:
        """Elements of one sequence's state in one layer, without the convolution's."""
        return self.inner_width * self.state

    @property
    def projected_width(self) -> int:
        """Outputs of the input projection: gate, channels with B and C, and a step per head."""
        return self.inner_width + self.conv_channels + (0 if self.step_rank else self.heads)

    @property
    def step_width(self) -> int:
        """Outputs of Mamba-1's second projection: the step's rank, B and C."""
        return self.step_rank + 2 * self.state if self.step_rank else 0

    @property
    def small_parameters(self) -> int:
        """Convolution with bias, decay, skip and step of each head, norm."""
        norm = self.inner_width * self.state - self.heads if self.step_rank else self.inner_width
        return self.conv_channels * (self.conv_width + 1) + 3 * self.heads + norm

    def parameters(self, model: "Model", kind: LayerKind) -> int:
        """Input projection, convolution, decays, norm, output projection."""
        h = model.hidden_size
        steps = self.inner_width * (self.step_width + (self.step_rank or 0))
        return h * self.projected_width + self.small_parameters + steps + self.inner_width * h


@description
class SideBySide:
    """Softmax attention and Mamba-2 on the same input, whose outputs are added."""

    attention: Heads
    states: StateSpace

    def parameters(self, model: "Model", kind: LayerKind) -> int:
        """Those of both."""
        return self.attention.parameters(model, kind) + self.states.parameters(model, kind)


@description
class GatedConvolution:
    """A short convolution between gates (LFM2), or before a recurrence per channel (RG-LRU, arXiv 2402.19427; RWKV)."""

    width: int
    """Channels."""
    conv_width: int
    inputs: int = 3
    """Projections of the token: the channels and their gates."""
    gate_blocks: int = 0
    """Blocks of channels that the recurrence's two gates are made from; 0 without such gates."""
    channel_state: int = 0
    """Elements of a channel's state; 0 without a recurrence."""

    @property
    def state_elements(self) -> int:
        """Elements of one sequence's recurrent state in one layer."""
        return self.width * self.channel_state

    @property
    def block_width(self) -> int:
        """Channels that an element of the recurrence's gates is made from."""
        return self.width // self.gate_blocks if self.gate_blocks else 0

    @property
    def small_parameters(self) -> int:
        """Convolution; with a recurrence its decays and the biases."""
        return self.width * (self.conv_width + 4 * (self.gate_blocks > 0))

    def parameters(self, model: "Model", kind: LayerKind) -> int:
        """Input projections, convolution, gates of the recurrence, output projection."""
        products = model.hidden_size * (self.inputs + 1) + 2 * self.block_width
        return self.width * products + self.small_parameters


_Recurrent = LinearAttention | StateSpace | SideBySide | GatedConvolution
MixerFigures = Heads | LatentAttention | CompressedAttention | _Recurrent
"""What describes a layer's mixer; the head shape is that of softmax attention."""


def mlp_parameters(h: int, width: int, *, gated: bool, bias: bool) -> int:
    """Parameters of an MLP of ``width`` with one input projection, two where gated."""
    inputs = width * (2 if gated else 1)
    return h * (inputs + width) + (inputs + h) * bias
