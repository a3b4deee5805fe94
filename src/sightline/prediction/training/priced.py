"""A training micro-batch written out and priced: what depends on no pipeline, batch or ZeRO stage, except its hooks."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sightline.content import remembered
from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.device_model import DeviceModel, KernelChoice, device_model
from sightline.cost.operator_cost import Ranks
from sightline.cost.prices import Prices
from sightline.cost.prices import price as price_operators
from sightline.prediction.eager_calls import in_eager_step, step_execution
from sightline.prediction.training.constants import TrainingConstants, attention_kernel
from sightline.prediction.training.distinct import prices_of_distinct
from sightline.prediction.training.framework import in_framework, training_groups
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.micro_batch import BlockTimes, Launches, Overlap, block_times
from sightline.prediction.training.stages import ProgramSizes, program_sizes
from sightline.program import Program, write_out
from sightline.scenario import Host, Plan, Scenario
from sightline.scenario.techniques import Recomputation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """A program with prices and sizes."""

    scenario: Scenario
    program: Program
    device_model: DeviceModel
    constants: TrainingConstants
    library: CollectiveConstants
    prices: Prices
    launches: Launches
    overlap: Overlap
    times: tuple[BlockTimes, ...]
    """Those of each kind of layer, of the embedding and of the head."""
    sizes: ProgramSizes


def price(scenario: Scenario, constants: TrainingConstants | None = None) -> Priced:
    """Write out the scenario's micro-batch and price it, with the catalog's constants unless some are given."""
    constants = on_host(constants or Knowledge().constants(scenario), scenario.cluster.host)
    return replace(_priced(micro_batch_alone(scenario), constants), scenario=scenario)


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
    cluster, devices = scenario.cluster, np.asarray(scenario.cluster.devices)
    if devices.ndim:
        cluster = replace(cluster, devices=cluster.per_node)
    alone = replace(scenario, cluster=cluster, plan=_alone(scenario.plan), workload=workload)
    return replace(alone, name="", measured={}, warnings=())


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
    library = cluster_collectives(scenario.cluster, launches=scenario.plan.framework.ideal is None)

    def priced(one: Scenario) -> tuple[Program, Prices]:
        written = program if one is scenario else write_out(one)
        return written, step_prices(written, one, constants, model, library)

    prices = prices_of_distinct(scenario, program, priced) or priced(scenario)[1]
    own = scenario.cluster.host.launch_time_s
    launches = Launches(constants.launch_forward_s, constants.launch_backward_s) if own is None else Launches(own, own)
    overlap = _overlap(scenario, constants)
    blocks = (*program.layers, program.embedding, program.head)
    return Priced(
        scenario=scenario,
        program=program,
        device_model=model,
        constants=constants,
        library=library,
        prices=prices,
        launches=launches,
        overlap=overlap,
        times=tuple(block_times(block, prices, overlap, launches.forward_s) for block in blocks),
        sizes=program_sizes(program, scenario.plan),
    )


def training_device(scenario: Scenario, constants: TrainingConstants) -> DeviceModel:
    """Return the model of the scenario's device with the kernels of its framework."""
    plan = scenario.plan
    kernels = KernelChoice(
        attention=attention_kernel(scenario),
        single_products=False,
        streams=constants.element_wise,
        older_matmuls=plan.framework.kernels.older_matmuls,
        dtype=plan.dtype,
    )
    return device_model(scenario.cluster.device, kernels)


def step_prices(
    program: Program,
    scenario: Scenario,
    constants: TrainingConstants,
    model: DeviceModel,
    library: CollectiveConstants,
) -> Prices:
    """Return the price of each operator of a step as its framework runs it."""
    ranks = Ranks(
        device_model=model,
        cluster=scenario.cluster,
        library=library,
        group=training_groups(scenario),
        execution=partial(step_execution, program, scenario),
    )
    operators = program.operators
    prices = in_framework(operators, price_operators(operators, ranks), scenario, constants, model)
    return in_eager_step(program, prices, scenario, model)


def _overlap(scenario: Scenario, constants: TrainingConstants) -> Overlap:
    plan, framework = scenario.plan, scenario.plan.framework
    return Overlap(
        kind=plan.tensor_overlap or framework.overlap.tensor,
        chunks=plan.tensor_parallel * 1.0,
        slowdown=constants.overlap_slowdown,
        experts=plan.expert_overlap or plan.both_ways,
        counts=framework.transformer_engine.waits_for_counts and plan.expert_capacity == 0,
    )
