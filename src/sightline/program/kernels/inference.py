"""How an engine runs a layer's steps: recurrent mixers, embedding, head and the choice of the next token."""

from sightline.program.address import Module
from sightline.program.batch import Batch
from sightline.program.formats import Formats, plain_dtype
from sightline.program.kernels.inference_attention import InferenceAttention
from sightline.program.kernels.inference_experts import InferenceExperts, inference_experts
from sightline.program.operators import Operator
from sightline.program.step import Step
from sightline.quantities import Number, anywhere, plain
from sightline.scenario import Experts, GenerationScenario, LinearAttention


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
    )
