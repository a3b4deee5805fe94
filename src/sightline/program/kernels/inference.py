"""How an engine runs a layer's steps: experts, recurrent mixers, embedding, head and the choice of the next token."""

from dataclasses import replace

import numpy as np

from sightline.content import record
from sightline.program.formats import FP32_ROUTER, Formats, plain_dtype
from sightline.program.kernels.inference_attention import InferenceAttention
from sightline.program.operators import GroupedMatmul, Module, Operator, Part
from sightline.program.program import Step
from sightline.program.routing import Batch, RoutedExperts, busiest_share, expected_active
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, either, plain, rounded_up, smaller
from sightline.scenario import Experts, GenerationScenario, LinearAttention
from sightline.scenario.cluster import CollectiveKind


@record
class InferenceExperts(RoutedExperts[InferenceAttention]):
    """How an engine runs them."""

    rows: Number
    """Rows that the rank's experts work on."""
    active: Number
    """Experts of the rank that any token chose (expected)."""

    def router(self, *, reads_norm: bool) -> list[Step]:
        """The router's product; where engines keep it in fp32 its input is cast first, in a kernel of its own."""
        x, of = self.x, self.of
        product = x.matmul("router", "router", x.tokens, float(of.count), x.h, x.formats.plain)
        operators: list[Operator] = [product]
        dtype, fp32 = x.formats.router_dtype, ELEMENT_BYTES["fp32"]
        if dtype and not x.expands_weights:
            cast = x.stream("router", "widen", "copy", x.tokens * x.h * (1.0 + fp32 / x.element_bytes))
            product = replace(product, dtype=dtype, kernel=FP32_ROUTER, element_bytes=fp32, weight_bytes=fp32)
            operators = [cast, replace(product, output_bytes=fp32)]
        choice = x.stream("router", "choice", "softmax", 4.0 * x.tokens * of.count, kernels=2.0)
        return [Step((*operators, choice))]

    def dispatch(self) -> list[Step]:
        """Tokens of other data-parallel ranks, fetched in the experts' format and copied to the experts they chose."""
        x = self.x
        element_bytes = smaller(x.formats.operands[x.formats.parts["experts"]].activation_bytes, x.element_bytes)
        fetched = self._exchanged("all_gather", element_bytes * x.tokens * self.width)
        return [Step((*fetched, x.stream("experts", "permutation", "copy", 2.0 * self.rows * self.width)))]

    def combine(self) -> list[Step]:
        """Outputs summed for each token and brought back to its rank.

        Over tensor-parallel ranks the layer's end sums.
        """
        x = self.x
        summed = x.stream("experts", "weighted sum", "copy", self.rows * self.width + x.tokens * self.width)
        return [Step((summed, *self._exchanged("reduce_scatter", x.element_bytes * x.tokens * self.width)))]

    def product(self, part: Part, inputs: Number, outputs: Number, *, kept: Number = 1.0) -> Step:
        """The products of all the rank's experts, grouped in one kernel."""
        x = self.x
        kernel = x.formats.parts["experts"]
        stored = x.formats.operands[kernel]
        return Step(
            (
                GroupedMatmul(
                    module="experts",
                    part=part,
                    rows=self.rows,
                    experts=self.local,
                    active=self.active,
                    n=outputs,
                    k=inputs,
                    dtype=stored.compute_dtype,
                    element_bytes=stored.activation_bytes,
                    weight_bytes=stored.weight_bytes,
                    output_bytes=x.element_bytes,
                    kernel=kernel,
                    in_slots=x.captured,
                ),
            )
        )

    def shared_sum(self) -> list[Step]:
        """The weighted sum adds shared experts' outputs."""
        return []

    def _exchanged(self, among_all: CollectiveKind, moved: Number) -> list[Operator]:
        """``moved`` bytes of each rank, to all others or only where the tokens' experts are, each rank once."""
        x = self.x
        destinations = smaller(self.of.per_token, x.e)
        dispatch = x.engine.collectives.dispatch
        direct = np.less(destinations, x.d) if dispatch == "fewest-bytes" else dispatch == "all-to-all"
        return [
            *x.collective("experts", "all_to_all", moved * destinations, "data", count=1.0 * direct),
            *x.collective("experts", among_all, moved * x.d, "data", count=1.0 - 1.0 * direct),
        ]


def inference_experts(x: InferenceAttention, of: Experts) -> InferenceExperts:
    """Return the routed experts of one layer.

    Tokens that are all identical choose the same experts, which lie on different ranks where these suffice.
    """
    width, tokens = float(of.latent_width or x.h), x.tokens * x.d
    if x.identical_tokens:
        own = np.ceil(of.per_token / smaller(x.e, of.per_token))
        return InferenceExperts(x=x, of=of, width=width, rows=tokens * own, active=own)
    chosen = tokens * of.per_token
    active = expected_active(of.count, of.per_token, tokens) * rounded_up(of.count / x.e) / of.count
    return InferenceExperts(
        x=x, of=of, width=width, rows=chosen * busiest_share(x.e, chosen, skew=x.skew), active=active
    )


class InferenceKernels(InferenceAttention):
    """The steps that differ between training and inference, as an engine runs them."""

    __slots__ = ()

    def experts(self, of: Experts) -> InferenceExperts:
        """The routed experts of a layer."""
        return inference_experts(self, of)

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
        product = self.matmul("head", "logits", rows, vocabulary / self.t, self.h, self.formats.parts["head"])
        return [Step((product, *self.collective("head", "all_gather", self.element_bytes * rows * vocabulary)))]

    def choose(self) -> list[Step]:
        """The choice of the next token."""
        elements = 6.0 * self.batch.logits * self.model.vocab_size
        return [Step((self.stream("head", "sampling", "sampling", elements, kernels=4.0),))]


def inference_kernels(scenario: GenerationScenario, formats: Formats, batch: Batch) -> InferenceKernels:
    """Return the kernels and sizes of one pass of ``batch`` under ``scenario``'s plan."""
    plan, device = scenario.plan, scenario.cluster.device
    unquantized = formats.operands[formats.plain]
    expands = plan.engine.llama_cpp.expands_weights and not batch.decode
    if expands:
        expands = anywhere(device.peak_flops[unquantized.compute_dtype] > device.vector_flops)
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
        skew=plan.expert_skew,
        shape=scenario.model.own_heads,
        identical_tokens=scenario.workload.repeated_token,
        expands_weights=expands,
        captured_tokens=either(plan.cuda_graphs, plan.engine.kernels.captured_tokens, 0.0),
        adapters=plan.lora_adapters,
    )
