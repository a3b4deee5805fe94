"""The four plain descriptions - model, cluster, workload, plan - and the scenario they make up; or a single operator."""

from sightline.frameworks import Engine, Framework
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
from sightline.scenario.generation import (
    Disaggregation,
    Generate,
    GenerationPlan,
    GenerationScenario,
    Speculation,
)
from sightline.scenario.model import Model
from sightline.scenario.operation import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
    GroupedMatmulOperation,
    MatmulOperation,
    Operation,
    OperatorScenario,
)
from sightline.scenario.plan import Plan
from sightline.scenario.techniques import Adapter
from sightline.scenario.training import Finetune, Pretrain, Scenario, Workload
