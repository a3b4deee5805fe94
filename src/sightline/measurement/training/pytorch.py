"""PyTorch's own ways of training: one process, distributed data parallelism, fully sharded data parallelism.

DDP holds whole replicas whose gradients are summed in buckets during the backward pass. FSDP2 (``fully_shard``) has a
unit per decoder layer and one for the rest. ZeRO-3 frees gathered weights after a layer's forward pass; ZeRO-2 keeps
them for the backward pass.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sightline.measurement.machine.devices import TORCH_DTYPES
from sightline.measurement.models.build import build_model, precision_of
from sightline.measurement.processes.case import UnsupportedCaseError
from sightline.measurement.training.steps import Trainer, own_optimizer, own_step
from sightline.prediction.training.offload import STAYS
from sightline.scenario import Plan, Scenario


def single(scenario: Scenario, device: str, weights: Path | None) -> Trainer:
    """Return a trainer without any parallelism."""
    plan = scenario.plan
    model = build_model(scenario, device, weights)
    optimizer = own_optimizer(plan, model, precision_of(plan), device)
    if plan.compile:
        model.compile()
    return Trainer(model=model, step=own_step(plan, model, optimizer, device), optimizer=optimizer)


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
    if plan.compile:
        wrapped.compile()

    def between(last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last or plan.framework.sharding.reduces_every_micro_batch else wrapped.no_sync()

    return Trainer(
        model=model,
        step=own_step(plan, wrapped, optimizer, device, between),
        optimizer=optimizer,
        replica=dist.get_rank(),
        replicas=dist.get_world_size(),
    )


def fsdp2(scenario: Scenario, device: str, weights: Path | None) -> Trainer:
    """Return one rank's trainer; the group of processes is there already.

    Raises:
        UnsupportedCaseError: ZeRO-1, which it does not have, or a model without a list of layers.
    """
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, fully_shard

    plan = scenario.plan
    if plan.zero_stage not in (2, 3):
        raise UnsupportedCaseError(f"plan.zero_stage is {plan.zero_stage}; fully sharded data parallelism is 2 or 3")
    model: Any = build_model(scenario, device, weights)
    packed = {p for p in model.parameters() if hasattr(p, "quant_state") or not p.is_floating_point()}
    options: dict[str, Any] = {
        "mesh": init_device_mesh(device.partition(":")[0], _mesh(plan, dist.get_world_size())),
        "reshard_after_forward": plan.zero_stage == 3,
        "mp_policy": _policy(plan),
        "ignored_params": packed,
    }
    if {"parameters", "optimizer"} & set(plan.offload) and device != "cpu":
        options["offload_policy"] = CPUOffloadPolicy()
    for layer in _layers(model):
        if plan.compile:
            layer.compile()
        fully_shard(layer, **options)
    fully_shard(model, **options)
    if not isinstance(model, FSDPModule):
        raise TypeError("fully_shard left the model as it was")
    optimizer = own_optimizer(plan, model, precision_of(plan), device)

    @contextmanager
    def between(last: bool) -> Iterator[None]:
        reduces = last or plan.framework.sharding.reduces_every_micro_batch
        model.set_requires_gradient_sync(reduces)
        yield

    return Trainer(
        model=model,
        step=own_step(plan, model, optimizer, device, between),
        optimizer=optimizer,
        replica=dist.get_rank(),
        replicas=dist.get_world_size(),
        remarks=_remarks(bool(packed), plan, device),
    )


def _mesh(plan: Plan, ranks: int) -> tuple[int, ...]:
    """Copies by the ranks that share one out, where there are several (hybrid sharding)."""
    if plan.data_parallel_shard in (None, ranks):
        return (ranks,)
    return (int(plan.replica_groups), int(plan.shards))


def _remarks(packed: bool, plan: Plan, device: str) -> list[str]:
    found = ["fully_shard does not split packed weights: every rank keeps them whole"] if packed else []
    if plan.offload and device == "cpu":
        found.append(STAYS)
    return found


def _policy(plan: Plan) -> Any:
    """Gather in the compute dtype; reduce gradients in what the framework moves."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy

    if not precision_of(plan).autocasts and plan.adapter is None:
        return MixedPrecisionPolicy()
    widths = {2: TORCH_DTYPES[plan.dtype], 4: "float32"}
    return MixedPrecisionPolicy(
        param_dtype=getattr(torch, TORCH_DTYPES[plan.dtype]),
        reduce_dtype=getattr(torch, widths[int(plan.framework.sharding.gradient_reduce_bytes[plan.dtype])]),
    )


def _layers(model: Any) -> list[Any]:
    """The decoder layers: the longest list of modules."""
    import torch

    lists: list[Any] = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    if not lists:
        raise UnsupportedCaseError(f"{type(model).__name__} has no list of layers that could be split")
    return max((list(layers) for layers in lists), key=len)
