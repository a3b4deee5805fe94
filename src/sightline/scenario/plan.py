"""How the work is laid out: parallelism, memory techniques, precision, framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.frameworks import Framework, TensorOverlap
from sightline.frameworks.choices import CHOICES, choices_of, with_choices
from sightline.quantities import Count, Number
from sightline.scenario.precision import Fp8Recipe, high_precision_dtype
from sightline.scenario.techniques import Adapter, Recomputation

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

OPTIMIZERS = ("adamw", "adamw-fused", "adamw-unfused", "adamw-8bit", "muon", "sgd", "sgd-momentum")
"""AdamW as the framework has it, in one kernel, in separate ones, with moments of one byte (arXiv 2110.02861); Muon
(arXiv 2502.16982); stochastic gradient descent without and with momentum."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A resolved plan: every field has a value, every degree may be an array that broadcasts with the others."""

    framework: Framework
    tensor_parallel: Count = 1
    pipeline_parallel: Count = 1
    data_parallel: Count = 1
    context_parallel: Count = 1
    """Ranks that a sequence is split over, attention included."""
    context_exchange: ContextExchange = "ring"
    """How attention of a split sequence gets keys and values of the other ranks."""
    data_parallel_shard: Count | None = None
    """Data-parallel ranks that ZeRO shards the states over. Their groups hold replicas, whose gradients are summed
    (hybrid sharding, arXiv 2304.11277; MiCS, arXiv 2205.00119). None: all of them."""
    expert_parallel: Count = 1
    """Ranks that the experts are spread over; they are among the data x context x tensor ranks of a stage."""
    expert_tensor_parallel: Count = 1
    """Ranks that each expert is split over."""
    expert_skew: Number = 0.0
    """Lasting unevenness of the experts' load: a rank's relative deviation, in addition to that of a random choice."""
    expert_capacity: float = 0.0
    """Tokens that an expert takes from a rank, as a multiple of its even share: it is padded to them and drops the rest
    (arXiv 2101.03961). 0 drops nothing."""
    expert_dispatch: ExpertDispatch = "all-to-all"
    expert_overlap: bool = False
    """Tokens of one micro-batch travel to experts while another is computed."""
    prediction_layers: int = 0
    """Layers for multi-token prediction that are trained in addition to the model's own (arXiv 2412.19437)."""
    micro_batch: Count | None = None
    """Sequences per forward pass and data-parallel rank; None asks ``predict`` for the fastest that fits."""
    virtual_stages: Count = 1
    """Chunks of layers per pipeline stage; above 1 the schedule is interleaved."""
    zero_stage: Count = 0
    sequence_parallel: Count | bool = False
    """Activations between tensor-parallel regions are split along the sequence (arXiv 2205.05198)."""
    tensor_overlap: TensorOverlap | None = None
    """Tensor-parallel collectives that overlap with matmuls; None: those that the framework overlaps by itself."""
    overlap_gradient_reduce: bool | None = None
    """Gradients are reduced while the backward pass goes on. This and the fields below that are None, too, are the
    framework's own behavior (`sightline.frameworks.choices`)."""
    overlap_parameter_gather: bool | None = None
    """Sharded parameters are gathered while the passes that need them go on."""
    gradient_reduce_dtype: str | None = None
    """Format in which data parallelism moves gradients: fp32, bf16 or fp16."""
    schedule: Schedule | NDArray[np.str_] = "1f1b"
    """An array of several does not hold ``dualpipe``, under which a device holds two stages."""
    recompute: str | Recomputation = "none"
    """``none``; ``selective``, as the framework means it; ``full``, whole layers; or what is recomputed, and where."""
    attention: AttentionKernel = "flash"
    attention_kernel: str | None = None
    """Generation of fused attention kernels, of ``FLASH_KERNELS``; None: the framework's on the device."""
    fused_loss: bool | None = None
    """The loss is one kernel that makes no fp32 copy of the logits."""
    expert_launches: str | None = None
    """The experts' products are one kernel (grouped), or a kernel for each (each)."""
    vocabulary_parallel: bool | None = None
    """Tensor-parallel ranks split embedding and head; otherwise each holds both whole."""
    state_dtype: str | None = None
    """Format that weights, gradients and the optimizer's moments are all held in: fp32 or bf16."""
    dtype: str = "bf16"
    """Compute type of the layers' linear products; below 16 bits the rest computes in ``high_precision_dtype``."""
    fp8_recipe: Fp8Recipe = "current"
    """How plain fp8 is scaled."""
    fp8_parameter_gather: bool | None = None
    """Weights are kept and gathered in the low precision alone, next to the optimizer's master weights."""
    fp8_transpose_cache: bool | None = None
    """Where products take low-precision weights in one layout alone, both passes have a copy."""
    bf16_layers: Count = 0
    """Layers that stay in 16 bits where the others compute in low precision."""
    narrow_head: bool = False
    """The head's products compute in the layers' low precision (Megatron-Core's ``fp8_output_proj``)."""
    quantization: str = "none"
    """Format in which the layers' matmul weights are kept; they are frozen, with or without an adapter."""
    adapter: Adapter | None = None
    """What is trained next to frozen weights; None trains every weight that is not quantized."""
    adapter_exchange: str | None = None
    """How outputs of adapters on row-split projections reach their tokens' ranks: all-gather or all-to-all."""
    offload: frozenset[str] | Mapping[str, Number] = frozenset()
    """What is offloaded to the host's memory, of ``OFFLOADABLE``; of many plans 1.0 where a part is, else 0.0."""
    optimizer: str = "adamw"
    split: Split | None = None
    """What the groups of unlike devices run: stages of a pipeline, or replicas of their own. None: the faster that
    fits, or that all devices are equal."""
    stage_layers: tuple[int, ...] | None = None
    """Layers of each pipeline stage, in order; None splits them as the framework does, and over unlike devices as the
    fastest pipeline has them."""
    group_batches: tuple[int, ...] | None = None
    """Sequences of a step that each group of unlike devices takes; None shares them by speed."""
    compile: bool = False
    """A compiler fuses element-wise operators."""

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
    def replicas(self) -> Count:
        """Ranks with the same weights, which add up their gradients: data-parallel and context-parallel ones."""
        return self.data_parallel * self.context_parallel

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
        out = fields_of(self) | choices_of(self.framework, self.dtype) | {"framework": self.framework.name}
        out["offload"] = [name for name in OFFLOADABLE if name in self.offload] or "none"
        if isinstance(self.recompute, Recomputation):
            out["recompute"] = self.recompute.stated()
        out["adapter"] = "none" if self.adapter is None else self.adapter.stated()
        if self.dtype != "fp8":
            del out["fp8_recipe"]
        if self.framework.version:
            out["framework_version"] = self.framework.version
        return out
