"""The four plain descriptions - model, cluster, workload, plan - and the scenario they make up."""

from sightline.scenario.cluster import Cluster, Device, Host, Interconnect, Network
from sightline.scenario.framework import Framework
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan
from sightline.scenario.scenario import Scenario
from sightline.scenario.workload import Finetune, Pretrain, Workload

__all__ = [
    "Cluster",
    "Device",
    "Finetune",
    "Framework",
    "Host",
    "Interconnect",
    "Model",
    "Network",
    "Plan",
    "Pretrain",
    "Scenario",
    "Workload",
]
