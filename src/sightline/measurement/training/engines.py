"""Trainers of frameworks with an engine of their own: DeepSpeed and Megatron-core."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import WorkError
from sightline.measurement.machine import TORCH_DTYPES, require
from sightline.measurement.models import SEED, build_model, precision_of
from sightline.measurement.modules.wrapping import EXPOSED
from sightline.measurement.processes.isolation import UnsupportedCaseError
from sightline.measurement.timing import Phase
from sightline.measurement.training.trainers import LARGEST_GRADIENT, Trainer, computing, optimizer_of, own_optimizer
from sightline.prediction.training.offload import STAYS
from sightline.scenario import Model, Plan, Scenario
from sightline.scenario.techniques import Recomputation

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
        raise UnsupportedCaseError("DeepSpeed ZeRO-3 cannot shard weights packed by bitsandbytes")
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
            f"a killed build of a PyTorch extension left a lock that would block DeepSpeed; remove '{lock}' and "
            "try again"
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


SHIMMED = "shimmed, functional only: Megatron's CUDA calls run on the CPU, so its times are meaningless"
LEFT_OUT = (
    "add_bias_linear",
    "gradient_accumulation_fusion",
    "masked_softmax_fusion",
    "bias_activation_fusion",
    "bias_dropout_fusion",
    "apply_rope_fusion",
    "batch_p2p_sync",
)
RECOMPUTATION: Mapping[str, Mapping[str, Any]] = {
    "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    "selective": {"recompute_granularity": "selective"},
}
LOCAL = "Megatron's local layers support only eager attention, and PyTorch updates their weights"


def megatron(scenario: Scenario, device: str, weights: Path | None) -> Trainer:
    """Return one rank's trainer; the group of processes is there already.

    Raises:
        InputError: Megatron-core is missing.
        UnsupportedCaseError: It is not measured with what the plan asks.
    """
    import torch.distributed as dist

    _refuse(scenario, weights)
    require("megatron", what="plan.framework megatron")
    core = import_module("megatron.core")
    if device == "cpu":
        _shim()
    plan, state = scenario.plan, core.parallel_state
    state.initialize_model_parallel(
        tensor_model_parallel_size=int(plan.tensor_parallel), pipeline_model_parallel_size=int(plan.pipeline_parallel)
    )
    if device != "cpu":
        import_module("megatron.core.tensor_parallel").model_parallel_cuda_manual_seed(SEED)
    model = _model(scenario, state, device)
    optimizer = own_optimizer(plan, model, precision_of(plan), device)
    schedule = import_module("megatron.core.pipeline_parallel").get_forward_backward_func()
    replicas = dist.get_world_size() // int(plan.tensor_parallel * plan.pipeline_parallel)
    return Trainer(
        model=model,
        step=_step(scenario, model, optimizer, schedule, state, device),
        optimizer=optimizer,
        replica=state.get_data_parallel_rank(),
        replicas=replicas,
        remarks=[LOCAL, *([SHIMMED] if device == "cpu" else [])],
        record={"shimmed": device == "cpu", "attention": "eager"},
    )


def _refuse(scenario: Scenario, weights: Path | None) -> None:
    plan, model = scenario.plan, scenario.model
    llama = (model.norm, model.positions, model.gated) == ("rmsnorm", "rotary", True)
    for wrong, sentence in (
        (weights is not None, "--weights: not supported with Megatron-core, which uses random weights"),
        (
            not llama or model.layer_kinds or model.qk_norm,
            f"{model.name}: only Llama-like models can be measured with Megatron-core",
        ),
        (
            plan.adapter is not None or plan.quantization != "none",
            "Megatron-core does not support adapters and packed weights",
        ),
        (bool(plan.offload), "plan.offload: not supported when measuring Megatron-core"),
        (plan.zero_stage > 1, f"plan.zero_stage is {plan.zero_stage}; allowed with Megatron-core: 0, 1"),
        (plan.virtual_stages > 1, "plan.virtual_stages: allowed when measuring Megatron-core: 1"),
        (
            isinstance(plan.recompute, Recomputation),
            f"plan.recompute is {plan.recompute}; allowed when measuring Megatron-core: none, selective, full",
        ),
        (
            model.tied_embeddings and plan.pipeline_parallel > 1,
            "tied embeddings can be measured only with one pipeline stage",
        ),
    ):
        if wrong:
            raise UnsupportedCaseError(sentence)


def _shim() -> None:
    """Answer Megatron's questions to CUDA: which device, whose random numbers, and counters that lie there."""
    import torch

    device: Any = torch.device("cpu")
    cuda: Any = torch.cuda
    cuda.current_device = lambda: device
    tracker: Any = import_module("megatron.core.tensor_parallel.random").CudaRNGStatesTracker
    tracker.fork = lambda *_, **__: nullcontext()
    anywhere: Any = torch
    zeros = anywhere.zeros

    def zeros_here(*size: Any, **how: Any) -> Any:
        return zeros(*size, **{**how, "device": device})

    anywhere.zeros = zeros_here


def _model(scenario: Scenario, state: Any, device: str) -> Any:
    """This rank's part of the model."""
    import torch

    layers = import_module("megatron.core.models.gpt.gpt_layer_specs")
    gpt = import_module("megatron.core.models.gpt").GPTModel
    model, plan = scenario.model, scenario.plan
    torch.manual_seed(SEED)
    built: torch.nn.Module = gpt(
        config=import_module("megatron.core.transformer").TransformerConfig(**_configuration(model, plan)),
        transformer_layer_spec=layers.get_gpt_layer_local_spec(normalization="RMSNorm"),
        vocab_size=model.vocab_size,
        max_sequence_length=scenario.workload.sequence_length,
        pre_process=state.is_pipeline_first_stage(),
        post_process=state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=model.tied_embeddings,
        position_embedding_type="rope",
    )
    return built.to(device, getattr(torch, TORCH_DTYPES[precision_of(plan).weights])).train()


def _configuration(model: Model, plan: Plan) -> dict[str, Any]:
    import torch

    dtype = getattr(torch, TORCH_DTYPES[plan.dtype])
    return {
        "num_layers": model.layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.intermediate_size,
        "num_attention_heads": model.heads,
        "num_query_groups": model.kv_heads,
        "kv_channels": model.head_dim,
        "normalization": "RMSNorm",
        "gated_linear_unit": True,
        "activation_func": torch.nn.functional.silu,
        "add_qkv_bias": model.attention_bias,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "use_cpu_initialization": True,
        "tensor_model_parallel_size": int(plan.tensor_parallel),
        "pipeline_model_parallel_size": int(plan.pipeline_parallel),
        "sequence_parallel": bool(plan.sequence_parallel),
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "bf16": plan.dtype == "bf16",
        "fp16": plan.dtype == "fp16",
        **dict.fromkeys(LEFT_OUT, False),
        **RECOMPUTATION.get(str(plan.recompute), {}),
    }


def _step(scenario: Scenario, model: Any, optimizer: Any, schedule: Callable[..., Any], state: Any, device: str) -> Any:
    """One step by Megatron's own schedule: forward passes are marked inside of it, the rest is the backward pass."""
    import torch

    length = scenario.workload.sequence_length
    positions = torch.arange(length, device=device).unsqueeze(0)
    masked = torch.ones(1, 1, length, length, device=device, dtype=torch.bool).triu(1)
    trained = [p for p in model.parameters() if p.requires_grad]

    def step(batches: Sequence[torch.Tensor], phase: Phase) -> torch.Tensor:
        def forward(tokens_of: Iterator[torch.Tensor], part: Any) -> tuple[Any, Callable[[Any], Any]]:
            tokens = next(tokens_of)
            with phase("forward"):
                out = part(tokens, positions.expand_as(tokens), masked, labels=tokens.roll(-1, dims=1))
            return out, _mean_loss

        with phase("backward"):
            seen = schedule(
                forward_step_func=forward,
                data_iterator=iter(batches),
                model=model,
                num_microbatches=len(batches),
                seq_length=length,
                micro_batch_size=int(scenario.plan.sequences),
                forward_only=False,
            )
        with phase(EXPOSED):
            _sum_replicas(trained, state)
        with phase("optimizer"):
            torch.nn.utils.clip_grad_norm_(trained, LARGEST_GRADIENT)
            optimizer.step()
            optimizer.zero_grad()
        losses = [s["loss"] for s in seen]
        # Only the last stage knows the loss.
        return torch.stack(losses).mean() if losses else torch.tensor(float("nan"))

    return step


def _mean_loss(losses: Any) -> tuple[Any, dict[str, Any]]:
    """The mean over tokens that have a next one."""
    loss = losses[:, :-1].float().mean()
    return loss, {"loss": loss.detach().clone()}


def _sum_replicas(trained: Sequence[Any], state: Any) -> None:
    """Average gradients over the replicas."""
    import torch.distributed as dist

    replicas = state.get_data_parallel_world_size()
    if replicas == 1:
        return
    for parameter in trained:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad.div_(replicas), group=state.get_data_parallel_group())
