"""A step's table: a row per operator address on a device of the pace-setting stage, and what bounds the step.

A row of waiting (the bubble, the slowest device, the longest samples) has the level that binds most of the pass that it
waits for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sightline.prediction.common_figures import multiple, operator_row, streaming_level, summed, work_by_level
from sightline.prediction.pass_times import operator_times
from sightline.prediction.schedules.closed_forms import outlasted_passes_s
from sightline.prediction.training.data_parallel import Rounds
from sightline.prediction.training.micro_batch import exposed_collectives_s, outlasted_work
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.step import StepTimes
from sightline.prediction.training.update import update_flops
from sightline.profile import LEVELS, REFERENCE, Row
from sightline.profile.profile import exposed, longest
from sightline.program import Collective, Operator, Program
from sightline.program.blocks.layer import mixer_of
from sightline.program.shapes import trained_by
from sightline.program.techniques.adapters import adapter_parameters
from sightline.quantities import Number, larger, smaller
from sightline.scenario import LayerKind, Model, Scenario

OPTIMIZER = "optimizer"


def passes_of(priced: Priced, times: StepTimes) -> Iterator[tuple[str, str, Number, Sequence[Operator]]]:
    """Yield phase, block, executions in a step and operators of each pass on the pace-setting stage."""
    stage, m = times.slots.slowest, times.micro_batches
    for block, count in zip(priced.program.blocks, [stage.embedding, *stage.kinds, stage.head], strict=True):
        yield "forward", block.name, m * count, block.forward
        yield REFERENCE, block.name, m * count, block.without_gradient
        yield "recompute", block.name, m * count * block.recomputed_share, block.recomputed
        yield "backward", block.name, m * count, block.backward
        yield OPTIMIZER, block.name, count * times.update.share, block.update


def levels_of(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """Return the seconds of a step by level (``LEVELS``)."""
    passes, phases = _levels_of_passes(priced, times), times.phases
    slot = summed(*passes)
    others_s = times.longest_samples_s + times.slowest_device_s
    waiting_s = phases["pipeline_bubble"] + others_s
    slot_s = sum(slot.values())
    outside = {
        "network": phases["communication_exposed"] - _collectives_s(times) - others_s,
        "host": phases["host"] - slot["host"] + times.offload.update_s,
    }
    forward, backward, code = passes
    replicas, pace = times.data_parallel, times.slots.slot
    return summed(
        _outlasted(forward, _behind_transfers_s(priced, times, pace.forward_s, replicas.forward)),
        _outlasted(backward, _behind_transfers_s(priced, times, pace.backward_s, replicas.backward)),
        code,
        multiple(slot, waiting_s / slot_s),
        _update(priced, times),
        outside,
    )


def _levels_of_passes(priced: Priced, times: StepTimes) -> tuple[dict[str, Number], ...]:
    """Forward passes, backward passes with recomputation, and the framework's code, of all micro-batches."""
    work: dict[bool, list[dict[str, Number]]] = {True: [], False: []}
    for phase, _, count, operators in passes_of(priced, times):
        if phase != OPTIMIZER:
            work[phase in ("forward", REFERENCE)].append(multiple(_pass(priced, phase, operators), count))
    slot, m = times.slots.slot, times.micro_batches
    again_s = slot.recompute.collective_s + slot.backward.collective_s
    return (
        summed(*work[True], {"network": m * slot.forward.collective_s, "host": m * slot.forward_wait_s}),
        summed(*work[False], {"network": m * again_s, "host": m * slot.backward_wait_s}),
        {"host": m * slot.code_s},
    )


def _collectives_s(times: StepTimes) -> Number:
    """Exposed seconds of collectives in all passes."""
    slot = times.slots.slot
    return times.micro_batches * (slot.forward.collective_s + slot.recompute.collective_s + slot.backward.collective_s)


def _pass(priced: Priced, phase: str, operators: Sequence[Operator]) -> dict[str, Number]:
    """Return the seconds of a block's work by level; what collectives outlast is the network's."""
    prices, model = priced.prices, priced.device_model
    work = work_by_level(operators, prices, model)
    outlasted = outlasted_work(operators, prices, priced.overlap, backward=phase == "backward")
    if not outlasted:
        return work
    hidden = {
        name: multiple(work_by_level(ops, prices, model), 1.0 * longer) for name, (ops, longer) in outlasted.items()
    }
    # Tokens overlap with all work, and so with what other collectives overlap with.
    everything = hidden.pop("micro-batch", {})
    parts = summed(*hidden.values())
    # A product that hides several transfers is behind them once.
    moved = {level: smaller(larger(parts[level], everything.get(level, 0.0)), work[level]) for level in work}
    return {level: seconds - moved[level] for level, seconds in work.items()} | {"network": sum(moved.values())}


def _behind_transfers_s(priced: Priced, times: StepTimes, pass_s: Number, rounds: Rounds) -> Number:
    """Seconds of passes behind transfers of replicas, and behind messages between stages, that outlast them."""
    plan, m = priced.scenario.plan, times.micro_batches
    p, v = plan.pipeline_parallel, plan.virtual_stages
    message_s = times.pipeline.overlapped_s - rounds.exposed_s / (m * v)
    return rounds.outlasted_s + outlasted_passes_s(message_s, pass_s, p, m, v)


def _outlasted(levels: dict[str, Number], outlasted_s: Number) -> dict[str, Number]:
    """Return the levels of passes of which so many seconds, all at most, run behind transfers that outlast them."""
    whole_s = sum(levels.values())
    moved_s = smaller(outlasted_s, whole_s)
    return summed(multiple(levels, 1.0 - moved_s / larger(whole_s, 1e-30)), {"network": moved_s})


def _update(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """The optimizer's step on the device: its operators, at the pace of the rank that has most, and its kernels."""
    update = times.update
    rest_s, beyond = update.update_s - update.operators_s, streaming_level(priced.device_model)
    kernels = {"dram": rest_s * (1.0 - beyond), "l2": rest_s * beyond}
    work = summed(
        *(
            multiple(work_by_level(operators, priced.prices, priced.device_model), count)
            for phase, _, count, operators in passes_of(priced, times)
            if phase == OPTIMIZER and operators
        )
    )
    slower = update.operators_s / larger(sum(work.values()), 1e-30)
    return summed(kernels, multiple(work, slower))


COMMUNICATION = "communication_exposed"
WAITING = ("samples", "devices")
"""Modules of rows in which the device waits for others, not for a transfer."""


def rows_of(priced: Priced, times: StepTimes) -> list[Row]:
    """Return the rows of a scalar prediction; by phase their exposed seconds sum to the step's phases."""
    rows: list[Row] = []
    updates: list[Row] = []
    for phase, block, count, operators in passes_of(priced, times):
        of_operators = [(op, _row(priced, phase, block, op, count)) for op in operators if count * op.count > 0]
        if phase == "optimizer":
            updates += [row for _, row in of_operators]
            continue
        rows += [row for op, row in of_operators if not isinstance(op, Collective)]
        # Collectives count as communication; those overlapped with the same are exposed by the same share.
        exposed_s = exposed_collectives_s(operators, priced.prices, priced.overlap, backward=phase == "backward")
        for overlapped, seconds in exposed_s.items():
            together = [
                row for op, row in of_operators if isinstance(op, Collective) and op.overlapped_with == overlapped
            ]
            rows += exposed(together, count * seconds)
    # Ranks that share matrices out wait for the one with the largest.
    return _merged([*rows, *exposed(updates, times.update.operators_s)]) + list(_step_rows(priced, times))


def _row(priced: Priced, phase: str, block: str, op: Operator, count: Number) -> Row:
    place = {"phase": phase, "communication": COMMUNICATION, "block": block}
    return operator_row(op, priced.prices[id(op)], priced.device_model, **place, count=count * op.count)


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
    code_s = m * times.slots.slot.code_s
    update_s = phases["optimizer"] - times.update.operators_s
    own_s = code_s + c.step_s + times.tensor_calls_s
    by_host, waited = times.offload.update_s > 0, longest(LEVELS, summed(*_levels_of_passes(priced, times)))
    bound, level = ("host", "host") if by_host else ("memory", "l2" if streaming_level(priced.device_model) else "dram")
    yield _step_row("optimizer", "optimizer", "update", update_s, bound, level, bytes=float(times.update.traffic_bytes))
    events = [(COMMUNICATION, *sent, "network") for sent in _sent(priced, times)]
    events += [
        ("pipeline_bubble", "schedule", "bubble", 1.0, 0.0, phases["pipeline_bubble"], "bubble"),
        ("host", "host", "waiting for launches", 1.0, 0.0, phases["host"] - own_s, "host"),
        ("host", "host", "framework, per micro-batch", m, 0.0, code_s, "host"),
        ("host", "host", "framework, per step", 1.0, 0.0, c.step_s, "host"),
        ("host", "host", "framework, per trained tensor", 1.0, 0.0, times.tensor_calls_s, "host"),
    ]
    for phase, module, operator, count, sent, time_s, bound in events:
        if time_s > 0:
            level = waited if bound == "bubble" or module in WAITING else bound
            yield _step_row(
                phase, module, operator, time_s, bound, level, count=float(count), network_bytes=float(sent)
            )


def _step_row(phase: str, module: str, operator: str, time_s: Number, bound: str, level: str, **amounts: float) -> Row:
    """Return the row of something that happens once per step, outside of blocks."""
    place = {
        "phase": phase,
        "block": "step",
        "module": module,
        "operator": operator,
        "bound": bound,
        "bound_level": level,
    }
    return Row.from_mapping({**place, "time_s": float(time_s), **amounts})


def _sent(priced: Priced, times: StepTimes) -> list[tuple[str, str, Number, Number, Number]]:
    """Module, operator, count, bytes over the network and seconds of exposed transfers outside of blocks."""
    plan, embedding = priced.scenario.plan, priced.program.embedding
    messages = 2.0 * times.micro_batches * plan.virtual_stages
    sent_bytes = messages * sum(op.network_bytes for op in priced.program.boundary if op.part == "send-recv")
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
    passes = ("forward", "recompute", "backward", "optimizer", *([REFERENCE] if REFERENCE in phases else []))
    work_s = sum(phases[phase] for phase in passes)
    return {
        "compute": compute_s,
        "memory": work_s - times.offload.update_s - compute_s,
        "network": phases["communication_exposed"],
        "host": phases["host"] + times.offload.update_s,
        "bubble": phases["pipeline_bubble"],
    }


def model_flops(scenario: Scenario) -> Number:
    """FLOPs of one step that serve the model: 6 per matmul weight and token, 12 b a s^2 d for attention.

    As Narayanan 2021 (arXiv 2104.04473) and PaLM (arXiv 2204.02311) count: forward once and backward twice, attention
    without the causal mask but within its window; of experts those that a token passes; a frozen weight takes 4, an
    adapter's 6. Packed samples see themselves alone, padding is nobody's work. Kernels that skip the masked half
    execute fewer, so at very long sequences the utilization by this count can pass 1. Recomputation, a reference
    model's passes, replicated heads and padding are not counted.
    """
    model, workload = scenario.model, scenario.workload
    trained = trained_by(scenario.plan, tied=model.tied_embeddings)
    weights = _per_weight(trained.projections) * sum(kind.count * matmul_weights(model, kind) for kind in model.kinds)
    weights += _per_weight(trained.head) * (model.logits_width * model.vocab_size + model.transform_parameters)
    scores = sum(6.0 * kind.count * mixer_of(model, kind).products(workload.seen_tokens) for kind in model.kinds)
    further = scenario.plan.prediction_layers
    if further:
        # The layer, the projection that joins it to what is before, and the head once more.
        h, last = model.hidden_size, model.kinds[-1]
        weights += 6.0 * further * (matmul_weights(model, last) + 2.0 * h * h + h * model.vocab_size)
        scores += 6.0 * further * mixer_of(model, last).products(workload.seen_tokens)
    adapter = scenario.plan.adapter
    added = 0.0 if adapter is None else 6.0 * adapter_parameters(model, adapter)
    return (weights + scores + added) * workload.tokens_per_step


def matmul_weights(model: Model, kind: LayerKind) -> float:
    """Elements of the matrices that a token is multiplied with in one layer of a kind."""
    added = 2.0 * model.hidden_size * model.layer_embedding_width * (kind.mlp != "none")
    return mixer_of(model, kind).matrix_elements + _mlp_weights(model, kind) + added


def _mlp_weights(model: Model, kind: LayerKind) -> float:
    h, matrices = model.hidden_size, 3 if model.gated else 2
    if kind.mlp == "none":
        return 0.0
    if kind.mlp == "dense" or model.experts is None:
        return matrices * h * model.width_of(kind)
    experts = model.experts
    routed = experts.per_token * matrices * (experts.latent_width or h) * experts.width
    return (
        routed
        + experts.shared * matrices * h * experts.shared_width
        + h * experts.count
        + 2 * h * (experts.latent_width or 0)
    )


def _per_weight(trained: bool) -> float:
    """FLOPs per matmul weight and token: a frozen weight has no gradient of its own."""
    return 6.0 if trained else 4.0


def hardware_flops(scenario: Scenario, program: Program) -> Number:
    """FLOPs that all devices execute in a step, with recomputation, replicated heads, padding and masked scores."""
    executed: Number = 0.0
    for block in program.blocks:
        passes = sum(op.count * op.flops for op in (*block.forward, *block.without_gradient, *block.backward))
        again = block.recomputed_share * sum(op.count * op.flops for op in block.recomputed)
        executed = executed + block.count * (passes + again)
    plan = scenario.plan
    ranks = plan.tensor_parallel * plan.context_parallel
    return executed * scenario.workload.global_batch / plan.sequences * ranks + update_flops(plan, program)
