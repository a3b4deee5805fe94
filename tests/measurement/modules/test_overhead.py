"""What telling modules apart adds is taken off by borders, never more than borders take."""

import pytest

from sightline.measurement.modules.instrument import LEAST_KEPT, MOST_S, without_overhead
from sightline.profile import Row


def row(module: str, count: float, time_s: float) -> Row:
    return Row(
        phase="decode",
        block="layer",
        module=module,
        operator="all",
        count=count,
        flops=0.0,
        bytes=0.0,
        network_bytes=0.0,
        time_s=time_s,
        exposed_s=time_s,
        bound="memory",
    )


def seconds(rows: list[Row]) -> list[float]:
    return [float(r.time_s) for r in rows]


def test_modules_sum_to_the_step_that_was_not_told_apart() -> None:
    rows = without_overhead([row("qkv", 30, 3e-3), row("mlp", 10, 5e-3)], 7.9e-3)
    assert sum(seconds(rows)) == pytest.approx(7.9e-3)
    assert seconds(rows) == pytest.approx([3e-3 - 30 * 2.5e-6, 5e-3 - 10 * 2.5e-6])


def test_a_machine_that_was_slower_meanwhile_is_no_overhead() -> None:
    slow = without_overhead([row("qkv", 30, 1.0), row("mlp", 10, 1.0)], 1.5)
    assert seconds(slow) == pytest.approx([1.0 - 30 * MOST_S, 1.0 - 10 * MOST_S])
    assert seconds(without_overhead([row("qkv", 30, 3e-3)], 4e-3)) == [3e-3]


def test_something_always_stays() -> None:
    assert seconds(without_overhead([row("residual", 100, 1e-4), row("mlp", 1, 1.0)], 0.1))[0] == LEAST_KEPT * 1e-4
