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
        MatmulOperation,
        Operation,
        OperatorScenario,
    )
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "sightline.frameworks": "Engine",
            "sightline.scenario.generation": "Disaggregation Generate GenerationPlan GenerationScenario Speculation",
            "sightline.scenario.operation": "AttentionOperation CollectiveOperation ElementwiseOperation "
            "GroupedMatmulOperation MatmulOperation Operation OperatorScenario",
        },
    )
