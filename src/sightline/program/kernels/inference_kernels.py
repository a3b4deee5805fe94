"""How an engine runs a layer's steps: element-wise kernels, attention over a cache, experts, recurrent mixers, head."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from sightline.content import record
from sightline.program.formats import FP32_ROUTER, Formats, plain_dtype
from sightline.program.kernels.inference_linear import InferenceLinear
from sightline.program.mixer_operators import index_scores, selected_attention
from sightline.program.operators import (
    ATTENTION_CORE,
    CachedAttention,
    GroupedMatmul,
    KernelClass,
    Matmul,
    Module,
    Operator,
    Part,
    collective,
)
from sightline.program.program import Step, group_by_group
from sightline.program.routing import (
    POPULARITY,
    Batch,
    RoutedExperts,
    busiest_active,
    busiest_share,
    expected_active,
    lasting_excess,
)
from sightline.program.sampling import sampling_passes
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, either, larger, plain, rounded_up, smaller
from sightline.scenario import Experts, GenerationScenario, LayerKind, LinearAttention, SparseAttention
from sightline.scenario.cluster import CollectiveKind


class InferenceAttention(InferenceLinear):
    """Norms, rotary embedding, activations, and attention over cached and new tokens."""

    __slots__ = ()

    def read_residual(self, module: Module, *, first: bool) -> list[Step]:
        """Before a half of a layer: the residual addition and its norm, which a parallel block has once."""
        return [self.norm(module)] if first or not self.model.parallel_block else []

    def write_residual(self, module: Module) -> list[Step]:
        """The residual is added with the norm that follows."""
        return []

    def norm(self, module: Module) -> Step:
        """A norm with the residual before it, in as many kernels as the engine needs.

        RMS norms come with the residual in one kernel, layer norms only where the engine has such a kernel
        ("layernorm"); unfused, a norm takes seven kernels in fp32.
        """
        elements = self.tokens * self.h
        if self.fuses("norm") and (self.model.norm == "rmsnorm" or self.fuses("layernorm")):
            return Step((self.stream(module, "norm", "norm", 4.0 * elements),))
        residual = self.stream("residual", "residual", "residual", 3.0 * elements)
        if self.fuses("norm"):
            return Step((residual, self.stream(module, "norm", "norm", 2.0 * elements)))
        return Step((residual, self.stream(module, "unfused norm", "norm", 18.0 * elements, kernels=7.0)))

    def head_norm(self) -> Step:
        """Norms of queries and keys; over all heads, ranks first add up a sum of squares of each per token, in fp32."""
        width = self.query_width + self.key_width
        norm = self.stream("qkv", "norm", "norm", 2.0 * self.tokens * width, kernels=2.0)
        if not self.model.wide_qk_norm or not anywhere(self.t > 1.0):
            return Step((norm,))
        squares = self.stream("qkv", "squares", "norm", self.tokens * width, kernels=2.0)
        return Step((squares, *self.collective("qkv", "all_reduce", 2.0 * 4.0 * self.tokens), norm))

    def latent_norm(self, width: Number, norms: float = 1.0) -> Step:
        """``norms`` of latent vectors of ``width`` elements together."""
        return Step((self.stream("qkv", "norm", "norm", 2.0 * self.tokens * width, kernels=norms),))

    def rope(self, width: Number, *, module: Module = "rope", latent: bool = False) -> Step:
        """Rotary embedding of ``width`` elements per token; unfused it slices, negates, joins, multiplies and adds."""
        if self.decode and self.fuses("attention"):
            return Step()
        passes, kernels = (2.0, 1.0) if self.fuses("rope") else (9.0, 10.0)
        return Step((self.stream(module, "rope", "rope", passes * self.tokens * width, kernels=kernels),))

    def activation(self, width: Number, *, module: Module = "mlp", rows: Number | None = None) -> Step:
        """The activation of ``width`` elements of each of ``rows`` (the tokens).

        A gate that runs separately is a second kernel.
        """
        apart = self.model.gated and rows is None and not self.fuses("gate-up")
        passes = 5.0 if apart else 3.0 if self.model.gated else 2.0
        elements = passes * (self.tokens if rows is None else rows) * width
        scalar = module == "experts" and self.engine.kernels.scalar_experts
        kind: KernelClass = "scalar activation" if scalar else "activation"
        return Step((self.stream(module, "activation", kind, elements, kernels=2.0 if apart else 1.0),))

    def gate(self) -> list[Step]:
        """The context times a sigmoid of the gate that was projected with the queries, where the model has one."""
        if not self.model.attention_gate:
            return []
        return [Step((self.stream(ATTENTION_CORE, "gate", "activation", 3.0 * self.tokens * self.context_width),))]

    def gated_norm(self, module: Module, width: Number) -> Step:
        """A norm of ``width`` elements per token times the activation of as wide a gate, in one kernel."""
        return Step((self.stream(module, "gated norm", "norm", 3.0 * self.tokens * width),))

    def cache_write(self, width: Number) -> list[Step]:
        """``width`` elements of every new token are copied to the cache."""
        if self.decode and self.fuses("attention"):
            return []
        return [Step((self.stream(ATTENTION_CORE, "cache write", "cache write", 2.0 * self.tokens * width),))]

    @property
    def core_input_bytes(self) -> float:
        """Nothing runs again."""
        return 0.0

    @property
    def product_share(self) -> float:
        """Nothing is kept."""
        return 1.0

    def absorbs(self, kind: LayerKind) -> bool:
        """Whether the up projections of keys and values move to queries and outputs, so that latent vectors are read.

        Keys and values are expanded for prompts; but selected tokens differ by query.
        """
        return self.decode or kind.mixer == "sparse"

    def attention(self, kind: LayerKind) -> list[Step]:
        """Attention of new tokens over all tokens, a window of the last, or selected ones."""
        windowed = kind.mixer in ("sliding", "chunked") and self.model.window
        grouped, heads = self.engine.kernels.grouped_heads, self.shape
        writes_scores = self.engine.llama_cpp.writes_scores
        core = self._attention(
            self.kv_heads,
            float(heads.head_dim),
            float(heads.value_dim),
            decode=self.decode,
            window=float(self.model.window or 0.0) if windowed else None,
            heads_apart=self.decode and grouped is not None and heads.heads // heads.kv_heads not in grouped,
            cache_bytes=self.formats.cache_bytes,
            kernels=5.0 if writes_scores else 1.0,
        )
        if writes_scores and not self.decode:
            return [Step(self._written_out(core))]
        sparse = self.model.sparse
        if kind.mixer == "sparse" and sparse is not None:
            core = replace(core, window=float(sparse.selected_tokens * sparse.block_tokens))
        return [Step((core,))]

    @property
    def seen_tokens(self) -> Number:
        """Cached and new tokens of all sequences, whose keys and values are expanded from latent vectors."""
        return self.b * (self.c + self.q)

    def expanded_attention(self, kind: LayerKind) -> list[Step]:
        """Attention to keys and values that were expanded from latent vectors."""
        key, value = float(self.shape.head_dim), float(self.shape.value_dim)
        return [Step((self._attention(self.heads, key, value, decode=False, cache_bytes=self.element_bytes),))]

    def _attention(self, kv_heads: Number, key: float, value: float, **further: Any) -> CachedAttention:
        return CachedAttention(
            module=ATTENTION_CORE,
            part="attention",
            batch=self.b,
            heads=self.heads,
            kv_heads=kv_heads,
            head_dim=key,
            value_dim=value,
            query_tokens=self.q,
            context_tokens=self.c + self.q,
            dtype=self.dtype,
            element_bytes=self.element_bytes,
            **further,
        )

    def _written_out(self, core: CachedAttention) -> list[Operator]:
        """Attention with its scores in memory: all pairs of new and seen tokens, those that the mask hides included.

        The softmax reads and writes every score, which is then cast to the product's type.
        """
        pairs, seen, plain = core.batch * core.heads, core.context_tokens, self.formats.plain
        if granule := self.engine.llama_cpp.context_granule:
            seen = rounded_up(seen / granule) * granule
        scores = pairs * core.query_tokens * seen
        return [
            self.matmul(ATTENTION_CORE, "scores", core.query_tokens, seen, core.head_dim, plain, batch=pairs),
            self.stream(ATTENTION_CORE, "softmax", "softmax", 2.0 * scores),
            self.matmul(ATTENTION_CORE, "values", core.query_tokens, core.value_dim, seen, plain, batch=pairs),
        ]

    def gather_latents(self, width: Number) -> list[Step]:
        """Every rank has all latent vectors."""
        return []

    def join_heads(self) -> list[Step]:
        """Rotary parts of keys are joined to every head's own, for all tokens that are seen."""
        latent = self.model.latent
        if latent is None:
            return []
        copied = 2.0 * self.seen_tokens * self.heads * latent.rope_head_dim
        return [Step((self.stream(ATTENTION_CORE, "join keys", "copy", copied),))]

    def share_keys(self, width: Number) -> list[Step]:
        """Every rank has all keys."""
        return []

    def attention_to_latents(self, kind: LayerKind) -> list[Step]:
        """Attention to cached latent vectors, each key and value of all heads.

        With an indexer, to those that it chose.
        """
        latent, sparse = self.model.latent, self.model.sparse
        if latent is None:
            return []
        key, rank = float(latent.kv_rank + latent.rope_head_dim), float(latent.kv_rank)
        cache_bytes = self.formats.cache_bytes
        if kind.mixer != "sparse" or sparse is None:
            core = self._attention(1.0, key, rank, decode=True, shared_kv=True, cache_bytes=cache_bytes)
            if small := self.engine.kernels.latent_kernels:
                around = 2.0 * small * self.tokens * self.heads * key
                return [Step((self.stream("rope", "rope", "copy", around, kernels=small), core))]
            return [Step((core,))]
        chosen = float(sparse.selected_tokens * sparse.block_tokens)
        sizes = {"new_tokens": self.q, "context_tokens": self.c + self.q, "selected_tokens": chosen}
        widths = {"key_dim": key, "value_dim": rank, "cache_bytes": cache_bytes}
        return [Step((selected_attention(self, self.b, **sizes, **widths, decode=self.decode),))]

    def fold(self, width: Number) -> list[Step]:
        """Left out: the few tokens of a pass that complete a fold."""
        return []

    def attention_to_folds(self, kind: LayerKind) -> list[Step]:
        """Attention to a window of the last tokens, and to the folded ones before (or an indexer's choice of them)."""
        model, context = self.model, self.c + self.q
        folded = context / kind.compression if kind.compression > 1 else 0.0 * context
        if kind.indexed and model.sparse is not None:
            folded = smaller(folded, model.sparse.selected_tokens)
        seen = smaller(context, float(model.window or 0) + folded)
        dim, cache_bytes = float(model.head_dim), self.formats.cache_bytes
        core = self._attention(1.0, dim, dim, decode=True, shared_kv=True, cache_bytes=cache_bytes)
        return [Step((replace(core, context_tokens=seen),))]

    def cut_off(self, linear: Step) -> Step:
        """There are no gradients."""
        return linear

    def index_rope(self, width: Number) -> Step:
        """Rotary embedding of the indexer's queries and keys."""
        return self.rope(width, module="indexer")

    def index_scores(self, kind: LayerKind, sparse: SparseAttention) -> list[Step]:
        """Scores of cached tokens, group by group, and the choice of the best (DeepSeek V3.2)."""
        return group_by_group(self.groups(), lambda group: group.group_scores(kind, sparse))

    def group_scores(self, kind: LayerKind, sparse: SparseAttention) -> list[Step]:
        """The same of the (first) group."""
        context = (self.c + self.q) / kind.compression
        dtype = self.formats.index_dtype
        key_bytes = 1.0 if dtype == "fp8" else self.element_bytes
        sizes = {"sequences": self.b, "new_tokens": self.q, "context_tokens": context}
        scores = index_scores(sparse, **sizes, dtype=dtype, key_bytes=key_bytes)
        return [Step((scores, self.stream("indexer", "top-k", "softmax", 4.0 * self.tokens * context, kernels=2.0)))]

    def groups(self) -> list[Self]:
        """The same for each group of sequences that attention treats by itself."""
        if len(self.batch.groups) == 1:
            return [self]
        return [replace(self, batch=Batch(groups=(group,)), tokens=group.tokens) for group in self.batch.groups]


@record
class InferenceExperts(RoutedExperts[InferenceAttention]):
    """How an engine runs them."""

    chosen: Number
    """Token-expert pairs of the rank."""
    active: Number
    """Experts of the rank that any token chose (expected)."""

    @property
    def empty_rows(self) -> Number:
        """Rows of blocks that no token fills, of a kernel that takes as many blocks as tokens could begin."""
        kernels = self.x.engine.kernels
        block = kernels.whole_blocks.get(self.x.formats.parts["experts"], 0.0)
        tokens = self.x.batch.mean_tokens * self.x.d * self.of.per_token
        most = rounded_up((tokens + self.local * (block - 1.0)) / larger(block, 1.0)) * block
        return larger(most - self.chosen, 0.0) * (self.x.u < kernels.whole_blocks_split)

    @property
    def rows(self) -> Number:
        """Rows that the rank's experts work on."""
        return self.chosen + self.empty_rows

    def router(self, *, reads_norm: bool) -> list[Step]:
        """The router's product; where engines keep it in fp32 its input is cast first, in a kernel of its own."""
        x, of = self.x.beside or self.x, self.of
        product = x.matmul("router", "router", x.tokens, float(of.count), x.h, x.formats.plain)
        operators: list[Operator] = [product]
        dtype, fp32 = x.formats.router_dtype, ELEMENT_BYTES["fp32"]
        if dtype and not x.expands_weights:
            cast = x.stream("router", "widen", "copy", x.tokens * x.h * (1.0 + fp32 / x.element_bytes))
            product = replace(product, dtype=dtype, kernel=FP32_ROUTER, element_bytes=fp32, weight_bytes=fp32)
            operators = [cast, replace(product, output_bytes=fp32)]
        choice = x.stream(
            "router", "choice", "softmax", 4.0 * x.tokens * of.count, kernels=x.engine.kernels.choice_kernels
        )
        return [Step((*operators, choice))]

    def dispatch(self) -> list[Step]:
        """Tokens of other data-parallel ranks, fetched in the experts' format and copied to the experts they chose."""
        x = self.x
        element_bytes = smaller(x.formats.operands[x.formats.parts["experts"]].activation_bytes, x.element_bytes)
        fetched = self._exchanged("all_gather", element_bytes * x.tokens * self.width)
        return [Step((*fetched, x.stream("experts", "permutation", "copy", 2.0 * self.chosen * self.width)))]

    def combine(self) -> list[Step]:
        """Outputs summed for each token and brought back to its rank.

        Over tensor-parallel ranks the layer's end sums; from other devices each of these ranks gets a part.
        """
        x, here = self.x, self.x.beside or self.x
        summed = x.stream("experts", "weighted sum", "copy", self.chosen * self.width + x.tokens * self.width)
        sent = self._exchanged("reduce_scatter", x.element_bytes * x.tokens * self.width)
        joined = here.collective("residual", "all_gather", here.hidden_bytes, count=1.0 * (x.expert_devices > 0))
        return [Step((summed, *sent, *joined))]

    def product(self, part: Part, inputs: Number, outputs: Number, *, kept: Number = 1.0) -> Step:
        """The products of all the rank's experts, grouped in one kernel."""
        x = self.x
        kernel, empty = x.formats.parts["experts"], self.empty_rows
        stored = x.formats.operands[kernel]
        if kernel == "mxfp4":
            hidden, width = x.expert_multiples
            into, out = (hidden, width * (1.0 + x.model.gated)) if part == "up" else (width, hidden)
            inputs, outputs = rounded_up(inputs / into) * into, rounded_up(outputs / out) * out
        return Step(
            (
                GroupedMatmul(
                    module="experts",
                    part=part,
                    rows=self.chosen,
                    experts=self.local,
                    active=self.active,
                    n=outputs,
                    k=inputs,
                    dtype=stored.compute_dtype,
                    element_bytes=stored.activation_bytes,
                    weight_bytes=stored.weight_bytes,
                    output_bytes=x.element_bytes,
                    kernel=kernel,
                    empty_rows=empty,
                ),
            )
        )

    def shared_sum(self) -> list[Step]:
        """The weighted sum adds shared experts' outputs."""
        return []

    def _exchanged(self, among_all: CollectiveKind, moved: Number) -> list[Operator]:
        """``moved`` bytes of each rank, to all others or only where the tokens' experts are, each rank once.

        From and to devices with attention alone as directly, also to shared experts; the fewer devices pace it.
        """
        x, here, evenness = self.x, self.x.beside or self.x, self.x.batch.mean_tokens / self.x.batch.tokens
        destinations = smaller(self.of.per_token, x.e)
        dispatch, apart = x.engine.collectives.dispatch, 1.0 * (x.expert_devices > 0)
        direct = np.less(destinations, x.d) if dispatch == "fewest-bytes" else dispatch == "all-to-all"
        sent = moved * smaller(self.of.per_token + (self.of.shared > 0), x.e) * x.d / smaller(here.t * here.d, x.d)
        return [
            *collective("experts", "send_recv", sent, apart, ranks="stages", overlapped_with="nothing"),
            *x.collective("experts", "all_to_all", moved * destinations, "data", count=(1.0 - apart) * direct),
            *x.collective("experts", among_all, moved * evenness * x.d, "data", count=(1.0 - apart) * (1.0 - direct)),
        ]


def inference_experts(x: InferenceAttention, figures: Experts) -> InferenceExperts:
    """Return the routed experts of one layer.

    Tokens that are all identical choose the same experts, which lie on different ranks where these suffice.
    """
    if anywhere((f := x.expert_devices) > 0):
        # Devices with experts alone divide the tokens and experts of all ranks.
        t, d, e = (either(f > 0, there, here) for there, here in ((1.0, x.t), (f, x.d), (f, x.e)))
        batch = Batch.of(*(replace(group, count=group.count * x.d / d) for group in x.batch.groups))
        x = replace(x, t=t, d=d, e=e, batch=batch, tokens=batch.tokens, beside=x)
    width, tokens = float(figures.latent_width or x.h), x.batch.mean_tokens * x.d
    if x.identical_tokens:
        own = np.ceil(figures.per_token / smaller(x.e, figures.per_token))
        return InferenceExperts(x=x, of=figures, width=width, chosen=tokens * own, active=own)
    chosen = tokens * figures.per_token
    copies = 0 if x.copies is None else x.copies
    held, spread = figures.count + copies, POPULARITY if x.spread is None else x.spread
    active = busiest_active(held, expected_active(held, figures.per_token, tokens, spread=spread), x.e)
    lasting = lasting_excess(figures.count, x.e, spread=x.spread or 0.0, copies=x.copies)
    share = busiest_share(x.e, chosen, skew=x.skew, lasting=lasting)
    return InferenceExperts(x=x, of=figures, width=width, redundant=copies, chosen=chosen * share, active=active)


class InferenceKernels(InferenceAttention):
    """The steps that differ between training and inference, as an engine runs them."""

    __slots__ = ()

    def experts(self, figures: Experts) -> InferenceExperts:
        """The routed experts of a layer."""
        return inference_experts(self, figures)

    def whole_sequences(self, module: Module, inputs: Number, outputs: Number, steps: list[Step]) -> list[Step]:
        """Every rank has whole sequences of its heads."""
        return steps

    def recurrent(
        self, op: Operator, *, saved_bytes: Number = 0.0, kernels: tuple[float, float] = (1.0, 1.0), again: bool = False
    ) -> Step:
        """A kernel from each sequence's state on, launched as one."""
        return Step((op,))

    @property
    def sequence_tokens(self) -> Number:
        """New tokens of a sequence."""
        return self.q

    @property
    def head_ranks(self) -> Number:
        """Ranks that heads of a recurrent mixer are split over."""
        return self.t

    def key_heads(self, linear: LinearAttention) -> Number:
        """Key heads of the gated delta rule on one device."""
        return linear.key_heads / self.t

    def rule_inputs(self, linear: LinearAttention) -> list[Step]:
        """The rule's kernel norms queries and keys and makes decays and strengths."""
        return []

    def embed(self) -> list[Step]:
        """A gather of the new tokens' vectors, and the sum over ranks that hold parts of the vocabulary."""
        lookup = self.stream("embedding", "embedding", "embedding", 2.0 * self.tokens * self.h)
        return [Step((lookup, *self.collective("embedding", "all_reduce", self.hidden_bytes)))]

    def final_norm(self) -> list[Step]:
        """The norm before the head."""
        return [self.norm("final norm")]

    def logits(self) -> list[Step]:
        """The logits of the tokens whose next token is wanted, whole on every rank."""
        rows, vocabulary = self.batch.logits, float(self.model.vocab_size)
        kernel, products = self.formats.parts["head"], list[Matmul]()
        width = float(self.model.logits_width)
        if self.model.transforms:
            products.append(self.matmul("head", "transform", rows, width, self.h, kernel))
        products.append(self.matmul("head", "logits", rows, vocabulary / self.t, width, kernel))
        return [Step((*products, *self.collective("head", "all_gather", self.element_bytes * rows * vocabulary)))]

    def choose(self) -> list[Step]:
        """The choice of the next token: logits in fp32 and their maximum, after what draws it as the workload says."""
        logits = self.batch.logits * self.model.vocab_size
        steps = [Step((self.stream("head", "sampling", "sampling", 6.0 * logits, kernels=4.0),))]
        if self.sampling is None:
            return steps
        for part, each, kernels in sampling_passes(self.sampling, self.engine.kernels, nvidia=self.nvidia):
            elements = each / self.element_bytes * logits
            steps.append(Step((self.stream("head", part, "sampling", elements, kernels=kernels),)))
        return steps


MATRIX_UNIT = 1.5
"""Times the vector units' FLOP/s from which a device has units of its own for products: those of 2026 have 1, or 2."""


def inference_kernels(scenario: GenerationScenario, formats: Formats, batch: Batch) -> InferenceKernels:
    """Return the kernels and sizes of one pass of ``batch`` under ``scenario``'s plan."""
    plan, device = scenario.plan, scenario.cluster.device
    unquantized = formats.operands[formats.plain]
    expands = plan.engine.llama_cpp.expands_weights and not batch.decode
    if expands:
        expands = anywhere(device.peak_flops[unquantized.compute_dtype] > MATRIX_UNIT * device.vector_flops)
    return InferenceKernels(
        model=scenario.model,
        engine=plan.engine,
        formats=formats,
        batch=batch,
        tokens=batch.tokens,
        dtype=plain_dtype(plan.dtype, device),
        element_bytes=plan.engine.llama_cpp.activation_bytes or unquantized.activation_bytes,
        t=plain(plan.tensor_parallel),
        d=plain(plan.data_parallel),
        e=plain(plan.expert_parallel),
        expert_devices=plain(plan.expert_devices),
        skew=plan.expert_skew,
        spread=plan.expert_spread,
        copies=None if plan.redundant_experts is None else plain(plan.redundant_experts),
        shape=scenario.model.own_heads,
        identical_tokens=scenario.workload.repeated_token,
        expands_weights=expands,
        adapters=plan.lora_adapters,
        sampling=scenario.workload.sampling,
        expert_multiples=next(
            (m for of, m in plan.engine.kernels.mxfp4_multiples.items() if device.architecture.startswith(of)),
            (1.0, 1.0),
        ),
        nvidia=device.architecture.startswith("sm_"),
    )
