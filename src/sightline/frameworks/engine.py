"""An inference engine's behavior in groups: kernels, collectives, scheduling, memory.

A group that one engine alone has is named after it; its defaults change nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from math import inf
from typing import Literal, NamedTuple

import numpy as np

from sightline.content import description, fix_mappings
from sightline.quantities import Count, Number, either, larger, smaller

Policy = Literal["vllm", "vllm-0", "sglang", "tgi", "lightllm", "transformers", "tensorrt-llm", "orca", "static"]
Order = Literal["fcfs", "priority", "longest-prefix"]
Reservation = Literal["chunk", "prompt", "estimate", "answer"]
MOST_SEQUENCES = 256
"""Sequences that run at once where an engine states no limit of any kind."""
LEAST_BUDGET = 2048
"""Tokens per iteration of vLLM before chunked prefill, for models with a shorter context."""


@description
class DeviceClass:
    """Limits that an engine takes on devices with at least so much memory."""

    from_memory_bytes: float
    except_devices: tuple[str, ...] = ()
    """Beginnings of names of devices that the class leaves out."""
    max_sequences: int | None = None
    max_batched_tokens: int | None = None
    captured_sequences: tuple[int, int] | None = None
    """Sequences of the largest decode step that a graph captures, on fewer than ``MANY_RANKS`` and on more; a reserve
    of memory has room for it. None: as many as the engine's kernels say."""


MANY_RANKS = 4
"""Tensor-parallel ranks from which SGLang captures larger decode steps."""


@description
class Serving:
    """The scheduler of an engine under load."""

    policy: Policy = "vllm"
    """Which rules form its iterations."""
    max_sequences: int | None = 256
    """Sequences that run at once; None: as many as the server holds (`max_concurrent_requests`)."""
    max_batched_tokens: int | None = None
    """New tokens per iteration; None: as many as the model's context has, and no fewer than `LEAST_BUDGET`."""
    budget_share: float = 0.0
    """Share of the cache's tokens that an iteration may have of new ones, where that is more."""
    device_classes: tuple[DeviceClass, ...] = ()
    """By memory, ascending: the last that a device is in replaces the two limits above and bounds captured graphs."""
    max_prefill_tokens: int | None = None
    """Prompt tokens after which an iteration takes no further prompt, where that is not the budget; None for no such
    limit."""
    max_concurrent_requests: int | None = None
    """Requests in the server, waiting or running, beyond which others are refused; None for any number."""
    order: Order = "fcfs"
    """Which of the waiting requests goes first."""
    orders: tuple[Order, ...] = ("fcfs",)
    """What ``plan.scheduler`` may ask of it."""
    reserves: Reservation = "chunk"
    """What has to fit in free blocks before a request is admitted: its first chunk, its whole prompt, its prompt and
    what the policy estimates for answers, or its prompt and its longest answer."""
    watermark: float = 0.0
    """Share of the cache's blocks that admission leaves free."""
    reserved_blocks: int = 0
    """Blocks that no request gets: for padding, or for health checks."""
    prefix_from: Literal["scheduled", "computed", "ended"] = "scheduled"
    """When others may find a prompt's blocks: once it is scheduled, has been computed, or has been answered."""
    prefix_answers: bool = True
    """Answers stay in the prefix cache too."""
    drafts_ahead: bool = False
    """``async_scheduling`` stays on where a model's own layers draft."""
    request_s: float = 0.0
    """Seconds of the front end, the process between clients and engine, on a request: HTTP, checks, template. It does
    one thing at a time, on a host of speed 1 so fast; 0 where many threads do."""
    template_s: float = 0.0
    """The same where it parses the model's chat template for every request."""
    without_template: tuple[str, ...] = ()
    """Beginnings of the names of models that it has no need of one for."""
    request_token_s: float = 0.0
    """The same per token of the prompt: splitting text into tokens."""
    chunk_s: float = 0.0
    """The same per token of an answer: joining tokens to text, and sending it."""
    wait_steps: int = 0
    """Decode steps between looks at the waiting prompts, where there are running sequences."""
    waiting_share: float = 0.0
    """Waiting requests, as a share of the running ones, that end this wait sooner; 0: nothing does."""
    answer_share: float = 1.0
    """Share of the tokens to come that running sequences are expected to need, at first (SGLang's new token ratio)."""
    least_answer_share: float = 1.0
    """What that share falls to, step by step."""
    answer_share_steps: int = 1
    """Decode steps in which it does."""
    group_answer_share: float = 1.0
    """What both shares are multiplied by where data-parallel ranks share experts."""
    groups_share_budget: bool = False
    """Those ranks divide the tokens of an iteration among them."""
    computes_last: bool = False
    """Where other workers process prompts, those that decode compute the last token of each again, whose result is the
    first token; otherwise that comes with the keys and values."""
    decode_tokens: int = 0
    """Tokens that these workers keep free for the answer of each request, before they take another one."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Plan fields whose value, unless stated, is another under load than for a batch."""
    assumed: tuple[str, ...] = ()
    """Fields of this group that were not read in the engine's sources, but taken from another engine or release."""
    source: str = ""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def by_class(self, device: str, memory_bytes: Number, limit: Callable[[DeviceClass], Number | int]) -> Number:
        """Return a limit of the last class that a device is in, or of one without any; its memory may be an axis."""
        found: Number = 1.0 * limit(DeviceClass(from_memory_bytes=0.0))
        for known in self.device_classes:
            if not device.startswith(known.except_devices):
                found = either(memory_bytes >= known.from_memory_bytes, limit(known), found)
        return found

    def running_of(self, held: int | None = None) -> int:
        """Return how many sequences run at once where the server holds so many requests; None: its default."""
        return self.max_sequences or held or self.max_concurrent_requests or MOST_SEQUENCES


class Limits(NamedTuple):
    """What an iteration of an engine may hold at most."""

    max_sequences: int
    max_batched_tokens: int


def serving_limits(
    serving: Serving, device: str, memory_bytes: float, context_tokens: int, *, chunked: bool = True, groups: int = 1
) -> Limits:
    """Return the limits that a rank takes by itself on a device, for a model with a context.

    Where prompts are not ``chunked``, vLLM's iterations have room for the longest (``EngineArgs``: the larger of its
    usual budget and ``max_model_len``). ``groups`` are the data-parallel ranks that share experts.
    """
    sequences, tokens = (
        int(serving.by_class(device, memory_bytes, limit))
        for limit in (
            lambda known: known.max_sequences or serving.running_of(),
            lambda known: known.max_batched_tokens or serving.max_batched_tokens or 0,
        )
    )
    least = context_tokens if serving.policy == "vllm" and not chunked else 0
    budget = max(tokens, least) if tokens else max(context_tokens, LEAST_BUDGET)
    return Limits(sequences, budget // groups if serving.groups_share_budget else budget)


AllReduce = Literal["nccl", "custom", "vllm", "sglang", "trtllm"]
ExpertDispatch = Literal["all-gather", "all-to-all", "fewest-bytes"]
StreamKernels = Literal["scalar", "vectorized"]
Sampler = Literal["sorting", "rejection"]
FusedKernel = Literal["qkv", "gate-up", "norm", "layernorm", "rope", "activation", "quantization", "attention"]


@description
class EngineKernels:
    """Kernels that an engine launches."""

    fused: frozenset[FusedKernel] = frozenset()
    """Fused kernels: qkv, gate-up, norm (an RMS norm takes the residual before it along), layernorm (a layer norm takes
    residual and bias along), rope, activation, quantization, attention (one that decodes rotates and writes the
    cache, too)."""
    stream_kernels: StreamKernels = "vectorized"
    """How norms, rotations, activations and the like were written."""
    grouped_heads: tuple[int, ...] | None = None
    """Query heads per key/value head that a decoding kernel serves together, on matrix units; with any other number
    each head reads its keys and values by itself, on vector units. None: the device's kernels serve any."""
    matrix_vector_rows: float = 0.0
    """Rows up to which decoding multiplies in kernels of the engine's own, which unpack weights on the way; 0 for
    none."""
    matrix_vector_units: Literal["vector", "matrix"] = "vector"
    """What they multiply on. Matrix units keep up with the memory, so that a product takes as long as its weights."""
    matrix_vector_16_bit: bool = True
    """Those kernels serve weights in 16 bits too, not only those that are narrower than their inputs."""
    weight_bytes: Mapping[str, float] = field(default_factory=dict)
    """Bytes of a weight with its scales, by format, where the engine's groups are not the usual ones."""
    product_kernels: Mapping[str, float] = field(default_factory=dict)
    """Kernels that a product takes, by format of the weights, where they are more than one."""
    eager: bool = False
    """Operators are called one after the other, as a model's own code does; otherwise the engine has kernels for
    them."""
    choice_kernels: float = 2.0
    """Kernels that choose the experts of a token."""
    latent_kernels: float = 0.0
    """Further small kernels of a decode step around attention to latent vectors."""
    captured_tokens: float = 0.0
    """New tokens up to which passes with prompts run from captured graphs too, but for their attention; 0: none do."""
    captured_decodes: float = inf
    """The same of passes that only decode."""
    captured_per_sequence: float = inf
    """The same of any pass for each sequence that may run and each token that it has in a pass, where that is less."""
    captured_with_groups: float = inf
    """Sequences of the largest decode step that a graph captures where data-parallel ranks share experts, at most."""
    python_launches: bool = False
    """Without graphs a pass is Python that calls kernel by kernel (`eager_launch_s`), neither compiled nor C++."""
    joins_attention: bool = False
    """One kernel serves the attention of prompts and of decoding sequences in a pass that has both."""
    mxfp4_multiples: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """What hidden size and a rank's width of experts in MXFP4 are padded to multiples of, by beginning of the device's
    architecture."""
    scalar_experts: bool = False
    """Experts' activations move one element per instruction, as kernels of 2023 did."""
    whole_blocks: Mapping[str, float] = field(default_factory=dict)
    """Rows of a block, by format of experts' weights, where their kernel takes as many blocks as tokens could begin on
    the rank's experts, and multiplies the empty ones too."""
    whole_blocks_split: float = inf
    """Ranks that split each expert from which on it is another kernel, which takes blocks with tokens only."""
    quantizes_head: bool = False
    """The head is quantized with the other weights."""
    sampler: Sampler = "sorting"
    """How tokens are drawn with top-p or top-k on NVIDIA's devices: from sorted logits, as PyTorch's operators do and
    everything on other devices does, or by FlashInfer, which draws from all tokens until a draw is allowed."""
    penalty_bytes: float = 85.0
    """Bytes per logit that penalties move. Where both prompt and answer are counted anew in each step: two times 64-bit
    counts and masks (17 each), masks and logits of repetition (10), counts and masks times their penalties and taken
    from logits (24 and 17); vLLM, model_executor/layers/utils.py of 0.15."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@description
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


@description
class Scheduling:
    """How requests become passes."""

    mixed_batches: bool = False
    """A decoding step takes waiting prompts along, instead of letting them go first."""
    pipeline_micro_batches: bool = False
    """A batch is cut into as many micro-batches as there are pipeline stages, which then work at the same time."""
    micro_batch_tokens: float | None = None
    """Instead, a batch that the stages divide is split over them, and any is halved, while even, to so many tokens."""
    splits_layers: bool = False
    """Devices that no degree claims hold layers each, instead of being replicas."""


@description
class Reserve:
    """Memory that an engine leaves free of weights and cache for all else, which makes its share of a device."""

    base_bytes: float
    token_bytes: float
    """For each new token of an iteration of all ranks that share experts."""
    captured_bytes: float
    """For each sequence of the largest decode step that a graph captures."""
    rank_bytes: float
    """For each tensor- and pipeline-parallel rank."""
    group_bytes: float
    """For each of those sequences on each data-parallel rank that shares experts."""
    large_group_bytes: float
    """The same in steps of more than ``LARGE_STEP`` sequences."""
    least_bytes: float
    """On devices with more memory than ``LARGE_DEVICE`` at least so much in all."""


LARGE_STEP, LARGE_DEVICE = 300, 60 * 2.0**30
"""SGLang, ``server_args.py`` since 0.5.3."""
LEAST_SHARE = 0.001
"""Of a device's memory, as shares are rounded."""


@description
class EngineMemory:
    """Memory outside weights and cache."""

    memory_fraction: float
    """Share of the device's memory that weights, cache and activations may take."""
    fractions_by_ranks: Mapping[str, float] = field(default_factory=dict)
    """What it is from so many tensor-parallel ranks on, ascending, whatever is in reserve."""
    reserve: Reserve | None = None
    """What that share leaves free, where it follows from the device and the plan."""
    holds_activations: bool = True
    """The share has room for activations too; otherwise what it leaves does."""
    logit_bytes: float = 0.0
    """For each logit of as many sequences as may run, where the engine draws tokens to measure what its passes need."""
    context_bytes: float
    """Memory taken before the first tensor: driver context, kernels, communicators, captured graphs."""
    cache_share: float = 1.0
    """Of what the weights leave of the device, the share that a cache under load takes at most."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@description
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


@description
class TurboMind:
    """Behavior of LMDeploy's TurboMind; the defaults change nothing."""

    first_alone: bool = False
    """A prompt that finds the engine idle is taken at once and those sent with it wait for its step: of batches that
    are sent again and again one sequence is always ahead."""
    decodes_single_tokens: bool = False
    """A prompt of one token runs as a decoding step and costs the host no prefill."""


@description
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


@description
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

    def usual_budget(self, device: str, memory_bytes: float, context_tokens: int, groups: int = 1) -> int | None:
        """Return the tokens of a batch's iteration where nobody states them: by the device, if the engine does that."""
        if "max_batched_tokens" in self.defaults or not self.serving.device_classes:
            return None
        return serving_limits(self.serving, device, memory_bytes, context_tokens, groups=groups).max_batched_tokens

    def usual_memory_fraction(
        self,
        device: str,
        memory_bytes: float,
        tensor_parallel: Count,
        pipeline_parallel: Count,
        groups: Count,
        budget: Count | None,
    ) -> Number:
        """Return the share of a device that the engine takes where nobody states one.

        ``groups`` are the data-parallel ranks that share experts, which SGLang counts as tensor-parallel ones too;
        ``budget`` is a rank's tokens of an iteration where they are stated.
        """
        ranks, keeps = tensor_parallel * groups, self.memory.reserve
        share: Number = self.memory.memory_fraction
        for fewest, fraction in self.memory.fractions_by_ranks.items():
            share = either(ranks >= int(fewest), fraction, share)
        if keeps is None or self.memory.fractions_by_ranks:
            return share
        captured = self.captured_sequences(device, memory_bytes, tensor_parallel, groups)
        usual = self.serving.by_class(device, memory_bytes, lambda known: known.max_batched_tokens or 0)
        tokens = usual if budget is None else budget * groups
        grouped = either(captured > LARGE_STEP, keeps.large_group_bytes, keeps.group_bytes) * groups
        kept = (
            keeps.base_bytes
            + larger(tokens, LEAST_BUDGET) * keeps.token_bytes
            + captured * (keeps.captured_bytes + either(groups > 1, grouped, 0.0))
            + ranks * pipeline_parallel * keeps.rank_bytes
        )
        least = keeps.least_bytes if memory_bytes > LARGE_DEVICE else 0.0
        # With more in reserve than there is nothing fits, and the engine does not start.
        return larger(np.round((memory_bytes - larger(kept, least)) / memory_bytes, 3), LEAST_SHARE)

    def captured_sequences(self, device: str, memory_bytes: Number, tensor_parallel: Count, groups: Count) -> Number:
        """Return the sequences of the largest decode step that a graph captures; inf where none is known."""
        few_ranks = tensor_parallel * groups < MANY_RANKS
        captured = self.serving.by_class(
            device, memory_bytes, lambda known: either(few_ranks, *(known.captured_sequences or (inf, inf)))
        )
        return smaller(captured, either(groups > 1, self.kernels.captured_with_groups, inf))

    @property
    def all_reduce_library(self) -> str:
        """Whose all-reduce kernels run, with the release where an engine's own are known by it."""
        kernels = self.collectives.all_reduce
        own = kernels not in ("nccl", "custom") and self.version[:1].isdigit()
        return f"{kernels} {self.version}" if own else kernels
