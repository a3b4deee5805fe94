"""The four plain descriptions - model, cluster, workload, plan - and the scenario they make up.

A scenario may also be a single operator.
"""

from typing import TYPE_CHECKING

from sightline.frameworks import Framework
from sightline.on_demand import names_on_demand
from sightline.scenario.blocks import (
    CompressedAttention,
    Experts,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
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
        Disaggregation,
        Generate,
        GenerationPlan,
        GenerationScenario,
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
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.frameworks": "Engine",
            "sightline.scenario.generation": "Disaggregation Generate GenerationPlan GenerationScenario Speculation",
            "sightline.scenario.operation": "AttentionOperation CollectiveOperation ElementwiseOperation "
            "GroupedMatmulOperation HostCopyOperation MatmulOperation Operation OperatorScenario",
        },
    )

__all__ = [
    "Adapter",
    "AttentionOperation",
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
    "Generate",
    "GenerationPlan",
    "GenerationScenario",
    "GroupedMatmulOperation",
    "Heads",
    "Host",
    "HostCopyOperation",
    "Interconnect",
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
    "Scenario",
    "SparseAttention",
    "Speculation",
    "StateSpace",
    "Workload",
]
