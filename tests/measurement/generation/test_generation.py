"""Generation for real on a tiny Llama: the same tokens with and without a cache, times by pass, rows as predicted."""
# ruff: noqa: E402 - imports that need PyTorch come after the check that it is there

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from measurement.running import TINY

import sightline as sl
from sightline.errors import InputError
from sightline.measurement import generated as case
from sightline.measurement import generated as run
from sightline.measurement.generated import WAYS, Generation, cached_bytes, random_prompts, result_of, way_of
from sightline.measurement.models import (
    build_plain_model,
    quantize,
)
from sightline.measurement.modules.timeline import HostReader
from sightline.measurement.processes.cases import Settings, profile_of
from sightline.measurement.processes.isolation import UnsupportedCaseError

SCENARIO = {
    "name": "tiny",
    "model": TINY,
    "cluster": "this-machine",
    "workload": {"task": "generate", "batch": 2, "prompt_tokens": 24, "output_tokens": 6},
    "plan": {"framework": "transformers", "dtype": "fp32"},
}


@pytest.fixture(scope="module")
def scenario():
    return sl.load(SCENARIO)


def generation(scenario, way="dynamic", form="none"):
    model = build_plain_model(scenario.model, dtype="fp32", attention=WAYS[way].attention)
    model = model if form == "none" else quantize(model, form, "fp32", "cpu")
    work = scenario.workload
    prompts = random_prompts(scenario.model.vocab_size, work.batch, work.prompt_tokens, "cpu", 7)
    return Generation(model.eval(), WAYS[way], prompts, work.output_tokens)


def without_cache(model, prompts, count):
    """The most likely tokens, every pass over all tokens so far."""
    tokens = prompts
    with torch.inference_mode():
        for _ in range(count):
            logits = model(input_ids=tokens, use_cache=False).logits[:, -1]
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return tokens[:, prompts.shape[1] :]


@pytest.mark.parametrize("way", ["dynamic", "static", "eager", pytest.param("compiled", marks=pytest.mark.slow)])
def test_a_cache_changes_no_token_and_can_be_used_again(scenario, way):
    answering = generation(scenario, way)
    expected = without_cache(answering.model, answering.prompts, answering.output_tokens)
    assert expected.unique().numel() > 1
    for _ in range(2):
        tokens, seconds = answering.run(HostReader())
        assert tokens.equal(expected)
        assert len(seconds) == answering.output_tokens
        assert min(seconds) > 0


@pytest.mark.parametrize("form", ["nf4", "int8"])
def test_quantized_weights_answer_with_a_cache_as_without(scenario, form):
    pytest.importorskip("bitsandbytes")
    answering = generation(scenario, form=form)
    tokens, _ = answering.run()
    assert tokens.equal(without_cache(answering.model, answering.prompts, answering.output_tokens))


def test_weights_that_bitsandbytes_cannot_repack_take_its_other_path(scenario, monkeypatch):
    """A processor with AVX512-BF16 has 4-bit weights repacked before inference, which needs whole blocks of them."""
    bitsandbytes = pytest.importorskip("bitsandbytes")
    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: True)
    layers = generation(scenario, form="nf4").model.model.layers[0]
    repacked = {name for name, m in layers.named_modules() if getattr(m, "support_avx512bf16_for_cpu", False)}
    # 64 inputs are one block; the 160 of the projection down are none.
    assert repacked == {f"self_attn.{name}_proj" for name in "qkvo"} | {"mlp.gate_proj", "mlp.up_proj"}
    down = layers.mlp.down_proj
    assert torch.isfinite(down.eval()(torch.ones(1, 160))).all()


def test_weights_that_bitsandbytes_cannot_pack_are_a_sentence():
    pytest.importorskip("bitsandbytes")
    with pytest.raises(UnsupportedCaseError, match="cannot pack a weight of 5 x 7 into whole elements of float32"):
        quantize(torch.nn.Sequential(torch.nn.Linear(7, 5)), "nf4", "fp32", "cpu")


def test_the_cache_holds_a_key_and_a_value_per_token_and_layer(scenario):
    answering = generation(scenario)
    answering.run()
    # The last token is chosen, but nobody attends to it.
    tokens = 24 + 6 - 1
    assert cached_bytes(answering.cache) == 2 * 2 * tokens * 2 * (2 * 16) * 4


@pytest.fixture(scope="module")
def measured(scenario):
    rule = replace(run.QUICK, warm_up_s=0.1, longest_s=0.2)
    patch = pytest.MonkeyPatch()
    patch.setattr(run, "QUICK", rule)
    profile = sl.measure(scenario, quick=True)
    patch.undo()
    return profile


def test_a_measured_generation_has_the_shape_of_a_predicted_one(scenario, measured):
    predicted = sl.predict(scenario)
    assert (measured.source, measured.evidence) == ("measured", {"framework": "measured"})
    assert sum(measured.phases.values()) == pytest.approx(measured.latency_s)
    assert measured.phases.keys() == predicted.phases.keys()
    assert sum(measured.limits.values()) == pytest.approx(measured.latency_s)
    assert min(measured.ttft_s, measured.tpot_s) > 0
    assert sum(v for k, v in measured.memory_bytes.items() if k != "total") == measured.memory_bytes["total"]
    assert measured.memory_bytes["weights"] == pytest.approx(4 * scenario.model.parameters, rel=0.01)
    for key in ("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s"):
        low, high = measured.interval[key]
        assert low <= getattr(measured, key) <= high
    assert measured.measurement["implementation"] == "dynamic"
    assert measured.measurement["repeats"][0] >= 4


def test_modules_have_the_addresses_and_the_flops_of_a_prediction(scenario, measured):
    predicted = sl.predict(scenario)

    def flops(profile, phase, module):
        return sum(row.flops for row in profile.rows if (row.phase, row.module) == (phase, module))

    for phase in ("prefill", "decode"):
        for module in ("qkv", "output projection", "mlp", "head"):
            assert flops(measured, phase, module) == pytest.approx(flops(predicted, phase, module)), (phase, module)
    addresses = {(row.phase, row.module) for row in predicted.rows}
    assert addresses - {(row.phase, row.module) for row in measured.rows} == set()
    assert {row.operator for row in measured.rows if row.module == "head"} == {"logits", "sampling"}
    compared = sl.compare(measured, predicted, levels=["module"])
    assert {row.module for row in compared.rows if row.verdict.startswith("only")} <= {"host"}


def a_run(factor=1.0, **memory):
    """What a run would have seen: two answers of three passes each."""
    row = {"phase": "decode", "block": "layer", "module": "mlp", "operator": "all", "count": 4.0}
    row |= {"flops": 1e6, "bytes": 1e5, "network_bytes": 0.0, "time_s": 0.0, "bound": "memory"}
    return {
        "passes_s": [[0.4 * factor, 0.1 * factor, 0.1 * factor]] * 4,
        "warm_up": 3,
        "stable": True,
        "energy_j": None,
        "memory": {"before": 100.0, "process": 400.0, "weights": 120.0, "kv_cache": 30.0} | memory,
        "rows": [row | {"samples_s": [0.15 * factor, 0.25 * factor]}],
        "overhead": 0.02,
        "record": {"implementation": "dynamic"},
    }


def test_runs_are_joined_by_their_medians():
    asked = sl.load(SCENARIO, {"workload.output_tokens": 3})
    result = result_of(asked, [a_run(), a_run(1.1), a_run(1.2, process=500.0)])
    assert (result["ttft_s"], result["tpot_s"], result["latency_s"]) == pytest.approx((0.44, 0.11, 0.66))
    assert result["output_tokens_per_s"] == pytest.approx(2 * 3 / 0.66)
    assert result["interval"]["latency_s"][0] < 0.6 < 0.66 < result["interval"]["latency_s"][1]
    (row,) = result["rows"]
    assert row["time_s"] == pytest.approx(0.22)
    assert row["low_s"] < 0.2 < 0.24 < row["high_s"]
    assert result["memory_bytes"]["total"] == 500.0
    assert result["memory_bytes"]["activations"] == 500.0 - 100.0 - 120.0 - 30.0
    assert result["measurement"]["runs"] == 3
    (warning,) = result["warnings"]
    assert warning.startswith("the median varies by 13 %")
    assert profile_of(asked, result).latency_s == pytest.approx(0.66)


def test_on_a_device_what_the_allocator_keeps_is_buffers():
    asked = sl.load(SCENARIO, {"workload.output_tokens": 3})
    seen = a_run()
    seen["memory"] = {"before": 50.0, "allocated": 200.0, "reserved": 260.0, "weights": 120.0, "kv_cache": 30.0}
    memory = result_of(asked, [seen])["memory_bytes"]
    assert (memory["framework"], memory["buffers"], memory["activations"]) == (50.0, 60.0, 50.0)
    assert memory["total"] == 50.0 + 260.0


def test_a_single_token_has_no_time_per_further_token():
    asked = sl.load(SCENARIO, {"workload.output_tokens": 1})
    seen = a_run() | {"passes_s": [[0.4], [0.4]]}
    result = result_of(asked, [seen])
    assert (result["tpot_s"], result["latency_s"]) == (None, 0.4)
    assert "tpot_s" not in result["interval"]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ({"plan.framework": "vllm"}, "plan.framework is 'vllm'; allowed when measuring: transformers, reference"),
        ({"plan.quantization": "fp8", "plan.framework": "reference"}, "plan.quantization is 'fp8'"),
        ({"workload.continuous": True}, "workload.continuous is set"),
        (
            {"plan.speculative": {"tokens": 2, "acceptance": 0.7}, "plan.framework": "reference"},
            "plan.speculative is set",
        ),
        ({"cluster": "2x this-machine", "plan.pipeline_parallel": 2}, "plan.pipeline_parallel is 2"),
    ],
)
def test_what_is_not_measured_is_said_before_anything_runs(override, sentence):
    asked = sl.load(SCENARIO, override)
    with pytest.raises(UnsupportedCaseError) as error:
        way_of(asked, None)
    assert sentence in str(error.value)
    with pytest.raises(InputError) as refused:
        sl.measure(asked)
    assert sentence in str(refused.value)


def test_wrong_requests_are_refused_in_a_sentence(scenario):
    with pytest.raises(InputError, match="did you mean 'static'"):
        sl.measure(scenario, implementation="statik")
    large = sl.load(SCENARIO, {"model": "llama-2-70b", "workload.batch": 1024})
    with pytest.raises(InputError, match="does not fit"):
        sl.measure(large)
    with pytest.raises(InputError, match="this machine has"):
        sl.measure(sl.load(SCENARIO, {"cluster": "1x h200-sxm-141gb", "plan.dtype": "bf16"}))


def test_a_checkpoint_answers_and_one_of_another_model_is_refused(scenario, tmp_path):
    generation(scenario).model.save_pretrained(tmp_path)
    asked = run.Asked(way="dynamic", quick=True, weights=str(tmp_path))
    answering = run._generation(scenario, asked, "cpu")
    assert answering.run()[0].equal(generation_of_seed(scenario).run()[0])
    other = sl.load(SCENARIO, {"model.intermediate_size": 128})
    with pytest.raises(InputError, match="has intermediate_size 160; the model of the scenario has 128"):
        case.measure_generation(other, Settings(weights=str(tmp_path), quick=True))


def generation_of_seed(scenario):
    """The model of random weights that a run would draw, with a run's own prompts."""
    return run._generation(scenario, run.Asked(way="dynamic", quick=True), "cpu")


def test_captured_graphs_and_the_default_framework_choose_the_way(scenario):
    assert way_of(scenario, None) == "dynamic"
    assert way_of(scenario, "eager") == "eager"
    assert way_of(sl.load(SCENARIO, {"plan.cuda_graphs": True}), None) == "compiled"
    assert way_of(sl.load(SCENARIO, {"plan.framework": "reference"}), None) == "dynamic"
