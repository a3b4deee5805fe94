"""A step's table: a row per operator address on a device of the pace-setting stage, and what bounds the step."""

from sightline.prediction.training import Priced, StepTimes
from sightline.profile import Row
from sightline.program import Block, Collective, Operator
from sightline.quantities import Number


def rows_of(priced: Priced, times: StepTimes) -> list[Row]:
    """Return the rows of a scalar prediction; device time, so idle phases and hidden collectives are not in it."""
    rows: list[Row] = []
    for block, passes in _counted(priced, times):
        for phase, count, operators in passes:
            rows += [_row(priced, phase, block.name, op, count) for op in operators if count * op.count > 0]
    return _merged(rows) + _step_rows(priced, times)


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


def _row(priced: Priced, phase: str, block: str, op: Operator, count: Number) -> Row:
    price, n = priced.prices[id(op)], count * op.count
    bound = "network" if isinstance(op, Collective) else "compute" if price.compute_s >= price.memory_s else "memory"
    return Row(
        phase=phase,
        block=block,
        module=op.module,
        operator=op.name,
        count=float(n),
        flops=float(n * op.flops),
        bytes=float(n * op.bytes),
        network_bytes=float(n * op.network_bytes),
        time_s=float(n * price.time_s),
        bound=bound,
    )


def _merged(rows: list[Row]) -> list[Row]:
    """Rows of one address added up (a layer has two residuals)."""
    merged: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = (row.phase, row.block, row.module, row.operator, row.bound)
        old = merged.get(key)
        merged[key] = row if old is None else _added(old, row)
    return list(merged.values())


def _added(a: Row, b: Row) -> Row:
    sums = {n: getattr(a, n) + getattr(b, n) for n in ("count", "flops", "bytes", "network_bytes", "time_s")}
    return Row(phase=a.phase, block=a.block, module=a.module, operator=a.operator, bound=a.bound, **sums)


def _step_rows(priced: Priced, times: StepTimes) -> list[Row]:
    """What is no part of a block: activations handed over, exposed data-parallel collectives, the optimizer."""
    plan, embedding = priced.scenario.plan, priced.program.embedding
    messages = 2.0 * times.micro_batches * plan.virtual_stages
    sent_bytes = messages * embedding.boundary_bytes / plan.tensor_parallel
    table_bytes = embedding.trained_parameters * plan.framework.sharding.gradient_reduce_bytes[plan.wide_dtype]
    replicas = times.data_parallel
    sent = [
        ("pipeline", "activations and gradients", messages, sent_bytes, times.pipeline.transfer_s),
        ("data parallel", "gradients and parameters", 1.0, replicas.network_bytes, replicas.exposed_s),
        ("embedding", "gradients of the tied table", 1.0, table_bytes, times.tied_embedding_s),
        ("optimizer", "matrices and their updates", 2.0, times.update.gathered_bytes, times.update.gather_s),
        ("samples", "waiting for longer samples", 1.0, 0.0, times.waiting_s),
        ("offload", "between host and device", 1.0, times.offload.moved_bytes, times.offload.exposed_s),
    ]
    return [
        Row(
            phase="optimizer",
            block="step",
            module="optimizer",
            operator="update",
            count=1.0,
            flops=0.0,
            bytes=float(times.update.traffic_bytes),
            network_bytes=0.0,
            time_s=float(times.phases["optimizer"] - times.update.operators_s),
            bound="host" if times.offload.update_s > 0 else "memory",
        ),
        *(
            Row(
                phase="communication_exposed",
                block="step",
                module=module,
                operator=operator,
                count=float(count),
                flops=0.0,
                bytes=0.0,
                network_bytes=float(network_bytes),
                time_s=float(time_s),
                bound="network",
            )
            for module, operator, count, network_bytes, time_s in sent
            if time_s > 0
        ),
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
