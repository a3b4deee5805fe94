"""Groups of behavior that one training framework alone has, named after it; their defaults change nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sightline.content import fix_mappings


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePyTorch:
    """Behavior of PyTorch's own parallelism and torchtitan's models; the defaults change nothing."""

    repeats_keys: bool = False
    """Keys and values are repeated for every query head before attention, which works on all of them."""
    joins_attention_in_fp32: bool = False
    """Where a sequence is cut, the keys of each rank are kernels of their own also where they are gathered; what the
    kernels return is joined in fp32, and gradients of keys and values go round in fp32
    (torch.distributed.tensor.experimental)."""
    waits_for_keys: bool = False
    """Keys and values from other ranks are waited for as soon as they are asked for: a compiled graph has the wait
    right behind the collective, where calls one by one go on with what is at hand."""
    synchronizes_after_pipeline: bool = False
    """Stages of a pipeline keep gathered parameters from their first micro-batch to the last and reduce gradients when
    all passes are over, without overlap, whatever is done elsewhere."""
    pipeline_accumulation_traffic: float = 0.0
    """Takes the place of ``accumulation_traffic`` where a pipeline's stages reduce when all passes are over: whole
    gradients are added up in fp32 until then. 0 changes nothing."""
    compiles_loss: bool = True
    """A compiler takes the loss too, not the layers alone."""
    complex_rope: bool = False
    """Rotary embeddings are written in complex numbers, for which TorchInductor has no code."""
    loss_by_autograd: bool = False
    """An unfused loss is PyTorch's, whose gradient autograd writes out, also over a sharded vocabulary."""
    separate_projections: bool = False
    """Queries, keys and values, and gate and up, are products of their own, whose input gradients are summed after."""
    chunked_products: bool = False
    """Tensor-parallel collectives that overlap all are cut by rank together with the product they overlap, which is a
    kernel for every rank's tokens (PyTorch's AsyncTP)."""
    transposes_in_backward: bool = False
    """Quantization writes one copy of an operand, of a rank's own tokens where these are gathered then; what the weight
    gradient takes is transposed from it in the backward pass (torchao)."""
    keeps_gathered_inputs: bool = False
    """With sequence parallelism a column-split projection saves its gathered input (autograd over DTensor), where
    others save their piece and gather it again for the weight gradient."""
    copies_gathered_parameters: bool = False
    """Gathered parameters are copied out of the buffer they arrive in, between kernels (FSDP2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerEngine:
    """Behavior of TransformerEngine's modules as Megatron-Core calls them; the defaults change nothing."""

    placeholder_gradients: bool = False
    """Weight gradients that are added up inside their matmuls still return a tensor of their shape: one for each shape
    of a layer stays allocated (TransformerEngine), one for the head while it is at work (Megatron-Core)."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCalls:
    """Calls that a loop over trained tensors makes for each of them, one after the other, in launches."""

    micro_batch: float = 0.0
    """Behind every backward pass."""
    step: float = 0.0
    """Around the update."""
    shard: float = 0.0
    """Around the update, for the tensors of a rank's own shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroEngine:
    """Memory of DeepSpeed's engine on top of the model states; the defaults change nothing."""

    library_bytes: float = 0.0
    """Host memory of a process for the framework's own libraries, on top of PyTorch's; counts where that is the
    device's."""
    bucket_elements: float = 0.0
    """Gradients that ZeRO copies together before they are reduced; on a processor as much as is used of that is taken,
    on accelerators it is part of ``communication_buffer_bytes``."""
    copies_full_precision: bool = False
    """ZeRO's optimizer works on an fp32 copy of its part of the weights even where these are fp32 themselves."""
    gather_calls: float = 0.0
    """What the host calls for each weight, forward and backward, to gather it under stage 3 and to free it, in launches
    that take as long; hooks of other modules of a layer are split over its weights."""
    reduce_calls: Mapping[int, float] = field(default_factory=dict)
    """The same behind the gradient of a trained weight, by stage: to copy it where it is reduced, and to reduce it."""
    tensor_calls: Mapping[int, TensorCalls] = field(default_factory=dict)
    """Loops over trained tensors by stage; of stage 0 in bf16 alone, which is ``BF16_Optimizer``. The device waits for
    them: its queue is empty behind a backward pass, and a norm that the host reads takes two launches."""
    bf16_optimizer: bool = False
    """In bf16 without ZeRO, fp32 weights and moments are sharded over replicas all the same, gradients are summed whole
    in fp32, and updated weights are gathered before the next step (DeepSpeed's ``BF16_Optimizer``)."""

    @property
    def hooks(self) -> bool:
        """Whether Python runs around every weight."""
        return self.gather_calls > 0 or len(self.reduce_calls) > 0

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGpt:
    """Behavior of LitGPT's layers; the defaults change nothing."""

    joins_adapters: bool = False
    """Adapters of query, key and value projection run as one, whose update is padded with zeros."""
    keeps_joined_qkv: bool = False
    """Values stay a view of the joined projection's output, which keeps all of that alive."""
    quantized_keeps_inputs: bool = False
    """Matmuls with quantized weights save their inputs for the backward pass, which has no use for them (bitsandbytes
    up to 0.41)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideal:
    """A framework that no code is: a bound on what any may reach."""

    peak: float
    """Share of the peak of its matrix and vector units that a device reaches in every operator."""
    bandwidth: float
    """Share of the memory's bandwidth, and of the L2 cache's."""
