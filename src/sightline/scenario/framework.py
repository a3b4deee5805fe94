"""What a training framework keeps in memory, fuses, overlaps and offers, as its catalog entry says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sightline.quantities import Number
from sightline.scenario.allocation import PLAIN_ALLOCATION, Allocation

TensorOverlap = Literal["none", "backward", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes per parameter of the model states in mixed precision (ZeRO, arXiv 1910.02054)."""

    weights: float
    gradients: float
    optimizer: float
    """Master weights and the two moments of AdamW together."""
    master: float = 0.0
    """Those of the optimizer's bytes that are master weights."""


FULL_PRECISION = StateBytes(weights=4.0, gradients=4.0, optimizer=8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework's habits. Whatever is offered lists the allowed values of the plan's field of that name."""

    name: str
    version: str = ""
    states: StateBytes
    gradient_reduce_bytes: Mapping[str, float]
    """Bytes per gradient element that data parallelism moves, by compute dtype."""
    fused: frozenset[str]
    """Chains run as one kernel: norm, rope, latent-rope (rotation, joining and cutting of latent attention's heads),
    softmax, activation (gated), squared-relu, bias-dropout-add, cross-entropy, gradient-accumulation."""
    accumulation_traffic: Number
    """Bytes per parameter and micro-batch of adding a weight gradient to what is there, or copying it to a bucket; where
    accumulation is fused the matmul's output moves this much per element."""
    softmax_granule: int
    """The fused softmax works on this many score matrices at a time; other counts take the unfused path."""
    optimizer_traffic: float
    """Bytes per parameter that the optimizer step moves: clipping, unscaling, update and casts."""
    pads_vocabulary: bool
    """Vocabulary rounded up to whole tiles on every tensor-parallel rank."""
    loss_bytes_per_logit: float
    """Live bytes per logit while the loss runs: 16-bit logits, fp32 copy, gradient (8 to 10 in eager PyTorch)."""
    communication_buffer_bytes: float
    """Buckets and staging buffers of the collectives, where data parallelism is used."""
    context_bytes: float
    """Memory taken before the first tensor: driver context, kernels, communicators, allocator slack."""
    overlaps_gradients: bool
    """Gradient reduction runs beside the backward pass."""
    overlaps_parameters: bool
    """The parameter gathers of every micro-batch (ZeRO-3, FSDP) run beside compute."""
    overlaps_update: bool
    """The gather of updated parameters under ZeRO-1 and -2 runs beside the next forward pass."""
    overlaps_tensor: TensorOverlap
    """Tensor-parallel collectives that run beside matmuls: none; backward: those of the backward pass beside its
    matmuls; all: those of the forward pass too, cut into chunks."""
    overlaps_pipeline: bool
    """With virtual stages, stage-to-stage transfers run beside compute."""
    recompute_stops_early: bool
    """Full recomputation ends at the last tensor that backward needs, so a layer's last matmul does not run again."""
    reduces_every_micro_batch: bool
    """ZeRO-2 reduces gradients after every backward pass instead of once per step."""
    regathers_every_micro_batch: bool
    """ZeRO-2 gathers parameters for every micro-batch (FSDP's SHARD_GRAD_OP) instead of once per step."""
    selective: tuple[str, ...] = ("core_attention",)
    """Modules that ``recompute: selective`` runs again (`sightline.scenario.recomputation`)."""
    adapter_states: StateBytes = StateBytes(weights=4.0, gradients=4.0, optimizer=8.0)
    """Bytes per parameter of adapters."""
    also_trained_states: StateBytes = StateBytes(weights=2.0, gradients=2.0, optimizer=4.0)
    """The same of modules that are trained whole beside an adapter, as copies in the compute dtype."""
    keeps_product: bool = False
    """A linear layer keeps its input even where that is a gated product, which the activation's kernel could make again."""
    placeholder_gradients: bool = False
    """Weight gradients that are added up inside their matmuls still return a tensor of their shape: one for each shape
    of a layer lives on (TransformerEngine), one for the head while it is at work (Megatron-Core)."""
    launches_each_expert: bool = False
    """Grouped products are a kernel per expert, side by side on several streams (TransformerEngine's GroupedLinear)."""
    waits_for_counts: bool = False
    """The host waits for the numbers of tokens that a router gave to each expert before it launches them: the sizes of
    grouped products are numbers on the host (Megatron-Core without a capacity, arXiv 2603.07685)."""
    unwindowed_backward: tuple[str, ...] = ()
    """Recipes below 16 bits under which attention computes in as few bits too, with a backward kernel that works on all
    causal scores of a sliding window (cuDNN 9.22)."""
    joins_adapters: bool = False
    """Adapters of query, key and value projection run as one, whose update is padded with zeros (LitGPT)."""
    exchanges_adapter_outputs: bool = False
    """With sequence parallelism outputs of adapters beside row-split projections reach their tokens' ranks by an all-to-all
    (NeMo's ``a2a_experimental``), instead of being gathered whole and cut."""
    keeps_joined_qkv: bool = False
    """Values stay a view of the joined projection's output, which keeps all of that alive."""
    repeats_keys: bool = False
    """Keys and values are repeated for every query head before attention, which works on all of them."""
    joins_in_fp32: bool = False
    """Where a sequence is cut, the keys of each rank are kernels of their own also where they are gathered; what the
    kernels return is joined in fp32, and gradients of keys and values go round in fp32
    (torch.distributed.tensor.experimental)."""
    waits_for_keys: bool = False
    """Keys and values from other ranks are waited for as soon as they are asked for: a compiled graph has the wait right
    behind the collective, where calls one by one go on with what is at hand."""
    syncs_pipelines_once: bool = False
    """Stages of a pipeline keep gathered parameters from their first micro-batch to the last and reduce gradients when all
    passes are over, beside nothing, whatever is done elsewhere."""
    whole_accumulation_traffic: float = 0.0
    """What takes the place of ``accumulation_traffic`` where a pipeline's stages reduce when all passes are over: whole
    gradients are added up in fp32 until then. 0 changes nothing."""
    compiles_loss: bool = True
    """A compiler takes the loss too, not the layers alone."""
    complex_rope: bool = False
    """Rotary embeddings are written in complex numbers, for which TorchInductor has no code."""
    differentiates_loss: bool = False
    """An unfused loss is PyTorch's, whose gradient autograd writes out, also over a shared-out vocabulary."""
    separate_projections: bool = False
    """Queries, keys and values, and gate and up, are products of their own, whose input gradients are summed after."""
    chunked_products: bool = False
    """Tensor-parallel collectives that overlap all are cut by rank together with the product beside them, which is a kernel
    for every rank's tokens (PyTorch's AsyncTP)."""
    turns_narrow_copies: bool = False
    """Quantization writes one copy of an operand, of a rank's own tokens where these are gathered then; what the weight
    gradient takes is turned over from it in the backward pass (torchao)."""
    keeps_gathered_inputs: bool = False
    """With sequence parallelism a column-split projection keeps its gathered input (autograd over DTensor), where others
    keep their piece and gather it again for the weight gradient."""
    copies_gathered: bool = False
    """Gathered parameters are copied out of the buffer they arrive in, between kernels (FSDP2)."""
    keeps_ends_gathered: bool = False
    """The outermost unit of parameters, those of no layer, stays gathered from the forward to the backward pass (FSDP)."""
    quantized_keeps_inputs: bool = False
    """Matmuls with quantized weights keep their inputs for the backward pass, which has no use for them (bitsandbytes
    up to 0.41)."""
    dequantization_traffic: Mapping[str, float] = field(default_factory=dict)
    """Bytes per weight whose transfer would take as long as expanding it does, by format; else the least there is."""
    overlaps_groups: bool = False
    """With virtual stages, replicas' transfers of a chunk of layers run beside the other chunks' passes of a whole group
    of micro-batches, of which there are as many as stages; else beside one micro-batch's."""
    narrow_weights: Mapping[str, float] = field(default_factory=dict)
    """Recipes below 16 bits (delayed, current, blockwise, mxfp8, nvfp4) under which matmul weights are kept in few bits
    alone, and the bytes of each as replicas gather it; under others the copies lie beside 16-bit weights."""
    keeps_turned_weights: bool = True
    """Where products take narrow weights in one layout alone, a copy is kept for either pass; else it is made anew in
    every backward pass."""
    casts_weights_often: bool = False
    """Weights are quantized in every pass and no narrow copies kept, instead of once after each update."""
    library_bytes: float = 0.0
    """Host memory of a process for the framework's own libraries, beside PyTorch's; counts where that is the device's."""
    bucket_elements: float = 0.0
    """Gradients that ZeRO copies together before they are reduced; on a processor as much as is used of that is taken, on
    accelerators it is part of ``communication_buffer_bytes``."""
    copies_full_precision: bool = False
    """ZeRO's optimizer works on an fp32 copy of its part of the weights even where these are fp32 themselves."""
    allocation: Allocation = PLAIN_ALLOCATION
    """What else its memory holds, and when."""
    update_copies: float = 0.0
    """Tensors as large as all trained weights that live only while the optimizer steps."""
    host_update_traffic: float = 30.0
    """Bytes per parameter of the host's memory that an update there moves: weight, moments and gradient in fp32 in,
    three of them out, and the narrow weight."""
    offload_needs: Mapping[str, Mapping[str, tuple[str | int, ...]]] = field(default_factory=dict)
    """Other choices that offloading a part depends on: part, plan field, values of which one is needed."""
    offers: dict[str, tuple[str | int, ...]] = field(default_factory=dict)
    defaults: dict[str, object] = field(default_factory=dict)
    """Values of plan fields that a scenario leaves out."""

    def allows(self, field: str, value: object) -> bool:
        """Whether the framework offers ``value`` of a plan's field; what it does not list it does not restrict."""
        return field not in self.offers or value in self.offers[field]

    def states_in(self, dtype: str) -> StateBytes:
        """Model states in that compute dtype: mixed precision as the framework keeps it, full precision without copies."""
        return FULL_PRECISION if dtype in ("fp32", "tf32") else self.states

    def adapter_states_in(self, dtype: str) -> StateBytes:
        """States of adapters beside weights in that dtype."""
        return FULL_PRECISION if dtype in ("fp32", "tf32") else self.adapter_states

    def copied_states_in(self, dtype: str) -> StateBytes:
        """States of modules that are trained whole beside adapters, in that dtype."""
        return FULL_PRECISION if dtype in ("fp32", "tf32") else self.also_trained_states
