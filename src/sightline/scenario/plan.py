"""How the work is laid out: parallelism, memory techniques, precision, framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.frameworks import Framework, TensorOverlap
from sightline.frameworks.choices import CHOICES, REDUCE_BYTES, STATES, choices_of, with_choices
from sightline.frameworks.framework import Overlap
from sightline.quantities import COUNT, Count, Number
from sightline.scenario.precision import Fp8Recipe, high_precision_dtype
from sightline.scenario.techniques import Adapter, Recomputation
from sightline.validators import anything, as_stated, choice, flag, list_of, quantity, text, whole

Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe"]
Split = Literal["pipeline", "data"]
"""What groups of unlike devices run: stages of every replica, or whole replicas."""
AttentionKernel = Literal["flash", "eager"]
FLASH_KERNELS = ("flash-1", "flash-2", "flash-3", "triton", "cudnn")
"""Fused attention kernels of training: FlashAttention's generations, the one in Triton, cuDNN's."""
ContextExchange = Literal["ring", "all-gather", "all-to-all", "mixed"]
"""How the ranks of a split sequence see each other's keys: see `sightline.program.techniques.context_parallel`."""
ExpertDispatch = Literal["all-to-all", "deduplicated"]
"""How tokens reach experts on other ranks: a copy for each chosen expert, or one for each rank and, between nodes, each
node that holds any of them (DeepEP, HybridEP)."""

OFFLOADABLE = ("optimizer", "parameters", "activations")
"""What may be offloaded to the host's memory."""

TRAINING_QUANTIZATIONS = ("nf4", "nf4-single", "int8", "int4")
"""Formats of frozen weights: NF4 with quantized scales (QLoRA, arXiv 2305.14314) or with scales in fp32, int8 as in
LLM.int8() (arXiv 2208.07339), int4 in groups of 128 (GPTQ, arXiv 2210.17323)."""

UPCAST = ("nf4", "nf4-single", "int8")
"""Those of bitsandbytes, beside which norms may be fp32."""

OPTIMIZERS = ("adamw", "adamw-fused", "adamw-unfused", "adamw-8bit", "muon", "sgd", "sgd-momentum")
"""AdamW as the framework has it, in one kernel, in separate ones, with moments of one byte (arXiv 2110.02861); Muon
(arXiv 2502.16982); stochastic gradient descent without and with momentum."""


SHORT_DEGREES = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "context_parallel": "cp",
    "data_parallel": "dp",
    "expert_parallel": "ep",
    "expert_tensor_parallel": "etp",
}
"""What degrees are called where there is little room."""
DEGREE = whole(1, 10**7)
"""Ranks that something is spread over."""
AMOUNT = quantity(COUNT, zero=True)
"""A number of 0 or more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A resolved plan: every field has a value, every degree may be an array that broadcasts with the others.

    Fields that are None by default are the framework's own behavior (`sightline.frameworks.choices`), where they say
    nothing else.
    """

    framework: Framework
    tensor_parallel: Annotated[Count, DEGREE] = 1
    """Devices that every layer's matrices are split over; a divisor of the heads."""
    pipeline_parallel: Annotated[Count, DEGREE] = 1
    """Stages that the layers are split into; up to layers + 2."""
    data_parallel: Annotated[Count, DEGREE] = 1
    """Replicas; default: what is left of the cluster."""
    context_parallel: Annotated[Count, DEGREE] = 1
    """Devices that split a sequence, attention included; half of the sequence must be a multiple of it."""
    context_exchange: ContextExchange = "ring"
    """How attention of a split sequence gets keys and values of the other devices."""
    data_parallel_shard: Annotated[Count | None, DEGREE] = None
    """Data-parallel ranks that ZeRO shards one copy of the states over, a divisor of ``data_parallel``; groups of them
    sum their gradients (hybrid sharding, HSDP, arXiv 2304.11277; MiCS, arXiv 2205.00119); default: all of them."""
    expert_parallel: Annotated[Count, DEGREE] = 1
    """Ranks that split a layer's experts, among the tensor x context x data ranks of a stage; a divisor of the
    experts."""
    expert_tensor_parallel: Annotated[Count, DEGREE] = 1
    """Ranks that split each expert; a divisor of the experts' width. In generation the ranks that are left."""
    expert_skew: Annotated[Number, AMOUNT] = 0.0
    """How unevenly tokens choose experts: a rank's lasting relative deviation, beyond chance."""
    expert_capacity: Annotated[float, AMOUNT] = 0.0
    """Tokens that an expert takes from a rank, relative to its even share, with padding and dropped tokens (arXiv
    2101.03961); 0 drops nothing."""
    expert_dispatch: ExpertDispatch = "all-to-all"
    """A copy of a token for each chosen expert, or one for each rank and node."""
    expert_overlap: bool = False
    """The exchange of experts overlaps the compute of another micro-batch."""
    prediction_layers: Annotated[int, whole(0)] = 0
    """Layers for multi-token prediction, trained with the model's own layers (arXiv 2412.19437); up to the model's."""
    micro_batch: Annotated[Count | None, whole()] = None
    """Samples per pass, a divisor of a replica's share of the batch; default: the fastest that fits."""
    virtual_stages: Annotated[Count, DEGREE] = 1
    """Chunks of layers per stage; above 1 the schedule is interleaved."""
    zero_stage: Annotated[Count, choice(0, 1, 2, 3)] = 0
    """What replicas shard: nothing, optimizer, gradients, parameters."""
    sequence_parallel: Annotated[Count | bool, flag] = False
    """Activations between tensor-parallel regions are split along the sequence (arXiv 2205.05198)."""
    tensor_overlap: TensorOverlap | None = None
    """Tensor-parallel collectives that overlap matmuls; ``all`` needs ``sequence_parallel``, with which Megatron always
    overlaps those of its backward pass."""
    overlap_gradient_reduce: bool | None = None
    """The reduction of gradients overlaps the backward pass (Megatron's ``--overlap-grad-reduce``)."""
    overlap_parameter_gather: bool | None = None
    """The gather of sharded parameters overlaps compute (Megatron's ``--overlap-param-gather``)."""
    gradient_reduce_dtype: Annotated[str | None, choice(*REDUCE_BYTES)] = None
    """Format in which data parallelism moves gradients (Megatron's ``--grad-reduce-in-bf16``, FSDP's
    ``reduce_dtype``)."""
    schedule: Schedule | NDArray[np.str_] = "1f1b"
    """Order of micro-batches in the pipeline; zero bubble (ZB-H1) runs weight gradients separately, DualPipe feeds the
    pipeline from both ends, so that a device holds two stages: no array of several schedules holds it."""
    recompute: Annotated[str | Recomputation, anything] = "none"
    """Activations computed again in the backward pass: none, selective (as the framework means it), full (whole
    layers), a list of modules, or a mapping of modules, layers, every and together."""
    attention: AttentionKernel = "flash"
    """One kernel, or scores written to memory; default: flash, but eager for release lines of Megatron before 2023 and
    for dates before 2022-05, when FlashAttention appeared."""
    attention_kernel: Annotated[str | None, choice(*FLASH_KERNELS)] = None
    """Generation of the flash kernel; default: the framework's on the device."""
    fused_loss: bool | None = None
    """The cross-entropy is one kernel without an fp32 copy of the logits (Megatron's
    ``--cross-entropy-loss-fusion``)."""
    fused_norm: bool | None = None
    """An RMSNorm is one kernel instead of seven; LayerNorm always is one."""
    fused_rope: bool | None = None
    """Queries and keys are rotated by a kernel each (not with Megatron's ``--no-rope-fusion``)."""
    fused_activation: bool | None = None
    """A gated activation is one kernel (not with Megatron's ``--no-bias-swiglu-fusion``)."""
    expert_launches: Annotated[str | None, choice("grouped", "each")] = None
    """One kernel for the matmuls of all experts, or one for each; only with ``each`` the host waits for the experts'
    token counts."""
    vocabulary_parallel: bool | None = None
    """Tensor-parallel ranks split embedding and head; otherwise each holds both whole (Galvatron's ``vocab_tp``)."""
    state_dtype: Annotated[str | None, choice(*STATES)] = None
    """Format of weights, gradients and the optimizer's moments where all have the same (torchtitan's
    ``training.dtype``, MosaicML's ``PURE``)."""
    dtype: Annotated[str, text] = "bf16"
    """Compute type of the layers' matmuls: fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4; below 16 bits the rest computes
    in ``high_precision_dtype``."""
    fp8_recipe: Fp8Recipe = "current"
    """How plain fp8 is scaled."""
    fp8_parameter_gather: bool | None = None
    """Weights are kept and gathered in the low precision alone, next to the optimizer's master weights (Megatron's
    ``--fp8-param-gather``)."""
    fp8_transpose_cache: bool | None = None
    """On Hopper, low-precision weights are kept in both layouts instead of transposed in every backward pass."""
    bf16_layers: Annotated[Count, whole(0, 10**5)] = 0
    """Layers that stay in 16 bits when the others have low precision."""
    narrow_head: bool = False
    """The head's matmuls use the layers' low precision (Megatron-Core's ``fp8_output_proj``)."""
    quantization: Annotated[str, anything] = "none"
    """Format of the layers' weights, frozen with or without an adapter: nf4, nf4-single, int8 or int4."""
    adapter: Annotated[Adapter | None, anything] = None
    """Low-rank matrices that are trained while the weights stay frozen: none, lora, qlora, or a mapping; none trains
    every weight that is not quantized."""
    adapter_exchange: Annotated[str | None, choice("all-gather", "all-to-all")] = None
    """How outputs of adapters on row-split projections reach their tokens' ranks with sequence parallelism (NeMo's
    ``a2a_experimental``)."""
    offload: Annotated[frozenset[str] | Mapping[str, Number], anything] = frozenset()
    """What is stored in the host's memory: none, or a list of optimizer, parameters and activations. Of many plans 1.0
    where a part is, else 0.0."""
    optimizer: Annotated[str, choice(*OPTIMIZERS)] = "adamw"
    """The update of the weights; adamw is the framework's own implementation."""
    split: Split | None = None
    """Heterogeneous clusters only: each device type runs stages of every replica, or its own replicas; default: the
    faster that fits."""
    stage_layers: Annotated[tuple[int, ...] | None, list_of()] = None
    """Layers of the pipeline stages in order; default: as the framework splits them, on heterogeneous clusters the
    fastest that fits."""
    group_batches: Annotated[tuple[int, ...] | None, list_of()] = None
    """Heterogeneous clusters only: sequences of a step that each device type takes; default: by speed."""
    compile: bool = False
    """A compiler fuses element-wise kernels."""
    launch_blocking: bool = False
    """The host waits for every kernel that it launches (``CUDA_LAUNCH_BLOCKING=1``)."""

    def __post_init__(self) -> None:
        """Let the framework behave as the plan's choices say."""
        choices = {name: getattr(self, name) for name in CHOICES}
        object.__setattr__(self, "framework", with_choices(self.framework, choices, self.dtype))

    @property
    def sequences(self) -> Count:
        """The micro-batch, once it is known."""
        if self.micro_batch is None:
            raise ValueError("the micro-batch is not set")
        return self.micro_batch

    def offloads(self, part: str) -> Number:
        """Return 1.0 where a part of ``OFFLOADABLE`` is offloaded, else 0.0."""
        return self.offload.get(part, 0.0) if isinstance(self.offload, Mapping) else 1.0 * (part in self.offload)

    def runs(self, schedule: Schedule) -> Any:
        """Return whether the pipeline's schedule is that one."""
        return self.schedule == schedule

    @property
    def both_ways(self) -> bool:
        """Whether micro-batches enter the pipeline at both ends (DualPipe)."""
        return isinstance(self.schedule, str) and self.schedule == "dualpipe"

    @property
    def high_precision_dtype(self) -> str:
        """Compute type of everything but the layers' linear products, and of gradients."""
        return high_precision_dtype(self.dtype)

    @property
    def upcasts(self) -> bool:
        """Whether norms and activations between products are fp32 beside 16-bit products of quantized weights."""
        if self.adapter is None or self.quantization not in UPCAST or self.dtype not in ("bf16", "fp16"):
            return False
        return self.framework.adapters.upcasts if self.adapter.upcast is None else self.adapter.upcast

    @property
    def replicas(self) -> Count:
        """Ranks with the same weights, which add up their gradients: data-parallel and context-parallel ones."""
        return self.data_parallel * self.context_parallel

    @property
    def overlap(self) -> Overlap:
        """The framework's overlap of communication; none where the host waits for every kernel."""
        return Overlap() if self.launch_blocking else self.framework.overlap

    @property
    def recomputation(self) -> Recomputation | None:
        """What ``recompute`` means under this framework; None where nothing runs again."""
        match self.recompute:
            case Recomputation():
                return self.recompute
            case "none":
                return None
            case "selective":
                return Recomputation(modules=frozenset(self.framework.selective))
            case _:
                return Recomputation()

    @property
    def replica_groups(self) -> Number:
        """Replica groups of hybrid sharding, each of which holds all states; 1 where ZeRO shards over all ranks."""
        return 1.0 if self.data_parallel_shard is None else self.data_parallel / self.data_parallel_shard

    @property
    def shards(self) -> Number:
        """Ranks that the states of one replica group are sharded over."""
        ranks = self.data_parallel if self.data_parallel_shard is None else self.data_parallel_shard
        return 1.0 * ranks * self.context_parallel

    @property
    def expert_shards(self) -> Number:
        """Ranks that the states of the same experts are sharded over in one replica group."""
        return self.expert_replicas / self.replica_groups

    @property
    def expert_replicas(self) -> Number:
        """Ranks with the same experts."""
        ranks = self.tensor_parallel * self.replicas
        return ranks / (self.expert_parallel * self.expert_tensor_parallel)

    def to_dict(self) -> dict[str, object]:
        """The plan's fields by name, the framework by its name and version."""
        out = fields_of(self) | choices_of(self.framework, self.dtype)
        out["framework"] = {"like": self.framework.name} if self.framework.is_like else self.framework.name
        out["offload"] = [name for name in OFFLOADABLE if name in self.offload] or "none"
        if isinstance(self.recompute, Recomputation):
            out["recompute"] = self.recompute.stated()
        adapter = {} if self.adapter is None else as_stated(self.adapter)
        out["adapter"] = {key: value for key, value in adapter.items() if value is not None} or "none"
        if self.dtype != "fp8":
            del out["fp8_recipe"]
        if not self.launch_blocking:
            del out["launch_blocking"]
        if self.gradient_reduce_dtype is None and self.framework.sharding.replicas_keep_dtype:
            del out["gradient_reduce_dtype"]
        if self.framework.version:
            out["framework_version"] = self.framework.version
        return out
