"""What is read when a step goes from one region to the next: a clock, a device's events, or counters of work.

All of them only read; the differences are taken when the step is over, so nothing waits in between. FLOPs and bytes are
counted from the shapes of the tensors that PyTorch's kernels are really given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import prod
from typing import Any, Protocol

from sightline.measurement.machine.devices import DeviceClock, import_torch
from sightline.measurement.machine.timing import Clock, host_time


def _formulas() -> Mapping[Any, Callable[..., int]]:
    """FLOPs of kernels that PyTorch's counter leaves out, from the shapes of their arguments."""
    torch = import_torch()
    aten, quantized, grouped = torch.ops.aten, torch.ops.bitsandbytes, torch.ops.transformers
    formulas: Mapping[str, tuple[Any, Callable[..., int]]] = {
        "_scaled_dot_product_flash_attention_for_cpu": (aten, _attention),
        "_scaled_dot_product_flash_attention_for_cpu_backward": (aten, _attention_gradient),
        "_grouped_mm": (aten, _grouped_product),
        "grouped_mm_fallback": (grouped, _grouped_product),
        "grouped_mm_fallback_backward": (grouped, _grouped_gradients),
        "int8_linear_matmul": (quantized, _product),
        "int8_scaled_mm": (quantized, _product),
        "int8_mixed_scaled_mm": (quantized, _product_with_quantized),
        "gemm_4bit": (quantized, _product_with_packed),
        "gemv_4bit": (quantized, _product_with_packed),
    }
    # Those of other libraries are there when these were imported.
    return {getattr(of, name): formula for name, (of, formula) in formulas.items() if hasattr(of, name)}


def _attention(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:
    """Two products of all queries with all keys (not masked): 2 b a s_q s_k (d + d_v)."""
    batch, heads, queries, dim = query
    return 2 * batch * heads * queries * key[2] * (dim + value[3])


def _attention_gradient(
    _gradient: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any
) -> int:
    """Five products for the forward pass's two: three of width d, two of width d_v (arXiv 2205.14135)."""
    batch, heads, queries, dim = query
    return 2 * batch * heads * queries * key[2] * (3 * dim + 2 * value[3])


def _grouped_product(left: Sequence[int], right: Sequence[int], *_: Any, **__: Any) -> int:
    """2 m n k, of which groups share the dimension that only one operand has: rows, columns or the sum."""
    every_group = left[0] if len(left) == len(right) == 3 else 1
    return 2 * every_group * left[-2] * left[-1] * right[-1]


def _grouped_gradients(left: Sequence[int], right: Sequence[int], *_: Any, **__: Any) -> int:
    """Those of both operands of a grouped product."""
    return 2 * _grouped_product(left, right)


def _product(left: Sequence[int], right: Sequence[int], *_: Any, **__: Any) -> int:
    """2 m n k of (m x k) by (n x k) transposed."""
    return 2 * prod(left) * right[0]


def _product_with_quantized(left: Sequence[int], _: Any, right: Sequence[int], *__: Any, **___: Any) -> int:
    """2 m n k; between the operands stands the first one's quantized twin."""
    return 2 * prod(left) * right[0]


def _product_with_packed(left: Sequence[int], _: Any, shape: Sequence[int], *__: Any, **___: Any) -> int:
    """2 m n k, where the second operand is packed and states its ``shape``."""
    return 2 * prod(left) * shape[0]


def _byte_counter() -> Any:
    """Return a mode that adds up what kernels read and write: each of their tensors once, views nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    tensor = import_torch().Tensor

    class ByteCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
        total = 0.0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            if not _only_names(func):
                written = args if not func._schema.returns else out  # noqa: SLF001
                leaves = (*tree_leaves((args, kwargs)), *tree_leaves(written))
                self.total += sum(_extent(x) for x in leaves if isinstance(x, tensor))
            return out

    return ByteCounter()  # type: ignore[no-untyped-call]


def _only_names(func: Any) -> bool:
    """Whether an operator returns views or uninitialized memory and so moves nothing."""
    returns = func._schema.returns  # noqa: SLF001 - the schema has no other name
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return views or "empty" in func.name() or func.name().startswith("aten::_unsafe_view")


def _extent(x: Any) -> float:
    """Bytes of a tensor, what is repeated by a stride of zero once."""
    return float(x.element_size() * prod(n for n, stride in zip(x.shape, x.stride(), strict=True) if stride))


class Reader(Protocol):
    """Something that grows while a step runs."""

    excludes_instrument: bool
    """Whether what the instrument itself takes between two regions is read apart, so that it is in neither."""

    def read(self) -> Any:
        """A reading at this moment."""
        ...

    def differences(self, readings: Sequence[Any]) -> Sequence[Any]:
        """How much it has grown between each reading and the next."""
        ...


class HostReader:
    """Wall time, for devices whose calls return when the work is done."""

    excludes_instrument = True
    read = staticmethod(host_time)

    def differences(self, readings: Sequence[float]) -> Sequence[float]:
        """Seconds."""
        return [after - before for before, after in pairwise(readings)]


class EventReader:
    """Device time by events in the current stream, which are recorded again once they have been read."""

    excludes_instrument = False

    def __init__(self) -> None:
        self._free: list[Any] = []

    def read(self) -> Any:
        """An event recorded now."""
        event = self._free.pop() if self._free else import_torch().cuda.Event(enable_timing=True)
        event.record()
        return event

    def differences(self, readings: Sequence[Any]) -> Sequence[float]:
        """Seconds; waits for the last event, which may be the first one of the next step."""
        readings[-1].synchronize()
        seconds = [b.elapsed_time(a) * 1e-3 for b, a in pairwise(readings)]
        self._free += readings[:-1]
        return seconds


class WorkReader:
    """FLOPs by PyTorch's own counter, told of the kernels it does not know, and bytes that kernels read and write.

    Only totals are read: what that counter attributes to modules is wrong in backward.
    """

    excludes_instrument = False

    def __init__(self, flops: Any, moved: Any) -> None:
        self._flops, self._moved = flops, moved

    def read(self) -> tuple[float, float]:
        """FLOPs and bytes so far."""
        return float(self._flops.get_total_flops()), self._moved.total

    def differences(self, readings: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
        """FLOPs and bytes."""
        return [(a[0] - b[0], a[1] - b[1]) for b, a in pairwise(readings)]


def reader_of(clock: Clock) -> Reader:
    """Return what reads the time of the device that ``clock`` is for."""
    return EventReader() if isinstance(clock, DeviceClock) else HostReader()


@contextmanager
def counted_work() -> Iterator[WorkReader]:
    """Count what PyTorch executes meanwhile."""
    from torch.utils.flop_counter import FlopCounterMode

    with _byte_counter() as moved, FlopCounterMode(display=False, custom_mapping=dict(_formulas())) as flops:
        yield WorkReader(flops, moved)
