"""Tables are recognised by their columns and read into one vocabulary in SI units."""

import json

import polars as pl
import pytest

from sightline.calibration.formats import FORMATS, formats_of
from sightline.calibration.raw_table import open_table
from sightline.errors import InputError

GEMM = "gemm_dtype,m,n,k,latency\nbfloat16,16,4096,4096,0.012\nint4_wo,32,4096,4096,0.02\n"
LOG = """# nccl-tests version 2.17
# Collective test starting: all_gather_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 2048
#  Rank  0 Group  0 Pid  1 on   node1 device  0 [0x07] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on   node1 device  1 [0x0a] NVIDIA H100 80GB HBM3
NCCL version 2.27.3+cuda12.9
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024            64     float    none      -1     8.90    0.12    0.06       0     8.80    0.12    0.06
        2048           128     float    none      -1     9.10    0.23    0.11       0     9.00    0.23    0.11
# Avg bus bandwidth    : 0.09
"""


def read(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text)
    table = open_table(path)
    return {f.part: f.read(table) for f in formats_of(table)}


def test_a_gemm_table_is_known_by_its_columns_whatever_its_name(tmp_path):
    rows = read(tmp_path, GEMM, "anything.dat")["matmul"]
    assert rows["kernel"].to_list() == ["16-bit", "w4a16"]
    assert rows["seconds"].to_list() == pytest.approx([12e-6, 20e-6])


def test_parquet_is_read_like_csv(tmp_path):
    path = tmp_path / "gemm.bin"
    pl.DataFrame({"gemm_dtype": ["fp8"], "m": [8], "n": [16], "k": [32], "latency": [0.5]}).write_parquet(path)
    (known,) = formats_of(open_table(path))
    assert known.read(open_table(path))["seconds"].to_list() == pytest.approx([5e-4])


def test_message_sizes_of_aiconfigurator_are_elements(tmp_path):
    text = (
        "op_name,nccl_dtype,num_gpus,message_size,latency\nall_gather,half,8,1024,0.01\nall_gather,int8,8,1024,0.01\n"
    )
    rows = read(tmp_path, text)["collectives"]
    assert rows.select("kernel", "ranks", "bytes", "seconds").rows() == [("all_gather", 8, 2048, pytest.approx(1e-5))]


def test_vidurs_layers_become_products_split_by_tensor_parallelism(tmp_path):
    text = (
        "time_stats.attn_pre_proj.median,time_stats.mlp_up_proj.median,n_head,n_kv_head,n_embd,n_expanded_embd,"
        "use_gated_mlp,num_tokens,num_tensor_parallel_workers\n1.5,3.0,32,8,4096,11008,True,64,2\n"
    )
    rows = read(tmp_path, text)["matmul"]
    assert rows.select("m", "n", "k").rows() == [(64, 3072, 4096), (64, 11008, 4096)]


def test_nccl_tests_print_everything_but_the_links(tmp_path):
    rows = read(tmp_path, LOG, "run.log")["collectives"]
    assert rows.row(0, named=True) == {
        "row": 0,
        "kernel": "all_gather",
        "ranks": 2,
        "ranks_per_node": 2,
        "bytes": 1024,
        "seconds": pytest.approx(8.9e-6),
        "library": "NCCL 2.27.3",
        "device": "NVIDIA H100 80GB HBM3",
    }


def test_own_results_are_read_by_operator(tmp_path):
    workload = {"task": "operator", "operator": "matmul", "m": 16, "n": 32, "k": 64, "dtype": "bf16"}
    result = {"scenario": {"workload": workload}, "source": "measured", "time_s": 1e-5}
    other = {"scenario": {"workload": {"operator": "copy", "elements": 5}}, "source": "measured", "time_s": 1e-5}
    rows = read(tmp_path, json.dumps([other, result]), "run.json")["matmul"]
    assert rows.select("row", "m", "seconds").rows() == [(1, 16, 1e-5)]


def test_predictions_are_no_measurements(tmp_path):
    workload = {"operator": "matmul", "m": 16, "n": 32, "k": 64, "dtype": "bf16"}
    with pytest.raises(InputError, match="holds predicted times"):
        read(tmp_path, json.dumps({"scenario": {"workload": workload}, "source": "predicted", "time_s": 1}), "a.json")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'{path}' is empty"),
        ("m,n,k,latency_us\n", "holds no rows"),
        (
            "m,n,latency_us\n1,2,3\n",
            "lacks the column k; nearest format: InferSim gemm, which needs m, n, k, latency_us",
        ),
        ("a,b\n1,2\n", "has none of the known formats' columns; known: AIConfigurator gemm"),
        ("m,n,k,latency_us\n8,8,8,abc\n", "line 2: latency_us is 'abc'; a measured time above zero is needed"),
        ("m,n,k,latency_us\n8,8,8,1\n8,8,8,nan\n", "line 3: latency_us is 'nan'"),
        ("m,n,k,latency_us\n8,8,8,0\n", "latency_us is '0'"),
        (
            "m,n,k,latency_us\n8,8,8,-2\n8,8,8,-3\n",
            "latency_us is '-2'; a measured time above zero is needed (and 1 more rows)",
        ),
        ("m,n,k,latency_us\n8,8,,1\n", "line 2: k is empty; a number of at least 1 is needed"),
        ("m,n,k,latency_us\n0,8,8,1\n", "m is '0'"),
        ("gemm_dtype,m,n,k,latency\nfp7,8,8,8,1\n", "gemm_dtype 'fp7' is not covered; covered: bfloat16"),
        ("[{", "cannot read '{path}': line 1"),
    ],
)
def test_wrong_tables_end_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert sentence.replace("{path}", str(tmp_path / "table.csv")) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_format_is_told_from_every_other():
    names = [(f.name, f.part) for f in FORMATS]
    assert len(names) == len(set(names))
    shared = [
        (a.name, b.name)
        for a in FORMATS
        for b in FORMATS
        if a.part == b.part and a is not b and set(a.columns) <= set(b.columns)
    ]
    assert shared == []
