"""Blocks of softmax attention: full, windowed, chunked, sparse, latent (arXiv 2405.04434) and compressed."""

from typing import Any

from sightline.program.blocks.layer import Figures, TokenMixer, by_group
from sightline.program.kernels import Kernels
from sightline.program.operators import Part
from sightline.program.program import LinearLayer, Step, Sublayer
from sightline.program.techniques.adapters import QKV
from sightline.quantities import Number, larger, smaller
from sightline.scenario import CompressedAttention, Heads, LatentAttention, LayerKind, SparseAttention


class AttentionMixer(TokenMixer[Figures]):
    """Attention to the tokens of the context, all of them or those that a window or an indexer leaves."""

    @property
    def calibration(self) -> tuple[str, str] | None:
        """Attention to selected tokens has kernels of its own."""
        return ("sparse attention", "sparse") if self.kind.mixer in ("sparse", "compressed") else None

    def products(self, tokens: float) -> float:
        """Scores and context over all keys that the layer sees, and an indexer's scores of every token."""
        heads, sparse = self.heads, self.model.sparse
        products = heads.heads * (heads.head_dim + heads.value_dim) * self.seen_tokens(tokens)
        if not self.kind.indexed or sparse is None:
            return products
        # The indexer scores what the mask leaves, and learns from what it selected: a third, and the whole, of 6.
        entries = tokens / self.kind.compression
        return products + sparse.heads * sparse.head_dim * (
            (entries + 1.0) / 6.0 + min(entries, sparse.selected_tokens)
        )

    def seen_tokens(self, tokens: float) -> float:
        """Return how many keys a token of a sequence of ``tokens`` may see at most."""
        return min(tokens, self.selected_tokens(tokens)) if self.kind.mixer == "sparse" else tokens

    def selected_tokens(self, tokens: float) -> float:
        """Return how many of ``tokens`` an indexer selects."""
        sparse = self.model.sparse
        return tokens if sparse is None else sparse.selected_tokens * sparse.block_tokens

    def index_bytes(self, tokens: Number) -> Number:
        """Return the bytes that an indexer keeps of ``tokens`` in one layer."""
        return tokens * self.model.sparse.head_dim if self.kind.indexed and self.model.sparse is not None else 0.0


class SoftmaxAttention(AttentionMixer[Heads]):
    """Attention over keys and values of the model's heads, grouped or not, gated or not."""

    @property
    def heads(self) -> Heads:
        """Those that describe it."""
        return self.figures

    @property
    def matrix_elements(self) -> float:
        """Projections; with an indexer all that is in the layer."""
        if self.kind.mixer == "sparse":
            return super().matrix_elements
        return self.model.hidden_size * (
            self.figures.projected_width(gate=self.model.attention_gate) + self.figures.output_width
        )

    def sublayer(self, x: Kernels) -> Sublayer:
        """Return its steps; in a parallel block its output is added to the MLP's before both leave."""
        model, shape = x.model, x.shape
        queries = x.query_width * (2.0 if model.attention_gate else 1.0)
        own = not shape.reused
        keys, values = x.key_width * own, x.value_width * (own and not shape.values_are_keys)
        pieces: tuple[tuple[Part, Number], ...] = (("query", queries), ("key, value", keys), ("key, value", values))
        width = queries + keys + values
        joined: Any = {"name": "qkv", "pieces": pieces, "shares": _shares(x), "targets": QKV, "gathered": True}
        inward = LinearLayer("qkv", "matmul", x.h, width, kept=x.entered_share, bias=model.attention_bias, **joined)
        output: Any = {"targets": ("output",), "bias": model.output_bias, "scattered": True}
        outward = LinearLayer("output projection", "matmul", x.context_width, x.h, **output)
        return Sublayer(
            module="attention norm",
            steps=[
                *x.region("qkv", [x.projection(inward)], QKV),
                *([x.head_norm()] if model.qk_norm else []),
                *([x.rope(x.query_width + keys)] if model.positions == "rotary" else []),
                *(x.cache_write(keys + x.value_width) if own else []),
                *indexer(x, self.kind),
                *by_group(x, lambda group: group.attention(self.kind)),
                *x.gate(),
                x.projection(outward),
                *x.leave("output projection"),
            ],
            small_parameters=_head_norms(x) + indexer_norms(x, self.kind),
            widest=x.tokens * width,
            widest_weight=x.h * width,
            core_input_bytes=x.core_input_bytes,
        )

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """Keys and values of the heads of a rank, within a window those of the last tokens."""
        if self.figures.reused:
            return 0.0
        width = larger(self.figures.kv_heads / t, 1.0) * (self.figures.head_dim + self.figures.value_dim)
        kept = smaller(tokens, self.model.window) if self._windowed and self.model.window else tokens
        return element_bytes * kept * width + self.index_bytes(tokens)

    def seen_tokens(self, tokens: float) -> float:
        """Those of a window or a chunk, or those selected."""
        if self._windowed and self.model.window:
            return min(tokens, self.model.window)
        return super().seen_tokens(tokens)

    @property
    def _windowed(self) -> bool:
        return self.kind.mixer in ("sliding", "chunked")


def _shares(x: Kernels) -> tuple[float, ...]:
    """Queries, keys and values as layers of their own, as parts of them all."""
    shape = x.shape
    queries, own = shape.query_width * (2.0 if x.model.attention_gate else 1.0), not shape.reused
    widths = (queries, shape.key_width * own, shape.value_width * (own and not shape.values_are_keys))
    return tuple(width / sum(widths) for width in widths)


def _head_norms(x: Kernels) -> Number:
    """Parameters of the norms of queries and keys: a head's width each, or all heads' together."""
    if not x.model.qk_norm:
        return 0.0
    return x.query_width + x.key_width if x.model.wide_qk_norm else 2.0 * x.shape.head_dim


def indexer(x: Kernels, kind: LayerKind) -> list[Step]:
    """Return the indexer of one layer; nothing without an indexer of its own."""
    sparse = x.model.sparse
    if sparse is None or not kind.indexed:
        return []
    width = float(sparse.heads * sparse.head_dim)
    query = x.linear(LinearLayer("indexer", "query", _query_inputs(x), width, of="attention", kept=0.0))
    keys = x.linear(LinearLayer("indexer", "key, weights", x.h, _keys(x, sparse), of="attention", kept=0.0))
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
                *(
                    [x.projection(LinearLayer("qkv", "gate up", x.h, x.context_width, kept=0.0))]
                    * x.model.attention_gate
                ),
                *x.gate(),
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


class CompressedSoftmaxAttention(AttentionMixer[CompressedAttention]):
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
