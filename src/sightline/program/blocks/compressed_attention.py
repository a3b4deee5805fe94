"""DeepSeek V4's attention: one shared key/value head, the context folded, and a window of the last tokens.

Queries come from a latent vector, the output goes through grouped latent vectors; keys, which are values too, and what
is folded are made from the hidden vector on every rank's piece of the sequence and gathered. Lightly folded layers read
what an indexer selects (`sightline.program.blocks.attention`), heavily folded ones everything. Source: DeepSeek V4's
published code and configuration.
"""

from sightline.program.blocks.attention import AttentionMixer, indexer, indexer_weights
from sightline.program.blocks.mixer import by_group
from sightline.program.kernels import Kernels
from sightline.program.program import LinearLayer, Sublayer
from sightline.quantities import Number, larger, smaller
from sightline.scenario import CompressedAttention


class FoldedAttention(AttentionMixer[CompressedAttention]):
    """Attention to folded entries and to a window of the last tokens."""

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return its steps."""
        low = self.figures
        dim, folds = float(x.model.head_dim), 1.0 * (self.kind.compression > 1)
        queries, rank, outputs = x.heads * dim, float(low.query_rank), float(low.output_rank)
        folding = 2.0 * dim * (2.0 if self.kind.indexed else 1.0) * folds
        down = rank + dim + folding
        groups, grouped = low.output_groups / x.t, x.model.heads * dim / low.output_groups
        split_weights = rank * queries + groups * (grouped * outputs + outputs * x.h)
        whole_weights = x.h * down + split_weights * x.t + indexer_weights(x, self.kind)
        return Sublayer(
            module="attention norm",
            steps=[
                x.projection(LinearLayer("qkv", "down", x.h, down, rows=x.piece_tokens)),
                x.latent_norm(rank + dim, norms=2.0),
                *(x.fold(folding) if folds else []),
                *x.gather_latents(rank + dim + dim * folds),
                x.projection(LinearLayer("qkv", "query up", rank, queries)),
                x.rope((x.heads + 1.0) * dim),
                *x.cache_write(2.0 * dim),
                *indexer(x, self.kind),
                *x.share_keys(dim + dim / self.kind.compression * folds),
                *by_group(x, lambda group: group.attention_to_folds(self.kind)),
                x.linear(
                    LinearLayer(
                        "output projection", "group down", grouped, outputs, of="attention", batch=larger(groups, 1.0)
                    )
                ),
                x.projection(LinearLayer("output projection", "matmul", outputs * groups, x.h)),
                *x.leave("output projection"),
            ],
            small_parameters=x.model.mixer_parameters(self.kind) - whole_weights,
            widest=x.tokens * queries,
            widest_weight=x.h * outputs * groups,
            core_input_bytes=x.element_bytes * x.tokens * (queries + dim),
        )

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """The window's keys, which are values too, and the folded ones, whole on every rank."""
        folded = tokens / self.kind.compression if self.kind.compression > 1 else 0.0
        kept = smaller(tokens, self.model.window or 0) + folded
        return element_bytes * self.model.head_dim * kept + self.index_bytes(tokens)

    def seen_tokens(self, tokens: float) -> float:
        """Those of the window, and the folded ones or those selected of them."""
        folded = tokens / self.kind.compression if self.kind.compression > 1 else 0.0
        further = min(folded, self.selected_tokens(tokens)) if self.kind.indexed else folded
        return min(tokens, (self.model.window or 0) + further)
