"""Costs on a processor: never above its peak, more of anything never faster, one answer for one and many."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import flash

from sightline.calibration.processor.operator_constants import NEUTRAL
from sightline.calibration.processor.small_models import dispatch_generations, dispatch_scenarios, prices_with
from sightline.cost.device_model import KernelChoice, device_model
from sightline.cost.processor import CORE_CACHE, ProcessorModel, fused_attention_cost, kernels_cost, product_cost
from sightline.cost.processor_constants import FEW_ROWS, ROWS_AT_ONCE, Processor, from_mapping, load_processor
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.prediction.generation.phases import price_generation
from sightline.prediction.generation.replica import price_passes
from sightline.prediction.pass_times import DECODING
from sightline.prediction.training.constants import TrainingConstants
from sightline.program import write_out

PRODUCT = {
    "call_s": 5e-6,
    "peak_fraction": 0.75,
    "left_passes": 0.2,
    "right_passes": 1.0,
    "output_passes": 0.3,
    "missing_passes": 0.5,
}
ATTENTION = {"call_s": 1e-4, "peak_fraction": 0.5, "score_operations": 500.0, "token_passes": 5.0}
ATTENTION |= {"key_passes": 4.0, "block_s": 1e-6}
KERNEL = {"elements": [256, 32768, 1048576], "cached_s": [2e-6, 1e-5, 8e-4], "memory_s": [2e-6, 2e-5, 1e-3]}
MACHINE = from_mapping(
    {
        "products": dict.fromkeys(("forward", "few rows", "input gradient", "weight gradient"), PRODUCT),
        "attention": {"forward": ATTENTION, "backward": ATTENTION},
        "kernels": {"norm": KERNEL, "residual": KERNEL, "rope": KERNEL},
        "calls": {"forward": 2e-5},
    },
    cores=2,
)
KNOWN = load_processor("processor", "fp32")
DEVICE = replace(
    read_cluster("1x a100-sxm-80gb").device,
    peak_flops={"fp32": 3e11, "bf16": 3e11},
    memory_bandwidth=2e10,
    l2_bandwidth=4e10,
    l2_bytes=3e7,
    vector_flops=3e11,
    compute_units=2,
)
SIZES = st.integers(1, 20_000)
ORDERS = ("forward", "input gradient", "weight gradient")


def processor(constants=MACHINE, device=DEVICE):
    return Processor(device=device, dtype="fp32", constants=constants)


def product(m, n, k, *, order="forward", missing=0.0):
    return product_cost(m, n, k, on=processor(), order=order, missing=missing)


def attention(batch, heads, tokens, *, backward=False, causal=True):
    sizes = (batch, heads, heads, 64, tokens, tokens)
    return fused_attention_cost(flash(*sizes, causal=causal, backward=backward), processor())


def chain(kind, elements, **changes):
    on = processor(device=changes.pop("device", DEVICE))
    return kernels_cost(kind, elements, 12.0 * np.asarray(elements), 1.0, on=on, **changes)


@given(m=SIZES, n=SIZES, k=SIZES, order=st.sampled_from(ORDERS), missing=st.floats(0, 1))
def test_no_product_beats_the_peak(m, n, k, order, missing):
    cost = product(m, n, k, order=order, missing=missing)
    assert cost.time_s >= cost.compute_s == pytest.approx(2.0 * m * n * k / 3e11)


@given(
    sizes=st.tuples(st.integers(FEW_ROWS + 1, 9999), SIZES, SIZES),
    axis=st.integers(0, 2),
    order=st.sampled_from(ORDERS),
)
def test_a_larger_product_never_takes_less(sizes, axis, order):
    grown = [s + 100 * (i == axis) for i, s in enumerate(sizes)]
    assert product(*grown, order=order).time_s > product(*sizes, order=order).time_s


def test_operands_from_memory_take_longer():
    assert product(64, 512, 512, missing=1.0).time_s > product(64, 512, 512).time_s


@given(shapes=st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=6), order=st.sampled_from(ORDERS))
def test_many_products_cost_what_each_costs_alone(shapes, order):
    together = product(*(np.array(side, dtype=float) for side in zip(*shapes, strict=True)), order=order)
    for i, shape in enumerate(shapes):
        assert together.time_s[i] == pytest.approx(float(product(*shape, order=order).time_s))


@pytest.mark.parametrize("backward", [False, True])
def test_attention_grows_with_everything_and_less_is_seen_causally(backward):
    times = [float(attention(1, 8, tokens, backward=backward).time_s) for tokens in (4, 64, 65, 512, 2048)]
    assert all(less < more for less, more in pairwise(times))
    assert attention(2, 8, 512, backward=backward).time_s > attention(1, 8, 512, backward=backward).time_s
    whole = [float(attention(1, 8, tokens, causal=False, backward=backward).time_s) for tokens in (512, 2048)]
    # one block of keys is worked on whole, of four blocks six of sixteen are left out
    assert whole[0] == pytest.approx(times[3])
    assert 1.3 * times[4] < whole[1] < 1.6 * times[4]


def test_longer_blocks_of_queries_pack_keys_less_often():
    each = {tokens: float(attention(1, 8, tokens).time_s - 1e-4) / tokens**2 for tokens in (128, 191, 192, 256)}
    assert each[192] < 0.9 * each[191]
    assert each[256] < 0.9 * each[128]


def test_a_row_alone_has_constants_of_its_own_where_they_were_measured():
    own = replace(MACHINE, products={**MACHINE.products, "one row": replace(MACHINE.products["few rows"], call_s=1.0)})
    at_once, more = (product_cost(m, 64, 64, on=processor(own)).time_s for m in (ROWS_AT_ONCE, ROWS_AT_ONCE + 1))
    assert at_once > 1.0 > more
    only = replace(own, products={k: v for k, v in own.products.items() if k != "few rows"})
    assert product_cost(8, 64, 64, on=processor(only)).time_s > 1.0


def test_weights_go_by_once_for_every_three_rows():
    times = [float(product_cost(m, 4096, 1024, on=processor()).time_s) for m in (4, 6, 7, 9)]
    assert times[1] < 1.1 * times[0]
    assert times[2] > 1.3 * times[1]
    assert times[3] < 1.1 * times[2]


def test_attention_of_many_is_attention_of_each():
    tokens = np.array([16.0, 300.0])
    together = attention(1, 8, tokens).time_s
    assert together == pytest.approx([float(attention(1, 8, t).time_s) for t in tokens])


@given(elements=st.lists(st.integers(1, 10**8), min_size=2, max_size=5), missing=st.floats(0, 1))
def test_chains_follow_their_measured_times(elements, missing):
    ordered = np.sort(np.array(elements, dtype=float))
    times = chain("norm", ordered, missing=missing).time_s
    assert (np.diff(times) >= -1e-18).all()
    assert times[0] == pytest.approx(float(chain("norm", ordered[0], missing=missing).time_s))
    for size, cached, memory in zip(*KERNEL.values(), strict=True):
        assert chain("norm", size).time_s == pytest.approx(cached)
        assert chain("norm", size, missing=1.0).time_s == pytest.approx(memory)


def test_a_chain_that_nobody_measured_takes_as_long_as_additions():
    assert chain("unheard of", 32768).time_s == pytest.approx(float(chain("residual", 32768).time_s))


def test_half_of_the_cores_takes_longer_but_not_for_the_call():
    one = replace(DEVICE, compute_units=1)
    assert chain("norm", 2**20, device=one).time_s > chain("norm", 2**20).time_s
    assert chain("norm", 256, device=one).time_s == pytest.approx(2e-6)


def test_what_fits_into_the_cache_is_there_again():
    shares = ProcessorModel(device=DEVICE).missing_share(np.array([1e6, 1.4e7, 3e7, 6e7]))
    assert shares == pytest.approx([0.0, 0.0, 0.5, 1.0])


def test_accelerators_are_no_processors():
    assert device_model(DEVICE).asynchronous


def test_calls_of_a_layers_code_are_spread_over_all_that_it_calls():
    scenario = dispatch_scenarios("fp32")[0]
    program = write_out(scenario)
    constants = TrainingConstants.from_mapping(NEUTRAL)
    calls = {"layer forward": 1.0, "pass forward": 0.1, "layer backward": 3.0, "pass backward": 0.3}
    with_calls, without = (
        prices_with(program, scenario, constants, replace(KNOWN, calls=said)) for said in (calls, {})
    )

    def around(operators):
        return [float(op.count * (with_calls[id(op)].time_s - without[id(op)].time_s)) for op in operators]

    (layer,) = program.layers
    assert sum(around(layer.forward)) == pytest.approx(1.0)
    assert max(around(layer.forward)) < 0.3
    ends = around(program.embedding.forward), around(program.head.forward)
    assert sum(map(sum, ends)) == pytest.approx(0.1)
    assert min(map(sum, ends)) > 0
    # The engine counts the nodes of all layers before it begins with the head.
    assert sum(around(layer.backward)) == sum(around(program.embedding.backward)) == 0
    assert sum(around(program.head.backward)) == pytest.approx(3.0 * layer.count + 0.3)


def test_constants_of_an_older_form_are_a_sentence(monkeypatch) -> None:
    entry = {"cores": 2, "formats": {"fp32": {"products": {}, "attention": {"forward": {"call_s": 1e-4}}}}}
    monkeypatch.setattr("sightline.cost.processor_constants.entry", lambda *_: entry)
    with pytest.raises(InputError, match="has no 'peak_fraction'"):
        load_processor("this-machine", "fp32")


def test_calls_of_a_token_go_cold_as_weights_drive_them_out():
    """A pass that the cores' caches hold takes a decoding model's warm calls, one that they do not its cold ones."""
    told = {f"{block} {state}": s for block in ("layer", "pass") for state, s in zip(DECODING, (1.0, 3.0), strict=True)}
    weights = {f"layer {DECODING[1]}": {"mlp": 2.0}}
    (scenario, _) = dispatch_generations("fp32")
    priced = price_generation(scenario)
    decode = priced.decode.program

    def around(core_bytes, calls):
        machine = replace(KNOWN, calls=calls, call_weights=weights)
        device = replace(DEVICE, l2_bytes=1e12, compute_units=core_bytes / CORE_CACHE)
        with_calls, without = (
            price_passes(
                [decode],
                replace(
                    priced.worker.ranks,
                    device_model=ProcessorModel(device=device, kernels=KernelChoice(dtype="fp32"), given=m),
                ),
            )
            for m in (machine, replace(machine, calls={}))
        )
        (layer,) = decode.layers
        found: dict[str, float] = {}
        for op in layer.operators:
            more = float(op.count * (with_calls[id(op)].time_s - without[id(op)].time_s))
            found[op.module] = found.get(op.module, 0.0) + more * (op.part != "cache write")
            assert op.part != "cache write" or more == 0.0
        return found

    warm, cold = around(1e9, told), around(1e3, told)
    assert (sum(warm.values()), sum(cold.values())) == pytest.approx((1.0, 3.0))
    # Gate, up, activation and down, weighted twice when cold, and the one call of the output projection.
    assert cold["mlp"] == pytest.approx(8 * cold["output projection"])
    assert warm["mlp"] == pytest.approx(4 * warm["output projection"])
    assert sum(around(1e9, {"layer forward": 5.0}).values()) == pytest.approx(5.0)
