"""Tables are recognised by their columns and read into one vocabulary in SI units."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from sightline.calibration.readers import FORMATS, formats_of
from sightline.calibration.readers.raw_table import open_table
from sightline.errors import InputError
from sightline.loading.models import resolve_model

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


def read(tmp_path, text, name="table.csv", **hints):
    path = tmp_path / name
    path.write_text(text)
    table = replace(open_table(path), **hints)
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
    lines = ["op_name,nccl_dtype,num_gpus,message_size,latency"]
    lines += [f"{name},{dtype},8,1024,0.01" for name in ("all_gather", "all_reduce") for dtype in ("half", "int8")]
    rows = read(tmp_path, "\n".join(lines))["collectives"]
    assert rows.select("kernel", "ranks", "bytes", "seconds").rows() == [
        ("all_gather", 8, 2048, pytest.approx(1e-5)),
        ("all_gather", 8, 1024, pytest.approx(1e-5)),  # a copy does not know the type, a sum does
        ("all_reduce", 8, 2048, pytest.approx(1e-5)),
    ]


def test_vidurs_layers_become_products_split_by_tensor_parallelism(tmp_path):
    text = (
        "time_stats.attn_pre_proj.median,time_stats.mlp_up_proj.median,n_head,n_kv_head,n_embd,n_expanded_embd,"
        "use_gated_mlp,num_tokens,num_tensor_parallel_workers\n1.5,3.0,32,8,4096,11008,True,64,2\n"
    )
    rows = read(tmp_path, text)["matmul"]
    assert rows.select("m", "n", "k").rows() == [(64, 3072, 4096), (64, 11008, 4096)]


def test_vidurs_other_kernels_are_streams_of_2023(tmp_path):
    text = (
        "time_stats.input_layernorm.median,time_stats.attn_rope.median,time_stats.add.median,n_head,n_kv_head,n_embd,"
        "n_expanded_embd,num_tokens,num_tensor_parallel_workers\n0.1,0.2,,32,8,4096,14336,64,2\n"
    )
    rows = read(tmp_path, text)["elementwise"]
    assert rows.select("kernel", "generation", "tokens", "width", "tensors", "seconds").rows() == [
        ("norm", "scalar", 64, 4096, 2.0, pytest.approx(1e-4)),
        ("rope", "scalar", 64, 20 * 128, 2.0, pytest.approx(2e-4)),
    ]


def test_vidurs_decoding_steps_see_their_own_token(tmp_path):
    text = (
        "time_stats.attn_prefill.median,time_stats.attn_decode.median,is_prefill,batch_size,n_q_head,n_kv_head,n_embd,"
        "prefill_chunk_size,kv_cache_size,num_tensor_parallel_workers\n,0.5,False,4,32,8,4096,0,128,16\n"
        "0.7,,True,1,32,8,4096,64,128,1\n"
    )
    parts = read(tmp_path, text)
    assert parts["decode_attention"].select("heads", "kv_heads", "context_tokens").rows() == [(2, 1, 129)]
    assert parts["prefill_attention"].select("query_tokens", "context_tokens").rows() == [(64, 192)]


DECODING = "dtype,kv_dtype,batch_size,kv_len,latency_us,mfu\nbf16,fp8,4,1024,20,0.1\n"


@pytest.mark.parametrize(
    ("name", "hints", "part", "shape"),
    [
        ("mha_decode_h20_32-8-128.csv", {}, "decode_attention", (32, 8, 128, 128)),
        ("mla_decode_h20_128-512-64.csv", {}, "latent_decode_attention", (128, 1, 576, 512)),
        ("any.csv", {"shape": "16-2-256"}, "decode_attention", (16, 2, 256, 256)),
        ("any.csv", {"shape": "mla-16-512-64"}, "latent_decode_attention", (16, 1, 576, 512)),
        ("mla_decode_h20_128-512-64.csv", {"shape": "16-2-256"}, "decode_attention", (16, 2, 256, 256)),
    ],
)
def test_heads_of_infersim_are_in_the_files_name_or_stated(tmp_path, name, hints, part, shape):
    parts = read(tmp_path, DECODING, name, **hints)
    (row,) = parts.pop(part).iter_rows(named=True)
    assert all(other.height == 0 for other in parts.values())
    assert (row["heads"], row["kv_heads"], row["head_dim"], row["value_dim"]) == shape
    assert (row["kernel"], row["batch"], row["context_tokens"]) == ("fp8 cache", 4, 1024)
    assert row["seconds"] == pytest.approx(2e-5)


def test_a_table_without_headings_is_known_by_its_first_row(tmp_path):
    text = "\n".join(DECODING.splitlines()[1:] * 2)
    assert read(tmp_path, text, "mha_decode_h20_64-2-128.csv")["decode_attention"]["row"].to_list() == [0, 1]


def test_expanded_latent_prompts_have_keys_wider_than_values(tmp_path):
    rows = read(tmp_path, "dtype,seq_len,latency_us,mfu\nbf16,1024,116,0.4\n", "mla_prefill_h800_128-128-64.csv")
    assert rows["prefill_attention"].select("heads", "kv_heads", "head_dim", "value_dim", "device").rows() == [
        (128, 128, 192, 128, "h800")
    ]


def test_layers_named_by_a_profile_take_the_models_shapes(tmp_path):
    model = resolve_model("llama-3.1-8b", Path()).model
    text = "layer,tokens,time_us\nqkv_proj,8,20\ndown_proj,8,30\nlayernorm,8,4\nact_fn,8,5\nembedding,8,1\n"
    parts = read(tmp_path, text, "perf_tp2_dense.csv", model=model)
    assert parts["matmul"].select("m", "n", "k").rows() == [(8, 3072, 4096), (8, 4096, 7168)]
    streams = parts["elementwise"].select("kernel", "width", "tensors", "distinct").rows()
    assert streams == [("norm", 4096, 4.0, 2.0), ("activation", 7168, 3.0, 3.0)]


def test_a_profiles_first_version_is_in_nanoseconds_and_states_its_ranks(tmp_path):
    model = resolve_model("llama-3.1-8b", Path()).model
    lines = ["q_proj,16,0,2,9000", "attn,16,0,2,8000", "attn,1,0,2,7000", "rope,16,0,2,6000", "rope,16,64,2,1"]
    text = "\n".join(["layer_name,input,kv_cache,tp_size,latency(ns)", *lines])
    parts = read(tmp_path, text, model=model)
    assert parts["matmul"].select("m", "n", "k", "seconds").rows() == [(16, 2048, 4096, pytest.approx(9e-6))]
    assert parts["prefill_attention"].select("heads", "kv_heads", "query_tokens").rows() == [(16, 4, 16)]
    assert parts["elementwise"].select("kernel", "width", "launches").rows() == [("rope", 2560, 10.0)]


def test_steps_that_mix_phases_are_left_out(tmp_path):
    model = resolve_model("llama-3.1-8b", Path()).model
    text = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n64,32,0,0,20\n0,0,4,512,10\n64,0,4,512,30\n"
    parts = read(tmp_path, text, model=model)
    assert parts["prefill_attention"].select("row", "query_tokens", "context_tokens").rows() == [(0, 64, 96)]
    assert parts["decode_attention"].select("row", "batch", "context_tokens").rows() == [(1, 4, 512)]


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


def results(*workloads):
    return json.dumps([{"scenario": {"workload": w}, "source": "measured", "time_s": 1e-5} for w in workloads])


def test_own_results_in_formats_are_told_apart(tmp_path):
    product = {"operator": "matmul", "m": 16, "n": 32, "k": 64, "dtype": "bf16", "batch": 1}
    text = results(product, product | {"format": "w4a16"}, product | {"batch": 4}, product | {"dtype": "tf32"})
    assert read(tmp_path, text)["matmul"].select("row", "kernel").rows() == [(0, "16-bit"), (1, "w4a16")]


def test_own_results_of_attention_are_told_apart_by_phase_and_cache(tmp_path):
    sizes = {"batch": 2, "heads": 8, "kv_heads": 8, "head_dim": 64, "context_tokens": 512, "dtype": "bf16"}
    step = {"operator": "attention", **sizes, "query_tokens": 1, "causal": True}
    prompt = step | {"query_tokens": 512}
    latent = step | {"kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": True}
    parts = read(tmp_path, results(step, step | {"kv_dtype": "fp8"}, prompt, prompt | {"window": 9}, latent))
    assert parts["decode_attention"].select("row", "kernel").rows() == [(0, "16-bit cache"), (1, "fp8 cache")]
    assert parts["prefill_attention"].select("row", "value_dim").rows() == [(2, 64)]
    assert parts["latent_decode_attention"].select("row", "head_dim", "value_dim").rows() == [(4, 576, 512)]


def test_own_results_of_streams_move_what_their_kernels_do(tmp_path):
    names = {"norm": "bf16", "gated_activation": "bf16", "copy": "fp32"}
    text = results(*({"operator": name, "elements": 4096, "dtype": dtype} for name, dtype in names.items()))
    rows = read(tmp_path, text)["elementwise"]
    assert rows.select("kernel", "tokens", "tensors").rows() == [
        ("norm", 4096, 2),
        ("activation", 4096, 3),
        ("copy", 4096, 4),
    ]


def test_predictions_are_no_measurements(tmp_path):
    workload = {"operator": "matmul", "m": 16, "n": 32, "k": 64, "dtype": "bf16"}
    with pytest.raises(InputError, match="predicted times"):
        read(tmp_path, json.dumps({"scenario": {"workload": workload}, "source": "predicted", "time_s": 1}), "a.json")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'{path}' is empty"),
        ("m,n,k,latency_us\n", "has no rows"),
        (
            "m,n,latency_us\n1,2,3\n",
            "lacks the column k; nearest format: InferSim gemm, which needs m, n, k, latency_us",
        ),
        ("a,b\n1,2\n", "known formats: AIConfigurator gemm"),
        ("m,n,k,latency_us\n8,8,8,abc\n", "line 2: latency_us is 'abc'; allowed: a time above 0"),
        ("m,n,k,latency_us\n8,8,8,1\n8,8,8,nan\n", "line 3: latency_us is 'nan'"),
        ("m,n,k,latency_us\n8,8,8,0\n", "latency_us is '0'"),
        (
            "m,n,k,latency_us\n8,8,8,-2\n8,8,8,-3\n",
            "latency_us is '-2'; allowed: a time above 0 (and 1 more rows)",
        ),
        ("m,n,k,latency_us\n8,8,,1\n", "line 2: k is empty; allowed: a number of at least 1"),
        ("m,n,k,latency_us\n0,8,8,1\n", "m is '0'"),
        ("gemm_dtype,m,n,k,latency\nfp7,8,8,8,1\n", "gemm_dtype is 'fp7'; allowed: bfloat16"),
        ("[{", "cannot read '{path}': not valid JSON at line 1"),
        ('{"m": "\\ud800"}', "cannot read '{path}': not valid JSON"),
        (
            '{"scenario": {"workload": {"operator": "matmul"}}, "time_s": 1}',
            "'{path}' has no column scenario.workload.dtype",
        ),
        ("gemm_dtype,m,n,k,latency\n" + "f" * 9999 + ",8,8,8,1\n", "; allowed: bfloat16"),
        (DECODING, "--shape to HEADS-KV_HEADS-HEAD_DIM such as 32-8-128"),
        (
            "layer,tokens,time_us\nact_fn,1,2\n",
            "--model NAME",
        ),
    ],
)
def test_wrong_tables_end_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert sentence.replace("{path}", str(tmp_path / "table.csv")) in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 2000


def test_columns_of_parquet_that_hold_no_words_or_numbers_are_none(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"gemm_dtype": ["fp8"], "m": [[8]], "n": [16], "k": [32], "latency": [0.5]}).write_parquet(path)
    assert "m" not in open_table(path).columns


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        ("a.csv", "32x8x128", "--shape to HEADS-KV_HEADS-HEAD_DIM such as 32-8-128"),
        ("a.csv", "32-0-128", "shape 32-0-128 contains 0"),
        ("dsa_decode_h800_attn-128-576-2048.csv", "", "sparse attention"),
    ],
)
def test_wrong_shapes_end_in_one_sentence(tmp_path, name, shape, sentence):
    with pytest.raises(InputError) as error:
        read(tmp_path, DECODING, name, shape=shape)
    assert sentence in str(error.value)
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
