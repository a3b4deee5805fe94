"""A step's table: a row per operator address on a device of the pace-setting stage, and what bounds the step."""

from collections.abc import Iterator, Sequence

from sightline.prediction.rows import operator_row
from sightline.prediction.training.block_times import exposed_collectives_s
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.step import StepTimes
from sightline.profile import Row
from sightline.profile.rows import exposed
from sightline.program import Block, Collective, Operator
from sightline.quantities import Number

COMMUNICATION = "communication_exposed"


def rows_of(priced: Priced, times: StepTimes) -> list[Row]:
    """Return the rows of a scalar prediction; by phase their exposed seconds sum to the step's phases."""
    rows: list[Row] = []
    updates: list[Row] = []
    for block, passes in _counted(priced, times):
        for phase, count, operators in passes:
            if phase == "optimizer":
                updates += [_row(priced, phase, block.name, op, count) for op in operators if count * op.count > 0]
            else:
                rows += _of_pass(priced, phase, block.name, count, operators)
    # Ranks that share matrices out wait for the one with the largest.
    return _merged([*rows, *exposed(updates, times.update.operators_s)]) + list(_step_rows(priced, times))


def _counted(priced: Priced, times: StepTimes) -> list[tuple[Block, list[tuple[str, Number, list[Operator]]]]]:
    """Each block with its passes and how often a step executes them on the pace-setting stage."""
    program, stage, m = priced.program, times.slowest, times.micro_batches
    counts = [stage.embedding, *stage.kinds, stage.head]
    return [
        (
            block,
            [
                ("forward", m * count, list(block.forward)),
                ("recompute", m * count * block.recomputed_share, list(block.recomputed)),
                ("backward", m * count, list(block.backward)),
                ("optimizer", count * times.update.share, list(block.update)),
            ],
        )
        for block, count in zip(program.blocks, counts, strict=True)
    ]


def _of_pass(priced: Priced, phase: str, block: str, count: Number, operators: Sequence[Operator]) -> Iterator[Row]:
    """Rows of a block's pass; collectives count as communication, each group exposed by the same share."""
    present = [op for op in operators if count * op.count > 0]
    rows = [(op, _row(priced, phase, block, op, count)) for op in present]
    yield from (row for op, row in rows if not isinstance(op, Collective))
    exposed_s = exposed_collectives_s(operators, priced.prices, priced.overlap, backward=phase == "backward")
    for overlapped, seconds in exposed_s.items():
        together = [row for op, row in rows if isinstance(op, Collective) and op.overlapped_with == overlapped]
        yield from exposed(together, count * seconds)


def _row(priced: Priced, phase: str, block: str, op: Operator, count: Number) -> Row:
    price, n = priced.prices[id(op)], count * op.count
    of = {"phase": phase, "communication": COMMUNICATION, "block": block}
    return operator_row(op, price, **of, count=n, time_s=price.time_s)


def _merged(rows: list[Row]) -> list[Row]:
    """Rows of one address added up (a layer has two residuals)."""
    merged: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = (row.phase, row.block, row.module, row.operator, row.bound)
        old = merged.get(key)
        merged[key] = row if old is None else _added(old, row)
    return list(merged.values())


def _added(a: Row, b: Row) -> Row:
    names = ("count", "flops", "bytes", "network_bytes", "time_s", "exposed_s")
    sums = {n: getattr(a, n) + getattr(b, n) for n in names}
    return Row(phase=a.phase, block=a.block, module=a.module, operator=a.operator, bound=a.bound, **sums)


def _step_rows(priced: Priced, times: StepTimes) -> Iterator[Row]:
    """What is no part of a block: the optimizer, activations handed over, gradients, the bubble, the host."""
    c, m, phases = priced.constants, times.micro_batches, times.phases
    update_s, own_s = phases["optimizer"] - times.update.operators_s, m * c.micro_batch_s + c.step_s
    bound = "host" if times.offload.update_s > 0 else "memory"
    yield _step_row("optimizer", "optimizer", "update", update_s, bound, bytes=float(times.update.traffic_bytes))
    found = [(COMMUNICATION, *sent, "network") for sent in _sent(priced, times)]
    found += [
        ("pipeline_bubble", "schedule", "bubble", 1.0, 0.0, phases["pipeline_bubble"], "bubble"),
        ("host", "host", "waiting for launches", 1.0, 0.0, phases["host"] - own_s, "host"),
        ("host", "host", "framework, per micro-batch", m, 0.0, m * c.micro_batch_s, "host"),
        ("host", "host", "framework, per step", 1.0, 0.0, c.step_s, "host"),
    ]
    for phase, module, operator, count, sent, time_s, bound in found:
        if time_s > 0:
            yield _step_row(phase, module, operator, time_s, bound, count=float(count), network_bytes=float(sent))


def _step_row(phase: str, module: str, operator: str, time_s: Number, bound: str, **amounts: float) -> Row:
    """Return the row of something that happens once per step, outside of blocks."""
    of = {"phase": phase, "block": "step", "module": module, "operator": operator, "bound": bound}
    return Row.from_mapping({**of, "time_s": float(time_s), **amounts})


def _sent(priced: Priced, times: StepTimes) -> list[tuple[str, str, Number, Number, Number]]:
    """Module, operator, count, bytes over the network and seconds of exposed transfers outside of blocks."""
    plan, embedding = priced.scenario.plan, priced.program.embedding
    messages = 2.0 * times.micro_batches * plan.virtual_stages
    sent_bytes = messages * sum(op.network_bytes for op in priced.program.boundary)
    table_bytes = embedding.trained_parameters * plan.framework.sharding.gradient_reduce_bytes[plan.wide_dtype]
    replicas = times.data_parallel
    return [
        ("pipeline", "activations and gradients", messages, sent_bytes, times.pipeline.transfer_s),
        ("data parallel", "gradients and parameters", 1.0, replicas.network_bytes, replicas.exposed_s),
        ("embedding", "gradients of the tied table", 1.0, table_bytes, times.tied_embedding_s),
        ("optimizer", "matrices and their updates", 2.0, times.update.gathered_bytes, times.update.gather_s),
        ("samples", "waiting for longer samples", 1.0, 0.0, times.waiting_s),
        ("offload", "between host and device", 1.0, times.offload.moved_bytes, times.offload.exposed_s),
    ]


def limits_of(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """Seconds of the step by what bounds them; device work splits by its operators' rooflines."""
    compute_s: Number = 0.0
    for _, passes in _counted(priced, times):
        for _, count, operators in passes:
            work = [(op, priced.prices[id(op)]) for op in operators if not isinstance(op, Collective)]
            bound_s = sum(op.count * price.time_s * (price.compute_s >= price.memory_s) for op, price in work)
            compute_s = compute_s + count * bound_s
    phases = times.phases
    work_s = phases["forward"] + phases["recompute"] + phases["backward"] + phases["optimizer"]
    return {
        "compute": compute_s,
        "memory": work_s - times.offload.update_s - compute_s,
        "network": phases["communication_exposed"],
        "host": phases["host"] + times.offload.update_s,
        "bubble": phases["pipeline_bubble"],
    }
