"""PyTorch's distributed data parallelism: whole replicas whose gradients are summed in buckets during the backward pass."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sightline.measurement.communication_watch import EXPOSED
from sightline.measurement.training_clock import Phase
from sightline.measurement.training_models import build_model
from sightline.measurement.training_precision import precision_of
from sightline.measurement.training_steps import Trainer, own_optimizer, own_step
from sightline.scenario import Scenario


def ddp(scenario: Scenario, device: str, weights: Path | None) -> Trainer:
    """Return one replica's trainer; the group of processes is there already."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    plan = scenario.plan
    model = build_model(scenario, device, weights)
    optimizer = own_optimizer(plan, model, precision_of(plan), device)
    parallel: Any = DistributedDataParallel
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    # Replicas begin with the same frozen weights; packed ones could not be broadcast anyway.
    parallel._set_params_and_buffers_to_ignore_for_model(model, frozen)  # noqa: SLF001 - its own name
    wrapped = parallel(
        model,
        device_ids=None if device == "cpu" else [device],
        gradient_as_bucket_view=True,
        forward_sync_buffers=False,
    )
    exposed = _Exposed()
    # PyTorch refuses hooks whose arguments are annotated with anything else than its own types.
    wrapped.register_comm_hook(exposed, lambda state, bucket: _all_reduce(state, bucket))  # noqa: PLW0108
    if plan.compile:
        wrapped.compile()

    def between(last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last or plan.framework.sharding.reduces_every_micro_batch else wrapped.no_sync()

    return Trainer(
        model=model,
        step=own_step(plan, wrapped, optimizer, device, between, exposed.after),
        optimizer=optimizer,
        replica=dist.get_rank(),
        replicas=dist.get_world_size(),
    )


class _Exposed:
    """What is left of the backward pass once its last gradients are there is waiting for others."""

    def __init__(self) -> None:
        self._phase: Phase | None = None
        self._open: AbstractContextManager[None] | None = None

    @contextmanager
    def after(self, phase: Phase) -> Iterator[None]:
        """Around a backward pass: ends the exposed part that began in it."""
        self._phase = phase
        yield
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None

    def begin(self) -> None:
        """The last gradients are there."""
        if self._phase is not None:
            self._open = self._phase(EXPOSED)
            self._open.__enter__()


def _all_reduce(exposed: _Exposed, bucket: Any) -> Any:
    """PyTorch's own reduction of a bucket; the last one begins what is exposed."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    everyone: Any = None
    future = allreduce_hook(everyone, bucket)
    if bucket.is_last():
        exposed.begin()
    return future
