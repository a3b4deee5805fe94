"""What DeepSpeed's hooks of ZeRO-3 take on the host: ``DS_ACCELERATOR=cpu python benchmarks/bench_zero_hooks.py``.

A small layer of Llama is run forward and backward in one process, with and without the engine, and the slope from 4 to 12 layers
is printed in milliseconds of CPU time a layer. Collectives return at once, buckets hold one weight, and a norm's weight
stays whole, as under the Trainer's ``auto``. With ``--frozen`` only norms are trained. The catalog's ``zero_engine`` states
these times in launches (docs/decisions/zero-hooks.md). Needs ``sightline[measure,deepspeed]``.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

WIDTH, INNER, HEADS, WORDS = 64, 128, 4, 128
FEW, MANY = 4, 12
MICRO_BATCHES = 8
"""Micro-batches of a step."""
STEPS, WARM_UP = 8, 3


def main() -> None:
    """Time both sides at both depths, each in a process of its own, and print the slopes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frozen", action="store_true", help="train norms alone")
    parser.add_argument("--layers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.layers:
        print(*passes_ms(asked.layers, engine=asked.engine, frozen=asked.frozen))
        return
    for name, engine in (("PyTorch alone", []), ("DeepSpeed, ZeRO-3", ["--engine"])):
        few, many = (_alone([*sys.argv[1:], *engine, "--layers", str(layers)]) for layers in (FEW, MANY))
        forward, backward = ((b - a) / (MANY - FEW) for a, b in zip(few, many, strict=True))
        print(f"{name:20} forward {forward:.2f}  backward {backward:.2f}  ms a layer")


def _alone(arguments: list[str]) -> list[float]:
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def passes_ms(layers: int, *, engine: bool, frozen: bool) -> tuple[float, float]:
    """Return the milliseconds of CPU time of a forward and a backward pass: the least fifth's highest of all micro-batches."""
    import torch

    torch.set_num_threads(1)
    model: Any = _model(layers)
    if frozen:
        for name, weight in model.named_parameters():
            weight.requires_grad_("layers." not in name or "norm" in name)
    tokens = torch.randint(0, WORDS, (1, 4))
    backward: Callable[[Any], None] = _plain_backward
    if engine:
        model = _with_engine(model)
        backward = model.backward
    else:
        model = model.to(torch.bfloat16)
    times: list[tuple[float, float]] = []
    for _ in range((STEPS + WARM_UP) * MICRO_BATCHES):
        began = time.process_time()
        loss = model(tokens)
        between = time.process_time()
        backward(loss)
        times.append((between - began, time.process_time() - between))
        if engine:
            model.step()
    fifth = STEPS * MICRO_BATCHES // 5
    first, second = (sorted(column)[fifth] for column in zip(*times[WARM_UP * MICRO_BATCHES :], strict=True))
    return 1e3 * first, 1e3 * second


def _plain_backward(loss: Any) -> None:
    loss.backward()


def _with_engine(model: Any) -> Any:
    import torch

    _let_collectives_return()
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_SIZE="1"
    )
    deepspeed: Any = import_module("deepspeed")  # publishes no types

    deepspeed.init_distributed("gloo")
    sharding = {
        "stage": 3,
        "overlap_comm": True,
        "contiguous_gradients": True,
        "reduce_bucket_size": WIDTH * WIDTH,
        "stage3_prefetch_bucket_size": int(0.9 * WIDTH * WIDTH),
        "stage3_param_persistence_threshold": 10 * WIDTH,
    }
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW([one for one in model.parameters() if one.requires_grad]),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": MICRO_BATCHES,
            "bf16": {"enabled": True},
            "zero_optimization": sharding,
            "zero_allow_untested_optimizer": True,
            "gradient_clipping": 1.0,
        },
    )
    return engine


class _Done:
    """A collective that has ended."""

    def wait(self) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def _let_collectives_return() -> None:
    """Let one process's collectives do nothing, whose threads would count as the hooks' time."""
    import torch.distributed

    def returns(*_: Any, async_op: bool = False, **__: Any) -> _Done | None:
        return _Done() if async_op else None

    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "reduce"):
        for module in (torch.distributed, torch.distributed.distributed_c10d):
            setattr(module, name, returns)


def _model(layers: int) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x: Any) -> Any:
            return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.weight

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
            self.down = nn.Linear(INNER, WIDTH, bias=False)
            self.norm, self.second_norm = Norm(), Norm()

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            parts = (one(y).view(*y.shape[:2], HEADS, -1).transpose(1, 2) for one in (self.query, self.key, self.value))
            query, key, value = parts
            scores = functional.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True)
            x = x + self.output(scores.transpose(1, 2).reshape(x.shape))
            y = self.second_norm(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def rotated(x: Any) -> Any:
        half = x.shape[-1] // 2
        return x * 1.0 + torch.cat((-x[..., half:], x[..., :half]), -1) * 0.5

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.head = nn.Linear(WIDTH, WORDS, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x)
            return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())

    return Model()


if __name__ == "__main__":
    main()
