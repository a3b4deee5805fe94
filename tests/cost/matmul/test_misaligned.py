"""Products whose rows start off 16 bytes: their operands load slowly, their arithmetic takes as long as ever."""

from types import SimpleNamespace

import numpy as np
import pytest

from sightline.cost.matmul import load_matmul, matmul_cost
from sightline.loading.clusters import read_cluster
from sightline.prediction.training.priced import price
from sightline.program import Matmul

A100, RTX_4090 = (read_cluster(f"1x {name}").device for name in ("a100-sxm-80gb", "rtx-4090"))
FAMILIES = ("a100-sxm", "a800-sxm", "a40", "rtx-3090", "rtx-4090")


def seconds(m, n, k, batch=1, device=A100, family="a100-sxm", older=False):
    sizes = {"m": m, "n": n, "k": k, "batch": batch, "row": k, "dtype": "bf16"}
    moved = 2.0 * batch * (m * k + k * n + m * n)
    product = SimpleNamespace(**sizes, element_bytes=2.0, weight_bytes=None, flops=2.0 * m * n * k * batch, bytes=moved)
    constants = load_matmul(family).without_surface()
    return matmul_cost(product, device, constants.of_older_library(device) if older else constants).time_s


@pytest.mark.parametrize(("width", "measured_us"), [(64, 729.9), (80, 864.5), (88, 938.8)])
def test_products_of_eager_attention_over_an_odd_sequence_take_what_was_measured(width, measured_us):
    # facebookresearch/xformers#479: 1,024 heads on A100, forward; softmax and scaling take 210 us.
    products = seconds(197, 197, width, 1024) + seconds(197, width, 197, 1024)
    assert 1e6 * products + 210 == pytest.approx(measured_us, rel=0.28)


@pytest.mark.parametrize(("side", "measured"), [(2055, 115.6e12), (2057, 106.8e12), (2071, 110.9e12), (2073, 112.0e12)])
def test_large_products_of_odd_sides_lose_a_third(side, measured):
    # pytorch/pytorch#181718, where the aligned side of 2,040 reaches 156 TFLOP/s.
    rate = 2.0 * side**3 / seconds(side, side, side, device=RTX_4090, family="rtx-4090")
    assert rate == pytest.approx(measured, rel=0.18)


def test_a_padded_vocabulary_of_gpt_2_halves_the_time_of_its_head():
    # nanoGPT: 25 % faster steps, of which the head is about a quarter.
    assert 1.7 < seconds(12288, 50257, 768) / seconds(12288, 50304, 768) < 2.5


def test_older_libraries_are_slower_and_aligned_products_the_same():
    for sequence in (197, 350, 588):
        assert seconds(sequence, sequence, 64, 1024, older=True) > seconds(sequence, sequence, 64, 1024)
    # facebookresearch/xformers#434 measured 1,731 us with the softmax between them.
    old = seconds(197, 197, 64, 1024, older=True) + seconds(197, 64, 197, 1024, older=True)
    assert 1e6 * old + 170 == pytest.approx(1731, rel=0.15)
    for side in (64, 192, 4096):
        assert seconds(side, side, side, older=True) == seconds(side, side, side)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_less_a_row_is_aligned_the_longer_a_product_takes(family):
    odd, even, fours, eights = (seconds(n, n, 128, 512, family=family) for n in (1027, 1026, 1028, 1032))
    assert odd > even > fours >= 0.97 * eights
    both = seconds(np.array([1027.0, 1032.0]), np.array([1027.0, 1032.0]), 128.0, 512.0, family=family)
    assert both == pytest.approx([odd, eights])


def test_releases_before_mid_2022_have_the_older_library():
    from training_scenarios import training

    def core_s(framework: str, version: str) -> float:
        plan = {
            "framework": framework,
            "framework_version": version,
            "micro_batch": 1,
            "attention": "eager",
            "dtype": "fp16",
        }
        priced = price(training(model="gpt-1.3b", cluster="1x a100-sxm-80gb", sequence_length=350, plan=plan))
        products = [op for op in priced.program.layers[0].forward if isinstance(op, Matmul) and op.part == "scores"]
        return float(priced.prices[id(products[0])].time_s / priced.constants.matmul_slowdown)

    assert core_s("megatron-deepspeed", "2021") > 1.3 * core_s("deepspeed", "0.15")
    assert core_s("megatron-deepspeed", "2023") == core_s("deepspeed", "0.15")
