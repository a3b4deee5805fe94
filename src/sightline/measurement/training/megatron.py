"""Megatron-core's tensor and pipeline parallelism, over its layers written in plain PyTorch (the local specification).

Gradients of replicas are summed and weights updated by PyTorch. On a processor two of Megatron's calls to CUDA are
shimmed, so that such runs show that a plan works and not how fast it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from sightline.measurement.machine import TORCH_DTYPES, require
from sightline.measurement.models import SEED, precision_of
from sightline.measurement.modules.wrapping import EXPOSED
from sightline.measurement.processes.isolation import UnsupportedCaseError
from sightline.measurement.timing import Phase
from sightline.measurement.training.steps import LARGEST_GRADIENT, Trainer, own_optimizer
from sightline.scenario import Model, Plan, Scenario
from sightline.scenario.techniques import Recomputation

SHIMMED = (
    "shimmed, functional only: Megatron's calls to CUDA are answered by the processor, so its times stand for nothing"
)
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
LOCAL = "Megatron's local layers have the eager attention alone, and PyTorch updates their weights"


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
        (weights is not None, "--weights: Megatron-core is measured with random weights"),
        (
            not llama or model.layer_kinds or model.qk_norm,
            f"{model.name}: Megatron-core is measured with models like Llama",
        ),
        (plan.adapter is not None or plan.quantization != "none", "Megatron-core has no adapters and packed weights"),
        (bool(plan.offload), "plan.offload: Megatron-core is measured without"),
        (plan.zero_stage > 1, f"plan.zero_stage is {plan.zero_stage}; Megatron-core has 0 and 1"),
        (plan.virtual_stages > 1, "plan.virtual_stages: Megatron-core is measured with 1"),
        (
            isinstance(plan.recompute, Recomputation),
            f"plan.recompute is {plan.recompute}; Megatron-core is measured with none, selective, full",
        ),
        (model.tied_embeddings and plan.pipeline_parallel > 1, "tied embeddings are measured in one pipeline stage"),
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
