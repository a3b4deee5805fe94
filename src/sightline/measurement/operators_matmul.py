"""Matmuls by PyTorch: a product of rows with a weight that lies as a linear layer's does, ``n x k``."""

from typing import Any

from sightline.errors import InputError
from sightline.measurement.buffers import Tensors, rotated
from sightline.measurement.operator_case import Case, chosen
from sightline.measurement.torch_machine import Machine, import_torch
from sightline.scenario import MatmulOperation

IMPLEMENTATIONS = ("library", "input-gradient", "weight-gradient")
"""How the operands lie: rows by the transposed weight; a linear layer's gradient by its weight; the transposed gradient
by rows. The last two are what a backward pass multiplies: ``m x k`` and ``k x n`` are sizes of that product."""


def matmul_case(x: MatmulOperation, machine: Machine, implementation: str | None) -> Case:
    """Return the product, written into memory that is there already; raises `InputError` for formats of fewer bits."""
    torch = import_torch()
    name = chosen("matmul", implementation, IMPLEMENTATIONS)
    if x.kernel not in ("16-bit", "32-bit"):
        raise InputError(f"workload.format is '{x.kernel}'; this version measures matmuls of 16 and 32 bits")
    dtype = machine.dtype(x.dtype)
    m, n, k, batch = (int(size) for size in (x.m, x.n, x.k, x.batch))

    def operand(rows: int, columns: int, *, transposed: bool) -> Any:
        shape = (columns, rows) if transposed else (rows, columns)
        lies = torch.randn(batch, *shape, device=machine.kind).to(dtype)
        return lies.transpose(1, 2) if transposed else lies

    def build() -> Tensors:
        left = operand(m, k, transposed=name == "weight-gradient")
        right = operand(k, n, transposed=name == "library")
        return left, right, torch.empty(batch, m, n, device=machine.kind, dtype=dtype)

    sets = rotated(machine, batch * (m * k + n * k + m * n) * dtype.itemsize, build)
    multiply = torch.bmm
    if batch == 1:
        # Copies of a transposed view stay transposed, so that every set lies alike.
        sets, multiply = [tuple(t[0] for t in s) for s in sets], torch.mm

    def call(turn: int) -> object:
        rows, weight, out = sets[turn % len(sets)]
        return multiply(rows, weight, out=out)

    return Case(call=call, implementation=name, sets=len(sets))
