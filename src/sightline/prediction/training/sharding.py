"""What ZeRO leaves a rank of its replica group's states (arXiv 1910.02054)."""

from typing import Any, NamedTuple

from sightline.prediction.schedules.closed_forms import stage_replicas
from sightline.prediction.training.stages import DenseAndExperts
from sightline.quantities import Number, either
from sightline.scenario import Plan


class RankShare(NamedTuple):
    """Share of a state that a rank holds."""

    dense: Number
    experts: Number
    stage_replicas: Number = 1.0
    """Devices of the pipeline that hold the same stage whole (DualPipe); 1 where they share one copy."""

    def of(self, size: DenseAndExperts) -> Number:
        """What a device holds, given a stage's."""
        return self.stage_replicas * (size.dense * self.dense + size.experts * self.experts)


class StateShares(NamedTuple):
    """A rank's share of each state."""

    weights: RankShare
    gradients: RankShare
    optimizer: RankShare
    per_rank: RankShare
    """That of the optimizer in one stage, whatever else the device holds."""
    everything_sharded: RankShare
    whole_weights: Any
    """Whether the gathered weights stay from forward to backward, in addition to the shards (FSDP's ``SHARD_GRAD_OP``)."""
    gradients_sharded: Any


def rank_share(plan: Plan, sharded: Any) -> RankShare:
    """Return a rank's share of a state that is ``sharded`` or not."""
    return RankShare(either(sharded, 1.0 / plan.shards, 1.0), either(sharded, 1.0 / plan.expert_shards, 1.0))


def state_shares(plan: Plan) -> StateShares:
    """Return what ZeRO leaves a rank of each state under a plan."""
    framework, zero = plan.framework, plan.zero_stage
    whole = (zero == 2) & framework.sharding.regathers_every_micro_batch
    # FSDP's units that reduce once per step add up whole gradients until then.
    gradients = (zero >= 2) & ((whole == 0) | framework.sharding.reduces_every_micro_batch)
    optimizer = rank_share(plan, zero >= 1)
    return StateShares(
        weights=_on_device(plan, (zero >= 3) | whole),
        gradients=_on_device(plan, gradients),
        optimizer=_on_device(plan, zero >= 1),
        per_rank=optimizer,
        everything_sharded=_on_device(plan, True),
        whole_weights=whole,
        gradients_sharded=gradients,
    )


def _on_device(plan: Plan, sharded: Any) -> RankShare:
    """The share with what DualPipe adds: devices that hold the same stage shard what is sharded among them, too."""
    share = rank_share(plan, sharded)
    if plan.schedule != "dualpipe":
        return share
    return share._replace(stage_replicas=either(sharded, 1.0, stage_replicas(plan)))
