"""The structure of every mapping a scenario or the catalog may hold: its keys, and the kind of value of each.

Structure only: which combinations make sense is for `sightline.loading.checks`, which keys this version predicts for
`sightline.loading.not_yet`. Every key is optional here, so that one missing key hides no other mistake.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from sightline.loading.fields import choice, flag, fraction, name_or_mapping, quantity, text, whole
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    SECONDS,
    USD_PER_HOUR,
    WATTS,
)
from sightline.scenario.low_precision import FP8_RECIPES

Text: TypeAlias = Annotated[str | None, text()]
Degree: TypeAlias = Annotated[int | None, whole(1, 10**7)]
Size: TypeAlias = Annotated[int | None, whole()]
Width: TypeAlias = Annotated[int | None, whole(1, 10**8)]


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid")


class Sourced(Section):
    """A catalog entry, or an inline mapping in its place: a name, and where its figures come from."""

    name: Text = None
    same_as: Text = None
    source: Text = None
    date: Text = None
    evidence: Text = None
    sources: Any = None
    evidences: Any = None
    note: Text = None


class ScenarioKeys(Section):
    """The top of a scenario."""

    name: Text = None
    model: Annotated[Any, name_or_mapping()] = None
    cluster: Annotated[Any, name_or_mapping()] = None
    workload: Any = None
    plan: Any = None
    measured: Any = None


class WorkloadKeys(Section):
    """``workload`` of a training task."""

    task: Text = None
    sequence_length: Annotated[int | None, whole()] = None
    global_batch: Annotated[int | None, whole()] = None
    total_tokens: Annotated[float | None, quantity(COUNT)] = None
    lengths: Any = None
    packing: Annotated[bool | None, flag()] = None


class GenerateKeys(Section):
    """``workload`` of generation."""

    task: Text = None
    batch: Size = None
    prompt_tokens: Size = None
    output_tokens: Size = None
    prefix_tokens: Annotated[int | None, whole(0)] = None
    continuous: Annotated[bool | None, flag()] = None
    equal_lengths: Annotated[bool | None, flag()] = None
    repeated_token: Annotated[bool | None, flag()] = None


class MatmulKeys(Section):
    """``workload`` of a single matmul."""

    task: Text = None
    operator: Text = None
    m: Size = None
    n: Size = None
    k: Size = None
    batch: Size = None
    dtype: Text = None
    format: Text = None


class GroupedMatmulKeys(Section):
    """``workload`` of the matmul of a mixture's experts."""

    task: Text = None
    operator: Text = None
    tokens: Size = None
    rows: Size = None
    per_token: Size = None
    experts: Size = None
    n: Size = None
    k: Size = None
    layout: Annotated[str | None, choice("masked", "contiguous")] = None
    dtype: Text = None
    format: Text = None


class AttentionKeys(Section):
    """``workload`` of a single attention pass."""

    task: Text = None
    operator: Text = None
    batch: Size = None
    heads: Size = None
    kv_heads: Size = None
    head_dim: Annotated[int | None, whole(1, 10**6)] = None
    query_tokens: Size = None
    context_tokens: Size = None
    causal: Annotated[bool | None, flag()] = None
    dtype: Text = None
    kv_dtype: Text = None
    window: Size = None
    value_dim: Annotated[int | None, whole(1, 10**6)] = None
    latent: Annotated[bool | None, flag()] = None


class CollectiveKeys(Section):
    """``workload`` of a single collective over the cluster."""

    task: Text = None
    operator: Text = None
    bytes: Annotated[float | None, quantity(BYTES)] = None
    library: Text = None
    version: Text = None


class ElementwiseKeys(Section):
    """``workload`` of a single bandwidth-bound kernel."""

    task: Text = None
    operator: Text = None
    elements: Annotated[int | None, whole(1, 10**15)] = None
    tokens: Size = None
    width: Size = None
    dtype: Text = None


class PlanKeys(Section):
    """``plan``; keys whose type is open are read by `sightline.loading.techniques` or its kin for generation."""

    framework: Text = None
    framework_version: Text = None
    tensor_parallel: Degree = None
    pipeline_parallel: Degree = None
    data_parallel: Degree = None
    context_parallel: Degree = None
    context_exchange: Annotated[str | None, choice("ring", "all-gather", "all-to-all", "mixed")] = None
    data_parallel_shard: Degree = None
    expert_parallel: Degree = None
    expert_tensor_parallel: Degree = None
    sequence_parallel: Annotated[bool | None, flag()] = None
    tensor_overlap: Annotated[str | None, choice("none", "backward", "all")] = None
    virtual_stages: Degree = None
    schedule: Annotated[str | None, choice("gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe")] = None
    micro_batch: Annotated[int | None, whole()] = None
    zero_stage: Annotated[int | None, choice(0, 1, 2, 3)] = None
    offload: Any = None
    recompute: Any = None
    attention: Annotated[str | None, choice("flash", "eager")] = None
    dtype: Text = None
    fp8_recipe: Annotated[str | None, choice(*FP8_RECIPES)] = None
    bf16_layers: Annotated[int | None, whole(0, 10**5)] = None
    narrow_head: Annotated[bool | None, flag()] = None
    quantization: Any = None
    adapter: Any = None
    optimizer: Text = None
    compile: Annotated[bool | None, flag()] = None
    replicas: Degree = None
    max_batched_tokens: Size = None
    max_sequences: Size = None
    chunked_prefill: Annotated[bool | None, flag()] = None
    prefix_cache: Annotated[bool | None, flag()] = None
    kv_block_tokens: Size = None
    memory_fraction: Annotated[float | None, fraction()] = None
    cuda_graphs: Annotated[bool | None, flag()] = None
    expert_skew: Annotated[float | None, quantity(COUNT, zero=True)] = None
    expert_capacity: Annotated[float | None, quantity(COUNT, zero=True)] = None
    expert_dispatch: Annotated[str | None, choice("all-to-all", "deduplicated")] = None
    expert_overlap: Annotated[bool | None, flag()] = None
    prediction_layers: Annotated[int | None, whole(0)] = None
    speculative: Any = None
    disaggregate: Any = None


class SpeculationKeys(Section):
    """``plan.speculative``."""

    tokens: Annotated[int | None, whole(1, 1000)] = None
    acceptance: Annotated[float | None, fraction()] = None


class PoolKeys(Section):
    """The workers of one kind in ``plan.disaggregate``."""

    tensor_parallel: Degree = None
    pipeline_parallel: Degree = None
    data_parallel: Degree = None
    expert_parallel: Degree = None
    replicas: Degree = None
    batch: Size = None


class ClusterKeys(Sourced):
    """``cluster``, or a cluster of the catalog."""

    devices: Any = None
    per_node: Annotated[int | None, whole(1, 10**5)] = None
    device: Annotated[Any, name_or_mapping()] = None
    intra_node: Annotated[Any, name_or_mapping()] = None
    network: Annotated[Any, name_or_mapping()] = None
    host: Annotated[Any, name_or_mapping()] = None
    power_cap: Annotated[float | None, quantity(WATTS)] = None


class DeviceKeys(Sourced):
    """A device of the catalog, or what a scenario changes of one."""

    peak_flops: Any = None
    memory: Annotated[float | None, quantity(BYTES)] = None
    memory_bandwidth: Annotated[float | None, quantity(BYTES_PER_SECOND)] = None
    l2: Annotated[float | None, quantity(BYTES)] = None
    l2_bandwidth: Annotated[float | None, quantity(BYTES_PER_SECOND)] = None
    compute_units: Annotated[int | None, whole(1, 10**6)] = None
    tdp: Annotated[float | None, quantity(WATTS)] = None
    idle_power: Annotated[float | None, quantity(WATTS, zero=True)] = None
    vector_flops: Annotated[float | None, quantity(FLOPS)] = None
    calibration: Text = None
    relatives: Any = None
    price: Annotated[float | None, quantity(USD_PER_HOUR, zero=True)] = None
    server: Any = None


class InterconnectKeys(Sourced):
    """The links inside a node."""

    bandwidth: Annotated[float | None, quantity(BYTES_PER_SECOND)] = None
    latency: Annotated[float | None, quantity(SECONDS, zero=True)] = None
    topology: Annotated[str | None, choice("switch", "full-mesh", "pcie", "ring", "torus", "pairs")] = None
    dimensions: Annotated[int | None, whole(1, 6)] = None
    closes_at: Annotated[int | None, whole(1, 10**4)] = None
    peer_to_peer: Annotated[bool | None, flag()] = None
    in_network_reduction: Annotated[bool | None, flag()] = None
    beyond: Text = None
    shares: dict[int, float] | None = None


class NetworkKeys(Sourced):
    """The network between nodes."""

    bandwidth_per_node: Annotated[float | None, quantity(BYTES_PER_SECOND)] = None
    latency: Annotated[float | None, quantity(SECONDS, zero=True)] = None
    topology: Annotated[str | None, choice("fat-tree", "dragonfly", "rail-optimized", "torus")] = None
    oversubscription: Annotated[float | None, quantity(COUNT)] = None
    nodes_per_switch: Annotated[int | None, whole(1, 10**5)] = None


class HostKeys(Sourced):
    """The processor of a node."""

    launch_time: Annotated[float | None, quantity(SECONDS)] = None
    speed: Annotated[float | None, quantity(COUNT)] = None
    memory_bandwidth: Annotated[float | None, quantity(BYTES_PER_SECOND)] = None
    memory: Annotated[float | None, quantity(BYTES)] = None
    cores: Annotated[int | None, whole(1, 10**5)] = None
    device_bandwidth: Annotated[float | None, quantity(BYTES_PER_SECOND)] = None
