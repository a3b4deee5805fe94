"""Train with PyTorch itself: one process, distributed data parallelism, fully sharded data parallelism.

All frameworks share tokens, attention, mixed precision, the optimizer and a step of micro-batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.measurement.machine import TORCH_DTYPES
from sightline.measurement.models import SEED, Precision, build_model, precision_of
from sightline.measurement.modules.wrapping import waiting_after_gradients
from sightline.measurement.processes.isolation import UnsupportedCaseError
from sightline.measurement.timing import Phase
from sightline.on_demand import named
from sightline.prediction.training.offload import STAYS
from sightline.scenario import Plan, Scenario
from sightline.scenario.precision import LOW_PRECISION

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


LEARNING_RATE = 1e-4
MOMENTA = {"sgd": 0.0, "sgd-momentum": 0.9}
LARGEST_GRADIENT = 1.0
"""Norm to which gradients are clipped, as trainers do by default."""

Step = Callable[[Sequence["torch.Tensor"], Phase], "torch.Tensor"]
"""One optimizer step over a rank's micro-batches of tokens (each sequences x length); returns their mean loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """A model that is ready to train."""

    model: Any
    """The plain module, whose parts are timed."""
    step: Step
    optimizer: Any
    """Whatever holds the optimizer's state, for the memory ledger."""
    replica: int = 0
    """Which part of the global batch this rank trains on; ranks that share a replica have the same."""
    replicas: int = 1
    remarks: Sequence[str] = ()
    """What a reader of the result must know, such as that parts were shimmed."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """What was chosen where the scenario leaves it open."""


@contextmanager
def computing(plan: Plan, device: str) -> Iterator[None]:
    """What is around the model's forward pass: mixed precision, attention kernel, activations kept on the host."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    precision = precision_of(plan)
    with ExitStack() as around:
        if precision.autocasts or plan.adapter is not None:
            enabled = precision.compute not in ("fp32", "tf32")
            dtype = getattr(torch, TORCH_DTYPES[precision.compute])
            around.enter_context(torch.autocast(device.partition(":")[0], dtype=dtype, enabled=enabled))
        if plan.attention == "flash":
            around.enter_context(sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]))
        if "activations" in plan.offload:
            around.enter_context(torch.autograd.graph.save_on_cpu(pin_memory=device != "cpu"))
        yield


def optimizer_of(plan: Plan, parameters: Sequence["torch.Tensor"], device: str) -> Any:
    """Return the plan's optimizer over ``parameters``, fused where PyTorch has that.

    Raises `UnsupportedCaseError` for optimizers that are not measured.
    """
    import torch

    if plan.optimizer in ("adamw", "adamw-fused"):
        return torch.optim.AdamW(parameters, lr=LEARNING_RATE, fused=True)
    if plan.optimizer == "adamw-unfused":
        return torch.optim.AdamW(parameters, lr=LEARNING_RATE, foreach=True)
    if plan.optimizer in MOMENTA:
        return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTA[plan.optimizer], fused=True)
    if plan.optimizer == "adamw-8bit" and device != "cpu":
        import bitsandbytes

        optimizers: Any = bitsandbytes.optim
        return optimizers.AdamW8bit(parameters, lr=LEARNING_RATE)
    raise UnsupportedCaseError(
        f"plan.optimizer is '{plan.optimizer}'; allowed when measuring: adamw, adamw-fused, adamw-unfused, sgd, "
        "sgd-momentum"
    )


class MasterWeights:
    """An optimizer over fp32 copies of 16-bit weights: gradients are cast to fp32, updates are written back."""

    def __init__(self, plan: Plan, parameters: Sequence["torch.Tensor"], device: str) -> None:
        self.weights = list(parameters)
        self.masters = [p.detach().float().requires_grad_() for p in self.weights]
        self.inner = optimizer_of(plan, self.masters, device)

    @property
    def state(self) -> Mapping[Any, Any]:
        """Moments and copies, by copy."""
        return {master: {**self.inner.state.get(master, {}), "master": master} for master in self.masters}

    def step(self) -> None:
        """Update."""
        import torch

        for master, weight in zip(self.masters, self.weights, strict=True):
            master.grad = None if weight.grad is None else weight.grad.float()
        self.inner.step()
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)

    def zero_grad(self) -> None:
        """Forget gradients."""
        for master, weight in zip(self.masters, self.weights, strict=True):
            master.grad = weight.grad = None


def own_step(
    plan: Plan,
    model: Any,
    optimizer: Any,
    device: str,
    between: Callable[[bool], AbstractContextManager[Any]] = lambda _: nullcontext(),
) -> Step:
    """Return a step as PyTorch's own loop has it; ``between`` is told whether a micro-batch is the step's last."""
    import torch

    parameters = [p for p in model.parameters() if p.requires_grad]
    precision = precision_of(plan)
    # Weights that lie in fp16 themselves are trained unscaled: their loss may overflow, their time is the same.
    scales = precision.compute == "fp16" and precision.autocasts
    scaler = torch.amp.GradScaler(device.partition(":")[0], enabled=scales)

    def step(batches: Sequence[torch.Tensor], phase: Phase) -> torch.Tensor:
        total = torch.zeros((), device=device)
        for number, tokens in enumerate(batches, start=1):
            with between(number == len(batches)), computing(plan, device):
                with phase("forward"):
                    loss = model(input_ids=tokens, labels=tokens).loss / len(batches)
                with phase("backward"), waiting_after_gradients(loss, phase):
                    scaler.scale(loss).backward()
            total += loss.detach()
        with phase("optimizer"):
            if scales:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return total

    return step


def own_optimizer(plan: Plan, model: Any, precision: Precision, device: str) -> Any:
    """Return the optimizer over what is trained, over fp32 copies where the framework keeps them."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise UnsupportedCaseError("no parameter of this model is trained")
    return MasterWeights(plan, parameters, device) if precision.masters else optimizer_of(plan, parameters, device)


Setup = Callable[[Scenario, str, Path | None], Trainer]
"""Builds this rank's trainer of a scenario on a device, with the weights of a checkpoint or random ones."""

WAYS = {
    "single": "sightline.measurement.training.trainers:single",
    "ddp": "sightline.measurement.training.trainers:ddp",
    "fsdp2": "sightline.measurement.training.trainers:fsdp2",
    "deepspeed": "sightline.measurement.training.engines:deepspeed",
    "megatron": "sightline.measurement.training.engines:megatron",
}
UNMEASURED = {
    "context_parallel": 1,
    "expert_capacity": 0.0,
    "expert_parallel": 1,
    "expert_tensor_parallel": 1,
    "expert_dispatch": "all-to-all",
    "expert_overlap": False,
    "prediction_layers": 0,
}
"""What no way of measuring does, and the value that leaves it out."""
LIBRARIES = {"deepspeed": ("deepspeed",), "megatron": ("megatron.core",)}
"""What a way needs besides PyTorch and transformers."""
ENGINES = {"deepspeed": "deepspeed", "megatron": "megatron", "megatron-deepspeed": "megatron"}
"""Frameworks with an engine of their own; the others are PyTorch's."""


def way_of(scenario: Scenario) -> str:
    """Return the way of training, by its name in ``WAYS``.

    Raises:
        UnsupportedCaseError: The scenario needs what the framework's way does not do.
    """
    plan = scenario.plan
    way = ENGINES.get(plan.framework.name)
    if way is None:
        alone = plan.data_parallel == 1 and plan.tensor_parallel * plan.pipeline_parallel == 1
        way = "single" if alone else "fsdp2" if plan.zero_stage else "ddp"
    for reason in _unsupported(scenario, way):
        raise UnsupportedCaseError(reason)
    return way


def _unsupported(scenario: Scenario, way: str) -> Iterator[str]:
    """What a way of training does not do and the scenario asks for."""
    plan, framework, work = scenario.plan, scenario.plan.framework, scenario.workload
    if work.lengths is not None or work.preference != "none":
        name = "preference" if work.lengths is None else "lengths"
        yield f"workload.{name}: only samples of one sequence of workload.sequence_length tokens can be measured"
    if plan.dtype in LOW_PRECISION:
        yield f"plan.dtype is {plan.dtype}; allowed when measuring: a dtype of 16 or 32 bits"
    for degree in ("tensor_parallel", "pipeline_parallel"):
        if way != "megatron" and getattr(plan, degree) > 1:
            yield (
                f"plan.{degree} is {getattr(plan, degree)} with plan.framework {framework.name}; allowed when "
                "measuring: 1, or framework megatron"
            )
    defaults: dict[str, Any] = {"tensor_overlap": framework.tensor_overlap(plan.sequence_parallel)}
    if way != "fsdp2":
        defaults["data_parallel_shard"] = plan.data_parallel
    for name, default in defaults.items():
        if getattr(plan, name) not in (None, default):
            yield f"plan.{name} is {getattr(plan, name)}; allowed when measuring {framework.name}: {default}"
    for name, plain in UNMEASURED.items():
        if getattr(plan, name) != plain:
            yield f"plan.{name} is {getattr(plan, name)}; allowed when measuring: {plain}"


def setup_of(way: str) -> Setup:
    """Return the function that builds a rank's trainer."""
    setup: Setup = named(WAYS[way])
    return setup


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
        raise TypeError("fully_shard did not change the model")
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
    found = ["fully_shard does not shard packed weights; every rank holds all of them"] if packed else []
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
        raise UnsupportedCaseError(f"{type(model).__name__} has no list of layers to split")
    return max((list(layers) for layers in lists), key=len)
