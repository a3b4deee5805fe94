"""A measured step's kernels stand beside the operators that a prediction has for them."""

from sightline.explanation.differences import named_as
from sightline.explanation.side import Cell

PREDICTED = [
    Cell("forward", "mlp", "up", 2.0),
    Cell("forward", "mlp", "activation", 1.0),
    Cell("forward", "mlp", "down", 1.0),
    Cell("forward", "mlp norm", "norm", 1.0),
    Cell("forward", "attention core", "scores", 1.0),
    Cell("forward", "attention core", "softmax", 1.0),
]


def names(*measured):
    return [cell.operator for cell in named_as([Cell(*cell, 1.0) for cell in measured], PREDICTED)]


def test_what_can_be_one_operator_alone_is_that_operator():
    mlp = [("forward", "mlp", name) for name in ("up", "silu", "mul", "down", "host")]
    assert names(*mlp) == ["up", "activation", "activation", "down", "host"]


def test_the_host_is_part_of_a_modules_only_operator():
    norm = [("forward", "mlp norm", name) for name in ("pow", "mean", "mul", "host")]
    assert names(*norm) == ["norm"] * 4


def test_what_could_be_several_keeps_its_name():
    core = [("forward", "attention core", name) for name in ("bmm", "_softmax")]
    assert names(*core) == ["bmm", "_softmax"]
    assert names(("backward", "mlp", "mul")) == ["mul"], "of which nothing was predicted"
    every = [("forward", "mlp", name) for name in ("up", "activation", "down", "copy_")]
    assert names(*every)[-1] == "copy_", "all that was predicted has its own row"


def test_seconds_stay_what_they_are():
    cell = Cell("forward", "mlp norm", "mul", 3.0, 2.0, 4.0)
    assert named_as([cell], PREDICTED) == [cell._replace(operator="norm")]
