"""Sizes of one pass on one device after tensor and sequence parallelism, and those of a micro-batch of training.

Legend, as in Korthikanti 2022 (arXiv 2205.05198): ``s`` tokens of a sequence on the device, ``b`` sequences, ``h``
hidden size, ``t`` tensor-parallel ranks; ``r`` divides what lies between tensor-parallel regions: t with sequence
parallelism, else 1; ``c`` context-parallel ranks, of which ``y`` split heads, ``e`` expert-parallel and ``u``
expert-tensor-parallel ranks.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.frameworks import Framework
from sightline.frameworks.framework import LOSS
from sightline.program.operators import Direction, Matmul, Module, Part
from sightline.quantities import Number, larger, rounded_up
from sightline.scenario import Adapter, Heads, Model, Plan, Scenario
from sightline.scenario.precision import LOW_PRECISION, MATMUL_FORMATS, has_microscaling


@record
class Trained:
    """True for every part whose own weights are updated."""

    projections: bool
    """The matmul weights of the decoder layers."""
    rest: bool
    """Norms and biases."""
    embedding: bool
    head: bool
    quantization: str
    """Format in which the projections' weights are kept, or none."""
    adapter: Adapter | None
    upcast: bool
    """Whether norms and, with them, activations between products are fp32."""


def trained_by(plan: Plan, *, tied: bool) -> Trained:
    """Return what ``plan`` trains.

    Without an adapter that is everything but quantized weights; with one nothing but the adapter and the modules it
    names. A head tied to the embedding is trained with it.
    """
    adapter = plan.adapter
    whole = adapter is None
    named = frozenset() if adapter is None else frozenset(adapter.also_trained)
    embedding = whole or "embedding" in named
    return Trained(
        projections=whole and plan.quantization == "none",
        rest=whole,
        embedding=embedding,
        head=whole or "head" in named or (tied and embedding),
        quantization=plan.quantization,
        adapter=adapter,
        upcast=plan.upcasts,
    )


class Recipe(NamedTuple):
    """How an operand is made; bytes are per element."""

    name: str
    kernel: str
    """Format of the operands, whose measured kernels the products take."""
    reads: float
    """16-bit bytes read to make all copies: once where the scale is known before, once more where it is not."""
    kernels: float
    columns_apart: bool
    """Scales run along the rows, so the columns need a copy of their own on any device; one scale per tensor needs it
    only where matrix units take operands in one layout alone (Hopper, Ada)."""

    @property
    def rate(self) -> str:
        """The datasheet's rate of the products."""
        return MATMUL_FORMATS[self.kernel].compute_dtype

    @property
    def operand_bytes(self) -> float:
        """One copy with its scales."""
        return MATMUL_FORMATS[self.kernel].activation_bytes


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("delayed", "fp8", reads=2.0, kernels=1.0, columns_apart=False),
        Recipe("current", "fp8", reads=4.0, kernels=2.0, columns_apart=False),
        Recipe("blockwise", "fp8-block", reads=2.0, kernels=1.0, columns_apart=True),
        Recipe("mxfp8", "mxfp8", reads=2.0, kernels=1.0, columns_apart=True),
        # The largest value of the tensor and of its transform, then a pass for rows and one for transformed columns.
        Recipe("nvfp4", "nvfp4", reads=6.0, kernels=3.0, columns_apart=True),
    )
}


@record
class LowPrecision:
    """A recipe on a device under a framework."""

    recipe: Recipe
    copies: float
    """Copies of an operand that serves a weight gradient next to the forward product: by rows and by columns, or
    one."""
    transposes_weights: bool
    """Weights are kept in one layout and transposed in every backward pass."""
    gathered_bytes: float | None
    """Bytes of a weight that is kept in 8 or 4 bits as data parallelism gathers it; None where a 16-bit one is kept."""
    casts_weights_often: bool
    """Weights are quantized in every pass and not kept so."""

    @property
    def cast_bytes(self) -> float:
        """Traffic of quantizing an element that serves a weight gradient."""
        return self.recipe.reads + self.copies * self.recipe.operand_bytes


def low_precision_of(scenario: Scenario) -> LowPrecision | None:
    """Return what the plan's dtype means below 16 bits, or None."""
    plan = scenario.plan
    if plan.dtype not in LOW_PRECISION:
        return None
    recipe = RECIPES[plan.fp8_recipe if plan.dtype == "fp8" else plan.dtype]
    both = recipe.columns_apart or not has_microscaling(scenario.cluster.device)
    return LowPrecision(
        recipe=recipe,
        copies=2.0 if both else 1.0,
        transposes_weights=both and not recipe.columns_apart and not plan.framework.low_precision.keeps_transposed,
        gathered_bytes=plan.framework.low_precision.weight_bytes.get(recipe.name),
        casts_weights_often=plan.framework.low_precision.casts_every_pass,
    )


def framework_under(plan: Plan, *, log_probabilities: bool = False) -> Framework:
    """Return the framework's behavior under a plan: compiled or not, products in chunks only if collectives are.

    A loss of ``log_probabilities`` is no fused cross-entropy: each sequence's labels are picked from a log-softmax.
    """
    framework = plan.framework.compiled() if plan.compile else plan.framework
    if log_probabilities:
        framework = replace(
            framework,
            fusion=replace(framework.fusion, fused=framework.fusion.fused - {LOSS}),
            native=replace(framework.native, loss_by_autograd=True),
        )
    kernels = framework.kernels
    if plan.high_precision_dtype in kernels.accumulation_in:
        kernels = replace(kernels, accumulation_traffic=kernels.accumulation_in[plan.high_precision_dtype])
        framework = replace(framework, kernels=kernels)
    whole = framework.native.pipeline_accumulation_traffic
    if whole and np.any(np.asarray(plan.pipeline_parallel) > 1):
        traffic = np.where(np.asarray(plan.pipeline_parallel) > 1, whole, framework.kernels.accumulation_traffic)
        kernels = replace(framework.kernels, accumulation_traffic=traffic if traffic.ndim else float(traffic))
        framework = replace(framework, kernels=kernels)
    if plan.tensor_overlap != "all" and framework.native.chunked_products:
        return replace(framework, native=replace(framework.native, chunked_products=False))
    return framework


ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
"""Bytes of an activation by compute dtype."""


@record
class Shapes:
    """The sizes every block is written with."""

    model: Model
    dtype: str
    """Compute type of everything that is not in fewer bits."""
    element_bytes: float
    tokens: Number
    """Tokens that pass through the layers."""
    t: Number
    e: Number
    skew: Number
    """Lasting unevenness of the experts' load, as the relative deviation of a rank's."""
    shape: Heads
    """Head shape of the layer kind that is written out."""

    @property
    def h(self) -> float:
        """Hidden size."""
        return float(self.model.hidden_size)

    @property
    def heads(self) -> Number:
        """Query heads on one device."""
        return self.shape.heads / self.t

    @property
    def kv_heads(self) -> Number:
        """Key/value heads on one device; replicated when there are fewer heads than devices."""
        return larger(self.shape.kv_heads / self.t, 1.0)

    @property
    def query_width(self) -> Number:
        """Elements of the queries of a token on one device."""
        return self.heads * self.shape.head_dim

    @property
    def key_width(self) -> Number:
        """Elements of the keys of a token on one device."""
        return self.kv_heads * self.shape.head_dim

    @property
    def value_width(self) -> Number:
        """Elements of the values of a token on one device."""
        return self.kv_heads * self.shape.value_dim

    @property
    def context_width(self) -> Number:
        """Elements that attention hands to the output projection, per token on one device."""
        return self.heads * self.shape.value_dim

    @property
    def hidden_bytes(self) -> Number:
        """Bytes of one hidden-wide activation of all tokens."""
        return self.element_bytes * self.tokens * self.model.hidden_size


@record
class TrainingShapes(Shapes):
    """The sizes of a micro-batch, and what a framework makes of them."""

    plan: Plan
    s: Number
    """Tokens of a sequence on one device."""
    context: Number
    """Tokens of a whole sequence."""
    documents: Number
    """Sequences packed into one that do not see each other, as many equally long ones as have its tokens and scores."""
    b: Number
    r: Number
    split: Number
    """1.0 with sequence parallelism and t > 1, else 0.0."""
    c: Number
    y: Number
    u: Number
    framework: Framework
    """What it fuses, pads and accumulates."""
    trained: Trained
    """Which weights get gradients."""
    low: LowPrecision | None
    """What the layers' linear products compute in below 16 bits, if they do."""

    @property
    def stream_bytes(self) -> float:
        """Bytes of an element of activations between products."""
        return ELEMENT_BYTES["fp32"] if self.trained.upcast else self.element_bytes

    @property
    def piece_tokens(self) -> Number:
        """Tokens that a rank works on outside the tensor-parallel regions."""
        return self.tokens / self.r

    @property
    def own_tokens(self) -> Number:
        """Tokens that a tensor-parallel rank brings to the experts."""
        return self.tokens / self.t

    @property
    def residual_bytes(self) -> Number:
        """Bytes of one hidden-wide activation outside the tensor-parallel regions."""
        return self.stream_bytes * self.tokens * self.model.hidden_size / self.r

    @property
    def entered_share(self) -> Number:
        """Share that a column-split projection keeps of its input at 16 bits: its piece, or all that it gathered."""
        return 1.0 if self.framework.native.keeps_gathered_inputs else 1.0 / self.r

    @property
    def vocabulary(self) -> Number:
        """Vocabulary rows on one device; frameworks that pad round up to whole tiles of 128."""
        if not self.framework.kernels.pads_vocabulary:
            return self.model.vocab_size / self.t
        return rounded_up(self.model.vocab_size / self.t, 128.0)

    def product(
        self,
        module: Module,
        part: Part,
        m: Number,
        n: Number,
        k: Number,
        direction: Direction = "forward",
        *,
        output_bytes: Number | None = None,
        **further: Any,
    ) -> Matmul:
        """A product of 16-bit operands, or of ``element_bytes`` each; ``further`` fields are those of `Matmul`."""
        e = self.element_bytes
        return Matmul(
            module=module,
            part=part,
            direction=direction,
            m=m,
            n=n,
            k=k,
            dtype=self.dtype,
            element_bytes=e,
            output_bytes=e if output_bytes is None else output_bytes,
            **further,
        )

    def fuses(self, kernel: str) -> bool:
        """Whether the framework runs these element-wise operators as one kernel."""
        return kernel in self.framework.fusion.fused
