"""Readers of published products on devices without constants of their own."""

import math

import pytest

from sightline.calibration.readers import formats_of
from sightline.calibration.readers.raw_table import open_table


def products(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    table = open_table(path)
    return next(known for known in formats_of(table) if known.part == "matmul").read(table)


def test_deepbench_pads_its_matrices_and_counts_columns_first(tmp_path):
    rows = products(
        tmp_path,
        "gpu,precision_sheet,M,N,K,transA,transB,time_ms\n"
        'T4,"FP16 ip, Mixed math",1760,35,2561,N,N,0.5\nT4,FP32,1760,32,1760,N,N,0.04\n',
    )
    assert rows.select("m", "n", "k", "kernel").rows() == [(40, 1760, 2568, "16-bit")]
    assert rows["seconds"].to_list() == pytest.approx([5e-4])


def test_products_as_short_as_a_launch_tell_nothing(tmp_path):
    rows = products(
        tmp_path,
        "op,gpu,M,N_or_K,N,time,time_unit,throughput\nmatmul,MI210,8192,12288,4096,20.0,ms,1\n"
        "matmul,MI210,8192,64,64,0.03,ms,1\nsoftmax,MI210,4096,32,,,,9\n",
    )
    assert rows.select("m", "k", "n").rows() == [(8192, 12288, 4096)]


def test_the_best_products_of_an_accelerator_have_times(tmp_path):
    rows = products(
        tmp_path,
        "accelerator,mamf_tflops,theory_tflops,best_shape_MxNxK\nAMD MI300X,668.4,1300,10240x15360x8192\nX,,1,\n",
    )
    assert rows.select("m", "n", "k").rows() == [(10240, 15360, 8192)]
    assert rows["seconds"][0] == pytest.approx(2 * 10240 * 15360 * 8192 / 668.4e12)


def test_a_table_says_how_many_weights_its_benchmark_takes_in_turn(tmp_path):
    heads = "framework,gemm_dtype,m,n,k,latency"
    rows = ["bfloat16", "fp8_block", "sq"]
    for framework, copies in (("TRTLLM", [5.0, 5.0, math.inf]), ("VLLM", [5.0, 1.0, math.inf])):
        table = "\n".join([heads, *(f"{framework},{name},8,512,512,0.01" for name in rows)])
        assert products(tmp_path, table)["weight_copies"].to_list() == copies
    stated = products(tmp_path, "gemm_dtype,m,n,k,latency,weight_copies\nbfloat16,8,512,512,0.01,2\n")
    assert stated["weight_copies"].to_list() == [2.0]
    flushed = products(tmp_path, "m,n,k,latency_us\n8,512,512,10\n")
    assert flushed["weight_copies"].to_list() == [math.inf]
