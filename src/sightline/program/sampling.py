"""What drawing the next token costs besides the logits' maximum, in bytes per fp32 logit of plain streams as long.

PyTorch's operators (vLLM, v1/sample/ops/topk_topp_sampler.py of 0.15): softmax reads three times and writes (16),
exponential noise is written (4) and divides the probabilities (12). Top-p sorts all logits, then softmax (16), sums
(8), compares (5), fills (9) and scatters back (24); top-k alone finds its smallest logit in radix passes (24), compares
and fills (14). With tensor parallelism the logits are gathered first and every rank draws from all of them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from sightline.frameworks.engine import EngineKernels, Sampler
from sightline.program.operators import Part
from sightline.scenario.generation import Sampling

SORT_PASSES: Final = 6
"""Digits of 5 or 6 bits of a 32-bit key: CUB's segmented radix sort, which PyTorch calls for many rows."""
SORT_SHARE: Final = 0.55
"""Bandwidth of those passes, which rank keys in shared memory, over that of plain streams: 1,024 rows of 32,768 logits
take 3.84 ms with what top-k does besides, where H100 streams their bytes in 2.4 ms (vLLM pull request 33538)."""
_SORT: Final = (8.0 + SORT_PASSES * (4.0 + 12.0 + 12.0)) / SORT_SHARE
"""Indices are written; each pass reads the keys to count them, then reads and writes keys and 64-bit indices."""
_DRAW: Final = 16.0 + 4.0 + 12.0
_TOP_P, _TOP_K = _SORT + 16.0 + 8.0 + 5.0 + 9.0 + 24.0, 24.0 + 14.0
DRAWING: Final[tuple[Part, ...]] = ("temperature", "penalties", "drawing")
"""Operators behind the layers, which no engine fuses: they take what they take alone."""
Narrowing = tuple[bool, bool]
"""Whether top-p and top-k leave tokens out."""
PASSES: Final[Mapping[Sampler, Mapping[Narrowing, tuple[float, float]]]] = {
    "sorting": {
        (False, False): (_DRAW, 3.0),
        (True, False): (_TOP_P + _DRAW, 16.0),
        (False, True): (_TOP_K + _DRAW, 14.0),
        (True, True): (_TOP_P + 14.0 + _DRAW, 19.0),
    },
    # Softmax; then draws that each read the row and leave at most half of the probability: two for top-p, four for
    # top-k. Both: first a search of top-k's smallest logit, in eight reads, and masks.
    "rejection": {
        (False, False): (_DRAW, 3.0),
        (True, False): (16.0 + 2 * 4.0, 2.0),
        (False, True): (16.0 + 4 * 4.0, 2.0),
        (True, True): (8 * 4.0 + 8.0 + 16.0 + 2 * 4.0, 3.0),
    },
}
"""Bytes per logit and kernels."""


def sampling_passes(sampling: Sampling, kernels: EngineKernels, *, nvidia: bool) -> Iterator[tuple[Part, float, float]]:
    """Yield what drawing adds to taking the most likely token: part, bytes per logit, and kernels."""
    if sampling.penalties:
        yield "penalties", kernels.penalty_bytes, 13.0
    if sampling.greedy:
        return
    yield "temperature", 8.0, 2.0
    narrowing = sampling.top_p < 1.0, sampling.top_k > 0
    yield "drawing", *PASSES[kernels.sampler if nvidia else "sorting"][narrowing]
