"""Kernels of single-stream engines: matrix-vector products, weights written out for prompts, scores in memory."""

from dataclasses import replace

import numpy as np
import pytest
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import PricedGeneration, prefill_phase, price_generation
from sightline.program import CachedAttention, Elementwise, GroupedMatmul, Matmul, MatrixVector, Program

GIB = 1024**3


def priced(
    model: str = "llama-3-8b", cluster: str = "1x rtx-4090", quantization: str = "q4_k_m", **workload: object
) -> PricedGeneration:
    plan = {"framework": "llama.cpp", "quantization": quantization}
    return price_generation(generation(model=model, cluster=cluster, plan=plan, **workload))  # type: ignore[arg-type]


def products(of: Program) -> list[Matmul]:
    return [op for block in of.layers for op in block.operators if isinstance(op, Matmul)]


@pytest.mark.parametrize(
    ("model", "quantization", "gib"),
    [
        ("llama-2-7b", "q4_0", 3.56),
        ("llama-3-8b", "q4_k_m", 4.58),
        ("llama-3-70b", "q4_k_m", 39.59),
        ("llama-3-8b", "none", 14.96),
    ],
)
def test_weights_take_the_room_of_published_files(model: str, quantization: str, gib: float):
    found = priced(model, "1x h200-sxm-141gb", quantization)
    assert float(generation_memory(found, found, found.scenario.workload)["weights"]) == pytest.approx(
        gib * GIB, rel=0.02
    )


def test_decoding_multiplies_packed_weights_and_prompts_unpacked_ones():
    found = priced()
    assert {type(op) for op in products(found.decode.program)} == {MatrixVector}
    assert {op.kernel for op in products(found.decode.program)} == {"q4_k_m"}
    assert {op.kernel for op in products(found.prefill.program)} == {"16-bit"}
    names = [op.name for op in found.prefill.program.layers[0].operators]
    assert names.count("expand weights") == 5  # query; key and value; output; up and gate; down


@pytest.mark.parametrize("framework", ["vllm", "transformers"])
def test_nf4_weights_are_written_out_before_products_of_more_than_one_row(framework: str):
    plan = {"framework": framework, "quantization": "nf4"}
    scenarios = [generation(plan=plan, batch=b, prompt_tokens=64) for b in (1, 16)]
    one, many = map(price_generation, scenarios)
    assert (
        {op.kernel for op in products(one.prefill.program)}
        == {op.kernel for op in products(many.decode.program)}
        == {"16-bit"}
    )
    assert {op.kernel for op in products(one.decode.program)} == {"nf4"}
    assert "expand weights" in [op.name for op in many.decode.program.layers[0].operators]
    kept = [predict_generation(scenario).memory_bytes["weights"] for scenario in scenarios]
    assert kept[0] == kept[1]


def test_rows_on_a_mesh_are_expanded_as_alone():
    each = [generation(plan={"framework": "vllm", "quantization": "nf4"}, batch=b) for b in (1, 2, 16)]
    all_of_them = replace(each[0], workload=replace(each[0].workload, batch=np.array([1, 2, 16])))
    alone = [float(predict_generation(scenario).tpot_s) for scenario in each]
    assert predict_generation(all_of_them).tpot_s == pytest.approx(alone)


def test_devices_without_matrix_units_unpack_in_the_product():
    found = priced(cluster="1x apple-m2-ultra-76core-192gb")
    assert "q4_k_m" in {op.kernel for op in products(found.prefill.program)}
    assert "expand weights" not in [op.name for op in found.prefill.program.layers[0].operators]


@pytest.mark.parametrize(("quantization", "rate"), [("none", 1265), ("q4_0", 1164), ("q4_k_m", 1028)])
def test_products_that_unpack_take_as_much_longer_as_published(quantization: str, rate: float):
    """Prompts of 512 tokens of Llama-2-7B on an M2 Ultra, as ggml-org/llama.cpp#3084 lists them."""
    from sightline.prediction.generation.engine_constants import load_inference

    constants, _ = load_inference("llama.cpp")
    cluster = "1x apple-m2-ultra-76core-192gb"
    plain, packed = (priced("llama-2-7b", cluster, each, prompt_tokens=512) for each in ("none", quantization))
    longer_s = float(prefill_phase(packed, constants).times.device_s - prefill_phase(plain, constants).times.device_s)
    assert longer_s == pytest.approx(512 / rate - 512 / 1265, rel=0.1, abs=1e-3)


def test_every_tile_of_columns_unpacks_anew_and_launches_nothing():
    few, many = (priced(cluster="1x apple-m3-max-40core-64gb", prompt_tokens=n) for n in (33, 64))
    work = [[op for op in x.prefill.program.layers[0].operators if op.name == "unpack weights"] for x in (few, many)]
    assert len(work[0]) == 5
    assert [op.arithmetic for op in work[0]] == [op.arithmetic for op in work[1]]
    assert not any(op.kernels for op in work[0])


def test_scores_are_padded_to_whole_cells():
    def seen(tokens: int) -> set[object]:
        return {op.n for op in products(priced(prompt_tokens=tokens).prefill.program) if op.name == "scores"}

    assert seen(494) == seen(512) == {512}
    assert seen(513) == {416}  # pieces of 256.5 tokens after none and after 256.5 of them


def test_many_rows_leave_the_matrix_vector_kernel():
    """Beyond eight sequences a step's products cost what the library's cost, less than a row at a time."""
    few, many = priced(batch=8), priced(batch=64)
    step = [float(sum(x.decode.prices[id(op)].time_s for op in products(x.decode.program))) for x in (few, many)]
    assert step[1] < 8 * step[0] / 2


def test_scores_grow_with_new_and_seen_tokens():
    found = priced(prompt_tokens=1024)
    assert not any(isinstance(op, CachedAttention) for op in found.prefill.program.layers[0].operators)
    scores = next(op for op in products(found.prefill.program) if op.name == "scores")
    assert scores.flops == 2 * 32 * 512 * (256 + 512) * 128  # pieces of 512 tokens, the mean of their contexts


def test_fp16_sums_are_as_fast_as_the_device_has_them():
    assert {op.dtype for op in products(priced().prefill.program)} == {"fp16-accumulate"}
    assert {op.dtype for op in products(priced(cluster="1x a100-sxm-80gb").prefill.program)} == {"fp16"}


def test_pieces_of_a_prompt_follow_each_other_through_the_stages():
    from sightline.prediction.generation.engine_constants import load_inference

    constants, _ = load_inference("llama.cpp")
    alone = prefill_phase(priced(prompt_tokens=1024), constants)
    four = prefill_phase(priced(prompt_tokens=1024, cluster="4x rtx-4090"), constants)
    assert float(alone.passes) == 2
    assert float(four.passes) == 1 + 9 / 32  # 32 layers and the head are dealt out in nines and eights


@pytest.mark.parametrize(
    ("devices", "quantization", "passes"),
    [
        (4, "none", 1 + 21 / 80),
        (6, "q4_k_m", 1 + 14 / 80),
        (4, "q4_k_m", 1 + 3.02 * 21 / 80),
        (2, "q4_k_m", 1 + 1.51 * 41 / 80),
    ],
)
def test_a_stage_that_fills_the_queue_of_launches_is_not_overtaken(devices: int, quantization: str, passes: float):
    """Twenty layers of 45 kernels leave room for the next piece, twenty of 52 that unpack weights too do not."""
    from sightline.prediction.generation.engine_constants import load_inference

    constants, _ = load_inference("llama.cpp")
    found = priced("llama-3-70b", f"{devices}x h100-pcie-80gb", quantization, prompt_tokens=1024)
    assert float(prefill_phase(found, constants).passes) == pytest.approx(passes, abs=0.02)


def test_more_pieces_than_the_queue_holds_come_in_groups():
    """Never faster than every stage at work, never slower than one piece after the other."""
    from sightline.prediction.generation.engine_constants import load_inference

    constants, _ = load_inference("llama.cpp")
    for pieces in (2, 3, 8, 15):
        found = priced("llama-3-8b", "4x rtx-4090", prompt_tokens=512 * pieces)
        passes = float(prefill_phase(found, constants).passes)
        assert (4 + pieces - 1) / 4 <= passes <= pieces


def test_pieces_on_a_mesh_wait_as_alone():
    plan, cluster = {"framework": "llama.cpp", "quantization": "q4_k_m"}, "4x rtx-4090"
    each = [generation(model="llama-3-70b", cluster=cluster, plan=plan, prompt_tokens=n) for n in (512, 1024, 4096)]
    sizes = replace(each[0].workload, prompt_tokens=np.array([512, 1024, 4096]))
    alone = [float(predict_generation(scenario).ttft_s) for scenario in each]
    assert predict_generation(replace(each[0], workload=sizes)).ttft_s == pytest.approx(alone)


def test_prompts_of_llama_cpp_pass_stages_through_the_host():
    """The hidden states of each piece at the rate of host copies, whatever joins the devices."""
    from sightline.prediction.generation.engine_constants import load_inference

    constants, _ = load_inference("llama.cpp")
    phase = prefill_phase(priced(prompt_tokens=512, cluster="4x a100-sxm-80gb"), constants)
    assert float(phase.transfer_s) == pytest.approx(3 * 512 * 4096 * 4 / constants.host_copy_bandwidth)


def test_eager_engines_wait_for_launches():
    """A small model decodes at the rate of its layers' launches, whatever the device."""
    plan = {"framework": "transformers", "dtype": "bf16"}
    times = [
        predict_generation(generation(model="qwen-1.8b", cluster=f"1x {device}", plan=plan, batch=1)).tpot_s
        for device in ("a100-sxm-80gb", "a100-sxm-40gb")
    ]
    assert np.isclose(times[0], times[1], rtol=0.1)


@pytest.mark.parametrize(
    ("device", "padded", "degree", "sizes"),
    [
        ("b200-sxm-180gb", True, 2, {(3072, 3072), (1536, 3072)}),
        ("h100-sxm-80gb", True, 2, {(2880, 2944), (1472, 2880)}),
        ("a100-sxm-80gb", True, 1, {(3072, 5888), (2944, 3072)}),
        ("b200-sxm-180gb", False, 2, {(2880, 2880), (1440, 2880)}),
    ],
)
def test_experts_in_mxfp4_are_padded(device: str, padded: bool, degree: int, sizes: set[tuple[int, int]]):
    plan = {"framework": "vllm" if padded else "sglang", "tensor_parallel": degree}
    found = price_generation(generation(model="gpt-oss-20b", cluster=f"{degree}x {device}", plan=plan, batch=8))
    operators = [op for block in found.decode.program.layers for op in block.operators]
    assert {(op.k, op.n) for op in operators if isinstance(op, GroupedMatmul)} == sizes


@pytest.mark.parametrize(
    ("version", "kind"), [("0.11", "scalar activation"), ("0.12", "scalar activation"), ("0.15", "activation")]
)
def test_experts_activations_are_vectorized_late(version: str, kind: str):
    plan = {"framework": "vllm", "framework_version": version}
    found = price_generation(generation(model="qwen3-30b-a3b", cluster="1x h200-sxm-141gb", plan=plan, batch=8))
    operators = [op for block in found.decode.program.layers for op in block.operators]
    assert {op.kind for op in operators if isinstance(op, Elementwise) and op.part == "activation"} == {kind}


@pytest.mark.parametrize(
    ("version", "quantization", "plan", "rows"),
    [
        # A replica has 4 tokens x 8 experts; 127 rows for each of the 32 or 128 experts of a rank, in whole blocks of 128.
        ("0.11.2", "fp8-block", {"expert_parallel": 4}, 4096),
        ("0.12", "fp8-block", {}, 16384),
        ("0.12", "fp8-block", {"tensor_parallel": 8}, None),
        ("0.11", "none", {"expert_parallel": 4}, None),
        ("0.11.0", "fp8-block", {"expert_parallel": 4}, None),
        ("0.13", "fp8-block", {"expert_parallel": 4}, None),
    ],
)
def test_whole_blocks_of_every_expert(version: str, quantization: str, plan: dict[str, object], rows: float | None):
    plan = {
        "framework": "vllm",
        "framework_version": version,
        "tensor_parallel": 4,
        "quantization": quantization,
        **plan,
    }
    found = price_generation(generation(model="qwen3-235b-a22b", cluster="8x h200-sxm-141gb", plan=plan, batch=8))
    operators = [op for block in found.decode.program.layers for op in block.operators]
    for op in (op for op in operators if isinstance(op, GroupedMatmul)):
        assert (op.empty_rows > 0) == (rows is not None)
        if rows is not None:
            assert op.rows + op.empty_rows == rows
            least_s = 2.0 * rows * op.n * op.k / found.decode.device_model.device.peak_flops["fp8"]
            assert found.decode.prices[id(op)].time_s > least_s
