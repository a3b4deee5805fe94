"""What telling modules apart costs, and whether it is right: ``python benchmarks/bench_instrumentation.py``.

A small Llama trains on this machine. Steps with and without the instrument take turns, which gives its overhead; so does
each module of a layer by itself, on tensors of the same shapes, forward and backward, whose time is put beside the one
that the instrument found in the whole step. Run it on an idle machine; the limits are asserted.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
# The C library keeps freed memory: in a step as alone, tensors lie where others lay before.
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "4294967296")
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "4294967296")

import numpy as np

MOST_OVERHEAD, MOST_DEVIATION = 0.05, 0.10
WARM_UP = 2
LAYERS, HIDDEN, WIDTH, HEADS, TOKENS, VOCABULARY = 4, 512, 1376, 8, 256, 1024


Alone = tuple[Callable[[], Any], Callable[[], Sequence[Any]]]
"""A module's forward pass, and fresh inputs of its kind."""


def main() -> int:
    """Print overhead and ratios; the exit status is 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--cpu-time", action="store_true", help="read CPU time: for a machine that others use too")
    arguments = parser.parse_args()
    if "MALLOC_SET" not in os.environ:
        # The C library reads its settings when a process starts.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "MALLOC_SET": "1"})  # noqa: S606
    now = process_time if arguments.cpu_time else perf_counter
    model = _model()
    overhead, ratios = _turns(model, arguments.steps, now)
    worst = max(abs(r - 1) for r in ratios.values())
    found = {"overhead": overhead, "in_step_over_alone": ratios, "worst": worst}
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"overhead of telling modules apart  {100 * overhead:6.2f} %   (limit {100 * MOST_OVERHEAD:.0f} %)")
        print("time in the step over time alone")
        for name, ratio in ratios.items():
            print(f"  {name:32} {ratio:6.3f}")
        print(f"worst deviation                    {100 * worst:6.2f} %   (limit {100 * MOST_DEVIATION:.0f} %)")
    return int(overhead > MOST_OVERHEAD or worst > MOST_DEVIATION)


def _model() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        vocab_size=VOCABULARY,
    )
    return LlamaForCausalLM(config).train()


def _turns(model: Any, steps: int, now: Callable[[], float]) -> tuple[float, dict[str, float]]:
    """The cost of the instrument, and each module's time in the step over its time alone.

    A step with the instrument, one without and every module by itself take turns, so that whatever else the machine
    does meets all of them; what is told are medians of the turns' ratios.
    """
    import torch

    from sightline.measurement.modules.instrument import instrument
    from sightline.measurement.modules.timeline import HostReader
    from sightline.measurement.timing import HostClock

    tokens = torch.randint(0, VOCABULARY, (1, TOKENS))
    on_model, alone = instrument(model, None, HostClock()), _alone(model)

    def step() -> float:
        model.zero_grad(set_to_none=False)
        begin = now()
        with on_model.phase("forward"):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        with on_model.phase("backward"):
            loss.backward()
        return now() - begin

    with on_model.counting():
        step()
    reader = HostReader()
    reader.read = now
    overheads, ratios = [], defaultdict(list)
    for turn in range(steps + WARM_UP):
        bare = step() if turn % 2 else 0.0
        with on_model.read_by(reader) as passages:
            recorded = step()
        by_module = _by_module(passages)
        bare = bare or step()
        apart = {name: _time_alone(prepare, now) for name, prepare in alone.items()}
        if turn >= WARM_UP:
            overheads.append(recorded / bare - 1)
            for name, passes in apart.items():
                for phase, seconds in zip(("forward", "backward"), passes, strict=True):
                    ratios[f"{name}, {phase}"].append(by_module[phase, name] / seconds)
    on_model.remove()
    return float(np.median(overheads)), {name: float(np.median(values)) for name, values in ratios.items()}


def _by_module(passages: Mapping[Any, Any]) -> dict[tuple[str, str], float]:
    """Seconds of one layer's modules in a recorded step, by phase and module."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for address, passage in passages.items():
        if address.region.block == "layer":
            found[address.phase, address.region.module] += sum(passage.parts) / LAYERS
    return found


def _time_alone(prepare: Callable[[int], Alone], now: Callable[[], float]) -> tuple[float, float]:
    """Seconds of forward and backward of one layer's module; every layer's own weights take their turn.

    What it takes to start a backward pass that goes through nothing is not counted: a step starts one for all modules.
    """
    passes = [0.0, 0.0]
    for layer in range(LAYERS):
        call, inputs = prepare(layer)
        begin = now()
        outputs = call()
        passes[0] += now() - begin
        passes[1] += _backward_s(outputs if isinstance(outputs, tuple) else (outputs,), now)
        passes[1] -= _backward_s(inputs(), now)
    return passes[0] / LAYERS, passes[1] / LAYERS


def _backward_s(outputs: Sequence[Any], now: Callable[[], float]) -> float:
    """Seconds of the backward pass from ``outputs``."""
    import torch

    gradients = [torch.randn_like(o) for o in outputs]
    begin = now()
    torch.autograd.backward(outputs, gradients)
    return now() - begin


def _inner() -> Callable[[Any], Any]:
    """How to make of a tensor what a module sees inside a step: one whose gradient is handed on, not kept and copied."""
    import torch

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, leaf: Any) -> Any:
            return leaf.view_as(leaf)

        @staticmethod
        def backward(_: Any, _gradient: Any) -> None:
            return None

    return lambda tensor: Inner.apply(tensor.requires_grad_())  # type: ignore[no-untyped-call]


def _alone(model: Any) -> dict[str, Callable[[int], Alone]]:
    """How to run each kind of module of a layer by itself, and how to make inputs like its own."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    dim, layers = HIDDEN // HEADS, model.model.layers
    position = torch.arange(TOKENS)[None]
    cos, sin = model.model.rotary_emb(torch.zeros(1), position)

    inner = _inner()

    def hidden() -> Any:
        return inner(torch.randn(1, TOKENS, HIDDEN))

    def heads(count: int) -> list[Any]:
        # As the projections leave them: heads behind tokens.
        return [inner(torch.randn(1, TOKENS, HEADS, dim).transpose(1, 2)) for _ in range(count)]

    def qkv(i: int) -> Alone:
        x, a = hidden(), layers[i].self_attn
        return lambda: (a.q_proj(x), a.k_proj(x), a.v_proj(x)), lambda: [hidden()]

    def rope(_: int) -> Alone:
        q, k = heads(2)
        return lambda: apply_rotary_pos_emb(q, k, cos, sin), lambda: heads(2)

    def core(i: int) -> Alone:
        q, k, v = heads(3)
        a = layers[i].self_attn

        def call() -> Any:
            out = sdpa_attention_forward(a, q, k, v, None, scaling=a.scaling)[0]
            return out.reshape(1, TOKENS, -1).contiguous()

        return call, lambda: heads(3)

    def module(of: Callable[[Any], Any]) -> Callable[[int], Alone]:
        def prepare(i: int) -> Alone:
            x = hidden()
            return lambda: of(layers[i])(x), lambda: [hidden()]

        return prepare

    return {
        "attention norm": module(lambda layer: layer.input_layernorm),
        "qkv": qkv,
        "rope": rope,
        "attention core": core,
        "output projection": module(lambda layer: layer.self_attn.o_proj),
        "mlp norm": module(lambda layer: layer.post_attention_layernorm),
        "mlp": module(lambda layer: layer.mlp),
    }


if __name__ == "__main__":
    sys.exit(main())
