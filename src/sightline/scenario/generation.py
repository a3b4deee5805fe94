"""Generation: prompts in, tokens out, by an engine on a cluster."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sightline.content import description, fields_of
from sightline.quantities import Count, Number
from sightline.scenario.cluster import Cluster, Question
from sightline.scenario.model import Model

if TYPE_CHECKING:
    from sightline.frameworks import Engine

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
"""Fields of a plan that are degrees of one replica of a served model; a training plan has them too."""
Scheduler = Literal["", "fcfs", "priority"]
Router = Literal["round-robin", "least-load", "prefix-aware", "weighted"]
SERVING_ONLY = (
    *("scheduler", "router", "kv_tiers", "lora_adapters", "autoscale", "attention_data_parallel"),
    "max_concurrent_requests",
)
"""Fields of a plan that matter under a load of many requests, not for one batch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generate:
    """``batch`` prompts answered together; every size may be an array that broadcasts with the plan's."""

    task: ClassVar[str] = "generate"
    batch: Count
    """Sequences in flight on the whole cluster."""
    prompt_tokens: Count
    output_tokens: Count
    prefix_tokens: Count = 0
    """First tokens of each prompt whose keys and values an earlier request left in the prefix cache."""
    continuous: bool = False
    """A closed loop in its steady state: a finished sequence is replaced at once, so prefills share the device with
    decodes and a token's time contains them. Otherwise one static batch: prefill, then decode."""
    equal_lengths: bool = False
    """In a steady loop every sequence is exactly as long as the others, as in synthetic benchmarks; lengths that differ
    mix newcomers evenly among the others."""
    repeated_token: bool = False
    """Prompts are one token again and again, as in benchmarks that fill their inputs: all tokens are alike and choose
    the same experts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Speculation:
    """Tokens are drafted cheaply and verified together (arXiv 2211.17192)."""

    tokens: Count
    """Drafted per pass."""
    acceptance: Number
    """Probability that a drafted token is accepted, given that those before it were."""

    @property
    def tokens_per_pass(self) -> Number:
        """Expected tokens a pass yields: (1 - r^(k+1)) / (1 - r)."""
        r, k = self.acceptance, self.tokens
        return (1.0 - r ** (k + 1.0)) / (1.0 - r)


@description
class KvTier:
    """A memory behind the device's that keeps keys and values."""

    name: str
    """Such as host, disk or remote."""
    capacity_bytes: float | None = None
    """Of one replica; None where ``capacity_tokens`` says it."""
    capacity_tokens: int | None = None
    bandwidth: float
    """Bytes per second and direction between it and the devices of one replica."""
    latency_s: float = 0.0
    """Of one transfer."""


@description
class ServedAdapters:
    """LoRA adapters of one base model that are served together; requests choose among them evenly."""

    count: int
    rank: int = 16
    loaded: int | None = None
    """How many a replica holds in device memory at once; None: all."""


@description
class Autoscale:
    """Replicas between two numbers, started and stopped with the load."""

    least: int
    most: int
    startup_s: float
    """From the decision until a new replica takes requests."""
    target: int | None = None
    """Requests, waiting or running, that each replica should have; None: what autoscalers take by default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerationPlan:
    """A resolved plan of generation: every field has a value, every degree may be an array."""

    engine: "Engine"
    tensor_parallel: Count = 1
    pipeline_parallel: Count = 1
    data_parallel: Count = 1
    """Ranks with attention of their own sequences; experts may be spread over them."""
    expert_parallel: Count = 1
    """Ranks that a layer's experts are spread over, of the tensor x data ranks; each expert is split over the rest."""
    replicas: Count = 1
    """Independent copies of all that, which share the batch."""
    dtype: str = "bf16"
    quantization: tuple[str, ...] | None = None
    """Formats of the weights (fp8, w4a16, ...), of the cache (kv-fp8, kv-int8) and of a router that is kept in fp32
    (router-tf32); without one of the weights these are not quantized. None means as in the checkpoint."""
    chunked_prefill: bool = False
    """Prompts are cut to the token budget and share iterations with decodes (arXiv 2308.16369)."""
    max_batched_tokens: Count | None = None
    """Tokens an iteration may process; None means no limit."""
    cuda_graphs: bool = True
    """A decode iteration is launched as one captured graph."""
    prefix_cache: bool = False
    kv_block_tokens: int = 16
    memory_fraction: Number = 0.9
    speculative: Speculation | None = None
    expert_skew: Number = 0.0
    """How unevenly tokens choose experts: standard deviation of a rank's share over what chance alone gives."""
    max_sequences: Count | None = None
    """Sequences that a rank runs at once at most; None means as many as the engine's default."""
    max_concurrent_requests: Count | None = None
    """Requests in the server, waiting or running, beyond which a rank refuses others; None means the engine's default,
    which is no limit for most."""
    scheduler: Scheduler = ""
    """Order in which requests are taken: fcfs or priority; empty: the engine's default."""
    router: Router = "round-robin"
    """How requests are spread over replicas."""
    kv_tiers: tuple[KvTier, ...] = ()
    """Memories behind the device's that hold keys and values evicted from its prefix cache, fastest first."""
    lora_adapters: ServedAdapters | None = None
    """Adapters that requests ask for; None: the model alone."""
    autoscale: Autoscale | None = None
    """Replicas are started and stopped with the load; None: ``replicas`` of them all the time."""
    attention_data_parallel: Count = 1
    """Groups that the tensor-parallel ranks form in attention: each holds whole sequences, and splits heads within."""
    group_batches: tuple[int, ...] | None = None
    """Sequences that each group of unlike devices takes; None shares them by speed."""
    disaggregate: "Disaggregation | None" = None
    """Prefill and decode on workers of their own; the other fields then are the decode workers'."""

    @property
    def devices(self) -> Count:
        """Devices of all replicas."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel * self.replicas

    @property
    def expert_tensor_parallel(self) -> Number:
        """Ranks that each expert is split over."""
        return self.tensor_parallel * self.data_parallel / self.expert_parallel

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
