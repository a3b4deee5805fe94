"""Rooflines: the roofs are those of the types that a plan computes in, and no operator stands above them."""

from functools import cache

import pytest
from chart_answers import GENERATION
from drawn_charts import texts

import sightline as sl
from sightline.charts.index import chart_of
from sightline.charts.rendering import data_of
from sightline.charts.rooflines import roofs_of


def trained(device, dtype):
    workload = {"task": "pretrain", "sequence_length": 2048, "global_batch": 32}
    plan = {"framework": "megatron", "tensor_parallel": 2, "micro_batch": 1, "dtype": dtype}
    return sl.predict(sl.load({"model": "llama-2-7b", "cluster": f"8x {device}", "workload": workload, "plan": plan}))


def generated(device, **plan):
    mapping = GENERATION | {"cluster": f"2x {device}", "plan": GENERATION["plan"] | plan}
    return sl.predict(sl.load(mapping))


MADE = {
    "bf16": (lambda: trained("a100-sxm-80gb", "bf16"), ["bf16 peak 312 TFLOP/s"]),
    "mxfp8": (lambda: trained("b200-sxm-180gb", "mxfp8"), ["fp8 peak 4.5 PFLOP/s"]),
    "nvfp4": (lambda: trained("b200-sxm-180gb", "nvfp4"), ["nvfp4 peak 9 PFLOP/s"]),
    "fp8 weights": (
        lambda: generated("rtx-4090", quantization="fp8"),
        ["bf16 peak 165 TFLOP/s", "fp8 peak 330 TFLOP/s"],
    ),
    "w8a8": (
        lambda: generated("a100-sxm-80gb", quantization="w8a8"),
        ["bf16 peak 312 TFLOP/s", "int8 peak 624 TFLOP/s"],
    ),
    "w4a16": (lambda: generated("a100-sxm-80gb", quantization="w4a16"), ["bf16 peak 312 TFLOP/s"]),
}


@cache
def answer(name):
    return MADE[name][0]()


@pytest.mark.parametrize("name", MADE)
def test_peaks_are_those_of_the_types_that_the_plan_computes_in(name):
    shown = [text for text in texts(chart_of("roofline", answer(name))) if " peak " in text]
    assert sorted(shown) == sorted(MADE[name][1])


@pytest.mark.parametrize("name", MADE)
def test_no_operator_stands_above_the_roof(name):
    profile = answer(name)
    rates = profile.scenario.cluster.device.peak_flops
    shown = [text.split()[0] for text in texts(chart_of("roofline", profile)) if " peak " in text]
    steepest = max(roof.bytes_per_s for roof in roofs_of(profile))
    points = [row for row in data_of(chart_of("roofline", profile)) if "operator" in row]
    assert points
    for row in points:
        roof = min(max(rates[dtype] for dtype in shown), row["flop_per_byte"] * steepest)
        assert row["flop_per_s"] <= 1.001 * roof, row
