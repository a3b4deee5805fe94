"""Generation: prompts in, tokens out, by an engine on a cluster."""

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from sightline.content import description, fields_of
from sightline.quantities import BYTES, BYTES_PER_SECOND, SECONDS, Count, Number, either, plain, smaller
from sightline.scenario.cluster import Cluster, Device, Question
from sightline.scenario.model import Model
from sightline.scenario.plan import AMOUNT, DEGREE
from sightline.validators import FRACTION, Key, anything, fraction, list_of, quantity, share, text, tokens, whole

if TYPE_CHECKING:
    from sightline.frameworks import Engine

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
"""Fields of a plan that are degrees of one replica of a served model; a training plan has them too."""
Scheduler = Literal["fcfs", "priority"]
Router = Literal["round-robin", "least-load", "prefix-aware", "weighted", "precise-prefix"]
SERVING_ONLY = (
    *("scheduler", "router", "kv_tiers", "lora_adapters", "autoscale", "attention_data_parallel"),
    *("max_concurrent_requests", "max_queued_requests", "queue_timeout", "kv_cache_blocks"),
)
"""Fields of a plan that matter under a load of many requests, not for one batch."""
WRITE_BACK, PREFETCH = ("tensorrt-llm",), ("sglang",)
"""Engines that keep in tiers only what was evicted (vLLM's OffloadingConnector and, by default, SGLang's HiCache store
all that was computed), and that load from storage for requests that wait (HiCache)."""


@description
class Sampling:
    """How each next token is drawn; what is left out is as in engines that are told nothing."""

    temperature: Annotated[float, AMOUNT] = 1.0
    """Divides the logits; 0 is greedy."""
    top_p: Annotated[float, share] = 1.0
    """Draws among the fewest tokens of this probability together; 1: all."""
    top_k: Annotated[int, whole(0)] = 0
    """Draws among so many tokens; 0: all, 1 is greedy."""
    penalties: bool = False
    """Of presence, frequency or repetition."""

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature == 0.0 or self.top_p == 0.0 or self.top_k == 1

    @property
    def fields(self) -> dict[str, float]:
        """What requests, or a server's generation config, say of it; penalties as one of repetition."""
        narrowing = {"top_p": self.top_p} if self.top_p < 1.0 else {}
        narrowing |= {"top_k": self.top_k} if self.top_k else {}
        return {"temperature": self.temperature, **narrowing, **({"repetition_penalty": 1.1} if self.penalties else {})}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generate:
    """``batch`` prompts answered together; every size may be an array that broadcasts with the plan's."""

    task: ClassVar[str] = "generate"
    batch: Annotated[Count, Key(whole(), needs="sequences in flight, a whole number of 1 or more")]
    """Sequences in flight on the whole cluster, all replicas together."""
    prompt_tokens: Annotated[Count, Key(tokens(), needs="tokens of each prompt, a whole number of 1 or more")]
    """Tokens of each prompt."""
    output_tokens: Annotated[Count, Key(tokens(), needs="tokens generated per sequence, a whole number of 1 or more")]
    """Tokens generated per sequence."""
    prefix_tokens: Annotated[Count, tokens(0)] = 0
    """Tokens at the start of each prompt that a prefix cache already holds."""
    continuous: bool = False
    """False: one static batch, its prefill, then its decode steps; true: a steady closed loop in which finished
    sequences are replaced at once, so the time per token includes prefills. Those that the cache does not hold wait."""
    equal_lengths: bool = False
    """In a steady loop all sequences have the same length, as in synthetic benchmarks, so prompts run in groups; else
    lengths vary, and newcomers mix evenly among the others. Where steps take prompts along, equal lengths wait longer
    for first tokens than predicted, at most to the interval's end; `simulate` shows it."""
    repeated_token: bool = False
    """Prompts repeat one token, as in benchmarks that fill their inputs, so all tokens choose the same experts."""
    sampling: Annotated[Sampling | None, anything] = None
    """How tokens are drawn; default: greedy, which costs least. Servers draw as the model's generation_config.json says
    where requests do not (vLLM since 0.8)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Speculation:
    """Tokens are drafted cheaply and verified together (arXiv 2211.17192)."""

    tokens: Annotated[Count, Key(whole(1, 1000), needs="tokens drafted per pass")]
    """Tokens drafted per pass."""
    acceptance: Annotated[Number, Key(fraction, needs=FRACTION)]
    """Probability that a drafted token is accepted if those before it were."""
    disable_above: Annotated[Count | None, whole()] = None
    """Decoding sequences of a rank above which nothing is drafted; default: any number has drafts."""

    @property
    def tokens_per_pass(self) -> Number:
        """Expected tokens a pass yields: (1 - r^(k+1)) / (1 - r)."""
        r, k = self.acceptance, self.tokens
        return (1.0 - r ** (k + 1.0)) / (1.0 - r)


@description
class KvTier:
    """A memory behind the device's that keeps keys and values."""

    name: Annotated[str, text] = "host"
    """Such as host, disk or remote."""
    capacity_bytes: Annotated[float | None, Key(quantity(BYTES), "bytes")] = None
    """Size in a replica, or of all that is ``shared``; ``tokens`` may say it instead."""
    capacity_tokens: Annotated[int | None, Key(whole(), "tokens")] = None
    """The same in tokens."""
    bandwidth: Annotated[float, Key(quantity(BYTES_PER_SECOND), needs="bandwidth per direction, such as 25 GB/s")]
    """Bytes per second and direction between the tier and the devices of one replica, or of all that share its link."""
    latency_s: Annotated[float, Key(quantity(SECONDS, zero=True), "latency")] = 0.0
    """Seconds before one transfer begins."""
    shared: Literal["rank", "node", "all"] = "rank"
    """Who finds the same blocks in it and waits for the same link: each rank alone, a node's replicas, or all."""
    write: Literal["back", "through"] | None = None
    """What it gets: what the memory before it evicts (back), or also what any may share, once computed (through);
    default: the engine's (TensorRT-LLM back, others through)."""
    fetch: Literal["always", "faster"] = "always"
    """Loads what it has, or as far as that is faster than computing it."""
    prefetch: bool | None = None
    """Begins to load to the first tier when a request begins to wait; not of the first; default: as SGLang alone
    does."""


@description
class ServedAdapters:
    """LoRA adapters of one base model that are served together; requests choose among them evenly."""

    count: Annotated[int, Key(whole(), needs="number of adapters that requests choose from")]
    """Adapters that requests ask for, all as often as each other."""
    rank: Annotated[int, whole()] = 16
    """Rank of their matrices."""
    loaded: Annotated[int | None, whole()] = None
    """How many a replica holds in device memory at once; default: all."""


@description
class Autoscale:
    """Replicas between two numbers, started and stopped with the load."""

    least: Annotated[int, Key(whole(), "min", needs="minimum number of replicas")]
    """Fewest replicas."""
    most: Annotated[int, Key(whole(), "max", needs="maximum number of replicas")]
    """Most replicas."""
    startup_s: Annotated[
        float, Key(quantity(SECONDS, zero=True), "startup", needs="seconds until a new replica takes requests")
    ]
    """Seconds from the decision until a new replica takes requests."""
    target: Annotated[int | None, whole()] = None
    """Requests, waiting or running, that each replica should have; default: 70, or 0.7 times what the engine runs at
    once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerationPlan:
    """A resolved plan of generation: every field has a value, every degree may be an array."""

    engine: "Engine"
    tensor_parallel: Annotated[Count, DEGREE] = 1
    """Devices that every layer's matrices are split over; a divisor of the heads."""
    pipeline_parallel: Annotated[Count, DEGREE] = 1
    """Stages that the layers are split into; up to the layers."""
    data_parallel: Annotated[Count, DEGREE] = 1
    """Ranks with attention and KV cache for their own sequences; experts may be spread over them."""
    expert_parallel: Annotated[Count, DEGREE] = 1
    """Ranks that split a layer's experts, of the tensor x data ranks, a divisor of them and of the experts; each expert
    is split over the ranks that are left."""
    replicas: Annotated[Count, DEGREE] = 1
    """Independent copies of the model that share the batch; default: what is left of the cluster."""
    dtype: Annotated[str, text] = "bf16"
    """Compute type of the matmuls: bf16, fp16, fp8 and others."""
    quantization: Annotated[tuple[str, ...] | None, anything] = None
    """Format of the weights (fp8, fp8-block, w8a8, llm-int8, w8a16, int8, w4a16, int4, nf4, nvfp4, mxfp4, q4_0 or
    q4_k_m), of the cache (kv-fp8, kv-int8) and of a router that engines keep in fp32 (router-tf32: multiplied in TF32),
    or a list of them; none quantizes neither weights nor cache, a list without a weight format no weights. Default: as
    the checkpoint is published."""
    chunked_prefill: bool = False
    """Prompts are split to fit the token budget and share iterations with decodes (arXiv 2308.16369)."""
    max_batched_tokens: Annotated[Count | None, whole()] = None
    """The token budget of an iteration; default: the engine's, or no limit."""
    cuda_graphs: bool = True
    """A decode step is launched as one captured graph."""
    async_scheduling: bool = False
    """The host schedules an iteration while the one before runs."""
    prefix_cache: bool = False
    """Keys and values of earlier requests are reused."""
    kv_block_tokens: Annotated[int, whole()] = 16
    """Tokens of a cache block."""
    kv_cache_blocks: Annotated[Count | None, whole()] = None
    """Serving only: blocks of each data-parallel rank's cache, as vLLM logs them (`GPU KV cache size` in tokens over
    the block); default: what memory has room for."""
    memory_fraction: Annotated[Number, fraction] = 0.9
    """Share of the device's memory for weights, cache and activations; more does not fit."""
    speculative: Annotated[Speculation | None, anything] = None
    """Tokens drafted per pass and verified together."""
    expert_skew: Annotated[Number, AMOUNT] = 0.0
    """How unevenly tokens choose experts: standard deviation of a rank's share, beyond chance."""
    expert_spread: Annotated[float | None, AMOUNT] = None
    """The same by expert, whatever the ranks: relative deviation of experts' popularity, 0 all alike, 1 exponential;
    default: 0.9 for how many experts a batch reads, and even ranks."""
    redundant_experts: Annotated[Count | None, whole(0)] = None
    """Copies of busy experts, which ranks hold besides all experts; any number, 0 included, also places experts by
    their load (EPLB); default: experts stand as numbered."""
    expert_devices: Annotated[Count, whole(0)] = 0
    """Further devices of each decode replica that hold the experts, while all else stays on the others (attention-FFN
    disaggregation, arXiv 2504.02263 and 2507.19427): a divisor of the experts, with `disaggregate`."""
    expert_micro_batches: Annotated[Count, whole()] = 1
    """Micro-batches of a decode step that both kinds of devices take in turns; 1: they wait for each other."""
    balanced_prompts: bool = False
    """Prompts wait until every rank that shares experts has any, as TensorRT-LLM does with ``enable_balance``."""
    max_sequences: Annotated[Count | None, whole()] = None
    """Sequences that run on each data-parallel rank; more in ``batch`` are refused, or wait where it is continuous;
    default: the engine's."""
    max_concurrent_requests: Annotated[Count | None, whole()] = None
    """Serving only: requests that a server holds, waiting or running, on each data-parallel rank; others are refused;
    default: the engine's (TGI 128, others any number)."""
    max_queued_requests: Annotated[Count | None, whole()] = None
    """Serving only: requests that wait for each data-parallel rank; others are refused; default: any number."""
    queue_timeout: Annotated[float | None, quantity(SECONDS)] = None
    """Serving only: seconds in the queue after which a request that never ran is dropped, as Triton's queue policy
    does; default: never."""
    scheduler: Scheduler | None = None
    """Serving only: the order in which requests are taken; default: the engine's."""
    router: Router = "round-robin"
    """Serving only: how requests are spread over replicas."""
    kv_tiers: Annotated[tuple[KvTier, ...], anything] = ()
    """Serving only: memories that keep what the device's prefix cache evicts, fastest first."""
    lora_adapters: Annotated[ServedAdapters | None, anything] = None
    """Serving only: LoRA adapters that requests ask for, as a number or a mapping."""
    autoscale: Annotated[Autoscale | None, anything] = None
    """Serving only: replicas start and stop with the load, as in Kubernetes; default: ``replicas`` of them all the
    time."""
    attention_data_parallel: Annotated[Count, DEGREE] = 1
    """Serving of mixtures of experts only: groups that the tensor-parallel ranks form in attention, each with sequences
    of its own; read as that many times the ``data_parallel`` ranks."""
    group_batches: Annotated[tuple[int, ...] | None, list_of()] = None
    """Heterogeneous clusters only: sequences that the replicas of each device type take; default: by speed."""
    disaggregate: Annotated["Disaggregation | None", anything] = None
    """Separate workers for prefill and decode, each with its degrees, replicas and for prefill ``batch``: prompts that
    one worker takes at once; on heterogeneous clusters also ``device``. The other fields are the decode workers'."""

    @property
    def devices(self) -> Count:
        """Devices of all replicas."""
        return (
            self.tensor_parallel * self.pipeline_parallel * self.data_parallel + self.expert_devices
        ) * self.replicas

    @property
    def expert_tensor_parallel(self) -> Number:
        """Ranks that each expert is split over."""
        return self.tensor_parallel * self.data_parallel / self.expert_parallel

    @property
    def drafted_tokens(self) -> Number:
        """Most tokens that a decode pass verifies per sequence, besides its own."""
        return 0.0 if self.speculative is None else 1.0 * self.speculative.tokens

    def running(self, batch: Count) -> Number:
        """Return how many of so many sequences of all ranks run at a time by the plan's limit."""
        most = inf if self.max_sequences is None else self.max_sequences * self.data_parallel * self.replicas
        return smaller(1.0 * batch, most)

    def drafted(self, sequences: Number) -> Number:
        """Return the tokens that a decode pass of so many sequences of a rank verifies for each, besides its own."""
        most = None if self.speculative is None else self.speculative.disable_above
        return self.drafted_tokens if most is None else either(np.less_equal(sequences, most), self.drafted_tokens, 0.0)

    def groups(self, model: Model) -> Count:
        """Return how many data-parallel ranks share experts; 1 of a model without any."""
        return 1 if model.experts is None else self.data_parallel

    def with_usual_memory(self, model: Model, device: Device) -> "GenerationPlan":
        """Return the plan with the share of a device's memory that its engine takes by itself."""
        degrees = self.tensor_parallel, self.pipeline_parallel, self.groups(model)
        share = self.engine.usual_memory_fraction(
            device.name, float(device.memory_bytes), *degrees, self.max_batched_tokens
        )
        return replace(self, memory_fraction=plain(share))

    def captured_tokens(self, model: Model, device: Device, *, decode: bool) -> Number:
        """Return the new tokens up to which passes run from captured graphs, those that only decode or the others."""
        kernels, each = self.engine.kernels, 1.0 + self.drafted_tokens
        most: Number = kernels.captured_decodes if decode else kernels.captured_tokens
        if self.max_sequences is not None:
            most = smaller(most, kernels.captured_per_sequence * self.max_sequences * each)
        if decode:
            about = device.name, device.memory_bytes, self.tensor_parallel, self.groups(model)
            most = smaller(most, each * self.engine.captured_sequences(*about))
        return either(self.cuda_graphs, most, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The plan's fields by name, the engine under ``framework``."""
        out = {"framework": self.engine.name, **fields_of(self)}
        del out["engine"]
        if self.engine.version:
            out["framework_version"] = self.engine.version
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Disaggregation:
    """Prefill and decode on workers of their own; keys and values move over the network."""

    prefill: GenerationPlan
    prefill_batch: Count
    """Prompts that a prefill worker takes at once; 0 under a load: as many as its limits allow."""
    prefill_device: str = ""
    """Name of the devices that prefill in a cluster of unlike ones; empty: the faster of both ways."""
    prefill_cluster: Cluster | None = None
    """The devices that prefill where they are not the scenario's; its network is what joins both."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerationScenario(Question):
    """A question about generation, fully resolved."""

    model: Model
    workload: Generate
    plan: GenerationPlan
