"""Traces in Kineto's form composed by hand: kernels on streams, the calls that launch them, collectives, steps."""

import gzip
import json

HOST, DEVICE, STREAM, NETWORK = 100, 0, 7, 20
"""Process of the host, number of the device, its streams for computation and communication."""
LAUNCH_US = 5.0


class Composed:
    """One rank's trace; times in microseconds."""

    def __init__(self, rank=0, world_size=1):
        self.events, self.rank, self.world_size, self.number = [], rank, world_size, 0

    def event(self, cat, name, start, length, *, pid=HOST, tid=HOST, **args):
        """Add an event of any kind."""
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args}
        )

    def step(self, number, start, length):
        """Add a step's annotation."""
        self.event("user_annotation", f"ProfilerStep#{number}", start, length)

    def kernel(self, name, start, length, *, at=None, op="aten::mm", stream=STREAM, cat="kernel", **args):
        """Add a kernel with its launch, which begins ``at`` an instant (default: just before the kernel)."""
        self.number += 1
        at = start - LAUNCH_US if at is None else at
        self.event("cpu_op", op, at, LAUNCH_US, **{"External id": self.number})
        self.event("cuda_runtime", "cudaLaunchKernel", at, LAUNCH_US, correlation=self.number)
        ids = {"correlation": self.number, "External id": self.number, "device": DEVICE, "stream": stream}
        self.event(cat, name, start, length, pid=DEVICE, tid=stream, **ids, **args)

    def collective(self, start, length, **args):
        """Add an all-reduce on its own stream, launched long before it begins."""
        at = args.pop("at", start - LAUNCH_US)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        self.kernel(name, start, length, at=at, op="c10d::allreduce_", stream=NETWORK, **args)

    def document(self):
        """Return the trace as Kineto writes it."""
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world_size},
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "traceEvents": self.events,
        }

    def write(self, folder, name="trace.json"):
        """Write the trace and return its path."""
        text = json.dumps(self.document()).encode()
        place = folder / name
        place.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return place
