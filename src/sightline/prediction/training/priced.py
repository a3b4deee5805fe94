"""A training micro-batch written out and priced: what depends on no pipeline, batch or ZeRO stage, except its hooks."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of, record, remembered
from sightline.cost.collectives.libraries import CollectiveConstants, cluster_collectives
from sightline.cost.device_model import DeviceModel, KernelChoice, device_model
from sightline.cost.prices import OperatorCost, Prices, Ranks
from sightline.cost.prices import price as price_operators
from sightline.prediction.pass_times import PriceRows, in_eager_step, step_execution
from sightline.prediction.training.constants import TrainingConstants, attention_kernel
from sightline.prediction.training.knowledge import Knowledge, in_framework, training_groups
from sightline.prediction.training.micro_batch import BlockTimes, HostTimes, Overlap, block_times, pipeline_slots
from sightline.prediction.training.stages import ProgramSizes, alone_on_a_stage, program_sizes
from sightline.program import Elementwise, Program, write_out
from sightline.quantities import Number, distinct
from sightline.scenario import Device, Host, Plan, Scenario
from sightline.scenario.techniques import Recomputation

WORTH_IT = 0.7
"""Share of the rows that may be distinct: looking the others up takes a little time too."""


class Distinct(NamedTuple):
    """The first of each distinct row, and for every row which of them it is."""

    first: NDArray[np.intp]
    of_row: NDArray[np.intp]

    def every(self, value: Any) -> Any:
        """Return figures of every row by those of the distinct ones, tuples and lists of them too."""
        if isinstance(value, np.ndarray):
            return value[self.of_row] if value.ndim and len(value) > 1 else value
        if isinstance(value, tuple | list):
            figures = map(self.every, value)
            return value._make(figures) if hasattr(value, "_make") else type(value)(figures)
        return value


def distinct_rows(plan: Plan) -> Distinct | None:
    """Return the distinct rows of a plan whose fields are arrays along the first axis; None where few are alike."""
    columns = [value for value in fields_of(plan).values() if isinstance(value, np.ndarray)]
    lengths = {len(column) for column in columns if column.ndim} - {1}
    if len(lengths) != 1 or any(column.size != len(column) for column in columns if column.ndim):
        return None
    (rows,) = lengths
    found = Distinct(*distinct([column.ravel() for column in columns if column.size > 1]))
    return found if len(found.first) < WORTH_IT * rows else None


class _EveryPrice(Prices):
    """Prices of a program's operators in every row, each made of those in the distinct rows when it is asked for."""

    def __init__(self, rows: Distinct, own: Mapping[int, OperatorCost]) -> None:
        super().__init__()
        self._rows, self._own = rows, own

    def __missing__(self, operator: int) -> OperatorCost:
        cost: OperatorCost = self._rows.every(self._own[operator])
        self[operator] = cost
        return cost


@record
class Priced:
    """A program with prices and sizes."""

    scenario: Scenario
    micro_batch: Scenario
    """The scenario with other values of all fields that change nothing about it."""
    program: Program
    device_model: DeviceModel
    constants: TrainingConstants
    library: CollectiveConstants
    alone: Prices
    """Those of operators whatever framework runs them; none of a mesh whose rows were priced once."""
    prices: Prices
    launches: HostTimes
    overlap: Overlap
    times: tuple[BlockTimes, ...]
    """Those of each kind of layer, of the embedding and of the head."""
    sizes: ProgramSizes


def price(scenario: Scenario, constants: TrainingConstants | None = None) -> Priced:
    """Write out the scenario's micro-batch and price it, with the catalog's constants unless some are given."""
    constants = on_host(constants or Knowledge().constants(scenario), scenario.cluster.host)
    return replace(_priced(micro_batch_alone(scenario), constants), scenario=scenario)


def with_constants(priced: Priced, constants: TrainingConstants) -> Priced:
    """Return a micro-batch priced with other constants, of which element-wise kernels alone have some."""
    scenario, operators = priced.micro_batch, priced.program.operators
    known = {id(op): priced.alone[id(op)] for op in operators if priced.alone and not isinstance(op, Elementwise)}
    constants = on_host(constants, scenario.cluster.host)
    model = training_device(scenario, constants)
    alone = prices_alone(priced.program, scenario, model, priced.library, known)
    prices = prices_in_step(priced.program, alone, scenario, constants, model)
    if np.ndim(scenario.plan.replicas) == 0:
        prices = PriceRows(prices)
    return replace(
        priced, **_timed(scenario, priced.program, constants, prices), device_model=model, alone=alone, prices=prices
    )


HOST_TIMES = ("launch_forward_s", "launch_backward_s", "micro_batch_s", "step_s")
"""Constants that one thread of the host takes: those of a host of speed 1."""


def on_host(constants: TrainingConstants, host: Host) -> TrainingConstants:
    """Return a framework's constants where another processor runs its code."""
    if type(host.speed) is float and host.speed == 1.0:
        return constants
    times: dict[str, Any] = {name: getattr(constants, name) / host.speed for name in HOST_TIMES}
    return replace(constants, **times)


def micro_batch_alone(scenario: Scenario) -> Scenario:
    """Return the scenario with other values of all fields that change nothing about one micro-batch on one device.

    So all plans that differ in these alone share one program and its prices.
    """
    if not device_model(scenario.cluster.device).asynchronous:
        # A processor's caches and calls depend on the whole step.
        return scenario
    workload = replace(scenario.workload, global_batch=1, total_tokens=None)
    cluster, plan = scenario.cluster, _alone(scenario.plan)
    if np.ndim(cluster.devices):
        cluster = replace(cluster, devices=cluster.per_node)
    return replace(scenario, cluster=cluster, plan=plan, workload=workload, name="", measured={}, warnings=())


@remembered(entries=128)
def _alone(plan: Plan) -> Plan:
    """The plan without what it says of other devices and other micro-batches."""
    by_stage = isinstance(plan.recompute, Recomputation) or plan.framework.native.pipeline_accumulation_traffic
    return replace(
        plan,
        pipeline_parallel=plan.pipeline_parallel if by_stage else 1,
        data_parallel=1,
        data_parallel_shard=None,
        virtual_stages=1,
        split=None,
        stage_layers=None,
        group_batches=None,
        zero_stage=plan.zero_stage if plan.framework.zero_engine.hooks else 0,
        schedule="dualpipe" if plan.both_ways else "1f1b",
        offload=frozenset(),
    )


@remembered(entries=128, kind="blocks")
def _priced(scenario: Scenario, constants: TrainingConstants) -> Priced:
    program = write_out(scenario)
    model = training_device(scenario, constants)
    library = cluster_collectives(scenario.cluster, launches=not scenario.plan.framework.is_bound)

    rows = distinct_rows(scenario.plan)
    if rows is not None:
        return _every_row(scenario, program, rows, constants)
    alone = prices_alone(program, scenario, model, library)
    prices = prices_in_step(program, alone, scenario, constants, model)
    return Priced(
        scenario=scenario,
        micro_batch=scenario,
        program=program,
        device_model=model,
        library=library,
        alone=alone,
        prices=prices,
        sizes=program_sizes(program, scenario.plan),
        **_timed(scenario, program, constants, prices),
    )


def _every_row(scenario: Scenario, program: Program, rows: Distinct, constants: TrainingConstants) -> Priced:
    """A program with rows, of which the distinct ones are priced."""
    fields = fields_of(scenario.plan).items()
    own: dict[str, Any] = {k: v[rows.first] for k, v in fields if isinstance(v, np.ndarray) and v.size > 1}
    priced = _priced(replace(scenario, plan=replace(scenario.plan, **own)), constants)
    pairs = zip(program.operators, priced.program.operators, strict=True)
    return replace(
        priced,
        scenario=scenario,
        micro_batch=scenario,
        program=program,
        alone={},
        prices=_EveryPrice(rows, {id(op): priced.prices[id(same)] for op, same in pairs}),
        overlap=_overlap(scenario, constants),
        times=rows.every(priced.times),
        sizes=ProgramSizes(**{name: rows.every(sizes) for name, sizes in fields_of(priced.sizes).items()}),
    )


def _timed(scenario: Scenario, program: Program, constants: TrainingConstants, prices: Prices) -> dict[str, Any]:
    """What constants make of the prices of a micro-batch's operators, by the fields of `Priced`."""
    own = scenario.cluster.host.launch_time_s
    forward_s, backward_s = (constants.launch_forward_s, constants.launch_backward_s) if own is None else (own, own)
    launches = HostTimes(forward_s, backward_s, constants.micro_batch_s, scenario.plan.launch_blocking)
    overlap = _overlap(scenario, constants)
    blocks = (*program.layers, program.embedding, program.head)
    times = tuple(block_times(block, prices, overlap, launches.forward_s) for block in blocks)
    return {"constants": constants, "launches": launches, "overlap": overlap, "times": times}


def training_device(scenario: Scenario, constants: TrainingConstants) -> DeviceModel:
    """Return the model of the scenario's device with the kernels of its framework."""
    plan = scenario.plan
    older_matmuls = plan.framework.kernels.older_matmuls
    attention = attention_kernel(scenario)
    return _device(scenario.cluster.device, constants, attention, plan.dtype, older_matmuls=older_matmuls)


@remembered(entries=256, largest_array=4096)
def _device(
    device: Device, constants: TrainingConstants, attention: str, dtype: str, *, older_matmuls: bool
) -> DeviceModel:
    streams = constants.element_wise
    kernels = KernelChoice(
        attention=attention, single_products=False, streams=streams, older_matmuls=older_matmuls, dtype=dtype
    )
    return device_model(device, kernels)


def step_prices(
    program: Program,
    scenario: Scenario,
    constants: TrainingConstants,
    model: DeviceModel,
    library: CollectiveConstants,
) -> Prices:
    """Return the price of each operator of a step as its framework runs it."""
    alone = prices_alone(program, scenario, model, library)
    return prices_in_step(program, alone, scenario, constants, model)


def prices_alone(
    program: Program,
    scenario: Scenario,
    model: DeviceModel,
    library: CollectiveConstants,
    known: Prices | None = None,
) -> Prices:
    """Return the price of each operator of a step on a device of its own, of which some are known."""
    ranks = Ranks(
        device_model=model,
        cluster=scenario.cluster,
        library=library,
        group=training_groups(scenario),
        execution=partial(step_execution, program, scenario),
    )
    return price_operators(program.operators, ranks, known)


def prices_in_step(
    program: Program, alone: Prices, scenario: Scenario, constants: TrainingConstants, model: DeviceModel
) -> Prices:
    """Return the price of each operator inside a step."""
    prices = in_framework(program.operators, alone, scenario, constants, model)
    return in_eager_step(program, prices, scenario, model)


def _overlap(scenario: Scenario, constants: TrainingConstants) -> Overlap:
    plan, framework = scenario.plan, scenario.plan.framework
    counts = framework.transformer_engine.waits_for_counts and plan.expert_capacity == 0
    if plan.launch_blocking:
        return Overlap(blocking=True, counts=counts)
    kind, split = plan.tensor_overlap or framework.overlap.tensor, np.asarray(plan.sequence_parallel) != 0
    split = split if split.ndim else bool(split)
    return Overlap(
        gradients=1.0 * ((kind != "none") | (split & framework.overlap.sequence_gradients)),
        pieces=1.0 * ((kind == "all") & (split | framework.is_bound)),
        ideal=framework.is_bound,
        chunks=plan.tensor_parallel * 1.0,
        slowdown=constants.overlap_slowdown,
        experts=plan.expert_overlap or plan.both_ways,
        counts=counts,
    )


def least_step_s(scenario: Scenario, micro_batch_s: Number) -> Number:
    """Return seconds that every step takes: ``m T / p``.

    ``T`` is one micro-batch through the whole model (`micro_batch_alone_s`). The slowest of ``p`` stages takes at least
    the mean, ``m`` times a step; what else a step has adds to it.
    """
    return scenario.micro_batches * micro_batch_s / scenario.plan.pipeline_parallel


def micro_batch_alone_s(priced: Priced) -> Number:
    """Return seconds of a micro-batch through all layers, embedding and head.

    With its exposed collectives and the device's waiting for the host.
    """
    return pipeline_slots(alone_on_a_stage(priced.scenario), priced.times, priced.launches).slot.total_s
