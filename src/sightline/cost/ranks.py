"""Where a pass runs."""

from dataclasses import dataclass

from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.groups import Group, data_group, tensor_group
from sightline.cost.elementwise import KernelGeneration
from sightline.quantities import Count
from sightline.scenario import Cluster, Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranks:
    """Where a pass runs: the cluster, the degrees, the library of collectives, how kernels were written."""

    cluster: Cluster
    tensor_parallel: Count
    data_parallel: Count
    library: CollectiveConstants
    stream_kernels: KernelGeneration

    @property
    def device(self) -> Device:
        """The device of every rank."""
        return self.cluster.device

    def group(self, ranks: str) -> Group:
        """The ranks that take part in a collective."""
        if ranks == "tensor":
            return tensor_group(self.tensor_parallel, self.cluster)
        return data_group(self.tensor_parallel, self.data_parallel, self.cluster)
