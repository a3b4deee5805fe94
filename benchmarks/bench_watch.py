"""What watching costs a training loop: ``python benchmarks/bench_watch.py``.

Steps of about 5 ms run in one process, one that is watched and one that is not in turns, so that whatever else the
machine does meets both. A step is a fixed amount of arithmetic. The overhead is the median of what a watched step takes
longer than its neighbor, and all processor time of the thread that reads, judges and writes: both as shares of the
steps. It is measured without showing anything, shown on a terminal that changes in place (a pseudo-terminal), and there
with a loss that is a tensor. The limit is asserted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np

import sightline as sl

MOST_OVERHEAD = 0.01
STEP_S = 0.005
PAIRS, WARM_UP = 2000, 400
SCENARIO = {
    "model": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 256,
    },
    "cluster": "this-machine",
    "workload": {"task": "pretrain", "sequence_length": 64, "global_batch": 4},
    "plan": {"framework": "transformers", "micro_batch": 4, "dtype": "fp32"},
}


def main() -> int:
    """Print the overhead; the exit status is 1 where it is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    arguments = parser.parse_args()
    found = {name: _measured(arguments.pairs, **case) for name, case in _cases().items()}
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        for name, one in found.items():
            print(f"{name}: {100 * one['overhead']:.3f} % of a step of {1e3 * one['step_s']:.2f} ms (limit 1 %)")
            print(f"  in the loop   {100 * one['in_the_loop']:7.3f} %   (a call: {1e6 * one['call_s']:.2f} us)")
            print(f"  beside it     {100 * one['beside_it']:7.3f} %")
    return int(max(one["overhead"] for one in found.values()) > MOST_OVERHEAD)


def _cases() -> dict[str, dict[str, Any]]:
    """What is measured, by name; a loss is a tensor where PyTorch is installed."""
    cases: dict[str, dict[str, Any]] = {
        "not shown": {"loss": lambda: 1.0},
        "shown on a terminal": {"loss": lambda: 1.0, "show": True},
    }
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
        weight = torch.ones(1, requires_grad=True)
        loss = (2.5 * weight).sum()
        cases["shown on a terminal, the loss a tensor"] = {"loss": lambda: loss, "show": True}
    return cases


def _measured(pairs: int, *, loss: Callable[[], Any], show: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, _terminal() if show else nullcontext():
        return _compared(pairs, sl.watch(SCENARIO, store=folder, show=show, replan=False), loss)


@contextmanager
def _terminal() -> Iterator[None]:
    """Let standard error be a pseudo-terminal that somebody reads."""
    reader, writer = os.openpty()
    before, sys.stderr = sys.stderr, os.fdopen(writer, "w")
    # In a process of its own: what reading costs is not the watch's.
    reading = subprocess.Popen(["cat"], stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        sys.stderr.close()
        sys.stderr = before
        os.close(reader)
        reading.kill()
        reading.wait()


def _compared(pairs: int, watch: Any, loss: Callable[[], Any]) -> dict[str, Any]:
    step = _a_step()

    def watched() -> None:
        step()
        watch.step(tokens=256, sequence_length=64, loss=loss())

    times: dict[Callable[[], None], list[float]] = {step: [], watched: []}
    with watch:
        # What is imported for the first line is no part of a step.
        for _ in range(WARM_UP):
            watched()
        began, cpu_s = perf_counter(), process_time() - thread_time()
        for turn in range(pairs):
            for run in (step, watched) if turn % 2 else (watched, step):
                begin = perf_counter()
                run()
                times[run].append(perf_counter() - begin)
        beside_it = (process_time() - thread_time() - cpu_s) / (perf_counter() - began)
        begin = perf_counter()
        for _ in range(10_000):
            watch.step(tokens=256, sequence_length=64, loss=loss())
        call_s = (perf_counter() - begin) / 10_000
    step_s = median(times[step])
    in_the_loop = median(one - other for one, other in zip(times[watched], times[step], strict=True)) / step_s
    overhead = {"overhead": in_the_loop + beside_it, "in_the_loop": in_the_loop, "beside_it": beside_it}
    return {"step_s": step_s, **overhead, "call_s": call_s}


def _a_step() -> Callable[[], None]:
    """Return a step that takes `STEP_S` of one thread, in Python and in NumPy as a training loop does."""
    one = np.full((64, 64), 0.01)

    def repeat(count: int) -> None:
        for _ in range(count):
            np.tanh(one)

    taken = []
    for _ in range(50):
        begin = perf_counter()
        repeat(100)
        taken.append((perf_counter() - begin) / 100)
    # The shortest: a busy machine makes the others longer.
    count = int(STEP_S / min(taken))
    return lambda: repeat(count)


if __name__ == "__main__":
    raise SystemExit(main())
