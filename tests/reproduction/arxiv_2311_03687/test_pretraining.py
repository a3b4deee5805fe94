"""Findings on pre-training: numbers follow the predictions of the frameworks, rows, platforms and batches they name."""

from types import SimpleNamespace

import pytest

from sightline.reproduction.arxiv_2311_03687 import training_findings
from sightline.reproduction.arxiv_2311_03687.settings import A800, RTX_3090, RTX_4090


class Told:
    """Answers every scenario by its platform and plan."""

    small = False

    def __init__(self, rate=lambda platform, plan: 1.0, most=lambda platform, plan: 1, gib=lambda platform, plan: 1.0):
        self.rate, self.most, self.gib = rate, most, gib

    def profile(self, scenario):
        platform, plan = scenario["cluster"], scenario["plan"]
        return SimpleNamespace(
            tokens_per_s=self.rate(platform, plan),
            fits=plan["micro_batch"] <= self.most(platform, plan),
            memory_bytes={"total": self.gib(platform, plan) * 2**30},
        )


def is_megatron(plan):
    return plan["framework"] == "megatron"


def test_frameworks_are_compared_at_batch_1_of_each_kind(ours):
    def rate(_, plan):
        return 100.0 + plan["micro_batch"] if is_megatron(plan) else 50.0 if plan["zero_stage"] else 100.0

    assert ours(training_findings.a5, Told(rate, most=lambda *_: 8)) == pytest.approx([1.01, 1.08, 2.02, 2.16])


def test_frameworks_are_compared_at_the_largest_batch_that_fits_each(ours):
    def most(_, plan):
        return 4 if is_megatron(plan) else 16 if plan["zero_stage"] else 8

    told = Told(rate=lambda _, plan: float(plan["micro_batch"]), most=most)
    assert ours(training_findings.a6, told) == [2.0, 4.0]
    assert "at batch 8, Megatron-LM" in training_findings.a6(told)[0].sentence


def test_memory_is_that_of_deepspeed_over_that_of_megatron(ours):
    def gib(_, plan):
        return 10.0 + plan["micro_batch"] if is_megatron(plan) else 9.0 if plan["zero_stage"] else 36.0

    told = Told(gib=gib)
    assert ours(training_findings.a7, told) == pytest.approx([2.0, 36 / 74, 0.5, 9 / 74])


@pytest.mark.parametrize(("fitting", "share"), [((), 1.0), ((RTX_4090,), 0.5), ((RTX_4090, RTX_3090), 0.0)])
def test_a_card_on_which_it_fits_contradicts_out_of_memory(ours, fitting, share):
    assert ours(training_findings.a8, Told(most=lambda platform, _: platform in fitting)) == [share]


def test_the_best_row_of_each_platform_is_compared_but_for_4_bit_weights(ours):
    def rate(platform, plan):
        speed = {A800: 60.0, RTX_4090: 3.0, RTX_3090: 2.0}[platform] * plan["micro_batch"]
        return 100 * speed if "quantization" in plan else speed / 2 if "recompute" in plan else speed

    told = Told(rate, most=lambda platform, _: 4 if platform == A800 else 2)
    assert ours(training_findings.a9, told) == pytest.approx([20.0, 40.0, 30.0, 60.0])


def test_cards_with_4_bit_weights_are_compared_at_batch_1_and_their_largest(ours):
    def rate(platform, plan):
        speed = {A800: 10.0, RTX_4090: 6.0, RTX_3090: 4.0}[platform] * plan["micro_batch"]
        return speed if "quantization" in plan else 0.0

    told = Told(rate, most=lambda platform, _: {A800: 8, RTX_4090: 4, RTX_3090: 2}[platform])
    assert [one.values for one in training_findings.a10(told)] == [[0.6, 0.4], pytest.approx([0.3, 0.1])]
    assert ours(training_findings.a11, told) == pytest.approx([1.5, 3.0])


def test_the_update_is_a_share_of_the_step_with_or_without_exposed_communication(ours):
    phases = {"optimizer": 2.0, "communication_exposed": 2.0}
    told = SimpleNamespace(profile=lambda _: SimpleNamespace(step_time_s=10.0, phases=phases))
    assert ours(training_findings.a12, told) == [0.25, 0.2]


def test_a_throughput_that_falls_with_the_batch_is_judged(ours):
    def rate(platform, plan):
        return {1: 10.0, 2: 20.0, 4: 10.0 if platform == RTX_3090 else 30.0, 8: 1.0}[plan["micro_batch"]]

    assert ours(training_findings.a37, Told(rate, most=lambda *_: 4)) == [0.5]
    assert ours(training_findings.a37, Told(rate, most=lambda *_: 2)) == [2.0]
