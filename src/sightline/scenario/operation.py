"""A single operator as the question: a matmul, attention, a collective or a bandwidth-bound kernel, without a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from sightline.quantities import Number
from sightline.scenario.cluster import Cluster

CollectiveName = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast"]
ElementwiseName = Literal[
    "copy",
    "norm",
    "activation",
    "gated_activation",
    "embedding",
    "rope",
    "softmax",
    "cross_entropy",
    "adam",
    "dropout",
    "residual",
]
COLLECTIVES: tuple[CollectiveName, ...] = get_args(CollectiveName)
ELEMENTWISE: tuple[ElementwiseName, ...] = get_args(ElementwiseName)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulOperation:
    """``batch`` products of an m x k with a k x n matrix."""

    task: ClassVar[str] = "operator"
    operator: ClassVar[str] = "matmul"
    m: Number
    n: Number
    k: Number
    batch: Number = 1
    dtype: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionOperation:
    """The forward pass of a fused attention kernel."""

    task: ClassVar[str] = "operator"
    operator: ClassVar[str] = "attention"
    batch: Number = 1
    heads: Number
    kv_heads: Number
    head_dim: Number
    query_tokens: Number
    context_tokens: Number
    """Keys and values that are there, those of the queries' own tokens included."""
    causal: bool = True
    dtype: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveOperation:
    """A collective over the whole cluster."""

    task: ClassVar[str] = "operator"
    operator: CollectiveName
    bytes: Number
    """The buffer as nccl-tests reports it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ElementwiseOperation:
    """A bandwidth-bound kernel over ``elements``."""

    task: ClassVar[str] = "operator"
    operator: ElementwiseName
    elements: Number
    dtype: str = "bf16"


Operation: TypeAlias = MatmulOperation | AttentionOperation | CollectiveOperation | ElementwiseOperation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorScenario:
    """How long one operator takes on a device of the cluster, or a collective on all of them."""

    cluster: Cluster
    workload: Operation
    name: str = ""
    measured: Mapping[str, object] = field(default_factory=dict)
    """Measured values under the result keys, with ``source``."""
    warnings: tuple[str, ...] = ()
