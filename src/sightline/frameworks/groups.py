"""Groups of behavior that training frameworks have: sharding, overlap, fusion, kernels, memory, low precision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from sightline.content import fix_mappings
from sightline.quantities import Number

TensorOverlap = Literal["none", "backward", "all"]
FusedKernel = Literal[
    "norm",
    "rope",
    "latent-rope",
    "softmax",
    "activation",
    "squared-relu",
    "bias-dropout-add",
    "cross-entropy",
    "gradient-accumulation",
    "expert-weights",
]
LOSS: Final = "cross-entropy"
COMPILED: frozenset[FusedKernel] = frozenset(
    {"norm", "rope", "softmax", "activation", "squared-relu", "bias-dropout-add", LOSS}
)
"""What TorchInductor fuses; matmuls, attention kernels and the adding up of gradients stay as they are."""
FUSED_LOSS_BYTES = 4.0
"""Bytes per logit of a fused loss: logits and their gradient in 16 bits."""


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
class Sharding:
    """What data parallelism and ZeRO move, and when."""

    gradient_reduce_bytes: Mapping[str, float]
    """Bytes per gradient element that data parallelism moves, by compute dtype."""
    reduces_every_micro_batch: bool = False
    """ZeRO-2 reduces gradients after every backward pass instead of once per step."""
    regathers_every_micro_batch: bool = False
    """ZeRO-2 gathers parameters for every micro-batch (FSDP's SHARD_GRAD_OP) instead of once per step."""
    keeps_root_gathered: bool = False
    """The outermost unit of parameters, those of no layer, stays gathered from the forward to the backward pass
    (FSDP)."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Communication that runs at the same time as compute."""

    gradients: bool = False
    """Gradient reduction overlaps the backward pass."""
    parameters: bool = False
    """The parameter gathers of every micro-batch (ZeRO-3, FSDP) overlap compute."""
    update: bool = False
    """The gather of updated parameters under ZeRO-1 and -2 overlaps the next forward pass."""
    tensor: TensorOverlap = "none"
    """Tensor-parallel collectives that overlap matmuls: none; backward: those of the backward pass with its matmuls;
    all: those of the forward pass too, cut into chunks."""
    pipeline: bool = False
    """With virtual stages, stage-to-stage transfers overlap compute."""
    interleaved_groups: bool = False
    """With virtual stages, replicas' transfers of a chunk of layers overlap the other chunks' passes of a whole group
    of micro-batches, of which there are as many as stages; else one micro-batch's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaving:
    """What the interleaved schedule asks of a pipeline; the defaults ask nothing."""

    fewest_stages: int = 2
    whole_groups: bool = False
    """Micro-batches go through the chunks of a stage in groups of as many as there are stages, all of them whole; where
    a release lets the group's size be chosen, this is its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offloading:
    """What a framework does with states and activations that are kept in the host's memory."""

    gradients: bool = True
    """Gradients leave the device with the optimizer's states, as the backward pass makes them; else their buffer stays
    there and is copied once before the update."""
    overlaps_activations: bool = True
    """Passes go on while activations are copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """Operators that run as one kernel."""

    fused: frozenset[FusedKernel] = frozenset()
    """Fused kernels: norm, rope, latent-rope (rotation, joining and cutting of latent attention's heads), softmax,
    activation (gated), squared-relu, bias-dropout-add, cross-entropy, gradient-accumulation, expert-weights."""
    softmax_granule: int = 1
    """The fused softmax works on this many score matrices at a time; other counts take the unfused path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Memory traffic of kernels that depends on how a framework wrote them."""

    accumulation_traffic: Number
    """Bytes per parameter and micro-batch of adding a weight gradient to what is there, or copying it to a bucket;
    where accumulation is fused the matmul's output moves this much per element."""
    optimizer_traffic: float
    """Bytes per parameter that the optimizer step moves: clipping, unscaling, update and casts."""
    host_update_traffic: float = 30.0
    """Bytes per parameter of the host's memory that an update there moves: weight, moments and gradient in fp32 in,
    three of them out, and the 16-bit weight."""
    older_matmuls: bool = False
    """Its releases are of a time (until mid 2022) when libraries multiplied matrices with rows off 16 bytes by kernels
    several times slower than today's."""
    pads_vocabulary: bool = False
    """Vocabulary rounded up to whole tiles on every tensor-parallel rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a device holds: model states, saved activations, buffers of the framework."""

    states: StateBytes
    gradients: Mapping[str, float] = field(default_factory=dict)
    """Bytes per parameter of gradients by compute dtype, where they are not those of ``states``."""
    adapter_states: StateBytes = StateBytes(weights=4.0, gradients=4.0, optimizer=8.0)
    """Bytes per parameter of adapters."""
    also_trained_states: StateBytes = StateBytes(weights=2.0, gradients=2.0, optimizer=4.0)
    """The same of modules that are trained whole next to an adapter, as copies in the compute dtype."""
    loss_bytes_per_logit: float
    """Live bytes per logit while the loss runs: 16-bit logits, fp32 copy, gradient (8 to 10 in eager PyTorch)."""
    fused_loss_bytes_per_logit: float | None = None
    """The same while a fused loss runs; None: as many."""
    communication_buffer_bytes: float
    """Buckets and staging buffers of the collectives, where data parallelism is used."""
    context_bytes: float
    """Memory taken before the first tensor: driver context, kernels, communicators, allocator slack."""
    update_copies: float = 0.0
    """Tensors as large as all trained weights that live only while the optimizer steps."""
    keeps_product: bool = False
    """A linear layer saves its input even where that is a gated product, which the activation's kernel could make
    again."""
    recompute_stops_early: bool = False
    """Full recomputation ends at the last tensor that backward needs, so a layer's last matmul does not run again."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Behavior that decides what is alive at the fullest moment of a step. The defaults change nothing."""

    kept_bytes_per_logit: float = 0.0
    """Bytes per logit that the loss keeps from the forward to the backward pass."""
    frees_gradients: bool = False
    """Gradients are freed after the update and come back as the backward pass makes them."""
    wraps_embedding_and_head: bool = False
    """Embedding and head are units of their own, gathered only while they run."""
    keeps_stage_outputs: bool = False
    """What a pipeline stage has sent on stays in memory until its backward pass."""
    copies_context: bool = False
    """With several sequences the output of the attention kernel is copied into the layout of the projection after
    it."""
    gathers_into_buffer: bool = False
    """What sequence parallelism gathers lies in one buffer that is never freed."""
    whole_vocabulary: bool = False
    """Tensor-parallel ranks hold embedding and head whole and share out the tokens instead."""
    split_loss_bytes_per_logit: float = 0.0
    """Live bytes per logit of a loss whose vocabulary tensor-parallel ranks share out, where it is not that of a whole
    one (torch.distributed.tensor.parallel.loss)."""
    collects_outputs: bool = False
    """A pipeline has buffers of its own to receive every micro-batch's activations and gradients in, and its last stage
    keeps the logits of all to hand them back (torch.distributed.pipelining)."""
    apart_streams: bool = False
    """Parameters are gathered and gradients reduced on streams whose memory the caching allocator lends to no other
    (FSDP2)."""
    workspace_bytes: float = 0.0
    """Workspaces of libraries that the allocator counts, always there."""
    workspace_bytes_per_layer: float = 0.0
    """The same for every layer, such as tables of rotary angles."""


PLAIN_ALLOCATION = Allocation()
"""Nothing but model states and what operators save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowPrecision:
    """Weights below 16 bits: which copies there are and when they are made."""

    weight_bytes: Mapping[str, float] = field(default_factory=dict)
    """Recipes below 16 bits (delayed, current, blockwise, mxfp8, nvfp4) under which matmul weights are kept in that
    format alone, and the bytes of each as replicas gather it; under others the copies are kept next to 16-bit
    weights."""
    keeps_transposed: bool = True
    """Where products take low-precision weights in one layout alone, a copy is kept for either pass; else it is made
    anew in every backward pass."""
    casts_every_pass: bool = False
    """Weights are quantized in every pass and no low-precision copies kept, instead of once after each update."""
    dequantization_traffic: Mapping[str, float] = field(default_factory=dict)
    """Bytes per weight that kernels of PyTorch move to expand it, by format; else the least there is."""
    dequantization_cycles: Mapping[str, float] = field(default_factory=dict)
    """Cycles of a compute unit per weight that a library's kernel takes to expand it, by format: bitsandbytes finds a
    4-bit code by a tree of branches (``csrc/kernels.cu``, ``dDequantizeNF4``), which no memory makes faster."""
    expands_to: str = ""
    """Type that the library expands to, which is cast where products take another; empty where it is theirs
    (bitsandbytes up to 0.42 quantized what ``Params4bit.cuda`` had cast to fp16)."""

    def __post_init__(self) -> None:
        fix_mappings(self)
