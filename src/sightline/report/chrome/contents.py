"""What is inside a pass: its layers, their modules and operators in their order, with the seconds of each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sightline.profile import COMMUNICATION, Profile, Row
from sightline.report.chrome.events import COMPUTE, KERNEL, LAYERS_SEND, RANGE, Event, slice_of

ONCE = ("step", "batch")
"""Blocks of what happens once per step or batch, outside of every pass."""
_MATMULS = ("up", "down", "gate", "logits", "input gradient", "weight gradient", "router")
"""Operators that are products of matrices and do not say so in their names."""
_LAST = ("head", "prediction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of a block, once."""

    name: str
    exposed_s: float
    hidden_s: float = 0.0
    """Of communication: seconds behind the compute before it."""
    is_communication: bool = False
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a pass: a kind of layer, the embedding, the head."""

    name: str
    repeats: int
    modules: Sequence[tuple[str, Sequence[Operator]]]

    @property
    def is_layer(self) -> bool:
        """Whether it is one of the model's layers, which are numbered."""
        return self.name not in (*_LAST, "embedding")

    @property
    def seconds(self) -> float:
        """Exposed seconds of all repeats."""
        return self.repeats * sum(one.exposed_s for _, inside in self.modules for one in inside)

    @property
    def events(self) -> int:
        """Slices at most that drawing it takes."""
        return self.repeats * (1 + sum(1 + len(inside) for _, inside in self.modules))


def blocks_of(profile: Profile, phases: Sequence[str], passes: float) -> list[Block]:
    """Return the blocks of one pass, in the order in which they run.

    Args:
        profile: With the rows of one device.
        phases: Those of a pass, in their order: ``("recompute", "backward")``. Communication belongs to the phase that
            its operator names.
        passes: How many passes the rows stand for.
    """
    rows = [(row, _phase(row)) for row in profile.rows if row.block not in ONCE]
    own = [row for phase in phases for row, of in rows if of == phase and float(row.time_s) > 0.0]
    names = list(dict.fromkeys(row.block for row in own))
    if "backward" in phases:
        names = sorted(names, key=lambda name: (name not in _LAST, name == "embedding"))
    return [_block(name, [row for row in own if row.block == name], passes) for name in names]


def _phase(row: Row) -> str:
    """The pass that a row is part of; communication says it at the end of its name."""
    if row.phase not in COMMUNICATION:
        return row.phase
    return row.operator.rpartition(" in ")[2] if " in " in row.operator else "forward"


def _block(name: str, rows: Sequence[Row], passes: float) -> Block:
    repeats = max(1, round(min(float(row.count) for row in rows) / passes))
    modules: dict[str, list[Operator]] = {}
    for row in _in_order(rows):
        exposed_s, time_s = (float(value) / passes / repeats for value in (row.exposed_s, row.time_s))
        modules.setdefault(row.module, []).append(
            Operator(
                name=row.operator,
                exposed_s=exposed_s,
                hidden_s=max(0.0, time_s - exposed_s) if row.phase in COMMUNICATION else 0.0,
                is_communication=row.phase in COMMUNICATION,
                bound=row.bound,
            )
        )
    return Block(name=name, repeats=repeats, modules=list(modules.items()))


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows with the communication of a module behind its compute."""
    places = {row.module: place for place, row in reversed(list(enumerate(rows)))}
    return sorted(rows, key=lambda row: (places[row.module], row.phase in COMMUNICATION))


def kernel_name(operator: str, *, is_communication: bool = False) -> str:
    """Return the name of a kernel, in which readers of traces find what it does."""
    if is_communication:
        return f"nccl: {operator.replace('-', '_')}"
    return f"matmul: {operator}" if operator in _MATMULS else operator


def resized(blocks: Iterable[Block], share: float) -> list[Block]:
    """Return the blocks of a stage that has a ``share`` of the layers of the one that the rows are of."""
    return [
        Block(name=one.name, repeats=max(1, round(one.repeats * share)), modules=one.modules) if one.is_layer else one
        for one in blocks
    ]


def drawn(
    blocks: Sequence[Block], pid: int, start_s: float, end_s: float, *, first: int = 0, is_backward: bool = False
) -> Iterator[Event]:
    """Yield the slices inside of a pass, which fill it from its start to its end.

    Args:
        blocks: In their order.
        pid: The process.
        start_s: Of the pass.
        end_s: Of the pass. The seconds of operators are scaled to it, as stages have different loads.
        first: The number of the first of its layers.
        is_backward: Whether layers run from the last to the first.
    """
    whole_s = sum(one.seconds for one in blocks)
    if whole_s <= 0.0:
        return
    scale, at_s, sent_s = (end_s - start_s) / whole_s, start_s, start_s
    layers = sum(one.repeats for one in blocks if one.is_layer)
    numbers = iter(range(first + layers - 1, first - 1, -1) if is_backward else range(first, first + layers))
    for block in blocks:
        for _ in range(block.repeats):
            begun_s = at_s
            block_name = f"{block.name} {next(numbers)}" if block.is_layer else block.name
            for module, operators in block.modules:
                module_s = at_s
                for one in operators:
                    until_s = min(at_s + one.exposed_s * scale, end_s)
                    name = kernel_name(one.name, is_communication=one.is_communication)
                    if one.is_communication:
                        sent_from_s = max(at_s - one.hidden_s * scale, sent_s)
                        yield slice_of(name, KERNEL, pid, LAYERS_SEND, sent_from_s, until_s, module=module)
                        sent_s = until_s
                    else:
                        yield slice_of(name, KERNEL, pid, COMPUTE, at_s, until_s, module=module, bound=one.bound)
                    at_s = until_s
                if module != block_name:
                    yield slice_of(module, RANGE, pid, COMPUTE, module_s, at_s)
            yield slice_of(block_name, RANGE, pid, COMPUTE, begun_s, at_s)
