"""An inference engine's behavior in groups: kernels, collectives, scheduling, memory.

A group that one engine alone has is named after it; its defaults change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sightline.content import fix_mappings
from sightline.frameworks.serving import Serving

AllReduce = Literal["nccl", "custom", "vllm", "sglang", "trtllm"]
ExpertDispatch = Literal["all-gather", "all-to-all", "fewest-bytes"]
StreamKernels = Literal["scalar", "vectorized"]
FusedKernel = Literal["qkv", "gate-up", "norm", "layernorm", "rope", "activation", "quantization"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKernels:
    """Kernels that an engine launches."""

    fused: frozenset[FusedKernel] = frozenset()
    """Fused kernels: qkv, gate-up, norm (an RMS norm takes the residual before it along), layernorm (a layer norm takes
    residual and bias along), rope, activation, quantization."""
    stream_kernels: StreamKernels = "vectorized"
    """How norms, rotations, activations and the like were written."""
    grouped_heads: tuple[int, ...] | None = None
    """Query heads per key/value head that a decoding kernel serves together, on matrix units; with any other number
    each head reads its keys and values by itself, on vector units. None: the device's kernels serve any."""
    matrix_vector_rows: float = 0.0
    """Rows up to which decoding multiplies in kernels of the engine's own, which unpack weights on the way and compute
    on the vector units; 0 for none."""
    matrix_vector_16_bit: bool = True
    """Those kernels serve weights in 16 bits too, not only quantized ones."""
    weight_bytes: Mapping[str, float] = field(default_factory=dict)
    """Bytes of a weight with its scales, by format, where the engine's groups are not the usual ones."""
    product_kernels: Mapping[str, float] = field(default_factory=dict)
    """Kernels that a product takes, by format of the weights, where they are more than one."""
    eager: bool = False
    """Operators are called one after the other, as a model's own code does; otherwise the engine has kernels for
    them."""
    captured_tokens: float = 0.0
    """New tokens up to which passes with prompts run from captured graphs too, but for their attention; 0: none do."""
    joins_attention: bool = False
    """One kernel serves the attention of prompts and of decoding sequences in a pass that has both."""
    quantizes_head: bool = False
    """The head is quantized with the other weights."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """How ranks exchange activations."""

    all_reduce: AllReduce = "nccl"
    """custom: one- and two-shot kernels over peer memory for small messages, as the usual engine has; an engine's name:
    its own kernels, of the release that runs."""
    reduces_over_domain: bool = False
    """Those kernels reach every device that one switch joins, across hosts too, and not only those of a host."""
    block_bandwidth: float | None = None
    """Bytes per second that a block of those kernels takes in from its peers, where blocks share a message evenly, so
    that next to none of them work where its size has a large prime factor; None: as many as the links need."""
    launches: bool = True
    """Starting a collective takes time; in a bound only its hops and bytes do."""
    dispatch: ExpertDispatch = "all-gather"
    """How tokens reach experts on other data-parallel ranks: everything to all, each token where it is needed, or
    whichever moves less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """How requests become passes."""

    mixed_batches: bool = False
    """A decoding step takes waiting prompts along, instead of letting them go first."""
    reserves_cache: bool = False
    """A sequence is admitted when its whole cache fits; otherwise it gets blocks as it grows."""
    pipeline_micro_batches: bool = False
    """A batch is cut into as many micro-batches as there are pipeline stages, which then work at the same time."""
    micro_batch_tokens: float | None = None
    """Instead, a batch that the stages divide is split over them, and any is halved, while even, to so many tokens."""
    splits_layers: bool = False
    """Devices that no degree claims hold layers each, instead of being replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMemory:
    """Memory outside weights and cache."""

    memory_fraction: float
    """Share of the device's memory that weights, cache and activations may take."""
    context_bytes: float
    """Memory taken before the first tensor: driver context, kernels, communicators, captured graphs."""
    cache_share: float = 1.0
    """Of what the weights leave of the device, the share that a cache under load takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCpp:
    """Behavior of ggml's backends; the defaults change nothing."""

    pipelines_chunks: bool = False
    """The pieces of a prompt follow each other through the stages that hold layers each, all of them at work."""
    joined_kernels: float = 0.0
    """Kernels of a layer that the program joins to others, but that the host launches one by one: they count where the
    queue of launches is what fills up."""
    copies_over_host: bool = False
    """Devices that hold layers each hand a prompt's activations over through the host's memory, not from peer to
    peer."""
    writes_scores: bool = False
    """Attention is a product, a softmax and a product, with the scores in memory between them."""
    context_granule: float = 0.0
    """Tokens that the context is rounded up to where scores are written to memory; 0 where it is not."""
    expands_weights: bool = False
    """Products of prompts run in the vendor's library, in 16 bits: quantized weights are written out before each, and
    results are widened after it; not on devices without matrix units."""
    product_columns: float = 0.0
    """On devices without matrix units products unpack quantized weights themselves, anew for every so many columns; 0
    where that costs nothing."""
    sums_in_fp16: bool = False
    """16-bit products are added up in 16 bits, which is faster on some devices (peak ``fp16-accumulate``)."""
    activation_bytes: float | None = None
    """Bytes of an activation between products; None means as many as the plan's type has."""
    stream_instructions: float = 0.0
    """Vector instructions per element that kernels between products move, where they may outlast the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurboMind:
    """Behavior of LMDeploy's TurboMind; the defaults change nothing."""

    first_alone: bool = False
    """A prompt that finds the engine idle is taken at once and those sent with it wait for its step: of batches that
    are sent again and again one sequence is always ahead."""
    decodes_single_tokens: bool = False
    """A prompt of one token runs as a decoding step and costs the host no prefill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What an engine runs, for searches that choose one; a scenario that names the engine is answered anyway."""

    architectures: tuple[str, ...] = ()
    """Beginnings of the names of architectures that it has kernels for; none: searches leave the engine out."""
    mixers: tuple[str, ...] = ()
    """Kinds of layers besides those of softmax attention."""
    experts: bool = False
    degrees: tuple[str, ...] = ()
    """Degrees of ``plan`` that it has; searches leave the others at 1."""
    formats: tuple[str, ...] = ()
    """Words of ``plan.quantization`` that it serves weights and caches in, besides 16 bits."""
    disaggregation: bool = False
    """Workers that only prefill hand keys and values to workers that decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An inference engine. ``offers`` lists the allowed values of the plan's field of that name."""

    name: str
    version: str = ""
    since: str = ""
    """Month of the first release of its line; empty where nobody looked it up."""
    kernels: EngineKernels = EngineKernels()
    collectives: Collectives = Collectives()
    scheduling: Scheduling = Scheduling()
    serving: Serving = field(default_factory=Serving)
    memory: EngineMemory
    support: Support = Support()
    llama_cpp: LlamaCpp = field(default_factory=LlamaCpp)
    lmdeploy: TurboMind = field(default_factory=TurboMind)
    offers: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Values of plan fields that a scenario leaves out."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    @property
    def all_reduce_library(self) -> str:
        """Whose all-reduce kernels run, with the release where an engine's own are known by it."""
        kernels = self.collectives.all_reduce
        own = kernels not in ("nccl", "custom") and self.version[:1].isdigit()
        return f"{kernels} {self.version}" if own else kernels
