"""Arrays as compiled code takes them: an address and a shape, instead of the seven and more values of numba's own.

That is less to compile in every function that passes one on. Rows stand in C order; indices are neither negative nor
checked.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator"
import operator
from hashlib import blake2b
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype

Bundle = TypeVar("Bundle", bound=type)


class Rows(types.Type):
    """The type of an array of numbers or records."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        # A record's own name has all its columns, and would stand in those of all functions.
        super().__init__(f"Rows({blake2b(str(dtype).encode(), digest_size=8).hexdigest()}, {ndim})")


@register_model(Rows)
class _RowsModel(models.StructModel):
    """An address and a shape."""

    def __init__(self, manager: Any, rows: Rows) -> None:
        shape = types.UniTuple(types.intp, rows.ndim)
        super().__init__(manager, rows, [("data", types.CPointer(rows.dtype)), ("shape", shape)])


def bundle(named_tuple: Bundle) -> Bundle:
    """Let compiled code take the arrays of a class of named tuples as `Rows`."""

    def typed(value: Any, _: Any) -> Any:
        return types.NamedTuple(map(_type_of, value), named_tuple)

    typeof_impl.register(named_tuple)(typed)
    return named_tuple


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.flags.c_contiguous:
        return Rows(from_dtype(value.dtype), value.ndim)
    return numba.typeof(value)


@unbox(Rows)
def _unboxed(rows: Rows, value: Any, c: Any) -> Any:
    array = types.Array(rows.dtype, rows.ndim, "C")
    native = c.unbox(array, value)
    given = c.context.make_array(array)(c.context, c.builder, native.value)
    made = cgutils.create_struct_proxy(rows)(c.context, c.builder)
    made.data, made.shape = given.data, given.shape
    return NativeValue(made._getvalue(), is_error=native.is_error)  # noqa: SLF001 - numba's way


def _indexed(rows: Any, index: Any) -> Any:
    """The types of an index and of what is there; None where these are no rows."""
    if isinstance(rows, Rows):
        if isinstance(index, types.Integer):
            return types.intp, rows.dtype if rows.ndim == 1 else Rows(rows.dtype, rows.ndim - 1)
        if isinstance(index, types.BaseTuple) and len(index) == rows.ndim:
            return types.UniTuple(types.intp, rows.ndim), rows.dtype
    return None


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        types_of = _indexed(*args)
        return types_of and signature(types_of[1], args[0], types_of[0])


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        types_of = _indexed(*args[:2])
        return types_of and signature(types.none, args[0], *types_of)


def _address(builder: Any, sig: Any, args: Any) -> Any:
    """Where a row, or a part of it, begins."""
    whole = isinstance(sig.args[1], types.BaseTuple)
    at, *inner = cgutils.unpack_tuple(builder, args[1]) if whole else [args[1]]
    for i, extent in enumerate(cgutils.unpack_tuple(builder, builder.extract_value(args[0], 1))[1:]):
        at = builder.mul(at, extent)
        at = builder.add(at, inner[i]) if inner else at
    return builder.gep(builder.extract_value(args[0], 0), [at])


@lower_builtin(operator.getitem, Rows, types.Any)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address, kind = _address(builder, sig, args), sig.return_type
    if isinstance(kind, types.Record):
        return address
    if not isinstance(kind, Rows):
        return context.unpack_value(builder, kind, address)
    made = cgutils.create_struct_proxy(kind)(context, builder)
    shape = cgutils.unpack_tuple(builder, builder.extract_value(args[0], 1))
    made.data, made.shape = address, cgutils.pack_array(builder, shape[1:])
    return made._getvalue()  # noqa: SLF001 - numba's way


@lower_builtin(operator.setitem, Rows, types.Any, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> None:
    context.pack_value(builder, sig.args[2], args[2], _address(builder, sig, args))


@infer_getattr
class _RowsAttributes(AttributeTemplate):
    key = Rows

    def resolve_shape(self, rows: Rows) -> Any:
        return types.UniTuple(types.intp, rows.ndim)

    def resolve_size(self, rows: Rows) -> Any:
        return types.intp if rows.ndim == 1 else None


@lower_getattr(Rows, "shape")
def _shape(_: Any, builder: Any, __: Any, value: Any) -> Any:
    return builder.extract_value(value, 1)


@lower_getattr(Rows, "size")
def _size(_: Any, builder: Any, __: Any, value: Any) -> Any:
    return builder.extract_value(value, [1, 0])
