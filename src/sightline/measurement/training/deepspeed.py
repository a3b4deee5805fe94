"""DeepSpeed's engine: ZeRO 0 to 3, with optimizer and parameters on the host where the plan offloads them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import WorkError
from sightline.measurement.machine import require
from sightline.measurement.models import build_model
from sightline.measurement.processes.isolation import UnsupportedCaseError
from sightline.measurement.timing import Phase
from sightline.measurement.training.steps import LARGEST_GRADIENT, Trainer, computing, optimizer_of
from sightline.prediction.training.offload import STAYS
from sightline.scenario import Scenario

if TYPE_CHECKING:
    import torch


def deepspeed(scenario: Scenario, device: str, weights: Path | None) -> Trainer:
    """Return one rank's trainer; the group of processes is there already.

    Raises:
        InputError: DeepSpeed is missing.
        UnsupportedCaseError: It has no such combination.
    """
    require("deepspeed", what="plan.framework deepspeed")
    engine_of: Any = import_module("deepspeed")
    import torch.distributed as dist

    plan = scenario.plan
    if plan.zero_stage == 3 and plan.quantization != "none":
        raise UnsupportedCaseError("DeepSpeed's ZeRO-3 does not split weights that bitsandbytes has packed")
    model: Any = build_model(scenario, device, weights)
    if plan.compile:
        model.compile()
    trained = [p for p in model.parameters() if p.requires_grad]
    engine, optimizer, _, _ = engine_of.initialize(
        model=model,
        optimizer=optimizer_of(plan, trained, device),
        config=configuration(scenario, dist.get_world_size()),
        dist_init_required=False,
    )

    def step(batches: Sequence["torch.Tensor"], phase: Phase) -> "torch.Tensor":
        import torch

        total = torch.zeros((), device=device)
        for tokens in batches:
            with computing(plan, device), phase("forward"):
                loss = engine(input_ids=tokens, labels=tokens).loss
            with phase("backward"):
                engine.backward(loss)
            with phase("optimizer"):
                # The engine counts micro-batches itself and updates after the last.
                engine.step()
            total += loss.detach().float() / len(batches)
        return total

    return Trainer(
        model=model,
        step=step,
        optimizer=_States(optimizer, 1.0 / dist.get_world_size() if plan.zero_stage == 2 else 1.0),
        replica=dist.get_rank(),
        replicas=dist.get_world_size(),
        remarks=[STAYS] if plan.offload and device == "cpu" else [],
    )


def configuration(scenario: Scenario, ranks: int) -> dict[str, Any]:
    """Return the engine's configuration file: what of the plan is DeepSpeed's business."""
    plan = scenario.plan
    batch = int(plan.sequences)
    zero: dict[str, Any] = {"stage": int(plan.zero_stage)}
    if "optimizer" in plan.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": os.environ["SIGHTLINE_DEVICE"] != "cpu"}
    if "parameters" in plan.offload:
        zero["offload_param"] = {"device": "cpu", "pin_memory": os.environ["SIGHTLINE_DEVICE"] != "cpu"}
    return {
        "train_micro_batch_size_per_gpu": batch,
        "gradient_accumulation_steps": scenario.workload.global_batch // (batch * ranks),
        "gradient_clipping": LARGEST_GRADIENT,
        "zero_optimization": zero,
        # The optimizer is PyTorch's own: DeepSpeed's compiles code for the machine first.
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": plan.dtype == "bf16"},
        "fp16": {"enabled": plan.dtype == "fp16"},
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }


class _States:
    """What DeepSpeed's optimizer keeps: the moments of the one inside, and its own fp32 copies."""

    COPIES = (
        "single_partition_of_fp32_groups",
        "fp32_partitioned_groups_flat",
        "fp32_groups_flat_partition",
    )

    def __init__(self, optimizer: Any, gradient_share: float) -> None:
        self.optimizer, self.gradient_share = optimizer, gradient_share
        """Of the gradients, what a rank keeps once they are reduced; ZeRO-3's parameters are this rank's part
        already."""

    @property
    def state(self) -> Mapping[str, Any]:
        """Moments, and copies that are not the weights themselves."""
        inner = getattr(self.optimizer, "optimizer", self.optimizer)
        copies = [t for name in self.COPIES for t in getattr(self.optimizer, name, None) or ()]
        return {"moments": {str(i): s for i, s in enumerate(inner.state.values())}, "copies": copies}


_PROCESSES = Path("/proc")


def refuse_stale_locks() -> None:
    """Raise `WorkError` with the path where PyTorch's folder of extensions has a lock that no process holds."""
    for lock in stale_locks():
        raise WorkError(
            f"a build of a PyTorch extension was killed and left its lock, for which DeepSpeed would wait forever: "
            f"remove '{lock}' and try again"
        )


def stale_locks(folder: Path | None = None) -> list[Path]:
    """Return the locks below PyTorch's folder of extensions that no living process has open."""
    found = list((folder or _extensions()).glob("**/lock"))
    held = set(_open_files()) if found else set()
    return [lock for lock in found if str(lock.resolve()) not in held]


def _extensions() -> Path:
    stated = os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return Path(stated).expanduser() if stated else cache / "torch_extensions"


def _open_files() -> Iterator[str]:
    """The files that this user's processes have open."""
    for process in _PROCESSES.glob("[0-9]*"):
        try:
            for descriptor in (process / "fd").iterdir():
                yield os.readlink(descriptor)  # noqa: PTH115 - pipes and sockets are no paths
        except OSError:
            continue
