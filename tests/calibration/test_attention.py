"""Engines' attention: tables read in SI units, fits that find what made the times, errors on shapes left out."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline.calibration.manifest import device_of, samples
from sightline.calibration.parts import PARTS
from sightline.calibration.parts.serving_attention import (
    Kernel,
    ServingAttentionTable,
    fit_kernel,
    head_shapes,
    measured_families,
)
from sightline.calibration.readers.raw_table import NO_WINDOW
from sightline.catalog import entry
from sightline.loading.clusters import read_cluster

DATA = Path(os.environ.get("SIGHTLINE_DATA", Path(__file__).parents[3] / "shared" / "data"))
PREFILL, DECODE, LATENT = (
    measured_families(part) for part in ("prefill_attention", "decode_attention", "latent_decode_attention")
)
PART = PARTS["decode_attention"]
with_data = pytest.mark.skipif(not (DATA / "infersim").is_dir(), reason="needs the public tables")


def made_up(decode: bool) -> ServingAttentionTable:
    """Shapes without times."""
    batch, context, heads = (
        x.ravel().astype(float) for x in np.meshgrid([1, 4, 16, 64], [128, 512, 2048, 8192], [8, 16, 32], indexing="ij")
    )
    one = np.ones_like(batch)
    return ServingAttentionTable(
        batch=batch,
        heads=heads,
        kv_heads=heads / 4,
        head_dim=128 * one,
        value_dim=128 * one,
        query_tokens=one if decode else context,
        context_tokens=context,
        kv_bytes=2 * one,
        window=NO_WINDOW * one,
        seconds=one,
    )


@pytest.mark.parametrize("measured", [PREFILL["h800-sxm"], DECODE["h800-sxm"]], ids=["prefill", "decode"])
def test_a_fit_predicts_shapes_it_did_not_see(measured):
    kernel: Kernel = measured.kernel
    truth = {**kernel.given, **{name: 1.15 * p.value for name, p in kernel.priors.items() if name not in kernel.given}}
    truth["latency_s"], device = 1.1e-5, device_of("h800-sxm")
    table = made_up(kernel.decode)
    table = replace(table, seconds=kernel.predict(table, device, truth))
    residuals = fit_kernel(table, device, kernel).residuals
    assert residuals["formula"]["median"] < 0.02
    assert residuals["head shapes left out, formula"]["median"] < 0.03


def test_a_header_may_be_missing_and_the_name_holds_the_shape(tmp_path):
    path = tmp_path / "mla_decode_x_128-512-64.csv"
    path.write_text("bf16,fp8,16,4096,84.5,0.1\nbf16,bf16,32,4096,86,0.1", encoding="utf-8")
    table = ServingAttentionTable.of(samples(tmp_path, "latent_decode_attention", {"files": [path.name]}))
    assert table.seconds == pytest.approx([84.5e-6, 86e-6])
    assert table.kv_bytes.tolist() == [1, 2]
    assert (table.heads[0], table.kv_heads[0], table.head_dim[0], table.value_dim[0]) == (128, 1, 576, 512)


def measured_rows(table: ServingAttentionTable):
    """Rows as ``sightline calibrate`` reads them out of anybody's table."""
    import polars as pl

    sizes = (
        "batch",
        "heads",
        "kv_heads",
        "head_dim",
        "value_dim",
        "query_tokens",
        "context_tokens",
        "seconds",
        "window",
    )
    return pl.DataFrame({**{name: getattr(table, name) for name in sizes}, "kernel": "16-bit cache"})


def test_anybodys_table_gives_constants_without_touching_the_shipped_ones():
    cluster = read_cluster("8x h800-sxm-80gb")
    table = made_up(True)
    shipped = entry("calibrations", "h800-sxm/decode_attention")["constants"]
    slower = replace(table, seconds=2 * DECODE["h800-sxm"].kernel.predict(table, cluster.device, shipped))
    rows = measured_rows(slower)
    result = PART.fit(rows, cluster)
    assert result.residuals["decode_attention"]["formula"]["median"] < 0.1
    assert result.constants["decode_attention"]["row_block"] == shipped["row_block"]
    assert "surface" not in result.content["constants"]
    assert (PART.bound(rows, cluster) < slower.seconds).all()


@pytest.mark.slow
def test_a_large_table_of_many_heads_gives_a_surface():
    cluster = read_cluster("8x h800-sxm-80gb")
    shipped = entry("calibrations", "h800-sxm/decode_attention")["constants"]
    batch, context, heads, ratio = (
        x.ravel().astype(float)
        for x in np.meshgrid(2.0 ** np.arange(9), 2.0 ** np.arange(6, 16), [8, 16, 24, 32, 48, 64], [1, 2, 4, 8])
    )
    one = np.ones_like(batch)
    table = ServingAttentionTable(
        batch=batch,
        heads=heads,
        kv_heads=heads / ratio,
        head_dim=128 * one,
        value_dim=128 * one,
        query_tokens=one,
        context_tokens=context,
        kv_bytes=2 * one,
        window=NO_WINDOW * one,
        seconds=one,
    )
    slower = np.where(context > 1000, 1.3, 1.0)  # an engine that takes another kernel for long contexts
    table = replace(table, seconds=slower * DECODE["h800-sxm"].kernel.predict(table, cluster.device, shipped))
    result = PART.fit(measured_rows(table), cluster)
    residuals = result.residuals["decode_attention"]
    assert result.content["constants"]["surface"]["over"] == ["tiles", "context", "kv_heads"]
    assert residuals["head shapes left out"]["mean"] < residuals["head shapes left out, formula"]["mean"]


@with_data
@pytest.mark.parametrize(
    ("part", "measured", "family", "bound"),
    [
        ("prefill_attention", PREFILL, "a100-sxm", 0.015),
        ("prefill_attention", PREFILL, "h20", 0.05),
        ("prefill_attention", PREFILL, "rtx-4090", 0.04),
        ("decode_attention", DECODE, "a100-sxm", 0.02),
        ("decode_attention", DECODE, "h100-sxm", 0.02),
        ("decode_attention", DECODE, "h800-sxm", 0.03),
        ("latent_decode_attention", LATENT, "h800-sxm", 0.06),
        ("latent_decode_attention", LATENT, "h20", 0.06),
    ],
)
def test_shipped_constants_match_their_tables(part, measured, family, bound):
    one = measured[family]
    table = ServingAttentionTable.of(samples(DATA, part, one.tables))
    error = one.kernel.predict(table, device_of(family), entry("calibrations", f"{family}/{part}")["constants"])
    assert np.median(np.abs(error / table.seconds - 1)) < bound


@with_data
def test_shapes_are_whole_triples():
    shapes = head_shapes(ServingAttentionTable.of(samples(DATA, "decode_attention", DECODE["h800-sxm"].tables)))
    assert set(shapes) == {"128-2-128", "16-2-128", "256-2-128", "32-2-128", "32-4-128", "32-8-128", "64-2-128"}
