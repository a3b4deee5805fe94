"""The indexer of sparse attention: queries and keys of its own, scores of all tokens, and the choice of the best.

As DeepSeek V3.2 has it (technical report, section 2.1.1). In training its inputs are cut off from the rest of the model's
gradients, so that there are weight gradients alone.
"""

from sightline.program.kernels import Kernels
from sightline.program.program import Step
from sightline.scenario import LayerKind, SparseAttention


def indexer(x: Kernels, kind: LayerKind) -> list[Step]:
    """Return the indexer of one layer; nothing without an indexer of its own."""
    sparse = x.model.sparse
    if sparse is None or not kind.indexed:
        return []
    width = float(sparse.heads * sparse.head_dim)
    query = x.linear("indexer", "query", _query_inputs(x), width, of="attention", kept=0.0)
    keys = x.linear("indexer", "key, weights", x.h, _keys(x, sparse), of="attention", kept=0.0)
    return [x.cut_off(query), x.cut_off(keys), x.index_rope(width + sparse.head_dim), *x.index_scores(kind, sparse)]


def indexer_weights(x: Kernels, kind: LayerKind) -> float:
    """Return the elements of the indexer's matrices, which every rank has whole; 0 without one."""
    sparse = x.model.sparse
    if sparse is None or not kind.indexed:
        return 0.0
    return _query_inputs(x) * sparse.heads * sparse.head_dim + x.h * _keys(x, sparse)


def indexer_norms(x: Kernels, kind: LayerKind) -> float:
    """Return the parameters of an indexer that are no matrices."""
    return x.model.indexer_parameters(kind) - indexer_weights(x, kind)


def _query_inputs(x: Kernels) -> float:
    """The width that the indexer's queries are projected from: the queries' latent vector, or the hidden one."""
    low = x.model.latent or x.model.compressed
    return float((low and low.query_rank) or x.h)


def _keys(x: Kernels, sparse: SparseAttention) -> float:
    """Outputs of the indexer's key and head-weight projection; folded keys have two of overlapping folds, and gates."""
    return sparse.head_dim * (1.0 if x.model.compressed is None else 4.0) + sparse.heads
