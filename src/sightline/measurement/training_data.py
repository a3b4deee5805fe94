"""Random token strings: the same global batch whatever the parallelism, so that losses can be compared."""

from typing import TYPE_CHECKING

from sightline.measurement.training_models import SEED
from sightline.scenario import Scenario

if TYPE_CHECKING:
    import torch

KEPT_BATCHES = 16
"""Different global batches; later steps see them again."""


def token_batches(scenario: Scenario, replica: int, replicas: int, device: str) -> "list[list[torch.Tensor]]":
    """Return the micro-batches (sequences x tokens) of each of the first steps for one replica, on the device."""
    import torch

    work = scenario.workload
    share = work.global_batch // replicas
    steps = []
    for step in range(KEPT_BATCHES):
        random = torch.Generator().manual_seed(SEED + step)
        shape = (work.global_batch, work.sequence_length)
        tokens = torch.randint(0, scenario.model.vocab_size, shape, generator=random)
        own = tokens[replica * share : (replica + 1) * share].to(device)
        steps.append(list(torch.split(own, int(scenario.plan.sequences))))
    return steps
