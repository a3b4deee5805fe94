"""What watching costs a training loop: ``python benchmarks/bench_watch.py``.

Steps of about 5 ms run in one process, one that is watched and one that is not in turns, so that whatever else the
machine does meets both. A step is a fixed amount of arithmetic. The overhead is the median of what a watched step takes
longer than its neighbor, and all processor time of the thread that reads, judges and writes: both as shares of the
steps. The limit is asserted.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np

import sightline as sl

MOST_OVERHEAD = 0.01
STEP_S = 0.005
PAIRS = 2000
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
    found = _measured(arguments.pairs)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"a step without a watch     {1e3 * found['step_s']:8.3f} ms")
        print(f"overhead of watching it    {100 * found['overhead']:8.3f} %   (limit {100 * MOST_OVERHEAD:.0f} %)")
        print(
            f"  of that, in the loop     {100 * found['in_the_loop']:8.3f} %   (a call: {1e6 * found['call_s']:.2f} us)"
        )
        print(f"  of that, beside it       {100 * found['beside_it']:8.3f} %")
    return int(found["overhead"] > MOST_OVERHEAD)


def _measured(pairs: int) -> dict[str, Any]:
    step = _a_step()
    with tempfile.TemporaryDirectory() as folder, sl.watch(SCENARIO, store=folder, show=False, replan=False) as watch:

        def watched() -> None:
            step()
            watch.step(tokens=256, sequence_length=64, loss=1.0)

        times: dict[Callable[[], None], list[float]] = {step: [], watched: []}
        began, cpu_s = perf_counter(), process_time() - thread_time()
        for turn in range(pairs):
            for run in (step, watched) if turn % 2 else (watched, step):
                begin = perf_counter()
                run()
                times[run].append(perf_counter() - begin)
        beside_it = (process_time() - thread_time() - cpu_s) / (perf_counter() - began)
        begin = perf_counter()
        for _ in range(10_000):
            watch.step(tokens=256, sequence_length=64, loss=1.0)
        call_s = (perf_counter() - begin) / 10_000
    step_s = median(times[step])
    longer_s = median(one - other for one, other in zip(times[watched], times[step], strict=True))
    in_the_loop = longer_s / step_s
    return {
        "step_s": step_s,
        "overhead": in_the_loop + beside_it,
        "in_the_loop": in_the_loop,
        "beside_it": beside_it,
        "call_s": call_s,
    }


def _a_step() -> Callable[[], None]:
    """Return a step that takes `STEP_S` of one thread, in Python and in NumPy as a training loop does."""
    one = np.full((64, 64), 0.01)

    def repeat(count: int) -> None:
        for _ in range(count):
            np.tanh(one)

    begin = perf_counter()
    repeat(1000)
    count = int(STEP_S / ((perf_counter() - begin) / 1000))
    return lambda: repeat(count)


if __name__ == "__main__":
    raise SystemExit(main())
