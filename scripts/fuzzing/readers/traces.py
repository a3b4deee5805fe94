"""Traces of PyTorch's profiler, and Chrome traces of other programs."""

import gzip
import json
from random import Random
from typing import Any, Final

from fuzzing import raw
from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import EXAMPLES, ROOT, written
from fuzzing.trees import Corpus

_MOST = 400
"""Events of a trace."""
_EVENT: Final = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1},'
_BOMBS: Final = (
    (b'{"traceEvents": [', _EVENT, b"{}]}"),
    (b'{"traceEvents": [', b" " * 64, b"]}"),
    (b'{"traceEvents": [{"name": "', b"x" * 64, b'"}]}'),
    (b'{"traceEvents": [{"args": ', b"[" * 64, b"]}"),
    (b'{"x": "', b"x" * 64, b'"}'),
)


def _shortened(document: Any) -> Any:
    """A trace with some of its events, those of one kind not all from one place."""
    events = document["traceEvents"]
    return {**document, "traceEvents": events[:: max(1, len(events) // _MOST)]}


def traces() -> Maker:
    """Kineto and Chrome traces, plain and packed."""
    paths = [
        *sorted((ROOT / "tests" / "traces" / "recorded").glob("*.json.gz")),
        EXAMPLES / "traces" / "slow-loader.json.gz",
    ]
    documents = [_shortened(json.loads(gzip.decompress(path.read_bytes()))) for path in paths]
    small = {
        "traceEvents": [
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": 7, "ts": 10.0 * n, "dur": 9.0}
            | {"args": {"correlation": n, "External id": n, "device": 0, "stream": 7, "Input Dims": [[8, 8], [8, 8]]}}
            for n in range(4)
            for cat, name, pid in (
                ("cpu_op", "aten::mm", 1),
                ("cuda_runtime", "cudaLaunchKernel", 1),
                ("kernel", "gemm", 0),
            )
        ],
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }
    corpus = Corpus([*documents, *[small] * len(documents)])

    def make(rng: Random) -> Input:
        if rng.random() < 0.004:
            return _explained("trace.json.gz", raw.bomb(*rng.choice(_BOMBS), size=2**25))
        _, content = written(rng, corpus.draw(rng), ".json")
        if rng.random() < 0.3:
            return _explained("trace.json.gz", raw.packed(rng, content))
        return _explained("trace.pt.trace.json", content)

    return make


def _explained(name: str, content: bytes) -> Input:
    return Input(verb="command", arguments=("explain", name, "--json"), files={name: content})
