"""How a pass of generation is cut so that all pipeline stages work at once."""

import numpy as np

from sightline.quantities import Count, Number
from sightline.scenario import GenerationPlan


def micro_batches(plan: GenerationPlan, sequences: Number, new_tokens: Number) -> Number:
    """Parts that a rank's ``sequences`` of ``new_tokens`` each are cut into; 1 where the engine cuts nothing.

    As many as there are stages, or by the engine's rule of ``micro_batch_tokens``.
    """
    p, b = plan.pipeline_parallel, np.maximum(sequences, 1.0)
    if not plan.engine.scheduling.pipeline_micro_batches:
        return 1.0
    if plan.engine.scheduling.micro_batch_tokens is None:
        return np.minimum(p, b) * 1.0
    return np.where(np.equal(p, 1), 1.0, _halved(b, p, new_tokens, plan.engine.scheduling.micro_batch_tokens))


def _halved(b: Number, p: Count, q: Number, most: float) -> Number:
    """A batch is shared by the stages if that leaves no rest, then halved as long as it is even and has too many tokens."""
    whole = np.ceil(b).astype(int)
    part = np.where(whole % p == 0, whole // p, whole)
    even = np.log2(part & -part)  # how often it can be halved: its lowest set bit
    needed = np.ceil(np.log2(np.maximum(part * q / most, 1.0)))
    parts: Number = whole / part * 2.0 ** np.minimum(even, needed)
    return parts
