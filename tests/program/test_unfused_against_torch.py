"""Kernels that nobody fuses: as many bytes and launches as PyTorch's dispatcher sees forward and backward."""

from collections.abc import Callable
from typing import Any

import pytest
from training_scenarios import training

from sightline.program import write_out

torch = pytest.importorskip("torch")

TOKENS, HIDDEN, HEADS = 64, 512, 4
VIEWS = ("view", "expand", "transpose", "detach", "unsqueeze", "slice", "alias", "split", "aten.t.")


def rms_norm(x: Any, weight: Any) -> Any:
    """As transformers writes it."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotation(x: Any, angles: Any) -> Any:
    first, second = x.chunk(2, dim=-1)
    return x * angles + torch.cat((-second, first), dim=-1) * angles


def swiglu(x: Any, up: Any) -> Any:
    return torch.nn.functional.silu(x) * up


def moved(compute: Callable[[], Any]) -> tuple[float, Any]:
    """Return the bytes per element that the kernels of a computation read and write, and its result."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    sizes: list[float] = []

    class Kernels(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if not any(view in str(function) for view in VIEWS):
                tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
                sizes.append(sum(min(t.nbytes, t.untyped_storage().nbytes()) for t in tensors))
            return result

    with Kernels():
        result = compute()
    return sum(sizes) / (TOKENS * HIDDEN), result


def tensor(*shape: int, trained: bool = True) -> Any:
    return torch.randn(*shape, dtype=torch.bfloat16, requires_grad=trained)


@pytest.mark.parametrize(
    ("part", "code", "shapes"),
    [
        ("norm", rms_norm, ((TOKENS, HIDDEN), (HIDDEN,))),
        ("rope", rotation, ((TOKENS, HEADS, HIDDEN // HEADS),)),
        ("activation", swiglu, ((TOKENS, HIDDEN), (TOKENS, HIDDEN))),
    ],
)
def test_unfused_kernels_move_what_pytorchs_do(part: str, code: Callable[..., Any], shapes: Any) -> None:
    inputs, angles = [tensor(*shape) for shape in shapes], tensor(TOKENS, 1, HIDDEN // HEADS, trained=False)
    others = [angles] if part == "rope" else []
    forward, result = moved(lambda: code(*inputs, *others))
    gradient = torch.ones_like(result)
    backward, _ = moved(lambda: torch.autograd.grad(result, inputs, gradient))
    scenario = training(model="llama-2-7b", plan={"framework": "transformers", "micro_batch": 1})
    layer = write_out(scenario).layers[0]

    def predicted(passes: Any) -> float:
        """Bytes per element of the first such operator: a norm, queries and keys, or a gated activation."""
        op = next(op for op in passes if op.part == part)
        return float(op.bytes / op.elements)

    assert (predicted(layer.forward), predicted(layer.backward)) == pytest.approx((forward, backward), rel=0.05)
