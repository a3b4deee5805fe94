"""DeepSeek V4's attention: one shared key/value head, the context folded, and a window of the last tokens.

Queries come from a latent vector, the output goes through grouped latent vectors; keys, which are values too, and what
is folded are made from the hidden vector on every rank's piece of the sequence and gathered. Lightly folded layers read
what an indexer selects (`sightline.program.blocks.indexer`), heavily folded ones everything. Source: DeepSeek V4's
published code and configuration.
"""

from sightline.program.blocks.indexer import indexer, indexer_weights
from sightline.program.kernels import Kernels
from sightline.program.program import Sublayer
from sightline.quantities import larger
from sightline.scenario import LayerKind


def compressed_attention(x: Kernels, kind: LayerKind) -> Sublayer:
    """Return the attention of one layer."""
    low = x.model.compressed
    if low is None:
        raise ValueError(f"{x.model.name} has no compressed attention")
    dim, folds = float(x.model.head_dim), 1.0 * (kind.compression > 1)
    queries, rank, outputs = x.heads * dim, float(low.query_rank), float(low.output_rank)
    folding = 2.0 * dim * (2.0 if kind.indexed else 1.0) * folds
    down = rank + dim + folding
    groups, grouped = low.output_groups / x.t, x.model.heads * dim / low.output_groups
    split_weights = rank * queries + groups * (grouped * outputs + outputs * x.h)
    whole_weights = x.h * down + split_weights * x.t + indexer_weights(x, kind)
    return Sublayer(
        module="attention norm",
        steps=[
            x.projection("qkv", "down", x.h, down, rows=x.piece_tokens),
            x.latent_norm(rank + dim, norms=2.0),
            *(x.fold(folding) if folds else []),
            *x.gather_latents(rank + dim + dim * folds),
            x.projection("qkv", "query up", rank, queries),
            x.rope((x.heads + 1.0) * dim),
            *x.cache_write(2.0 * dim),
            *indexer(x, kind),
            *x.share_keys(dim + dim / kind.compression * folds),
            *(step for group in x.groups() for step in group.attention_to_folds(kind)),
            x.linear("output projection", "group down", grouped, outputs, of="attention", batch=larger(groups, 1.0)),
            x.projection("output projection", "matmul", outputs * groups, x.h),
            *x.leave("output projection"),
        ],
        small_parameters=x.model.mixer_parameters(kind) - whole_weights,
        widest=x.tokens * queries,
        widest_weight=x.h * outputs * groups,
        core_input_bytes=x.element_bytes * x.tokens * (queries + dim),
    )
