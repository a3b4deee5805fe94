"""A training framework: its behavior in groups, what it offers, and what a compiler makes of it."""

from collections.abc import Mapping
from dataclasses import field, replace
from math import inf
from typing import Final, Literal

from sightline.content import description, fix_mappings
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
IDEAL: Final = "reference"
"""The framework, and the engine, that is a bound on what any may reach: no launches, all usual fusions."""
LOSS: Final = "cross-entropy"
COMPILED: frozenset[FusedKernel] = frozenset(
    {"norm", "rope", "softmax", "activation", "squared-relu", "bias-dropout-add", LOSS}
)
"""What TorchInductor fuses; matmuls, attention kernels and the adding up of gradients stay as they are."""
FUSED_LOSS_BYTES = 4.0
"""Bytes per logit of a fused loss: logits and their gradient in 16 bits."""


@description
class StateBytes:
    """Bytes per parameter of the model states in mixed precision (ZeRO, arXiv 1910.02054)."""

    weights: float
    gradients: float
    optimizer: float
    """Master weights and the two moments of AdamW together."""
    master: float = 0.0
    """Those of the optimizer's bytes that are master weights."""


FULL_PRECISION = StateBytes(weights=4.0, gradients=4.0, optimizer=8.0)


@description
class Sharding:
    """What replicas and pipeline stages move, and when."""

    gradient_reduce_bytes: Mapping[str, float]
    """Bytes per gradient element that data parallelism moves, by compute dtype."""
    reduces_in_place: bool = False
    """Gradients are kept in the type that replicas reduce them in (Megatron-Core's buffers: ``grad_dtype`` in
    core/distributed/distributed_data_parallel.py)."""
    replicas_keep_dtype: bool = False
    """Without ZeRO, replicas reduce gradients in the format they are kept in (PyTorch's DistributedDataParallel)."""
    reduces_every_micro_batch: bool = False
    """ZeRO-2 reduces gradients after every backward pass instead of once per step."""
    regathers_every_micro_batch: bool = False
    """ZeRO-2 gathers parameters for every micro-batch (FSDP's SHARD_GRAD_OP) instead of once per step."""
    keeps_root_gathered: bool = False
    """The outermost unit of parameters, those of no layer, stays gathered from the forward to the backward pass
    (FSDP)."""
    whole_boundaries: bool = False
    """Without sequence parallelism every tensor-parallel rank sends a stage's whole output to the next stage, instead
    of a share that is gathered there."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@description
class Overlap:
    """Communication that runs at the same time as compute."""

    gradients: bool = False
    """Gradient reduction overlaps the backward pass."""
    parameters: bool = False
    """The parameter gathers of every micro-batch (ZeRO-3, FSDP) overlap compute."""
    update: bool = False
    """The gather of updated parameters under ZeRO-1 and -2 overlaps the next forward pass."""
    tensor: TensorOverlap = "none"
    """Tensor-parallel collectives that overlap matmuls: none; backward: those of column-split projections' gradients;
    all: with sequence parallelism the others too, cut into chunks."""
    sequence_gradients: bool = False
    """With sequence parallelism those of column-split projections' gradients always do: the option is of all-reduces
    (``--no-async-tensor-model-parallel-allreduce``)."""
    pipeline: bool = False
    """With virtual stages, stage-to-stage transfers overlap compute."""
    interleaved_groups: bool = False
    """With virtual stages, replicas' transfers of a chunk of layers overlap the other chunks' passes of a whole group
    of micro-batches, of which there are as many as stages; else one micro-batch's."""


@description
class Interleaving:
    """What the interleaved schedule asks of a pipeline; the defaults ask nothing."""

    fewest_stages: int = 2
    whole_groups: bool = False
    """Micro-batches go through the chunks of a stage in groups of as many as there are stages, all of them whole; where
    a release lets the group's size be chosen, this is its default."""


@description
class Offloading:
    """What a framework does with states and activations that are kept in the host's memory."""

    gradients: bool = True
    """Gradients leave the device with the optimizer's states, as the backward pass makes them; else their buffer stays
    there and is copied once before the update."""
    overlaps_activations: bool = True
    """Passes go on while activations are copied."""


@description
class Fusion:
    """Operators that run as one kernel."""

    fused: frozenset[FusedKernel] = frozenset()
    """Fused kernels: norm, rope, latent-rope (rotation, joining and cutting of latent attention's heads), softmax,
    activation (gated), squared-relu, bias-dropout-add, cross-entropy, gradient-accumulation, expert-weights."""
    softmax_granule: int = 1
    """The fused softmax works on this many score matrices at a time; other counts take the unfused path."""


@description
class Kernels:
    """Memory traffic of kernels that depends on how a framework wrote them."""

    accumulation_traffic: Number
    """Bytes per parameter and micro-batch of adding a weight gradient to what is there, or copying it to a bucket;
    where accumulation is fused the matmul's output moves this much per element."""
    accumulation_in: Mapping[str, float] = field(default_factory=dict)
    """The same by compute dtype, where it is not ``accumulation_traffic``."""
    optimizer_traffic: float
    """Bytes per parameter that the optimizer step moves: clipping, unscaling, update and casts."""
    host_update_traffic: float = 30.0
    """Bytes per parameter of the host's memory that an update there moves: weight, moments and gradient in fp32 in,
    three of them out, and the 16-bit weight."""
    older_matmuls: bool = False
    """Its releases are of a time (until mid 2022) when libraries multiplied matrices with rows off 16 bytes by kernels
    several times slower than today's."""
    loss_traffic: tuple[float, ...] = (22.0, 14.0)
    """Bytes per logit that an unfused loss moves forward and backward: PyTorch's casts to fp32 and reads that three
    times for its log-softmax, which it writes; the fp32 gradient is read, written and cast."""
    fused_loss_traffic: tuple[float, ...] | None = None
    """The same of a fused one; None: logits in and out both ways."""
    pads_vocabulary: bool = False
    """Vocabulary rounded up to whole tiles on every tensor-parallel rank."""
    masks_capacity: bool = False
    """Experts with a capacity get their tokens, and give their outputs back, in products with masks of all tokens of a
    sequence by all places of its experts, instead of sorted copies."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@description
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
    measured: bool = False
    """Whether whole devices were measured, instead of what was read from a framework's code alone."""
    recompute_stops_early: bool = False
    """Full recomputation ends at the last tensor that backward needs, so a layer's last matmul does not run again."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@description
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
    gathers_logits: bool = False
    """Every tensor-parallel rank has the loss of the whole vocabulary, whose logits are gathered;
    ``split_loss_bytes_per_logit`` are then those of each of them."""
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


@description
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


@description
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
    separate_projections: frozenset[Literal["qkv", "gate-up"]] = frozenset()
    """Projections of one input that are products of their own, whose input gradients are summed after."""
    reduces_each_gradient: bool = False
    """Without sequence parallelism, tensor-parallel ranks reduce each of these gradients before they are summed."""
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


@description
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


@description
class TensorCalls:
    """Calls that a loop over trained tensors makes for each of them, one after the other, in launches."""

    micro_batch: float = 0.0
    """Behind every backward pass."""
    step: float = 0.0
    """Around the update."""
    shard: float = 0.0
    """Around the update, for the tensors of a rank's own shard."""


@description
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
    fp16_calls: Mapping[int, TensorCalls] = field(default_factory=dict)
    """The same that fp16 adds, whose scaled gradients may overflow; of stage 0 all of ``FP16_UnfusedOptimizer``."""
    flattens_gradients: bool = False
    """An update makes one flat tensor of a rank's gradients and another in fp32 (``single_grad_partition`` of
    ``runtime/zero/stage_1_and_2.py``)."""
    subgroup_elements: float = inf
    """Parameters of a rank that stage 3 updates at a time (``sub_group_size``)."""
    bf16_optimizer: bool = False
    """In bf16 without ZeRO, fp32 weights and moments are sharded over replicas all the same, gradients are summed whole
    in fp32, and updated weights are gathered before the next step (DeepSpeed's ``BF16_Optimizer``)."""

    @property
    def hooks(self) -> bool:
        """Whether Python runs around every weight."""
        return self.gather_calls > 0 or len(self.reduce_calls) > 0

    def __post_init__(self) -> None:
        fix_mappings(self)


@description
class Adapters:
    """What a trainer's code runs beside a matrix with an adapter; by default a plain module does, as PEFT's."""

    joined: bool = False
    """Those of query, key and value projection run as one, whose update is padded with zeros (LitGPT)."""
    padding_launches: float = 0.0
    """Launches' worth of host time of padding a joined update."""
    casts_quantized_inputs: bool = False
    """Beside quantized weights too the input is cast to the adapters' format, not beside weights of 16 bits alone."""
    upcasts: bool = False
    """Beside frozen weights that bitsandbytes quantized norms are fp32, unless a plan says otherwise."""
    copies_output: frozenset[str] = frozenset()
    """Formats of weights whose output is copied before an adapter's is added."""
    fused: bool = False
    """A compiler makes one kernel of what is beside the products and the kernels next to it."""


@description
class LitGpt:
    """Behavior of LitGPT's layers; the defaults change nothing."""

    keeps_joined_qkv: bool = False
    """Values stay a view of the joined projection's output, which keeps all of that alive."""
    quantized_keeps_inputs: bool = False
    """Matmuls with quantized weights save their inputs for the backward pass, which has no use for them (bitsandbytes
    up to 0.41)."""


@description
class Ideal:
    """A framework that no code is: a bound on what any may reach."""

    peak: float
    """Share of the peak of its matrix and vector units that a device reaches in every operator."""
    bandwidth: float
    """Share of the memory's bandwidth, and of the L2 cache's."""


@description
class Framework:
    """A training framework. ``offers`` lists the allowed values of the plan's field of that name."""

    name: str
    version: str = ""
    """The release line; empty for a framework that has only one."""
    since: str = ""
    """Month of the line's first release; empty where nobody looked it up."""
    lineage: str = ""
    """The code that the framework is of: lines of one lineage share what is fitted."""
    model_code: str = ""
    """The lineage whose code of a model's layers it runs: launching their kernels takes the host as long."""
    ideal: Ideal | None = None
    """Fixed shares of the device's rates take the place of what kernels reach; neither hosts nor launches take time."""
    native_host: bool = False
    """Its host code is compiled, or captured in one graph, instead of interpreted."""
    sharding: Sharding
    overlap: Overlap = field(default_factory=Overlap)
    interleaving: Interleaving = field(default_factory=Interleaving)
    pipeline_ends: tuple[int, ...] | None = None
    """Modules before and behind a model's layers that count as layers where all are split evenly over the stages, the
    surplus on the first ones; None: layers alone are where they divide (`closed_forms.layers_of_stages`)."""
    offloading: Offloading = field(default_factory=Offloading)
    fusion: Fusion = field(default_factory=Fusion)
    kernels: Kernels
    memory: Memory
    allocation: Allocation = PLAIN_ALLOCATION
    low_precision: LowPrecision = field(default_factory=LowPrecision)
    native: NativePyTorch = field(default_factory=NativePyTorch)
    transformer_engine: TransformerEngine = field(default_factory=TransformerEngine)
    zero_engine: ZeroEngine = field(default_factory=ZeroEngine)
    adapters: Adapters = field(default_factory=Adapters)
    litgpt: LitGpt = field(default_factory=LitGpt)
    selective: tuple[str, ...] = ("core_attention",)
    """Modules that ``recompute: selective`` runs again (`sightline.scenario.techniques`)."""
    offload_needs: Mapping[str, Mapping[str, tuple[str | int | bool, ...]]] = field(default_factory=dict)
    """Other choices that offloading a part depends on: part, plan field, values of which one is needed."""
    offers: Mapping[str, tuple[str | int | bool, ...]] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Values of plan fields that a scenario leaves out."""
    attention_kernels: Mapping[str, str] = field(default_factory=dict)
    """Fused attention kernels of training by family of devices, and under ``default`` those of the others."""
    is_like: bool = False
    """Whether it stands for somebody's own framework, which behaves much like it (``framework: {like: NAME}``)."""
    plain: "Framework | None" = None
    """The framework as its entry has it, where a plan's choices changed it."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def allows(self, field: str, value: object) -> bool:
        """Whether the framework offers ``value`` of a plan's field; what it does not list it does not restrict."""
        return field not in self.offers or value in self.offers[field]

    @property
    def is_bound(self) -> bool:
        """Whether it stands for the least that any framework could take."""
        return self.ideal is not None

    def tensor_overlap(self, sequence_parallel: object) -> TensorOverlap:
        """How collectives overlap where a plan does not say: they are chunked with sequence parallelism alone."""
        whole = self.overlap.tensor == "all" and not sequence_parallel and not self.is_bound
        return "backward" if whole and "backward" in self.offers.get("tensor_overlap", ()) else self.overlap.tensor

    @property
    def loss_bytes_per_logit(self) -> float:
        """Live bytes per logit while the loss runs, fused or not."""
        fused = self.memory.fused_loss_bytes_per_logit
        return self.memory.loss_bytes_per_logit if fused is None or LOSS not in self.fusion.fused else fused

    def attention_kernel(self, family: str) -> str:
        """Return the generation of fused attention kernels that it takes on a family of devices."""
        return self.attention_kernels.get(family, self.attention_kernels.get("default", "flash-2"))

    def states_in(self, dtype: str, mixed: StateBytes | None = None) -> StateBytes:
        """Model states in a compute dtype: ``mixed`` precision (None: the model's), or full without copies."""
        if dtype in ("fp32", "tf32"):
            return FULL_PRECISION
        # Below 16 bits, gradients are those of bf16.
        own, gradients = self.memory.states, self.memory.gradients.get(dtype, self.memory.gradients.get("bf16"))
        return mixed or (own if gradients is None else replace(own, gradients=gradients))

    def compiled(self) -> "Framework":
        """Return the framework with its element-wise operators fused by a compiler.

        In the compiled graph a wait follows its collective. Left out: the time of compiling, and graph capture.
        """
        kernels = COMPILED - {"rope"} if self.native.complex_rope else COMPILED
        memory, allocation = self.memory, self.allocation
        if self.native.compiles_loss:
            loss = min(memory.loss_bytes_per_logit, FUSED_LOSS_BYTES)
            memory = replace(memory, loss_bytes_per_logit=loss)
            split = min(allocation.split_loss_bytes_per_logit, FUSED_LOSS_BYTES)
            allocation = replace(allocation, split_loss_bytes_per_logit=split)
        else:
            kernels -= {LOSS}
        return replace(
            self,
            fusion=replace(self.fusion, fused=self.fusion.fused | kernels),
            native=replace(self.native, waits_for_keys=True),
            adapters=replace(self.adapters, fused=True),
            memory=memory,
            allocation=allocation,
        )
