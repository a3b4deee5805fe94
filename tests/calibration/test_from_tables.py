"""Tables are checked against what a device can do before anything is fitted."""

import os
from pathlib import Path

import pytest

from sightline.calibration.from_tables import calibrate, read_tables
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster

DATA = Path(os.environ.get("SIGHTLINE_DATA", Path(__file__).parents[3] / "shared" / "data"))
LLMSERVINGSIM = "llmservingsim"
DEVICE = "a100-sxm-80gb"
EXAMPLE = Path(__file__).parents[2] / "examples" / "tables" / "matmuls-a100.csv"


def table(tmp_path, change=lambda line: line, header="gemm_dtype,m,n,k,latency"):
    lines = EXAMPLE.read_text().splitlines()[1:]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *(change(line) for line in lines)]) + "\n")
    return path


def scaled(factor):
    return lambda line: f"{line.rpartition(',')[0]},{float(line.rpartition(',')[2]) * factor}"


def refusal(path, device=DEVICE, **keys):
    with pytest.raises(InputError) as error:
        read_tables([path], device, **keys)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_example_is_read():
    found = read_tables([EXAMPLE], DEVICE)
    assert found.rows["matmul"].height == 70
    assert found.rows["matmul"]["kernel"].unique().to_list() == ["16-bit"]


def test_times_a_thousand_too_short_are_refused(tmp_path):
    said = refusal(table(tmp_path, scaled(1e-3)))
    assert "'t.csv', line " in said
    assert "is faster than the limit of a100-sxm-80gb" in said
    assert "off by 1000" in said


def test_times_a_thousand_too_long_are_refused(tmp_path):
    assert "check the unit of time" in refusal(table(tmp_path, scaled(1e3)))


def test_one_impossible_row_is_found_among_possible_ones(tmp_path):
    said = refusal(
        table(tmp_path, lambda line: scaled(1e-2)(line) if line.startswith("bfloat16,8192,4096,12288") else line)
    )
    assert "m 8192, n 4096, k 12288" in said
    assert "unit" not in said


def test_a_device_without_the_peak_is_named(tmp_path):
    path = table(tmp_path, lambda line: line.replace("bfloat16", "fp8"))
    assert "a100-sxm-80gb has no fp8 peak" in refusal(path)


def test_an_unknown_device_has_a_nearest(tmp_path):
    assert "unknown device 'a100-sxm-81gb' - did you mean 'a100-sxm-80gb'?" in refusal(table(tmp_path), "a100-sxm-81gb")


def test_an_unknown_part_is_refused(tmp_path):
    assert "unknown part 'matmull' - did you mean 'matmul'?" in refusal(table(tmp_path), part="matmull")


def test_repeats_that_agree_become_one_and_others_are_refused(tmp_path):
    path = table(tmp_path)
    first = path.read_text().splitlines()[1]
    path.write_text(path.read_text() + scaled(1.1)(first) + "\n")
    assert read_tables([path], DEVICE).rows["matmul"].height == 70
    path.write_text(path.read_text() + scaled(3.0)(first) + "\n")
    said = refusal(path)
    assert "'t.csv', line 73 has 3.0 times the time of 't.csv', line 2" in said


def test_too_few_rows_say_how_many_are_needed(tmp_path):
    path = table(tmp_path)
    path.write_text("\n".join(path.read_text().splitlines()[:6]) + "\n")
    assert "5 rows of different shape are too few; at least 24" in refusal(path)


@pytest.mark.parametrize("column", ["device", "library"])
def test_mixed_tables_are_refused_and_can_be_kept_apart(tmp_path, column):
    count = iter(range(100))
    path = table(tmp_path, lambda line: f"{line},{'ab'[next(count) % 2]}", f"gemm_dtype,m,n,k,latency,{column}")
    assert f"has measurements of 2 {'devices' if column == 'device' else 'libraries'}: 'a', 'b'" in refusal(path)
    assert read_tables([path], DEVICE, only={column: "a"}).rows["matmul"].height == 35


def test_a_folder_gives_its_tables_and_says_what_was_left_out(tmp_path):
    table(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing to see")
    found = read_tables([tmp_path], DEVICE)
    assert found.rows["matmul"].height == 70
    assert [Path(p).name for p in found.skipped] == ["notes.txt"]


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path):
    assert "cannot read" in refusal(tmp_path / "none.csv")
    assert "no table in" in refusal(tmp_path)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the public tables")
@pytest.mark.parametrize(
    ("file", "device", "part"),
    [
        ("aiconfigurator/gemm_a100_sxm_trtllm-1.0.0.csv", "a100-sxm-80gb", "matmul"),
        ("aiconfigurator/gemm_b200_sxm_trtllm-1.2.0rc5_bf16_fp8.csv", "b200-sxm-180gb", "matmul"),
        ("vidur/a40_Llama-2-7b-hf_mlp.csv", "a40", "matmul"),
        ("frontier/h800_llama2_7b_dense_example_linear_op_kernel_only.csv", "h800-sxm-80gb", "matmul"),
        ("vidur/network_a100_dgx_all_reduce.csv", "a100-sxm-80gb", "collectives"),
        ("apex_plus/H200-SXM-141GB_alltoall.csv", "h200-sxm-141gb", "collectives"),
        ("aiconfigurator/attn_generation_h100_sxm_vllm-0.14.0.csv", "h100-sxm-80gb", "decode_attention"),
        ("aiconfigurator/attn_context_a100_sxm_trtllm-1.0.0.csv", "a100-sxm-80gb", "prefill_attention"),
        ("frontier/a800_meta-llama_Llama-2-7b-hf_attention.csv", "a800-sxm-80gb", "prefill_attention"),
        ("infersim/grouped_gemm_prefill_h800_data.csv", "h800-sxm-80gb", "grouped"),
        ("infersim/mha_decode_h20_64-2-128.csv", "h20", "decode_attention"),
        ("infersim/mla_decode_h800_128-512-64.csv", "h800-sxm-80gb", "latent_decode_attention"),
        ("vidur/a100_Llama-2-7b-hf_mlp.csv", "a100-sxm-80gb", "elementwise"),
        ("frontier/h800_llama2_7b_dense_example_linear_op_kernel_only.csv", "h800-sxm-80gb", "elementwise"),
        (f"{LLMSERVINGSIM}/perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1_dense.csv", "rtx-4090", "elementwise"),
        (
            f"{LLMSERVINGSIM}/perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1_attention.csv",
            "rtx-4090",
            "decode_attention",
        ),
        (f"{LLMSERVINGSIM}/v0_perf_models_RTX3090_meta-llama_Llama-3.1-8B_tp2_layers.csv", "rtx-3090", "matmul"),
    ],
)
def test_published_tables_pass_every_check(file, device, part):
    model = "llama-3.1-8b" if file.startswith(LLMSERVINGSIM) else None
    assert read_tables([DATA / file], device, part, model=model).rows[part].height >= 40


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the public tables")
def test_tables_of_two_devices_are_not_mixed():
    files = [DATA / "infersim" / f"mha_decode_{device}_32-8-128.csv" for device in ("h20", "h800")]
    with pytest.raises(InputError, match="has measurements of 2 devices: 'h20', 'h800'; select one with --only"):
        read_tables(files, "h20")


def norms(tmp_path, latency_s=4e-6, fraction=0.6):
    """A profile of LLMServingSim whose norms take what constants say, on RTX 4090."""
    device = read_cluster("1x rtx-4090").device
    lines = ["layer,tokens,time_us"]
    for tokens in (4096, 6144, 8192, 12288, 16384, 24576, 32768, 65536, 131072):
        seconds = 2 * 4 * tokens * 4096 / (device.memory_bandwidth * fraction) + latency_s
        lines.append(f"layernorm,{tokens},{seconds * 1e6}")
    path = tmp_path / "dense.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_bandwidth_bound_kernels_are_fitted_class_by_class(tmp_path):
    (fitted,) = calibrate(read_tables([norms(tmp_path)], "rtx-4090", "elementwise", model="llama-3.1-8b"))
    content = fitted.entry("2026-11")
    norm = content["kernels"]["vectorized"]["norm"]
    assert norm["memory_fraction"] == pytest.approx(0.6, rel=0.05)
    assert (content["measured"], norm["evidence"]) == ("vectorized", "calibrated")
    rope = content["kernels"]["vectorized"]["rope"]
    assert rope["evidence"] == "extrapolated"
    assert set(rope) - {"evidence"} == {"memory_fraction", "cache_gain", "vector_fraction", "kernel_latency_s"}


def test_an_unknown_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"llama-3\.1-8c"):
        read_tables([norms(tmp_path)], "rtx-4090", model="llama-3.1-8c")
