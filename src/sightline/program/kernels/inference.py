"""How an engine runs a layer's steps: recurrent mixers, embedding, head and the choice of the next token."""

from typing import Any

from sightline.program.address import Module
from sightline.program.batch import Batch
from sightline.program.formats import Formats, plain_dtype
from sightline.program.kernels.inference_attention import InferenceAttention
from sightline.program.kernels.inference_experts import InferenceExperts, inference_experts
from sightline.program.mixer_operators import GatedDelta, ShortConvolution, StateSpaceScan
from sightline.program.step import Step
from sightline.quantities import Number, anywhere, plain
from sightline.scenario import Experts, GenerationScenario, LinearAttention, StateSpace


class InferenceKernels(InferenceAttention):
    """The steps that differ between training and inference, as an engine runs them."""

    __slots__ = ()

    def experts(self, of: Experts) -> InferenceExperts:
        """The routed experts of a layer."""
        return inference_experts(self, of)

    def whole_sequences(self, module: Module, inputs: Number, outputs: Number, steps: list[Step]) -> list[Step]:
        """Every rank has whole sequences of its heads."""
        return steps

    def convolution(
        self, module: Module, channels: Number, width: float, *, gates: Number = 0.0, runs_again: bool = False
    ) -> list[Step]:
        """The short convolution over new tokens and the last ones before."""
        return [
            Step(
                (
                    ShortConvolution(
                        part="conv",
                        channels=channels,
                        width=width,
                        element_bytes=self.element_bytes,
                        **group.sequences_of(module),
                    ),
                )
            )
            for group in self.groups()
        ]

    def gated_delta(self, linear: LinearAttention) -> list[Step]:
        """The gated delta rule from each sequence's state on."""
        return [
            Step(
                (
                    GatedDelta(
                        part="gated delta",
                        key_heads=linear.key_heads / self.t,
                        value_heads=linear.value_heads / self.t,
                        key_dim=float(linear.key_dim),
                        value_dim=float(linear.value_dim),
                        dtype=self.dtype,
                        element_bytes=self.element_bytes,
                        **group.sequences_of("linear attention"),
                    ),
                )
            )
            for group in self.groups()
        ]

    def scan(self, space: StateSpace) -> list[Step]:
        """Mamba-2's scan from each sequence's state on."""
        return [
            Step(
                (
                    StateSpaceScan(
                        part="scan",
                        heads=space.heads / self.t,
                        head_dim=float(space.head_dim),
                        groups=space.groups / self.t,
                        state=float(space.state),
                        dtype=self.dtype,
                        element_bytes=self.element_bytes,
                        **group.sequences_of("state space"),
                    ),
                )
            )
            for group in self.groups()
        ]

    def sequences_of(self, module: Module) -> dict[str, Any]:
        """Fields of a recurrent mixer's operator: the sequences of the (first) group."""
        return {"module": module, "sequences": self.b, "new_tokens": self.q, "decode": self.decode}

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
