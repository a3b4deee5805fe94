"""Fits of matmul and attention constants: they find what a table was made with, and rewrite what is shipped."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import Range, fit_constants, left_out, ranges_of, share_of
from sightline.calibration.manifest import samples
from sightline.calibration.parts.attention import AttentionTable
from sightline.calibration.parts.matmul import (
    MatmulTable,
    fit_matmul,
    fit_matmul_surface,
    fit_small_matmul,
    held_out,
    next_in_line,
    possible,
    predicted_seconds,
    residuals_by_range,
    training_sized,
)
from sightline.calibration.parts.serving_attention import ServingAttentionTable
from sightline.catalog import entry
from sightline.cost.matmul import MatmulConstants, load_matmul
from sightline.loading.clusters import read_cluster

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")
with_tables = pytest.mark.skipif(
    not (DATA / "aiconfigurator").is_dir(), reason=f"no public tables in {DATA}; SIGHTLINE_DATA names their folder"
)
A100 = read_cluster("1x a100-sxm-80gb").device
GIVEN = {
    key: entry("calibrations", "a100-sxm/matmul")["kernels"]["16-bit"]["constants"][key]
    for key in ("tiles", "misaligned_slowdown")
}


def gemm(file, kernel="16-bit"):
    return MatmulTable.of(samples(DATA, "matmul", {"files": [f"aiconfigurator/{file}"], "only": {"kernel": kernel}}))


def table_of(seconds, sizes=(256, 1024, 1536, 4096, 8192, 12288), rows=(64, 512, 1024, 2048, 8192)):
    m, n, k = (x.ravel().astype(float) for x in np.meshgrid(rows, sizes, sizes))
    table = MatmulTable(m=m, n=n, k=k, weight_copies=np.full_like(m, np.inf), seconds=np.ones_like(m))
    return dataclasses.replace(table, seconds=seconds(table))


def test_a_fit_finds_the_constants_behind_clean_times():
    sizes = np.linspace(1, 50, 40)
    ranges = {"rate": Range(low=0.1, starts=(1.0, 30.0), high=100.0), "start": Range(low=0.0, starts=(1.0,), high=20.0)}
    fitted = fit_constants(lambda c: c["start"] + sizes / c["rate"], 5.0 + sizes / 7.0, ranges)
    assert fitted["rate"] == pytest.approx(7.0, rel=0.02)
    assert fitted["start"] == pytest.approx(5.0, rel=0.02)


def test_a_few_wild_measurements_do_not_move_a_fit():
    sizes = np.linspace(1, 50, 40)
    seconds = 5.0 + sizes / 7.0
    seconds[::10] *= 2
    ranges = {"rate": Range(low=0.1, starts=(10.0,), high=100.0), "start": Range(low=0.0, starts=(1.0,), high=20.0)}
    fitted = fit_constants(lambda c: c["start"] + sizes / c["rate"], seconds, ranges)
    assert fitted["rate"] == pytest.approx(7.0, rel=0.08)


def test_matmul_times_made_with_other_constants_are_found_again():
    made_with = MatmulConstants.from_mapping(
        {
            **entry("calibrations", "a100-sxm/matmul")["kernels"]["16-bit"]["constants"],
            "peak_fraction": 0.7,
            "memory_fraction": 0.6,
        }
    )
    table = table_of(lambda t: predicted_seconds(t, A100, made_with))
    result = fit_matmul(table, A100, GIVEN)
    assert result.residuals["m >= 16"]["median"] < 0.02
    assert result.constants["peak_fraction"] == pytest.approx(0.7, rel=0.05)


def test_whole_families_are_held_out_and_impossible_times_left_aside():
    table = table_of(lambda t: np.full(len(t), 1e-2))
    test = held_out(table)
    families = {(n, k): set() for n, k in zip(table.n, table.k, strict=True)}
    for n, k, out in zip(table.n, table.k, test, strict=True):
        families[n, k].add(bool(out))
    assert all(len(sides) == 1 for sides in families.values())
    assert 0 < test.mean() < 0.5
    assert possible(table, A100).all()
    assert not possible(table_of(lambda t: np.full(len(t), 1e-9)), A100).any()


def test_fixed_shares_spread_evenly():
    shares = share_of([f"{i}" for i in range(4000)])
    assert np.histogram(shares, 4, (0, 1))[0] == pytest.approx([1000] * 4, rel=0.1)


def test_ranges_of_a_manifest_are_those_of_constants_that_are_fitted():
    stated = {"rate": [0.1, [1.0, 30.0], 100.0], "start": [0.0, 1.0, 20.0], "never": None, "given": [0.0, 1.0, 2.0]}
    rate, start = Range(low=0.1, starts=(1.0, 30.0), high=100.0), Range(low=0.0, starts=(1.0,), high=20.0)
    assert ranges_of(stated, {"given": 1.5}) == {"rate": rate, "start": start}


def test_a_group_is_predicted_by_a_fit_that_has_not_seen_it():
    table = table_of(lambda t: t.m)
    unseen = left_out(
        table, table.n, lambda rest: {"seen": set(rest.n)}, lambda part, c: [n not in c["seen"] for n in part.n]
    )
    assert unseen.all()


def test_error_statistics_are_what_they_say():
    found = error_statistics(np.array([1.1, 0.8, 1.0, 1.3]), np.ones(4))
    assert found == {"rows": 4, "median": 0.15, "mean": 0.15, "p90": 0.27, "bias": 0.05}


@with_tables
@pytest.mark.parametrize(
    ("family", "file"),
    [("a100-sxm", "gemm_a100_sxm_trtllm-1.0.0.csv"), ("h100-sxm", "gemm_h100_sxm_trtllm-1.2.0rc5.csv")],
)
def test_errors_on_families_no_fit_has_seen_are_those_that_are_shipped(family, file):
    device = read_cluster(f"1x {family}-80gb").device
    table = gemm(file)
    table = table.where(possible(table, device))
    table = table.where(held_out(table))
    assert training_sized(table).sum() > 400
    found = residuals_by_range(table, predicted_seconds(table, device, load_matmul(family).without_surface()))
    assert found == entry("calibrations", f"{family}/matmul")["kernels"]["16-bit"]["residuals"]


@with_tables
@pytest.mark.parametrize(
    ("family", "kernel", "device", "file", "median", "p90"),
    [
        ("a100-sxm", "16-bit", "a100-sxm-80gb", "gemm_a100_sxm_trtllm-1.0.0.csv", 0.03, 0.09),
        ("h100-sxm", "16-bit", "h100-sxm-80gb", "gemm_h100_sxm_trtllm-1.2.0rc5.csv", 0.03, 0.10),
        ("h100-sxm", "fp8", "h100-sxm-80gb", "gemm_h100_sxm_trtllm-1.2.0rc5.csv", 0.03, 0.09),
        ("h200-sxm", "16-bit", "h200-sxm-141gb", "gemm_h200_sxm_trtllm-1.2.0rc5.csv", 0.03, 0.09),
        ("h200-sxm", "fp8", "h200-sxm-141gb", "gemm_h200_sxm_trtllm-1.2.0rc5.csv", 0.03, 0.09),
        (
            "b200-sxm",
            "16-bit",
            "b200-sxm-180gb",
            "gemm_b200_sxm_trtllm-1.2.0rc5_bf16_fp8.csv",
            0.035,
            0.11,
        ),
        ("b200-sxm", "fp8", "b200-sxm-180gb", "gemm_b200_sxm_trtllm-1.2.0rc5_bf16_fp8.csv", 0.03, 0.09),
    ],
)
def test_shipped_constants_with_their_surface_match_silicon(family, kernel, device, file, median, p90):
    silicon = read_cluster(f"1x {device}").device
    table = gemm(file, kernel)
    table = table.where(possible(table, silicon, kernel))
    predicted = predicted_seconds(table, silicon, load_matmul(family, kernel), kernel)
    found = error_statistics(predicted, table.seconds)
    assert found["median"] < median
    assert found["p90"] < p90


def test_a_small_table_moves_a_relatives_constants_only_as_far_as_it_shows():
    relative = entry("calibrations", "a100-sxm/matmul")["kernels"]["16-bit"]["constants"]
    made_with = MatmulConstants.from_mapping({**relative, "memory_fraction": 0.7})
    table = table_of(lambda t: predicted_seconds(t, A100, made_with), sizes=(4096, 8192), rows=(1, 4, 16, 64))
    fitted = fit_small_matmul(table, A100, relative)
    assert fitted.constants["memory_fraction"] == pytest.approx(0.7, rel=0.03)
    assert fitted.constants["split_k"] == relative["split_k"]
    assert fitted.residuals["all"]["median"] < 0.02


def test_layers_of_a_model_are_matmuls_with_their_shapes(tmp_path):
    header = "n_head,n_kv_head,n_embd,n_expanded_embd,num_tokens,num_tensor_parallel_workers"
    layers = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
    times = ",".join(f"time_stats.{layer}.median" for layer in layers)
    path = tmp_path / "mlp.csv"
    path.write_text(f"{header},{times}\n64,8,8192,28672,16,2,0.1,0.2,0.3,0.4\n")
    table = MatmulTable.of(samples(tmp_path, "matmul", {"files": [path.name]}))
    assert table.n.tolist() == [5120, 8192, 28672, 8192]
    assert table.k.tolist() == [8192, 4096, 8192, 14336]
    assert table.seconds == pytest.approx([1e-4, 2e-4, 3e-4, 4e-4])


def test_a_surface_takes_away_what_varies_smoothly_and_only_there():
    table = table_of(lambda t: predicted_seconds(t, A100, load_matmul("a100-sxm").without_surface()))
    slower = dataclasses.replace(table, seconds=table.seconds * (table.m / 512) ** 0.05)
    surface, residuals = fit_matmul_surface(slower, A100, load_matmul("a100-sxm").without_surface())
    assert residuals["in range"]["median"] < 0.01
    assert surface.factor(8192, 4096, 4096) > 1.05
    assert surface.factor(8192 * 4, 4096, 4096) == pytest.approx(1.0)


def test_rows_beyond_whole_blocks_are_corrected_apart_where_a_dense_table_tells_them(monkeypatch):
    monkeypatch.setattr("sightline.calibration.parts.matmul.DENSE_ROWS", 100)
    monkeypatch.setattr("sightline.calibration.parts.matmul.DENSE_KNOTS", (7, 4, 4))
    constants = load_matmul("a100-sxm").without_surface()
    table = table_of(lambda t: predicted_seconds(t, A100, constants), rows=(64, 65, 512, 513, 1024, 1025, 2048, 2049))
    cheaper = dataclasses.replace(table, seconds=table.seconds * np.where(table.m % 2, 0.9, 1.0))
    surface, _ = fit_matmul_surface(cheaper, A100, constants)
    corrected = dataclasses.replace(constants, surface=surface)
    assert surface.kinds == 2
    assert corrected.correction(1025.0, 4096.0, 4096.0) == pytest.approx(0.9, rel=0.02)
    assert corrected.correction(1024.0, 4096.0, 4096.0) == pytest.approx(1.0, rel=0.02)
    assert constants.correction(1024.0, 4096.0, 4096.0) == 1.0


def test_the_next_quarter_of_families_is_neither_held_out_nor_half_of_the_rest():
    table = table_of(lambda t: t.m, sizes=tuple(range(256, 256 * 30, 256)), rows=(64,))
    near = next_in_line(table)
    assert not (near & held_out(table)).any()
    assert 0.15 < near.sum() / (~held_out(table)).sum() < 0.35


@with_tables
def test_attention_tables_are_read_in_seconds():
    charts = {"files": ["flash_attention_tflops.csv"], "where": {"gpu": "A100*", "implementation": "FlashAttention2"}}
    bars = AttentionTable.of(samples(DATA, "attention", charts))
    widest = (bars.head_dim == 64) & ~bars.causal & (bars.query_tokens == 8192)
    assert bars.seconds[widest] == pytest.approx([3.5 * 4 * 2 * 32 * 8192**2 * 64 / 175e12])
    context = {"files": ["aiconfigurator/attn_context_a100_sxm_trtllm-1.0.0.csv"]}
    prompts = ServingAttentionTable.of(samples(DATA, "prefill_attention", context))
    assert len(prompts) > 4000
    assert (prompts.seconds > 1e-6).all()
    assert (prompts.seconds < 1).all()
