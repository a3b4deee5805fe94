"""A processor's constants: found again from times made with known ones, written, and taken by predictions."""

from dataclasses import replace

import numpy as np
import pytest
from operators import flash

from sightline.calibration.processor import operator_constants as calibration_machine
from sightline.calibration.processor.operator_constants import (
    ELEMENTWISE,
    chain_table,
    measurements,
    operator_results,
    product_table,
)
from sightline.calibration.processor.small_models import (
    DEPTHS,
    call_weights,
    cold_shares,
    dispatch_scenarios,
    module_times,
    prices_with,
    process_memory,
    undisturbed_phases,
)
from sightline.calibration.training_constants import calibrate_training
from sightline.cost.processor import fused_attention_cost, product_cost
from sightline.cost.processor_constants import Processor, load_processor
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.loading.clusters import read_cluster
from sightline.measurement.operators.operator_suite import asked, standard_suite
from sightline.prediction import predict
from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.training.constants import ANY, TrainingConstants
from sightline.program import write_out

FIGURES = {"peak_flops": {"fp32": 2e11, "bf16": 2e11, "fp16": 2e11}, "memory": 1e10, "memory_bandwidth": 1e10}
FIGURES |= {"l2": 3e7, "l2_bandwidth": 2e10, "compute_units": 1, "tdp": 10.0, "idle_power": 3.0, "vector_flops": 2e11}
KNOWN = load_processor("processor", "fp32")
ORDERS = {"input-gradient": "input gradient", "weight-gradient": "weight gradient"}


def seconds(workload, implementation, cached, device):
    """A made-up time, by the shipped constants."""
    on = Processor(device=device, dtype="fp32", constants=KNOWN)
    if workload["operator"] == "matmul":
        order = ORDERS.get(implementation, "forward")
        sizes = (workload[x] for x in "mnk")
        once = float(product_cost(*sizes, on=on, order=order, missing=float(not cached)).time_s)
        return once + {"recorded": 2e-5, "backward": 6e-5}.get(implementation, 0.0)
    if workload["operator"] == "attention":
        shape = [workload[x] for x in ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")]
        operator = flash(*shape, backward=implementation == "backward")
        return float(fused_attention_cost(operator, on).time_s)
    return 2e-6 + workload["elements"] * (1e-9 if cached else 2e-9)


DEVICE = replace(
    read_cluster("this-machine").device,
    peak_flops=FIGURES["peak_flops"],
    memory_bandwidth=FIGURES["memory_bandwidth"],
    l2_bandwidth=FIGURES["l2_bandwidth"],
    l2_bytes=FIGURES["l2"],
    compute_units=1,
    vector_flops=FIGURES["vector_flops"],
)


@pytest.fixture(scope="module")
def results():
    """What a quick suite would say of a machine with the shipped constants."""
    found = []
    for mapping in standard_suite("fp32", quick=True):
        what = asked(mapping)
        workload, implementation = what["scenario"]["workload"], what.get("implementation", "fused")
        cluster = {"devices": 1, "per_node": 1, "device": {"name": "this-machine", **FIGURES}}
        found.append(
            {
                "source": "measured",
                "scenario": {"cluster": cluster, "workload": workload},
                "time_s": seconds(workload, implementation, what.get("cached", False), DEVICE),
                "measurement": {
                    "implementation": implementation,
                    "sets": 1 if what.get("cached") or what.get("flushed") else 9,
                    "flushed": what.get("flushed", False),
                },
            }
        )
    return found


@pytest.fixture(scope="module")
def calibrations(results):
    return calibration_machine.calibrate_machine(results, "a test")


def test_known_constants_are_found_again(calibrations) -> None:
    (processor, *_), figures, _ = calibrations
    for order in ("forward", "input gradient", "weight gradient"):
        named = processor.fit.residuals[f"fp32 product, {order}"]
        assert named["fit"]["p90"] < 0.03
        assert named["family left out"]["p90"] < 0.1
        found = processor.fit.content["formats"]["fp32"]["products"][order]["peak_fraction"]
        assert found == pytest.approx(KNOWN.products[order].peak_fraction, rel=0.1)
    assert processor.fit.residuals["fp32 attention, backward"]["fit"]["p90"] < 0.03
    assert processor.fit.content["formats"]["fp32"]["calls"] == pytest.approx(
        {"forward": 2e-5, "input gradient": 6e-5}, rel=0.02, abs=6e-6
    )
    assert (figures["l2"], figures["calibration"]) == (3e7, "this-machine")


def test_parts_that_any_device_has_are_fitted_too(calibrations) -> None:
    parts, _, missing = calibrations
    assert [c.part for c in parts] == ["processor", "training", "elementwise"]
    assert missing == [m for m in missing if m.startswith("collectives")]


def test_chains_are_told_apart_by_direction(results) -> None:
    rows = measurements(results)
    assert all(len(chain_table(rows, chain)) >= 2 for chain in ELEMENTWISE.values())
    assert (product_table(rows, "forward").m > 32).mean() > 0.9
    assert (product_table(rows, "few rows").m <= 32).all()
    assert (product_table(rows, "one row").m <= 3).all()


def test_one_wild_time_of_a_chain_does_not_reach_its_neighbours(results) -> None:
    def wild(result):
        workload = result["scenario"]["workload"]
        chosen = (workload["operator"], workload.get("elements")) == ("norm", 2**17)
        return {**result, "time_s": 50 * result["time_s"]} if chosen else result

    (processor, *_), _, _ = calibration_machine.calibrate_machine([wild(r) for r in results], "a test")
    norm = processor.fit.content["formats"]["fp32"]["kernels"]["norm"]
    times = dict(zip(norm["elements"], norm["cached_s"], strict=True))
    assert times[2**19] == pytest.approx(2e-6 + 2**19 * 1e-9, rel=0.01)
    assert times[2**17] <= times[2**19]


def test_a_disturbed_measurement_counts_by_its_fast_samples(results) -> None:
    one = {**results[0], "measurement": {**results[0]["measurement"], "spread_s": {"p10": 1e-9}}}
    calm, disturbed = ({**one, "environment": {"contended": c}} for c in (False, True))
    assert [r.seconds for r in measurements([calm, disturbed])] == [one["time_s"], 1e-9]
    samples = [{"forward_s": float(i), "backward_s": 2.0 * i} for i in range(11)]
    assert undisturbed_phases(samples, contended=False) == {"forward": 5.0, "backward": 10.0}
    assert undisturbed_phases(samples, contended=True)["forward"] == 1.0


def test_host_time_of_layers_is_what_deeper_models_take_more(results) -> None:
    without = {"forward": 0.0, "backward": 0.0}
    phases = [dict.fromkeys(without, 0.001 + 0.005 * layers) for layers in DEPTHS]
    (processor, *_), _, _ = calibration_machine.calibrate_machine(results, "a test", dispatch={"fp32": phases})
    calls = processor.fit.content["formats"]["fp32"]["calls"]
    assert 2e-3 < calls["layer forward"] < 5e-3
    assert calls["layer backward"] > 0
    assert "update" not in calls
    optimizer = [
        p | {"optimizer": 1e-3 + 2e-5 * (9 * n + 3), "host": 7e-4} for p, n in zip(phases, DEPTHS, strict=True)
    ]
    parts, *_ = calibration_machine.calibrate_machine(results, "a test", dispatch={"fp32": optimizer})
    calls = parts[0].fit.content["formats"]["fp32"]["calls"]
    assert (calls["update"], calls["update tensor"]) == pytest.approx((1e-3, 2e-5))
    stated = parts[1].fit.content["frameworks"][ANY]
    assert stated["step_s"] + stated["micro_batch_s"] == pytest.approx(7e-4)
    assert [s.model.layers for s in dispatch_scenarios("fp32")[: len(DEPTHS)]] == list(DEPTHS)


@pytest.mark.parametrize("shares", [{"forward": 0.8, "backward": 0.0}, {"forward": 0.6, "backward": 1.0}])
def test_a_step_that_no_cache_holds_tells_how_much_of_it_is_found_cold(shares) -> None:
    scenario, constants = dispatch_scenarios("fp32")[-1], TrainingConstants.from_mapping(calibration_machine.NEUTRAL)
    scenario = replace(scenario, cluster=replace(scenario.cluster, device=replace(DEVICE, l2_bytes=2e7)))
    program = write_out(scenario)
    prices = prices_with(program, scenario, constants, replace(KNOWN, cold_shares=shares))
    phases = {
        way: sum(
            block.count * float(op.count * prices[id(op)].time_s)
            for block in program.blocks
            for op in getattr(block, way)
        )
        for way in ("forward", "backward")
    }
    assert cold_shares(phases, scenario, KNOWN, constants) == pytest.approx(shares, abs=1e-3)
    roomy = replace(scenario, cluster=replace(scenario.cluster, device=replace(DEVICE, l2_bytes=1e10)))
    assert cold_shares(phases, roomy, KNOWN, constants) == {}


def test_code_around_calls_is_weighted_by_the_modules_of_a_tiny_model() -> None:
    scenario, constants = dispatch_scenarios("fp32")[1], TrainingConstants.from_mapping(calibration_machine.NEUTRAL)
    (layer,) = write_out(scenario).layers
    bare = replace(KNOWN, calls={}, call_weights={})
    even = replace(bare, calls={"layer forward": 1e-3})
    heavier = replace(even, call_weights={"layer": {"attention core": 3.0}})

    def modules(machine):
        program = write_out(scenario)
        prices = prices_with(program, scenario, constants, machine)
        found: dict[str, float] = {}
        for op in program.layers[0].forward:
            name = f"forward layer {op.module}"
            found[name] = found.get(name, 0.0) + layer.count * float(op.count * prices[id(op)].time_s)
        return found

    assert sum(modules(heavier).values()) == pytest.approx(sum(modules(even).values()))
    told = call_weights(modules(heavier), scenario, bare, constants)
    assert set(told) == {"layer"}
    assert told["layer"]["attention core"] == pytest.approx(3 * told["layer"]["rope"], rel=0.02)
    assert set(call_weights(modules(even), scenario, bare, constants)["layer"].values()) == {1.0}


def test_rows_of_a_module_are_one_time() -> None:
    row = {"phase": "forward", "block": "layer", "module": "qkv", "time_s": 1.5}
    assert module_times([row, row | {"operator": "bias"}]) == {"forward layer qkv": 3.0}


def test_results_without_a_suite_are_refused() -> None:
    with pytest.raises(InputError, match="calibrate --measure"):
        calibration_machine.calibrate_machine([], "nothing")


class Stored:
    """A run as the store gives it."""

    id, name, status, environment = "1", "a run", "ok", {}

    def __init__(self, scenario, result):
        self.scenario, self.result = scenario, result


def test_stored_runs_hold_one_operator_or_many(results) -> None:
    many = Stored({}, {"results": [*results[:3], {"reason": "no"}]})
    single = Stored(results[0]["scenario"], {"time_s": 1.0, "source": "measured", "measurement": {}})
    assert len(operator_results([many, single])) == 4


def test_slow_steps_move_what_operators_cannot_tell() -> None:
    mapping = {
        "model": {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4},
        "cluster": "this-machine",
        "workload": {"task": "pretrain", "sequence_length": 128, "global_batch": 2},
        "plan": {"framework": "transformers", "dtype": "fp32"},
    }
    mapping["model"] |= {"num_key_value_heads": 4, "intermediate_size": 688, "vocab_size": 2048}
    mapping["model"]["max_position_embeddings"] = 512
    scenario = scenario_from_mapping(mapping)
    plain = float(predict(scenario).step_time_s)
    steps = [MeasuredStep(scenario=scenario, seconds=1.3 * plain)] * 3
    fitted = calibrate_training(steps, "a test")
    assert fitted.fit.constants["transformers"]["matmul_slowdown"] > 1.0
    assert np.isclose(fitted.fit.residuals["transformers"]["fit"]["median"], 0.0, atol=0.1)


def test_number_formats_that_were_not_measured_now_are_kept(results) -> None:
    calibrations, *_ = calibration_machine.calibrate_machine(results, "a test")
    calibration_machine.keep_other_formats(
        calibrations, {"formats": {"bf16": {"cores": 1}, "fp32": {}}, "residuals": {"bf16 norm": {}}}
    )
    content = calibrations[0].fit.content
    assert content["formats"]["bf16"] == {"cores": 1}
    assert content["formats"]["fp32"]["products"]
    assert content["residuals"]["bf16 norm"] == {}


def test_a_processs_own_memory_is_what_a_tiny_models_states_are_not(results) -> None:
    held = {"weights": 1.0, "gradients": 2.0, "optimizer": 3.0, "activations": 40.0, "total": 3e8}
    phases = [{"forward": 0.1, "backward": 0.1} | process_memory(held)] * 2
    (processor, *_), *_ = calibration_machine.calibrate_machine(results, "a test", dispatch={"fp32": phases})
    assert processor.fit.content["framework_bytes"] == pytest.approx(3e8)
