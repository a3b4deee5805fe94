"""The operators of a traced step stand where their modules are, in backward by autograd's own record too."""
# ruff: noqa: E402 - imports that need PyTorch come after the check that it is there

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from sightline.measurement.modules.instrument import (
    BORDER,
    BorderReader,
    Instrument,
    instrument,
    trace_operators,
)
from sightline.measurement.timing import HostClock
from sightline.profile import Row

LAYERS = 2


@pytest.fixture(scope="module")
def training() -> Iterator[tuple[Instrument, Callable[[], None]]]:
    """An instrument on a model, and a step of it."""
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=4, vocab_size=128
    )
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="sdpa").train()
    x = torch.randint(0, 128, (2, 24))
    on_model = instrument(model, None, HostClock())

    def step() -> None:
        with on_model.phase("forward"):
            loss = model(input_ids=x, labels=x, use_cache=False).loss
        with on_model.phase("backward"):
            loss.backward()

    step()
    yield on_model, step
    on_model.remove()


@pytest.fixture(scope="module")
def rows(training: tuple[Instrument, Callable[[], None]]) -> list[Row]:
    return trace_operators(*training)


def count(rows: list[Row], phase: str, module: str, operator: str) -> Any:
    return sum(r.count for r in rows if (r.phase, r.module, r.operator) == (phase, module, operator))


def test_products_are_counted_in_their_modules(rows: list[Row]) -> None:
    named = {"mlp": {"up": 2, "down": 1}, "head": {"logits": 1 / LAYERS}, "qkv": {"matmul": 3}}
    named["output projection"] = {"matmul": 1}
    for module, products in named.items():
        for operator, times in products.items():
            assert count(rows, "forward", module, operator) == times * LAYERS
        for operator in ("weight gradient", "input gradient"):
            assert count(rows, "backward", module, operator) == sum(products.values()) * LAYERS
    assert not any(r.operator == "mm" for r in rows)


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_of_a_linear_layer_come_in_the_order_that_their_names_take(bias: bool) -> None:
    from sightline.measurement.modules.instrument import GRADIENTS

    layer, x = torch.nn.Linear(16, 24, bias=bias), torch.ones(8, 16, requires_grad=True)
    out = layer(x * 1.0).sum()
    with torch.profiler.profile(record_shapes=True) as profiler:
        out.backward()
    products = [e for e in profiler.events() if e.name == "aten::mm"]
    shapes = {"weight gradient": [[24, 8], [8, 16]], "input gradient": [[8, 24], [24, 16]]}
    assert [e.input_shapes for e in products] == [shapes[name] for name in GRADIENTS[products[0].cpu_parent.name]]


def test_the_attention_kernel_is_in_the_core_and_nowhere_else(rows: list[Row]) -> None:
    kernels = [r for r in rows if "scaled_dot_product" in r.operator]
    assert {r.module for r in kernels} == {"attention core"}
    assert {(r.phase, r.count) for r in kernels} == {("forward", LAYERS), ("backward", LAYERS)}


def test_the_table_gradient_is_the_embeddings(rows: list[Row]) -> None:
    assert count(rows, "forward", "embedding", "index_select") == 1
    assert count(rows, "backward", "embedding", "embedding_dense_backward") == 1
    assert [r.module for r in rows if r.operator == "embedding_dense_backward"] == ["embedding"]


def test_sums_are_those_of_the_trace_and_every_module_is_there(rows: list[Row]) -> None:
    assert all(r.time_s >= 0 for r in rows)
    for phase in ("forward", "backward"):
        found = {r.module for r in rows if r.phase == phase and r.operator != "host"}
        assert found >= {"qkv", "rope", "attention core", "output projection", "residual", "mlp", "mlp norm", "head"}


def test_backward_is_where_autograds_sequence_numbers_say(training: tuple[Instrument, Callable[[], None]]) -> None:
    """A node of the graph bears the number of the forward operator that made it: both must be in one region."""
    on_model, step = training
    with torch.profiler.profile() as profiler, on_model.read_by(BorderReader()) as passages:
        step()
    owner = {f"{BORDER}{n}": address for address, passage in passages.items() for n in passage.parts}
    made: dict[int, Any] = {}
    met: Counter[bool] = Counter()
    elsewhere = []
    region = None
    for event in sorted(profiler.events(), key=lambda e: e.time_range.start):
        if event.name.startswith(BORDER):
            region = owner.get(event.name)
        elif region is None:
            continue
        elif event.sequence_nr >= 0 and region.phase == "forward":
            # The last operator of a number is the one that made the node.
            made[event.sequence_nr] = region.region
        elif event.sequence_nr in made and event.name.endswith("Backward0") and "::" not in event.name:
            met[made[event.sequence_nr] == region.region] += 1
            if made[event.sequence_nr] != region.region:
                elsewhere.append((event.name, made[event.sequence_nr], region.region))
    assert met[True] > 40 * LAYERS
    assert not elsewhere
