"""Record traces of small jobs on this machine, each with one planted fault: ``python tests/traces/record.py FOLDER``.

A job is one process, or two that talk through gloo. What lies in ``tests/traces/recorded`` is from here.
"""

import gzip
import json
import os
import sys
import tempfile
import time
from pathlib import Path

WARM_UP, STEPS = 2, 3
FAULTS = ("input", "launches", "all-reduce", "eager", "uneven", "recompute")
"""What is planted."""
RANKS = {"input": 1, "launches": 1, "all-reduce": 2, "eager": 1, "uneven": 2, "recompute": 1}


def job(fault, rank):
    """Return one step of a job as a function, and the batches it takes."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if fault == "eager":
        return _llama_step(), [None] * (WARM_UP + STEPS)
    if fault == "launches":
        weights = [torch.zeros(8, requires_grad=True) for _ in range(40)]
        return (lambda _: _many_small(weights)), [None] * (WARM_UP + STEPS)
    width, depth = {"all-reduce": (1024, 6), "uneven": (512, 4), "input": (256, 2), "recompute": (512, 4)}[fault]
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = {"all-reduce": 8, "uneven": 256 if rank == 0 else 1024, "input": 256, "recompute": 512}[fault]
    batches = [torch.randn(rows, width) for _ in range(WARM_UP + STEPS)]
    if fault == "input":
        batches = torch.utils.data.DataLoader(_Slow(batches), batch_size=None)

    def step(batch):
        optimizer.zero_grad()
        (_checkpointed(model, batch) if fault == "recompute" else model(batch)).square().mean().backward()
        if RANKS[fault] > 1:
            _all_reduce([p.grad for p in model.parameters()], 64 if fault == "uneven" else None)
        optimizer.step()

    return step, batches


class _Slow:
    """A data set whose samples take 30 ms each."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, place):
        time.sleep(0.03)
        return self.batches[place]


def _many_small(weights):
    total = sum(((w * 2.0 + 1.0).relu() - 1.0).sum() for w in weights)
    total.backward()
    for weight in weights:
        weight.data.sub_(weight.grad)
        weight.grad = None


def _checkpointed(layers, x):
    """Run every layer with activation checkpointing, by both of its implementations in turn."""
    from torch.utils.checkpoint import checkpoint

    for number, layer in enumerate(layers):
        # The reentrant one needs an input that has a gradient, which the first has not.
        x = checkpoint(lambda x, layer=layer: layer(x).tanh(), x, use_reentrant=number % 2 == 1)
    return x


def _all_reduce(gradients, most=None):
    import torch

    flat = torch.cat([g.flatten() for g in gradients])
    torch.distributed.all_reduce(flat if most is None else flat[:most])


def _llama_step():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 8, "num_key_value_heads": 8}
    config = LlamaConfig(**sizes, num_hidden_layers=1, vocab_size=64, attn_implementation="eager")
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters())
    # Long enough that the scores, which grow with its square, outweigh the calls of small operators on any processor.
    tokens = torch.randint(0, 64, (1, 2048))

    def step(_):
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()

    return step


def run(faults, rank, ranks, folder, rendezvous):
    """Run jobs, one after the other, as one of their ranks."""
    import torch

    torch.set_num_threads(1)
    if ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    for fault in faults:
        _run(fault, rank, ranks, folder)


def _run(fault, rank, ranks, folder):
    """Run a job as one of its ranks and write its trace."""
    from torch.profiler import ProfilerActivity, profile, schedule

    step, batches = job(fault, rank)
    place = Path(folder) / (f"{fault}.json" if ranks == 1 else f"{fault}-rank-{rank}.json")

    def write(found):
        found.export_chrome_trace(str(place))

    plan = schedule(wait=0, warmup=WARM_UP, active=STEPS)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=write, record_shapes=True, with_modules=True
    ) as profiler:
        for batch in batches:
            step(batch)
            profiler.step()
    _pack(place)


def _pack(place):
    """Compress a trace, without the names of the machine and what no test looks at."""
    trace = json.loads(place.read_text())
    for name in ("host_name", "username", "traceName", "trace_id"):
        trace.pop(name, None)
    for event in trace["traceEvents"]:
        for name in ("Concrete Inputs", "Input Strides", "Record function id", "Ev Idx"):
            event.get("args", {}).pop(name, None)
    place.with_suffix(".json.gz").write_bytes(gzip.compress(json.dumps(trace).encode(), 9, mtime=0))
    place.unlink()


def record(folder, faults=FAULTS):
    """Record the jobs of some faults into a folder."""
    import subprocess

    Path(folder).mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    for ranks in (1, 2):
        chosen = ",".join(fault for fault in faults if RANKS[fault] == ranks)
        if not chosen:
            continue
        with tempfile.TemporaryDirectory() as meeting:
            words = [(chosen, str(rank), str(ranks), str(folder), f"{meeting}/file") for rank in range(ranks)]
            running = [subprocess.Popen([sys.executable, __file__, *each], env=environment) for each in words]
            if sum(one.wait() for one in running):
                raise SystemExit(f"the jobs with {chosen} failed")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        record(sys.argv[1])
    else:
        run(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
