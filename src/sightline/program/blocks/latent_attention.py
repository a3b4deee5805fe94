"""Multi-head latent attention (DeepSeek V2, arXiv 2405.04434), dense or with an indexer's choice (DeepSeek V3.2).

Queries, and keys with values, pass through latent vectors; the down projections are whole on every rank and work on
its piece of the sequence, the up projections are split by heads. With sequence parallelism the latent vectors are
gathered, not the hidden ones. Keys and values are expanded, or the halves of their up projection move to queries and
outputs, so that attention reads the latent vectors themselves: in decoding, and where selected tokens differ by query.
"""

from sightline.program.blocks.attention import AttentionMixer, indexer, indexer_norms
from sightline.program.blocks.mixer import by_group
from sightline.program.kernels import Kernels
from sightline.program.program import LinearLayer, Step, Sublayer
from sightline.quantities import Number
from sightline.scenario import Heads, LatentAttention, LayerKind


class MultiHeadLatentAttention(AttentionMixer[LatentAttention]):
    """Attention whose core works with expanded heads, or with latent vectors."""

    @property
    def heads(self) -> Heads:
        """The expanded heads."""
        count, latent = self.model.heads, self.figures
        return Heads(heads=count, kv_heads=count, head_dim=latent.head_dim, value_head_dim=latent.value_head_dim)

    @property
    def matrix_elements(self) -> float:
        """All but the norms; with an indexer all that is in the layer."""
        norms = (self.figures.query_rank or 0) + self.figures.kv_rank
        return super().matrix_elements - (norms if self.kind.mixer == "latent" else 0)

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return its steps."""
        rank, rope = float(self.figures.kv_rank), float(self.figures.rope_head_dim)
        output = x.projection(
            LinearLayer("output projection", "matmul", x.context_width, x.h, bias=x.model.output_bias)
        )
        return Sublayer(
            module="attention norm",
            steps=[
                *_projections(x, self.figures),
                x.rope((x.heads + 1.0) * rope, latent=True),
                *x.cache_write(rank + rope),
                *indexer(x, self.kind),
                *by_group(x, lambda group: _core(group, self.kind, self.figures)),
                output,
                *x.leave("output projection"),
            ],
            small_parameters=(self.figures.query_rank or 0) + rank + indexer_norms(x, self.kind),
            widest=x.core_input_bytes / x.element_bytes,
            widest_weight=x.context_width * x.h,
            core_input_bytes=x.core_input_bytes,
        )

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """A latent vector and a rotary key per token, whole on every rank."""
        return element_bytes * tokens * (self.figures.kv_rank + self.figures.rope_head_dim) + self.index_bytes(tokens)


def _projections(x: Kernels, latent: LatentAttention) -> list[Step]:
    """The latent vectors and what they are normed and made into; queries come from theirs or from the hidden vector."""
    rank = float(latent.query_rank or 0)
    down = rank + latent.kv_rank + latent.rope_head_dim
    if latent.query_rank is None:
        queries = x.projection(LinearLayer("qkv", "query", x.h, x.query_width, kept=0.0))
    else:
        queries = x.projection(LinearLayer("qkv", "query up", rank, x.query_width))
    return [
        x.projection(LinearLayer("qkv", "down", x.h, down, rows=x.piece_tokens)),
        x.latent_norm(rank + latent.kv_rank, norms=2.0 if latent.query_rank else 1.0),
        *x.gather_latents(down),
        queries,
    ]


def _core(x: Kernels, kind: LayerKind, latent: LatentAttention) -> list[Step]:
    rank, nope, value = float(latent.kv_rank), float(latent.nope_head_dim), float(latent.value_head_dim)
    if not x.absorbs(kind):
        up = x.projection(LinearLayer("qkv", "key, value up", rank, x.heads * (nope + value), rows=x.seen_tokens))
        return [up, *x.join_heads(), *x.expanded_attention(kind)]
    return [
        *x.share_keys(rank + latent.rope_head_dim),
        x.linear(LinearLayer("attention core", "absorb query", nope, rank, batch=x.heads, of=None)),
        *x.attention_to_latents(kind),
        x.linear(LinearLayer("attention core", "expand value", rank, value, batch=x.heads, of=None)),
    ]
