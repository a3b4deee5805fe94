"""What tensor-parallel ranks exchange for low-rank adapters, in 16 bits and beside nothing.

Megatron's adapters cut both matrices (NeMo's ``ParallelLinearAdapter``). Beside a column-split projection each rank makes a
piece of the narrow activation, which is gathered; beside a row-split one a partial sum of it, which is added up. ``B`` makes
a piece of the outputs, which row-split projections need whole, or cut by tokens with sequence parallelism. Degree 1 adds
nothing.
"""

import numpy as np

from sightline.program.address import Module
from sightline.program.operators import Collective, CollectiveKind
from sightline.program.techniques.adapters import AdapterShape, adapters_of
from sightline.program.techniques.tensor_parallel import enter_region, exchanged, gathered
from sightline.program.training_shapes import TrainingShapes
from sightline.quantities import Number


def enter_adapted(x: TrainingShapes, module: Module, targets: tuple[str, ...]) -> list[Collective]:
    """Forward before the column-split projections ``targets``: with sequence parallelism the sequence is gathered.

    An adapter takes the norm's output as it is, so that is gathered before it is quantized and before any product runs
    (TransformerEngine's ``return_layernorm_output_gathered``).
    """
    adapter = x.trained.adapter
    if adapter is None or not adapters_of(x, 1.0, 1.0, targets, (1.0,) * len(targets)):
        return enter_region(x, module)
    return gathered(x, module, x.hidden_bytes, "nothing")


def exchange_forward(x: TrainingShapes, module: Module, one: AdapterShape) -> list[Collective]:
    """Forward: the narrow activation made whole, and an adapter's outputs taken to where they are added."""
    narrow = x.element_bytes * x.tokens * one.group_rank
    if not one.sums:
        return _exchange(x, module, "all_gather", narrow)
    whole = x.element_bytes * x.tokens * one.outputs * x.t
    return [*_exchange(x, module, "all_reduce", narrow), *_to_tokens(x, module, whole, always=1.0)]


def exchange_backward(x: TrainingShapes, module: Module, one: AdapterShape) -> list[Collective]:
    """Backward: gradients taken to the ranks that hold those outputs, and the narrow gradient added up.

    Without sequence parallelism every rank has the whole gradient of the outputs already.
    """
    narrow = x.element_bytes * x.tokens * one.group_rank
    back = _to_tokens(x, module, x.element_bytes * x.tokens * one.outputs * x.t, always=0.0) if one.sums else []
    return [*back, *_exchange(x, module, "all_reduce", narrow)]


def _to_tokens(x: TrainingShapes, module: Module, whole: Number, *, always: float) -> list[Collective]:
    """Pieces of outputs become pieces of tokens: by an all-to-all, or gathered whole and cut."""
    if not x.framework.transformer_engine.exchanges_adapter_outputs:
        return _exchange(x, module, "all_gather", whole, np.maximum(x.split, always))
    through = _exchange(x, module, "all_to_all", whole / x.t, x.split)
    return [*through, *_exchange(x, module, "all_gather", whole, always * (1.0 - x.split))]


def _exchange(
    x: TrainingShapes, module: Module, kind: CollectiveKind, size: Number, count: Number = 1.0
) -> list[Collective]:
    """A collective of the adapters, where there are ranks and it runs at all."""
    times = count * (x.t > 1)
    return [exchanged(module, kind, size, 1.0 * times, "nothing")] if np.any(times) else []
