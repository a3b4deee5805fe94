"""Arrays as compiled code takes them: an address and how many rows there are, instead of the seven values of numba's.

That is less to compile in every function that passes one on. Indices are never negative and never checked.
"""

import operator
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.core.extending import NativeValue, lower_builtin, lower_getattr, register_model, typeof_impl, unbox
from numba.core.datamodel import StructModel
from llvmlite import ir as llvm_ir
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.np.numpy_support import from_dtype


class Rows(types.Type):
    """Rows in C order, of any dimension."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        super().__init__(f"Rows({dtype}, {ndim})")

    @property
    def mangling_args(self):
        code = self.dtype._code if isinstance(self.dtype, types.Record) else self.dtype
        return "Rows", (code, self.ndim)


@register_model(Rows)
class _RowsModel(StructModel):
    def __init__(self, manager: Any, rows: Rows) -> None:
        members = [("data", types.CPointer(rows.dtype)), ("shape", types.UniTuple(types.intp, rows.ndim))]
        super().__init__(manager, rows, members)


@unbox(Rows)
def _unboxed(rows: Rows, value: Any, c: Any) -> NativeValue:
    array = types.Array(rows.dtype, rows.ndim, "C")
    native = c.unbox(array, value)
    source = c.context.make_array(array)(c.context, c.builder, native.value)
    made = cgutils.create_struct_proxy(rows)(c.context, c.builder)
    made.data, made.shape = source.data, source.shape
    return NativeValue(made._getvalue(), is_error=native.is_error)


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return Rows(from_dtype(value.dtype), value.ndim)
    return numba.typeof(value)


def bundle(cls):
    """Let compiled code take the arrays of a named tuple as `Rows`."""

    @typeof_impl.register(cls)
    def _(value: Any, c: Any) -> Any:
        return types.NamedTuple([_type_of(each) for each in value], cls)

    return cls


def _row_of(rows: Any, index: Any) -> Any:
    """The types of an index and of what is there; None where that is no row."""
    if isinstance(rows, Rows):
        if isinstance(index, types.Integer):
            return types.intp, rows.dtype if rows.ndim == 1 else Rows(rows.dtype, rows.ndim - 1)
        if isinstance(index, types.BaseTuple) and len(index) == rows.ndim:
            return types.UniTuple(types.intp, rows.ndim), rows.dtype
    return None


@infer_global(operator.getitem)
class _GetRow(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        found = _row_of(*args)
        return found and signature(found[1], args[0], found[0])


@infer_global(operator.setitem)
class _SetRow(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        found = _row_of(*args[:2])
        return found and signature(types.none, args[0], found[0], found[1])


def _address(context: Any, builder: Any, rows: Rows, value: Any, index: Any) -> Any:
    """Where a row is."""
    many = cgutils.unpack_tuple(builder, index) if isinstance(index.type, llvm_ir.LiteralStructType | llvm_ir.ArrayType) else [index]
    shape = builder.extract_value(value, 1)
    at = many[0]
    for i in range(1, rows.ndim):
        at = builder.mul(at, builder.extract_value(shape, i))
        if i < len(many):
            at = builder.add(at, many[i])
    return builder.gep(builder.extract_value(value, 0), [at])


@lower_builtin(operator.getitem, Rows, types.Any)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    rows = sig.args[0]
    address = _address(context, builder, rows, *args)
    if isinstance(sig.return_type, Rows):
        made = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        shape = cgutils.unpack_tuple(builder, builder.extract_value(args[0], 1))
        made.data, made.shape = address, cgutils.pack_array(builder, shape[1:])
        return made._getvalue()
    if isinstance(rows.dtype, types.Record):
        return address
    return context.unpack_value(builder, rows.dtype, address)


@lower_builtin(operator.setitem, Rows, types.Any, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> None:
    address = _address(context, builder, sig.args[0], *args[:2])
    context.pack_value(builder, sig.args[0].dtype, args[2], address)


@infer_getattr
class _RowsAttributes(AttributeTemplate):
    key = Rows

    def resolve_shape(self, rows: Rows) -> Any:
        return types.UniTuple(types.intp, rows.ndim)

    def resolve_size(self, rows: Rows) -> Any:
        return types.intp


@lower_getattr(Rows, "shape")
def _shape(context: Any, builder: Any, rows: Rows, value: Any) -> Any:
    return builder.extract_value(value, 1)


@lower_getattr(Rows, "size")
def _size(context: Any, builder: Any, rows: Rows, value: Any) -> Any:
    return builder.extract_value(value, [1, 0])
