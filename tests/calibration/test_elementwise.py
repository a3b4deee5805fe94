"""Fits of bandwidth-bound kernels: they find what a table was made with, and rewrite what is shipped."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import by_kernel
from sightline.calibration.manifest import manifest, samples
from sightline.calibration.parts.elementwise import ElementwiseTable, fit_elementwise, predicted_seconds
from sightline.cost.elementwise import ElementwiseConstants, load_elementwise
from sightline.loading.clusters import read_cluster

DATA = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data")
with_tables = pytest.mark.skipif(
    not (DATA / "vidur").is_dir(), reason=f"no public tables in {DATA}; SIGHTLINE_DATA names their folder"
)
A100 = read_cluster("1x a100-sxm-80gb").device


def table_of(seconds=None):
    traffic, width, one = np.repeat(np.logspace(4, 9, 40), 2), np.tile([4096.0, 8192.0], 40), np.ones(80)
    table = ElementwiseTable(
        tokens=traffic / (2 * width),
        width=width,
        tensors=one,
        distinct=one,
        launches=one,
        launch_s=np.zeros(80),
        seconds=one,
    )
    return table if seconds is None else replace(table, seconds=seconds(table))


def kernels(tables):
    rows = by_kernel(samples(DATA, "elementwise", tables))
    return {kind: ElementwiseTable.of(part) for kind, part in rows.items()}


def test_a_fit_finds_the_constants_behind_clean_times():
    truth = ElementwiseConstants(memory_fraction=0.4, cache_gain=0.6, vector_fraction=0.25, kernel_latency_s=3e-6)
    result = fit_elementwise(table_of(lambda t: predicted_seconds(t, A100, truth)), A100)
    assert result.constants["memory_fraction"] == pytest.approx(0.4, rel=0.02)
    assert result.constants["cache_gain"] == pytest.approx(0.6, rel=0.05)
    assert result.constants["kernel_latency_s"] == pytest.approx(3e-6, rel=0.02)
    assert result.residuals["width left out"]["median"] < 0.01


def test_what_is_given_is_not_fitted():
    truth = ElementwiseConstants(memory_fraction=0.4, cache_gain=1.0, vector_fraction=0.25, kernel_latency_s=3e-6)
    table = table_of(lambda t: predicted_seconds(t, A100, truth))
    assert fit_elementwise(table, A100, {"memory_fraction": 0.8}).constants["memory_fraction"] == 0.8


def test_a_launch_adds_to_the_kernel():
    constants = ElementwiseConstants(memory_fraction=0.9, cache_gain=1.0, vector_fraction=0.25, kernel_latency_s=3e-6)
    table = table_of()
    launched = replace(table, launch_s=np.full(80, 2e-5))
    assert predicted_seconds(launched, A100, constants) == pytest.approx(
        predicted_seconds(table, A100, constants) + 2e-5
    )


@with_tables
def test_profiles_are_read_with_their_units():
    profile = ["vidur/a100_Llama-2-7b-hf_mlp.csv"]
    table = kernels({"files": profile})
    large = table["norm"].size == 4096 * 4096 * 2 * 2
    assert np.median(table["norm"].seconds[large]) == pytest.approx(100e-6, rel=0.06)
    assert len(kernels({"files": profile * 2})["norm"]) == 2 * len(table["norm"])
    families = manifest("elementwise")["families"]
    gelu = kernels(families["a100-sxm"]["vectorized"]["tables"][0])["activation"]
    assert gelu.seconds[np.argmax(gelu.size)] == pytest.approx(33554432 / 277.04e9, rel=1e-3)
    amd = kernels(families["mi210"]["vectorized"]["tables"][0])["activation"]
    assert amd.size.max() == 2 * 4 * 536870912  # fp32, where A100's are of 16 bits
    assert amd.launch_s == pytest.approx(21e-6 - 2.5e-6)  # of which the kernel itself takes 2.5 us
    assert not gelu.launch_s.any()


@with_tables
@pytest.mark.parametrize(
    ("family", "profile"), [("a100-sxm", "a100_Llama-2-70b-hf"), ("h100-sxm", "h100_Llama-2-7b-hf")]
)
@pytest.mark.parametrize("kind", ["norm", "rope", "activation", "residual", "embedding"])
def test_profiles_are_predicted(family, profile, kind):
    table = kernels({"files": [f"vidur/{profile}_mlp.csv"]})[kind]
    device = read_cluster(f"1x {family}-80gb").device
    errors = error_statistics(predicted_seconds(table, device, load_elementwise(family)[kind]), table.seconds)
    assert errors["median"] < 0.15
    assert abs(errors["bias"]) < 0.12
