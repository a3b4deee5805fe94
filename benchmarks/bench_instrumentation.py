"""What telling modules apart costs, and whether it is right: ``python benchmarks/bench_instrumentation.py``.

A small Llama trains on this machine. Steps with and without the instrument take turns, which gives its overhead; then
each module of a layer runs alone, on tensors of the same shapes, forward and backward, and its time is put beside the
one that the instrument found in the whole step. Run it on an idle machine; the limits are asserted.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
# The C library keeps freed memory: in a step as alone, tensors lie where others lay before.
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "4294967296")
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "4294967296")

import numpy as np

MOST_OVERHEAD, MOST_DEVIATION = 0.05, 0.10
LAYERS, HIDDEN, WIDTH, HEADS, TOKENS, VOCABULARY = 4, 512, 1376, 8, 256, 1024


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
    overhead, rows = _overhead(model, arguments.steps, now)
    ratios = _isolation(model, rows, arguments.steps, now)
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


def _overhead(model: Any, steps: int, now: Callable[[], float]) -> tuple[float, dict[tuple[str, str], float]]:
    """The median of the ratios of neighbours, a step with and one without; seconds by phase and module."""
    import torch

    from sightline.measurement.instrument import instrument
    from sightline.measurement.module_clocks import HostReader
    from sightline.measurement.timing import HostClock

    tokens = torch.randint(0, VOCABULARY, (1, TOKENS))
    on_model = instrument(model, None, HostClock())

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
    reader, ratios, recordings = HostReader(), [], []
    reader.read = now
    for turn in range(steps + 2):
        bare = step() if turn % 2 else 0.0
        with on_model.read_by(reader) as passages:
            recorded = step()
        recordings.append(passages)
        ratios.append(recorded / (bare or step()))
    on_model.remove()
    by_module: dict[tuple[str, str], list[float]] = {}
    for recorded_step in recordings[2:]:
        for address, passage in recorded_step.items():
            key = (address.phase, address.region.module)
            if address.region.block == "layer":
                by_module.setdefault(key, []).append(sum(passage.parts) / LAYERS)
    return float(np.median(ratios[2:])) - 1, {k: float(np.median(v)) for k, v in by_module.items()}


def _isolation(
    model: Any, rows: dict[tuple[str, str], float], steps: int, now: Callable[[], float]
) -> dict[str, float]:
    """Time in the step over time alone, by module and phase; every layer's own weights take their turn."""
    ratios = {}
    for name, prepare in _alone(model).items():
        forward, backward = _time_alone(prepare, steps, now)
        ratios[f"{name}, forward"] = rows["forward", name] / forward
        ratios[f"{name}, backward"] = rows["backward", name] / backward
    return ratios


def _time_alone(
    prepare: Callable[[int], tuple[Callable[[], Any], Any]], steps: int, now: Callable[[], float]
) -> tuple[float, float]:
    """Median seconds of forward and backward of one layer's module."""
    import torch

    forward, backward = [], []
    for _ in range(steps + 2):
        passes = [0.0, 0.0]
        for layer in range(LAYERS):
            call, _leaves = prepare(layer)
            begin = now()
            outputs = call()
            passes[0] += now() - begin
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            gradients = [torch.randn_like(o) for o in outputs]
            begin = now()
            torch.autograd.backward(outputs, gradients)
            passes[1] += now() - begin
        forward.append(passes[0] / LAYERS)
        backward.append(passes[1] / LAYERS)
    return float(np.median(forward[2:])), float(np.median(backward[2:]))


def _alone(model: Any) -> dict[str, Callable[[int], tuple[Callable[[], Any], Any]]]:
    """How to run each kind of module by itself."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    dim, layers = HIDDEN // HEADS, model.model.layers
    position = torch.arange(TOKENS)[None]
    cos, sin = model.model.rotary_emb(torch.zeros(1), position)

    def hidden() -> Any:
        return torch.randn(1, TOKENS, HIDDEN, requires_grad=True)

    def heads(count: int) -> list[Any]:
        # As the projections leave them: heads behind tokens.
        return [torch.randn(1, TOKENS, HEADS, dim).transpose(1, 2).requires_grad_() for _ in range(count)]

    def qkv(i: int) -> Any:
        x, a = hidden(), layers[i].self_attn
        return lambda: (a.q_proj(x), a.k_proj(x), a.v_proj(x)), x

    def rope(_: int) -> Any:
        q, k = heads(2)
        return lambda: apply_rotary_pos_emb(q, k, cos, sin), q

    def core(i: int) -> Any:
        q, k, v = heads(3)
        a = layers[i].self_attn

        def call() -> Any:
            out = sdpa_attention_forward(a, q, k, v, None, scaling=a.scaling)[0]
            return out.reshape(1, TOKENS, -1).contiguous()

        return call, q

    def module(of: Callable[[Any], Any]) -> Callable[[int], Any]:
        def prepare(i: int) -> Any:
            x = hidden()
            return lambda: of(layers[i])(x), x

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
