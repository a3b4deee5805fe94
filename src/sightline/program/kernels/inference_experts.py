"""Experts in an inference pass: the busiest rank's products, and how tokens reach it and come back."""

from dataclasses import dataclass, replace

import numpy as np

from sightline.program.address import Part
from sightline.program.kernels.inference_attention import InferenceAttention
from sightline.program.matmul_formats import WIDE_ROUTER
from sightline.program.operators import CollectiveKind, GroupedMatmul, Operator
from sightline.program.routing import busiest_share, expected_active
from sightline.program.shapes import ELEMENT_BYTES
from sightline.program.step import Step
from sightline.quantities import Number, anywhere, rounded_up, smaller
from sightline.scenario import Experts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferenceExperts:
    """The routed experts of a layer on the rank whose experts get most tokens."""

    x: InferenceAttention
    of: Experts
    width: float
    """Elements of a token on its way."""
    rows: Number
    """Rows that the rank's experts work on."""
    active: Number
    """Experts of the rank that any token chose (expected)."""

    @property
    def local(self) -> Number:
        """Experts that the rank holds; where they do not fill ranks evenly, copies of busy ones fill these up."""
        return rounded_up(self.of.count / self.x.e)

    def router(self, *, reads_norm: bool) -> list[Step]:
        """The router's product; where engines keep it in fp32 its input is cast first, in a kernel of its own."""
        x, of = self.x, self.of
        product = x.matmul("router", "router", x.tokens, float(of.count), x.h, x.formats.plain)
        operators: list[Operator] = [product]
        dtype, wide = x.formats.router_dtype, ELEMENT_BYTES["fp32"]
        if dtype and not x.expands_weights:
            cast = x.stream("router", "widen", "copy", x.tokens * x.h * (1.0 + wide / x.element_bytes))
            product = replace(product, dtype=dtype, kernel=WIDE_ROUTER, element_bytes=wide, weight_bytes=wide)
            operators = [cast, replace(product, output_bytes=wide)]
        choice = x.stream("router", "choice", "softmax", 4.0 * x.tokens * of.count, kernels=2.0)
        return [Step((*operators, choice))]

    def dispatch(self) -> list[Step]:
        """Tokens of other data-parallel ranks fetched, in the experts' format, and copied to the experts that they chose."""
        x = self.x
        element_bytes = smaller(x.formats.operands[x.formats.parts["experts"]].activation_bytes, x.element_bytes)
        fetched = self._exchanged("all_gather", element_bytes * x.tokens * self.width)
        return [Step((*fetched, x.stream("experts", "permutation", "copy", 2.0 * self.rows * self.width)))]

    def combine(self) -> list[Step]:
        """Outputs summed for each token and brought back to its rank; over tensor-parallel ranks the layer's end sums."""
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
                    decode=x.decode,
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
        operators: list[Operator] = []
        if anywhere(direct):
            sent = moved * destinations
            operators += x.collective("experts", "all_to_all", sent, "data", count=1.0 * direct)
        if not np.all(direct):
            operators += x.collective("experts", among_all, moved * x.d, "data", count=1.0 - 1.0 * direct)
        return operators


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
