"""What Megatron alone does: TransformerEngine's modules and Megatron-Core's mixtures of experts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerEngine:
    """Behavior of TransformerEngine's modules as Megatron-Core calls them; the defaults change nothing."""

    placeholder_gradients: bool = False
    """Weight gradients that are added up inside their matmuls still return a tensor of their shape: one for each shape
    of a layer lives on (TransformerEngine), one for the head while it is at work (Megatron-Core)."""
    launches_each_expert: bool = False
    """Grouped products are a kernel per expert, on several streams at a time (TransformerEngine's GroupedLinear)."""
    waits_for_counts: bool = False
    """The host waits for the numbers of tokens that a router gave to each expert before it launches them: the sizes of
    grouped products are numbers on the host (Megatron-Core without a capacity, arXiv 2603.07685)."""
    unwindowed_backward: tuple[str, ...] = ()
    """Recipes below 16 bits under which attention computes in that format too, with a backward kernel that works on all
    causal scores of a sliding window (cuDNN 9.22)."""
    exchanges_adapter_outputs: bool = False
    """With sequence parallelism outputs of adapters on row-split projections reach their tokens' ranks by an all-to-all
    (NeMo's ``a2a_experimental``), instead of being gathered whole and cut."""
