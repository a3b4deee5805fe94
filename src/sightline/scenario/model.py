"""What is trained or served: a transformer's architecture, as its ``config.json`` gives it."""

from typing import Annotated, Literal

from sightline.content import description
from sightline.quantities import COUNT
from sightline.scenario.blocks import (
    MIXER_WORDS,
    SOFTMAX,
    CompressedAttention,
    Experts,
    GatedConvolution,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    MixerFigures,
    SideBySide,
    SparseAttention,
    StateSpace,
    mlp_parameters,
)
from sightline.scenario.precision import CACHE_BYTES, CHECKPOINT_FORMATS, WEIGHT_FORMATS
from sightline.validators import Key, anything, choice, flag, fraction, quantity, text, texts, whole

Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "relu", "relu2", "swiglu", "geglu", "reglu2"]
GATED: frozenset[Activation] = frozenset({"swiglu", "geglu", "reglu2"})
"""Those that multiply two input projections."""
Positions = Literal["learned", "rotary", "alibi"]
WeightPart = Literal["attention", "dense", "experts", "shared", "head"]
"""Weights that checkpoints quantize separately: mixers, dense MLPs, routed experts, shared experts, the head."""
_WIDTH, _HEADS = whole(1, 10**8), whole(1, 10**6)


@description
class Model:
    """A decoder-only model: equal layers of full attention and a dense MLP, or ``layer_kinds``.

    ``name`` is for people; every other field is a figure of the architecture. Widths are in elements.
    """

    name: Annotated[str, text]
    hidden_size: Annotated[int, _WIDTH]
    layers: Annotated[int, Key(_HEADS, "num_hidden_layers")]
    heads: Annotated[int, Key(_HEADS, "num_attention_heads")]
    kv_heads: Annotated[int, Key(_HEADS, "num_key_value_heads")]
    """Key/value heads: ``heads`` is multi-head, 1 is multi-query, between is grouped-query attention."""
    head_dim: Annotated[int, _HEADS]
    intermediate_size: Annotated[int, _WIDTH]
    """Width of the MLP between its two projections (of each of the two input projections for swiglu)."""
    vocab_size: Annotated[int, _WIDTH]
    norm: Norm = "rmsnorm"
    activation: Annotated[Activation, Key(text, "hidden_act")] = "swiglu"
    positions: Positions = "rotary"
    max_positions: Annotated[int, Key(whole(), "max_position_embeddings")] = 2048
    """Longest sequence the model was trained for (rows of the position table when ``positions`` is learned)."""
    tied_embeddings: Annotated[bool, Key(flag, "tie_word_embeddings")] = False
    """The head uses the embedding's weights."""
    attention_bias: bool = False
    """Bias on the query, key and value projections."""
    output_bias: bool = False
    """Bias on the attention's output projection."""
    mlp_bias: bool = False
    norm_bias: bool = False
    embedding_norm: bool = False
    """A norm directly after the embedding, as in BLOOM."""
    position_offset: Annotated[int, whole(0)] = 0
    """Extra unused rows of a learned position table (OPT keeps 2)."""
    dropout: Annotated[float, fraction] = 0.0
    """Probability of the residual, embedding and attention dropouts; 0 means there are no dropout operators."""
    layer_kinds: tuple[LayerKind, ...] = ()
    """What the layers are made of; empty means that all are full attention with a dense MLP."""
    value_head_dim: Annotated[int | None, _HEADS] = None
    """Width of a value head where it is not ``head_dim`` (MiMo)."""
    experts: Experts | None = None
    latent: LatentAttention | None = None
    sparse: SparseAttention | None = None
    compressed: CompressedAttention | None = None
    linear: LinearAttention | None = None
    state_space: StateSpace | None = None
    convolution: GatedConvolution | None = None
    window: int | None = None
    """Tokens that sliding layers look back, or that a chunk of chunked layers holds."""
    attention_gate: bool = False
    """The attention's output is gated by a projection as wide as the queries (Qwen3-Next, Qwen3.5)."""
    qk_norm: bool = False
    """Norms of the query and key heads before the scores."""
    wide_qk_norm: bool = False
    """They go over all heads together, so that ranks that share the heads add up their squares (MiniMax M2, OLMo 2)."""
    fp32_router: bool = False
    """Engines keep the experts' router in fp32 and multiply in it: vLLM, SGLang and TensorRT-LLM that of MiniMax M2."""
    parallel_block: bool = False
    """Attention and MLP read the same input and are added together (GPT-J, Falcon)."""
    layer_norms: Annotated[int, whole(1, 8)] = 2
    """Hidden-wide norms of a layer with mixer and MLP; a layer of one of them has half."""
    residual_streams: Annotated[int, whole(1, 64)] = 1
    """Copies of the residual stream mixed around every block (hyper-connections, DeepSeek V4)."""
    score_cap: Annotated[float, quantity(COUNT, zero=True)] = 0.0
    """Attention scores are kept within this by a tanh (Gemma 2); 0 leaves them alone."""
    logit_cap: Annotated[float, quantity(COUNT, zero=True)] = 0.0
    """The same of the logits."""
    embedding_width: Annotated[int | None, _WIDTH] = None
    """Width of the embedding where a projection makes the hidden one of it (ELECTRA)."""
    layer_embedding_width: Annotated[int, whole(0)] = 0
    """Width of an embedding of the token that every layer adds (Gemma 3n, Gemma 4); 0 where none does."""
    layer_vocab_size: Annotated[int, whole(0)] = 0
    """Tokens that it knows."""
    head_width: Annotated[int | None, _WIDTH] = None
    """Width that the logits are made from where it is neither (RemBERT)."""
    head_transform: bool = False
    """A dense layer with bias and a norm before the logits (BERT)."""
    other_parameters: Annotated[int, whole(0)] = 0
    """Weights outside the layers that are in no product and no norm: a table of token types, the logits' bias."""
    other_layer_parameters: Annotated[int, whole(0)] = 0
    """The same in each layer: scales, biases and gates of a few elements."""
    prediction_layers: Annotated[int, whole(0, 10**6)] = 0
    """Layers for multi-token prediction. They are not among ``layers`` nor in ``parameters``, as model cards count."""
    rope_theta: float | None = None
    """Base of rotary positions, which launches state and no prediction depends on; None where it is unknown."""
    norm_eps: float | None = None
    """Epsilon of the norms, likewise."""
    weights: Annotated[str, choice(*CHECKPOINT_FORMATS)] = "bf16"
    """Format of the published checkpoint's linear weights (most of them)."""
    weight_exceptions: Annotated[tuple[tuple[WeightPart, str], ...], anything] = ()
    """Parts that the checkpoint keeps in another format."""
    kv_cache: Annotated[str | None, choice("bf16", "fp8", "int8")] = None
    """Format of the key/value cache that the checkpoint asks for; None leaves it to the engine."""
    assumed: Annotated[tuple[str, ...], texts] = ()
    """What was derived because the config does not say it in a known form, a sentence each; empty for known families.
    Predictions of such a model are less certain."""

    @property
    def published(self) -> tuple[str, ...]:
        """The words of ``plan.quantization`` for what the checkpoint has below 16 bits: weights and cache."""
        weights = (WEIGHT_FORMATS[self.weights],) if self.weights in WEIGHT_FORMATS else ()
        return (*weights, *(word for word in (f"kv-{self.kv_cache}",) if word in CACHE_BYTES))

    @property
    def gated(self) -> bool:
        """The MLP multiplies two input projections (swiglu, geglu, reglu2)."""
        return self.activation in GATED

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """What the layers are made of, also where all are equal."""
        return self.layer_kinds or (LayerKind(count=self.layers),)

    @property
    def own_heads(self) -> Heads:
        """The model's head shape, which layer kinds may override."""
        return Heads(
            heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim, value_head_dim=self.value_head_dim
        )

    @property
    def side_by_side(self) -> SideBySide | None:
        """Attention and states of a layer that has both."""
        states = self.state_space
        return None if states is None else SideBySide(attention=self.own_heads, states=states)

    def heads_of(self, kind: LayerKind) -> Heads:
        """The head shape of a layer kind."""
        return kind.attention or self.own_heads

    def width_of(self, kind: LayerKind) -> int:
        """Width of a layer kind's dense MLP."""
        return kind.intermediate_size or self.intermediate_size

    def format_of(self, part: WeightPart) -> str:
        """Format of a part's weights in the published checkpoint."""
        return dict(self.weight_exceptions).get(part, "bf16" if part == "head" else self.weights)

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm."""
        return self.hidden_size * (2 if self.norm_bias else 1)

    def mixer_parameters(self, kind: LayerKind) -> int:
        """Parameters of the token mixer of one layer, its indexer included."""
        figures = self.mixer_figures(kind)
        return 0 if figures is None else figures.parameters(self, kind)

    def mixer_figures(self, kind: LayerKind) -> MixerFigures | None:
        """What describes the mixer of a layer kind; None where it has none."""
        fields = MIXER_WORDS[kind.mixer].figures
        for field in fields:
            figures: MixerFigures | None = self.heads_of(kind) if field == SOFTMAX else getattr(self, field)
            if figures is not None:
                return figures
        if fields:
            raise ValueError(f"{self.name} does not define its {kind.mixer} layers")
        return None

    def indexer_parameters(self, kind: LayerKind) -> int:
        """Parameters of the indexer of one layer, 0 where it has none."""
        if not kind.indexed or self.sparse is None:
            return 0
        query_width = (self.latent and self.latent.query_rank) or self.hidden_size
        return self.sparse.parameters(self.hidden_size, query_width)

    def mlp_parameters_of(self, kind: LayerKind) -> int:
        """Parameters of the MLP of one layer; with experts all of them, the shared ones and the router."""
        if kind.mlp == "none":
            return 0
        if kind.mlp == "dense" or self.experts is None:
            return self._mlp(self.width_of(kind))
        return self.unrouted_parameters + self.experts.count * self.expert_parameters

    @property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert; 0 without experts."""
        return 0 if self.experts is None else self.experts.expert_parameters(self.hidden_size, **self._mlp_make)

    @property
    def unrouted_parameters(self) -> int:
        """Parameters of an expert layer's MLP that every token passes: shared experts and router."""
        if self.experts is None:
            return 0
        h, experts = self.hidden_size, self.experts
        return experts.shared_parameters(h, **self._mlp_make) + experts.router_parameters(h, bias=self.mlp_bias)

    def parameters_of(self, kind: LayerKind) -> int:
        """Parameters of one layer of a kind."""
        blocks = (kind.mixer != "none") + (kind.mlp != "none")
        norms = self.layer_norms * blocks // 2 * self.norm_parameters
        added = 2 * self.layer_embedding_width * self.hidden_size * (kind.mlp != "none")
        blocks_parameters = self.mixer_parameters(kind) + self.mlp_parameters_of(kind)
        return blocks_parameters + norms + added + self.small_parameters_of(blocks)

    def small_parameters_of(self, blocks: int) -> int:
        """Parameters of a layer of so many ``blocks`` that belong to none of them."""
        return blocks * self.stream_parameters + self.other_layer_parameters

    def active_parameters_of(self, kind: LayerKind) -> int:
        """Parameters of one layer of a kind that one token uses."""
        if kind.mlp != "experts" or self.experts is None:
            return self.parameters_of(kind)
        return self.parameters_of(kind) - (self.experts.count - self.experts.per_token) * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the first layer: tables, the norm after them and ``other_parameters``."""
        positions = (self.max_positions + self.position_offset) if self.positions == "learned" else 0
        h, width = self.hidden_size, self.table_width
        tables = self.vocab_size * width + positions * (width if self.embedding_norm else h) + width * h * (width != h)
        added = self.layers * self.layer_embedding_width * (self.layer_vocab_size + h)
        return tables + added + self.norm_parameters * self.embedding_norm + self.other_parameters

    @property
    def head_parameters(self) -> int:
        """Parameters after the last layer that the embedding does not already hold, the joining of streams included."""
        return (
            self.norm_parameters
            + self.joining_parameters
            + self.transform_parameters
            + (0 if self.tied_embeddings else self.vocab_size * self.logits_width)
        )

    @property
    def table_width(self) -> int:
        """Width of the embedding."""
        return self.embedding_width or self.hidden_size

    @property
    def logits_width(self) -> int:
        """Width that the logits are made from."""
        return self.head_width or self.table_width

    @property
    def transforms(self) -> bool:
        """Whether a product stands before the logits."""
        return self.head_transform or self.logits_width != self.hidden_size

    @property
    def plain_ends(self) -> bool:
        """The embedding feeds the layers and the last norm the logits; layers hold blocks and their norms alone."""
        widths = {self.table_width, self.logits_width, self.hidden_size}
        return len(widths) == 1 and not (
            self.head_transform or self.layer_embedding_width or self.other_layer_parameters
        )

    @property
    def transform_parameters(self) -> int:
        """Parameters of the dense layer before the logits and of its norm; 0 without one."""
        width = self.logits_width
        return self.transforms * self.hidden_size * width + self.head_transform * (width + self.norm_parameters)

    @property
    def stream_parameters(self) -> int:
        """Parameters that mix the residual streams around one block (DeepSeek V4: read, write and mix)."""
        n = self.residual_streams
        return 0 if n == 1 else n * (n + 2) * (n * self.hidden_size + 1) + 3

    @property
    def joining_parameters(self) -> int:
        """Parameters that make one vector of the residual streams; 0 for one stream."""
        n = self.residual_streams
        return 0 if n == 1 else n * (n * self.hidden_size + 1) + 1

    @property
    def parameters(self) -> int:
        """All parameters, shared ones once, multi-token prediction left out."""
        layers = sum(kind.count * self.parameters_of(kind) for kind in self.kinds)
        return self.embedding_parameters + layers + self.head_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: all but the experts it is not routed to (embedding and head count whole)."""
        layers = sum(kind.count * self.active_parameters_of(kind) for kind in self.kinds)
        return self.embedding_parameters + layers + self.head_parameters

    @property
    def _mlp_make(self) -> dict[str, bool]:
        return {"gated": self.gated, "bias": self.mlp_bias}

    def _mlp(self, width: int) -> int:
        return mlp_parameters(self.hidden_size, width, **self._mlp_make)
