"""Which types a framework keeps weights in and computes in: its habit, read from what it keeps per parameter."""

from dataclasses import dataclass

from sightline.scenario import Plan

FULL = ("fp32", "tf32")
MOMENTS_BYTES = 8.0
"""Of Adam's two moments in fp32, per parameter; an optimizer with more also keeps masters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Types by our names."""

    compute: str
    """Of matmuls."""
    weights: str
    """Of the weights that forward and backward read (of frozen ones where there is an adapter)."""
    masters: bool
    """The optimizer works on fp32 copies of 16-bit weights."""

    @property
    def autocasts(self) -> bool:
        """fp32 weights are cast where a matmul reads them."""
        return self.compute not in FULL and self.weights in FULL


def precision_of(plan: Plan) -> Precision:
    """Return how the plan's framework mixes types in the plan's dtype.

    Full precision keeps no copies. Beside an adapter, weights are frozen and lie in the compute dtype.
    """
    if plan.dtype in FULL:
        return Precision(compute=plan.dtype, weights=plan.dtype, masters=False)
    states = plan.framework.states_in(plan.dtype)
    if plan.adapter is not None or plan.quantization != "none":
        return Precision(compute=plan.dtype, weights=plan.dtype, masters=plan.adapter is None)
    narrow = states.weights < 4
    return Precision(
        compute=plan.dtype,
        weights=plan.dtype if narrow else "fp32",
        masters=narrow and states.optimizer > MOMENTS_BYTES,
    )
