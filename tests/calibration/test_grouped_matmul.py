"""Fits of grouped matmuls: they find what a table was made with, and rewrite what is shipped."""

import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.manifest import samples
from sightline.calibration.parts.grouped import GroupedTable, fit_grouped, grouped_table, predicted_seconds
from sightline.cost.grouped_matmul import load_grouped
from sightline.loading.clusters import read_cluster

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")
with_tables = pytest.mark.skipif(
    not (DATA / "infersim").is_dir(), reason=f"no public tables in {DATA}; SIGHTLINE_DATA names their folder"
)
H800 = read_cluster("1x h800-sxm-80gb").device


def test_a_fit_finds_the_constants_behind_clean_times():
    rows, experts = (x.ravel().astype(float) for x in np.meshgrid([64, 256, 1024, 8192, 65536], [4, 16, 64, 256]))
    shape = {"rows": np.tile(rows, 2), "active": np.tile(np.minimum(experts, rows), 2)}
    n, k, family = (np.repeat(x, len(rows)) for x in ([4096.0, 7168.0], [7168.0, 2048.0], [1.0, 1.0]))
    table = GroupedTable(seconds=np.ones(2 * len(rows)), family=family, n=n, k=k, **shape)
    truth = load_grouped("h800-sxm", "fp8-block", "masked")[0]
    result = fit_grouped(replace(table, seconds=predicted_seconds(table, H800, truth)), H800, "masked")
    for name in ("peak_fraction", "memory_fraction", "tile_overhead_k"):
        assert result.constants[name] == pytest.approx(asdict(truth)[name], rel=0.05)


@with_tables
@pytest.mark.parametrize(("family", "device", "table"), [("h20", "h20", "h20"), ("h800-sxm", "h800-sxm-80gb", "h800")])
@pytest.mark.parametrize(("layout", "phase", "median"), [("masked", "decode", 0.08), ("contiguous", "prefill", 0.04)])
def test_experts_are_predicted(family, device, table, layout, phase, median):
    on = read_cluster(f"1x {device}").device
    rows = grouped_table(samples(DATA, "grouped", {"files": [f"infersim/grouped_gemm_{phase}_{table}_data.csv"]}), on)
    predicted = predicted_seconds(rows, on, load_grouped(family, "fp8-block", layout)[0])
    errors = error_statistics(predicted, rows.seconds)
    assert errors["median"] < median
    assert abs(errors["bias"]) < 0.03
