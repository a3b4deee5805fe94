"""What versions of a framework launch for the same mathematics: a squared ReLU, the loss."""

from typing import Any

import pytest
from training_scenarios import training

from sightline.program import write_out
from sightline.program.operators import Elementwise, FlashAttention

NEMOTRON = {
    "model_type": "nemotron",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 512,
    "max_position_embeddings": 128,
}
TENSOR = 2.0 * 128 * 1024
"""Bytes of the activation of one micro-batch."""


def activations(version: str, **model: Any) -> list[Elementwise]:
    """The forward and the backward activation of a layer under a version of Megatron."""
    scenario = training(
        model=NEMOTRON | model,
        sequence_length=128,
        global_batch=1,
        plan={"micro_batch": 1, "framework": "megatron", "framework_version": version},
    )
    layer = write_out(scenario).layers[0]
    found = [op for op in (*layer.forward, *layer.backward) if op.name.startswith("activation")]
    return [op for op in found if isinstance(op, Elementwise)]


@pytest.mark.parametrize("version", ["nemo", "bridge", "0.18"])
def test_a_fused_one_moves_what_any_other_activation_does(version: str) -> None:
    forward, backward = activations(version)
    assert (forward.traffic_bytes, backward.traffic_bytes) == (2.0 * TENSOR, 3.0 * TENSOR)
    assert (forward.kernels, backward.kernels) == (1.0, 1.0)


def test_gelu_is_one_kernel_under_every_version() -> None:
    gelu = {
        "model_type": "gpt2",
        "hidden_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 512,
    }
    scenario = training(
        model=gelu | {"max_position_embeddings": 128},
        sequence_length=128,
        global_batch=1,
        plan={"micro_batch": 1, "framework": "megatron", "framework_version": "nemo-25.02"},
    )
    layer = write_out(scenario).layers[0]
    assert all(op.kernels == 1.0 for op in (*layer.forward, *layer.backward) if op.name.startswith("activation"))


def test_an_eager_one_has_the_kernels_and_moves_the_tensors_that_pytorch_records() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        """Notes kernels, and tensors of the activation's size that they read and write."""

        def __init__(self) -> None:
            super().__init__()
            self.kernels, self.tensors = 0, 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not str(func).startswith("aten.detach"):
                self.kernels += 1
                self.tensors += sum(isinstance(t, torch.Tensor) and t.numel() > 1 for t in (*args, result))
            return result

    x = torch.randn(64, requires_grad=True)
    gradient = torch.randn(64)
    with Recorder() as forward:
        y = torch.pow(torch.nn.functional.relu(x), 2)
    with Recorder() as backward:
        torch.autograd.grad(y, x, gradient)

    for operator, recorded in zip(activations("nemo-25.02"), (forward, backward), strict=True):
        assert operator.kernels == recorded.kernels
        assert operator.traffic_bytes == recorded.tensors * TENSOR


@pytest.mark.parametrize(
    ("version", "bytes_per_logit"), [("nemo", 52.0), ("nemo-25.02", 52.0), ("nemo-25.04", 10.0), ("mlperf-3", 32.0)]
)
def test_releases_of_nemo_differ_in_the_passes_of_the_loss(version: str, bytes_per_logit: float) -> None:
    plan = {"micro_batch": 1, "framework": "megatron", "framework_version": version}
    head = write_out(training(model=NEMOTRON, sequence_length=128, global_batch=1, plan=plan)).head
    loss = [op for op in (*head.forward, *head.backward) if op.name.startswith("cross-entropy")]
    assert sum(op.bytes for op in loss) == bytes_per_logit * 128 * 512


@pytest.mark.parametrize(
    ("version", "dtype", "factor"),
    [
        ("bridge-26.04", "mxfp8", 1.0),
        ("bridge-26.06", "bf16", 1.0),
        ("bridge-26.06", "mxfp8", 2048 / (128 - 128**2 / 4096)),
    ],
)
def test_a_narrow_backward_kernel_works_on_all_scores_of_a_window(version: str, dtype: str, factor: float) -> None:
    plan = {"micro_batch": 1, "framework": "megatron", "framework_version": version, "dtype": dtype}
    scenario = training(
        model="gpt-oss-20b",
        cluster="1x gb200",
        sequence_length=2048,
        global_batch=1,
        plan=plan | {"expert_parallel": 1},
    )
    sliding, full = write_out(scenario).layers
    backward, forward = (
        next(op for op in ops if isinstance(op, FlashAttention)) for ops in (sliding.backward, sliding.forward)
    )
    assert backward.flops == pytest.approx(2.5 * factor * forward.flops)
    assert next(op for op in full.backward if isinstance(op, FlashAttention)).flops == pytest.approx(
        2.5 * next(op for op in full.forward if isinstance(op, FlashAttention)).flops
    )
