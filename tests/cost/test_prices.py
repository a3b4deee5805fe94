"""Prices of a whole program: each operator's is that of its own formula, and frameworks' slowdowns come on top."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from training_scenarios import plain_constants, training

from sightline.cost.attention import attention_cost
from sightline.cost.attention_constants import load_attention
from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.libraries import cluster_collectives, tensor_group
from sightline.cost.device_model import device_model
from sightline.cost.elementwise import elementwise_cost
from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.cost.prices import REGISTRY, Ranks, price, stacked
from sightline.prediction.training.knowledge import training_groups
from sightline.prediction.training.priced import step_prices, training_device
from sightline.program import Collective, Elementwise, FlashAttention, Matmul, Operator, write_out

CONSTANTS = replace(
    plain_constants(),
    matmul_slowdown=1.25,
    attention_slowdown=1.5,
    collective_slowdown=1.75,
    unsharded_head_slowdown=3.0,
)


def scenario(t: int = 8, **plan: object):
    return training(
        model="llama-2-7b",
        cluster=f"{t}x a100-sxm-80gb",
        plan={"framework": "megatron", "tensor_parallel": t, "micro_batch": 1, "sequence_parallel": True, **plan},
    )


def priced(of):
    program = write_out(of)
    prices = step_prices(program, of, CONSTANTS, training_device(of, CONSTANTS), cluster_collectives(of.cluster))
    operators = [op for block in program.blocks for op in (*block.forward, *block.backward)]
    return [(op, prices[id(op)]) for op in operators]


@pytest.mark.parametrize("attention", ["flash", "eager"])
def test_every_operator_has_the_price_of_its_own_formula(attention):
    of = scenario(attention=attention)
    device, cluster = of.cluster.device, of.cluster
    library = cluster_collectives(cluster)
    for op, cost in priced(of):
        match op:
            case Matmul():
                constants = load_matmul(device.calibration).without_surface()
                expected = 1.25 * matmul_cost(op, device, constants).time_s
            case FlashAttention():
                constants = load_attention(device.calibration, "flash-2")
                expected = 1.5 * attention_cost(op, device, constants).time_s
            case Elementwise():
                expected = elementwise_cost(op, device, CONSTANTS.element_wise).time_s
            case Collective():
                alone = collective_time(
                    op.kind, op.buffer_bytes, group=tensor_group(8, cluster), cluster=cluster, constants=library
                )
                expected = 1.75 * alone + 3 * CONSTANTS.synchronization_s * (op.kind != "all_gather")
        assert float(cost.time_s) == pytest.approx(float(expected), rel=1e-12), (op.module, op.name)


def test_the_head_alone_is_slower_without_tensor_parallelism():
    split, whole = (
        {(op.module, op.name): p.time_s for op, p in priced(scenario(t, sequence_parallel=False))} for t in (2, 1)
    )
    plain = price_of_head(unsharded_head_slowdown=1.0)
    assert whole["head", "logits"] == pytest.approx(3 * float(plain), rel=1e-12)
    assert whole["head", "logits"] > 5 * split["head", "logits"]


def price_of_head(**constants: float):
    of = scenario(1, sequence_parallel=False)
    program = write_out(of)
    own = replace(CONSTANTS, **constants)
    prices = step_prices(program, of, own, training_device(of, own), cluster_collectives(of.cluster))
    return next(prices[id(op)].time_s for op in program.head.forward if op.name == "logits")


def test_recomputed_operators_are_priced_once():
    of = scenario(recompute="full")
    program = write_out(of)
    prices = step_prices(program, of, CONSTANTS, training_device(of, CONSTANTS), cluster_collectives(of.cluster))
    assert all(id(op) in prices for op in program.layers[0].recomputed)
    assert len(prices) == sum(len(b.forward) + len(b.backward) for b in program.blocks)


def test_the_axes_are_those_of_the_device():
    device = scenario().cluster.device
    assert device_model(device).axes == 0
    assert device_model(replace(device, l2_bandwidth=np.ones((2, 2, 2)))).axes == 3


def test_products_of_one_format_have_their_own_output_bytes():
    sizes = {"m": 4.0, "n": 4096.0, "k": 64.0, "dtype": "bf16", "element_bytes": 2.0}
    few, many = (Matmul(module="mlp", part="matmul", output_bytes=b, **sizes) for b in (2.0, 4.0))
    of = scenario()
    ranks = Ranks(
        device_model=device_model(of.cluster.device),
        cluster=of.cluster,
        library=cluster_collectives(of.cluster),
        group=training_groups(of),
    )
    prices = price([few, many], ranks)
    assert prices[id(many)].memory_s > prices[id(few)].memory_s
    assert prices[id(many)].time_s == price([many], ranks)[id(many)].time_s > prices[id(few)].time_s


def test_each_kind_of_operator_has_an_entry_whose_functions_exist():
    import_module("sightline.program.mixer_operators")
    for entry in REGISTRY.values():
        for path in filter(None, (entry.accelerator, entry.l2, entry.processor)):
            module, _, name = path.partition(":")
            assert callable(getattr(import_module(f"sightline.cost.{module}"), name))
    common = {"FusedAttention", "SequenceOperator", "StateOperator"}  # fields that several kinds have
    ours = {kind.__name__ for kind in _kinds_of(Operator) if kind.__module__.startswith("sightline.")}
    assert ours == REGISTRY.keys() | common


def _kinds_of(kind: type[Operator]) -> Iterator[type[Operator]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds_of(below)


def test_attributes_stack_in_front_of_the_axes():
    operators = [Elementwise(module="mlp", part="norm", traffic_bytes=x) for x in (1.0, 2.0, 3.0)]
    assert stacked([op.traffic_bytes for op in operators], 2).shape == (3, 1, 1)
    sizes = [*(op.traffic_bytes for op in operators), np.arange(4.0)]
    assert stacked(sizes, 1).shape == (4, 4)
    assert stacked(sizes, 3).shape == (4, 1, 1, 4)
    assert stacked(sizes, 3)[1].tolist() == [[[2.0] * 4]]
