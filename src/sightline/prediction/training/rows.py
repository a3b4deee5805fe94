"""A step's table: a row per operator address on a device of the pace-setting stage, and what bounds the step.

A row of waiting (the bubble, the slowest device, the longest samples) has the level that binds most of the pass that it
waits for.
"""

from collections.abc import Iterator
from dataclasses import replace

from sightline.prediction.figures import operator_row
from sightline.prediction.pass_times import operator_times
from sightline.prediction.training.levels import level_of_update, levels_of_slot, passes_of
from sightline.prediction.training.micro_batch import exposed_collectives_s
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.step import StepTimes
from sightline.profile import LEVELS, Row
from sightline.profile.profile import longest
from sightline.profile.rows import exposed
from sightline.program import Collective, Operator
from sightline.quantities import Number

COMMUNICATION = "communication_exposed"
WAITING = ("samples", "devices")
"""Modules of rows in which the device waits for others, not for a transfer."""


def rows_of(priced: Priced, times: StepTimes) -> list[Row]:
    """Return the rows of a scalar prediction; by phase their exposed seconds sum to the step's phases."""
    rows: list[Row] = []
    updates: list[Row] = []
    for phase, block, count, operators in passes_of(priced, times):
        found = [(op, _row(priced, phase, block, op, count)) for op in operators if count * op.count > 0]
        if phase == "optimizer":
            updates += [row for _, row in found]
            continue
        rows += [row for op, row in found if not isinstance(op, Collective)]
        # Collectives count as communication; those overlapped with the same are exposed by the same share.
        exposed_s = exposed_collectives_s(operators, priced.prices, priced.overlap, backward=phase == "backward")
        for overlapped, seconds in exposed_s.items():
            together = [row for op, row in found if isinstance(op, Collective) and op.overlapped_with == overlapped]
            rows += exposed(together, count * seconds)
    # Ranks that share matrices out wait for the one with the largest.
    return _merged([*rows, *exposed(updates, times.update.operators_s)]) + list(_step_rows(priced, times))


def _row(priced: Priced, phase: str, block: str, op: Operator, count: Number) -> Row:
    of = {"phase": phase, "communication": COMMUNICATION, "block": block}
    return operator_row(op, priced.prices[id(op)], priced.device_model, **of, count=count * op.count)


def _merged(rows: list[Row]) -> list[Row]:
    """Rows of one address added up (a layer has two residuals)."""
    names = ("count", "flops", "bytes", "network_bytes", "time_s", "exposed_s")
    merged: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = (row.phase, row.block, row.module, row.operator, row.bound, row.bound_level)
        old = merged.get(key)
        merged[key] = row if old is None else replace(old, **{n: getattr(old, n) + getattr(row, n) for n in names})
    return list(merged.values())


def _step_rows(priced: Priced, times: StepTimes) -> Iterator[Row]:
    """What is no part of a block: the optimizer, activations handed over, gradients, the bubble, the host."""
    c, m, phases = priced.constants, times.micro_batches, times.phases
    update_s = phases["optimizer"] - times.update.operators_s
    own_s = m * c.micro_batch_s + c.step_s + times.tensor_calls_s
    by_host, waited = times.offload.update_s > 0, longest(LEVELS, levels_of_slot(priced, times))
    bound, level = ("host", "host") if by_host else ("memory", level_of_update(priced))
    yield _step_row("optimizer", "optimizer", "update", update_s, bound, level, bytes=float(times.update.traffic_bytes))
    found = [(COMMUNICATION, *sent, "network") for sent in _sent(priced, times)]
    found += [
        ("pipeline_bubble", "schedule", "bubble", 1.0, 0.0, phases["pipeline_bubble"], "bubble"),
        ("host", "host", "waiting for launches", 1.0, 0.0, phases["host"] - own_s, "host"),
        ("host", "host", "framework, per micro-batch", m, 0.0, m * c.micro_batch_s, "host"),
        ("host", "host", "framework, per step", 1.0, 0.0, c.step_s, "host"),
        ("host", "host", "framework, per trained tensor", 1.0, 0.0, times.tensor_calls_s, "host"),
    ]
    for phase, module, operator, count, sent, time_s, bound in found:
        if time_s > 0:
            level = waited if bound == "bubble" or module in WAITING else bound
            yield _step_row(
                phase, module, operator, time_s, bound, level, count=float(count), network_bytes=float(sent)
            )


def _step_row(phase: str, module: str, operator: str, time_s: Number, bound: str, level: str, **amounts: float) -> Row:
    """Return the row of something that happens once per step, outside of blocks."""
    of = {"phase": phase, "block": "step", "module": module, "operator": operator, "bound": bound, "bound_level": level}
    return Row.from_mapping({**of, "time_s": float(time_s), **amounts})


def _sent(priced: Priced, times: StepTimes) -> list[tuple[str, str, Number, Number, Number]]:
    """Module, operator, count, bytes over the network and seconds of exposed transfers outside of blocks."""
    plan, embedding = priced.scenario.plan, priced.program.embedding
    messages = 2.0 * times.micro_batches * plan.virtual_stages
    sent_bytes = messages * sum(op.network_bytes for op in priced.program.boundary)
    table_bytes = (
        embedding.trained_parameters * plan.framework.sharding.gradient_reduce_bytes[plan.high_precision_dtype]
    )
    replicas = times.data_parallel
    return [
        ("pipeline", "activations and gradients", messages, sent_bytes, times.pipeline.transfer_s),
        ("data parallel", "gradients and parameters", 1.0, replicas.network_bytes, replicas.exposed_s),
        ("embedding", "gradients of the tied table", 1.0, table_bytes, times.tied_embedding_s),
        ("optimizer", "matrices and their updates", 2.0, times.update.gathered_bytes, times.update.gather_s),
        ("samples", "waiting for longer samples", 1.0, 0.0, times.longest_samples_s),
        ("devices", "waiting for the slowest device", 1.0, 0.0, times.slowest_device_s),
        ("offload", "between host and device", 1.0, times.offload.moved_bytes, times.offload.exposed_s),
    ]


def limits_of(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """Seconds of the step by what bounds them; device work splits by its operators' rooflines."""
    compute_s: Number = 0.0
    for *_, count, operators in passes_of(priced, times):
        compute_s = compute_s + count * operator_times(operators, priced.prices).compute_s
    phases = times.phases
    work_s = phases["forward"] + phases["recompute"] + phases["backward"] + phases["optimizer"]
    return {
        "compute": compute_s,
        "memory": work_s - times.offload.update_s - compute_s,
        "network": phases["communication_exposed"],
        "host": phases["host"] + times.offload.update_s,
        "bubble": phases["pipeline_bubble"],
    }
