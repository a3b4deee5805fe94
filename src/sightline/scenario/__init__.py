"""The four plain descriptions - model, cluster, workload, plan - and the scenario they make up.

A scenario may also be a single operator.
"""

from typing import TYPE_CHECKING

from sightline.frameworks import Framework
from sightline.on_demand import names_on_demand
from sightline.scenario.blocks import (
    CompressedAttention,
    Experts,
    GatedConvolution,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    SideBySide,
    SparseAttention,
    StateSpace,
)
from sightline.scenario.cluster import Cluster, Device, Host, Interconnect, Network
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan
from sightline.scenario.techniques import Adapter
from sightline.scenario.training import Finetune, Pretrain, Scenario, Workload

if TYPE_CHECKING:
    from sightline.frameworks import Engine
    from sightline.scenario.generation import (
        Autoscale,
        Disaggregation,
        Generate,
        GenerationPlan,
        GenerationScenario,
        KvTier,
        Sampling,
        ServedAdapters,
        Speculation,
    )
    from sightline.scenario.operation import (
        AttentionOperation,
        CollectiveOperation,
        ElementwiseOperation,
        GroupedMatmulOperation,
        HostCopyOperation,
        MatmulOperation,
        Operation,
        OperatorScenario,
    )
    from sightline.scenario.serving import Arrival, RequestShape, Serve, ServingScenario, Sessions, Slo, SloClass
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.frameworks": "Engine",
            "sightline.scenario.generation": "Autoscale Disaggregation Generate GenerationPlan "
            "GenerationScenario KvTier Sampling ServedAdapters Speculation",
            "sightline.scenario.operation": "AttentionOperation CollectiveOperation ElementwiseOperation "
            "GroupedMatmulOperation HostCopyOperation MatmulOperation Operation OperatorScenario",
            "sightline.scenario.serving": "Arrival RequestShape Serve ServingScenario Sessions Slo SloClass",
        },
    )

__all__ = [
    "Adapter",
    "Arrival",
    "AttentionOperation",
    "Autoscale",
    "Cluster",
    "CollectiveOperation",
    "CompressedAttention",
    "Device",
    "Disaggregation",
    "ElementwiseOperation",
    "Engine",
    "Experts",
    "Finetune",
    "Framework",
    "GatedConvolution",
    "Generate",
    "GenerationPlan",
    "GenerationScenario",
    "GroupedMatmulOperation",
    "Heads",
    "Host",
    "HostCopyOperation",
    "Interconnect",
    "KvTier",
    "LatentAttention",
    "LayerKind",
    "LinearAttention",
    "MatmulOperation",
    "Model",
    "Network",
    "Operation",
    "OperatorScenario",
    "Plan",
    "Pretrain",
    "RequestShape",
    "Sampling",
    "Scenario",
    "Serve",
    "ServedAdapters",
    "ServingScenario",
    "Sessions",
    "SideBySide",
    "Slo",
    "SloClass",
    "SparseAttention",
    "Speculation",
    "StateSpace",
    "Workload",
]
