"""What watching costs a training loop: ``python benchmarks/bench_watch.py``.

Steps of about 5 ms run in one process, in blocks that are watched and blocks that are not, in turns, so that whatever
else the machine does meets both. A step is a fixed amount of arithmetic. Told are the median of the ratios of
neighboring blocks, less 1, and the seconds that a call of ``step`` takes by itself. The limit is asserted.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import numpy as np

import sightline as sl

MOST_OVERHEAD = 0.01
STEP_S = 0.005
BLOCK, BLOCKS = 200, 20
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
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--cpu-time", action="store_true", help="read the thread's CPU time: where others use it too")
    arguments = parser.parse_args()
    found = _measured(arguments.blocks, thread_time if arguments.cpu_time else perf_counter)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"a step without a watch     {1e3 * found['step_s']:8.3f} ms")
        print(f"overhead of watching it    {100 * found['overhead']:8.3f} %   (limit {100 * MOST_OVERHEAD:.0f} %)")
        print(f"a call of step             {1e6 * found['call_s']:8.2f} us")
    return int(found["overhead"] > MOST_OVERHEAD)


def _measured(blocks: int, now: Callable[[], float]) -> dict[str, Any]:
    step = _a_step()
    with tempfile.TemporaryDirectory() as folder, sl.watch(SCENARIO, store=folder, show=False, replan=False) as watch:

        def watched() -> None:
            step()
            watch.step(tokens=256, sequence_length=64, loss=1.0)

        times: dict[Callable[[], None], list[float]] = {step: [], watched: []}
        for turn in range(blocks):
            for run in (step, watched) if turn % 2 else (watched, step):
                times[run].append(_seconds(run, now))
        begin = perf_counter()
        for _ in range(10_000):
            watch.step(tokens=256, sequence_length=64, loss=1.0)
        call_s = (perf_counter() - begin) / 10_000
    ratios = [one / other for one, other in zip(times[watched], times[step], strict=True)]
    return {"step_s": median(times[step]), "overhead": median(ratios) - 1.0, "call_s": call_s}


def _seconds(run: Callable[[], None], now: Callable[[], float]) -> float:
    """Seconds of a step: the median of a block, and the mean of what lies above it, which a thread beside may cause."""
    begin = now()
    for _ in range(BLOCK):
        run()
    return (now() - begin) / BLOCK


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
