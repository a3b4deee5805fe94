"""What a plan means for a micro-batch's operators: what is trained, in which precision, and how its framework behaves.

Recipes below 16 bits are those of TransformerEngine's documentation: delayed and current scaling (arXiv 2209.05433),
scales per 1 x 128 tokens and 128 x 128 weights (DeepSeek-V3, arXiv 2412.19437), MXFP8 with one byte per 32 elements
(arXiv 2506.08027) and NVFP4 with one per 16, a random Hadamard transform and stochastic rounding (arXiv 2509.25149).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sightline.frameworks import Framework
from sightline.scenario import Adapter, Plan, Scenario
from sightline.scenario.precision import LOW_PRECISION, MATMUL_FORMATS, has_microscaling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    recipe = RECIPES[recipe_of(plan)]
    both = recipe.columns_apart or not has_microscaling(scenario.cluster.device)
    return LowPrecision(
        recipe=recipe,
        copies=2.0 if both else 1.0,
        transposes_weights=both and not recipe.columns_apart and not plan.framework.low_precision.keeps_transposed,
        gathered_bytes=plan.framework.low_precision.weight_bytes.get(recipe.name),
        casts_weights_often=plan.framework.low_precision.casts_every_pass,
    )


def recipe_of(plan: Plan) -> str:
    """Return the recipe's name: plain fp8 has several, the others are their own."""
    return plan.fp8_recipe if plan.dtype == "fp8" else plan.dtype


def framework_under(plan: Plan) -> Framework:
    """Return the framework's behavior under a plan: compiled or not, products in chunks only if collectives are."""
    framework = plan.framework.compiled() if plan.compile else plan.framework
    whole = framework.native.pipeline_accumulation_traffic
    if whole and np.any(np.asarray(plan.pipeline_parallel) > 1):
        traffic = np.where(np.asarray(plan.pipeline_parallel) > 1, whole, framework.kernels.accumulation_traffic)
        kernels = replace(framework.kernels, accumulation_traffic=traffic if traffic.ndim else float(traffic))
        framework = replace(framework, kernels=kernels)
    if plan.tensor_overlap != "all" and framework.native.chunked_products:
        return replace(framework, native=replace(framework.native, chunked_products=False))
    return framework
