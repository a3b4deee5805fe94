"""What is trained or served: a transformer's architecture, as its ``config.json`` gives it."""

from dataclasses import dataclass
from typing import Literal

Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "relu", "swiglu"]
Positions = Literal["learned", "rotary", "alibi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only dense transformer.

    ``name`` is for people; every other field is a figure of the architecture. Widths are in elements.
    """

    name: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    """Key/value heads: ``heads`` is multi-head, 1 is multi-query, between is grouped-query attention."""
    head_dim: int
    intermediate_size: int
    """Width of the MLP between its two projections (of each of the two input projections for swiglu)."""
    vocab_size: int
    norm: Norm = "rmsnorm"
    activation: Activation = "swiglu"
    positions: Positions = "rotary"
    max_positions: int = 2048
    """Longest sequence the model was trained for (rows of the position table when ``positions`` is learned)."""
    tied_embeddings: bool = False
    """The head uses the embedding's weights."""
    attention_bias: bool = False
    """Bias on the query, key and value projections."""
    output_bias: bool = False
    """Bias on the attention's output projection."""
    mlp_bias: bool = False
    norm_bias: bool = False
    embedding_norm: bool = False
    """A norm directly after the embedding, as in BLOOM."""
    position_offset: int = 0
    """Extra unused rows of a learned position table (OPT keeps 2)."""
    dropout: float = 0.0
    """Probability of the residual, embedding and attention dropouts; 0 means there are no dropout operators."""

    @property
    def gated(self) -> bool:
        """The MLP multiplies two input projections (swiglu)."""
        return self.activation == "swiglu"

    @property
    def query_width(self) -> int:
        """Elements of all query heads of a token."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements of all key heads of a token (values have as many)."""
        return self.kv_heads * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm."""
        return self.hidden_size * (2 if self.norm_bias else 1)

    @property
    def attention_parameters(self) -> int:
        """Parameters of one layer's query, key, value and output projections."""
        qkv_width = self.query_width + 2 * self.kv_width
        weights = self.hidden_size * (qkv_width + self.query_width)
        return weights + qkv_width * self.attention_bias + self.hidden_size * self.output_bias

    @property
    def mlp_parameters(self) -> int:
        """Parameters of one layer's MLP."""
        inputs = self.intermediate_size * (2 if self.gated else 1)
        weights = self.hidden_size * (inputs + self.intermediate_size)
        return weights + (inputs + self.hidden_size) * self.mlp_bias

    @property
    def layer_parameters(self) -> int:
        """Parameters of one decoder layer."""
        return self.attention_parameters + self.mlp_parameters + 2 * self.norm_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the first layer: token and position tables and the norm after them."""
        positions = (self.max_positions + self.position_offset) if self.positions == "learned" else 0
        return (self.vocab_size + positions) * self.hidden_size + self.norm_parameters * self.embedding_norm

    @property
    def head_parameters(self) -> int:
        """Parameters after the last layer that the embedding does not already hold."""
        return self.norm_parameters + (0 if self.tied_embeddings else self.vocab_size * self.hidden_size)

    @property
    def parameters(self) -> int:
        """All parameters, shared ones once."""
        return self.embedding_parameters + self.layers * self.layer_parameters + self.head_parameters
