"""Findings on modules: shares and gains follow the times of rows, and what is no part of a module is left out."""

from types import SimpleNamespace

import pytest

from sightline.reproduction.arxiv_2311_03687 import training_findings


def row(module, time_s, *, phase="forward", block="layer", operator="matmul", network_bytes=0.0):
    return SimpleNamespace(
        module=module, time_s=time_s, phase=phase, block=block, operator=operator, network_bytes=network_bytes
    )


class Told:
    """Answers every scenario by its plan."""

    def __init__(self, rows, *, most=1, phases=None):
        self.rows, self.most, self.phases = rows, most, phases

    def profile(self, scenario):
        plan = scenario["plan"]
        return SimpleNamespace(rows=self.rows(plan), phases=self.phases, fits=plan["micro_batch"] <= self.most)


LAYER = {"mlp": 9.0, "qkv": 6.0, "output projection": 3.0, "rope": 1.0, "attention norm": 0.5, "mlp norm": 0.5}


def layer(phase, **other):
    return [row(module, time_s, phase=phase) for module, time_s in (LAYER | other).items()]


def test_modules_are_ordered_in_both_passes_with_attention_as_its_operators():
    rows = [
        *layer("forward"),
        *layer("backward", qkv=18.0),
        row("attention core", 4.0, operator="scores"),
        row("attention core", 4.0, operator="values"),
        row("mlp", 90.0, network_bytes=1.0),
        row("mlp", 90.0, block="head"),
    ]
    for one in training_findings.a13(Told(lambda _: rows)):
        assert one.values == pytest.approx([1.5, 1.5, 0.5, 6.0])


def test_element_wise_modules_are_a_share_of_the_layer_in_each_pass(ours):
    rows = [*layer("forward"), *layer("backward", mlp=29.0)]
    assert ours(training_findings.a14, Told(lambda _: rows)) == pytest.approx([0.1, 0.05, 0.1, 0.05])


@pytest.mark.parametrize(
    ("small_s", "large_s", "share"), [(10.0, 1.0, 1.0), (1.0, 1.0, 0.5), (10.0, 10.0, 0.5), (20.0, 10.0, 0.0)]
)
def test_the_device_is_idle_at_a_small_batch_and_hardly_at_the_largest(ours, small_s, large_s, share):
    def rows(plan):
        return [row("host", small_s if plan["micro_batch"] == 1 else large_s, operator=training_findings.LAUNCHES)]

    told = Told(rows, most=4, phases={"forward": 30.0, "backward": 60.0})
    assert ours(training_findings.a15, told) == [share]


def attention(plan):
    """FlashAttention halves the forward pass of the attention module and takes a fifth of the backward one."""
    forward, backward = (0.5, 0.8) if plan["attention"] == "flash" else (1.0, 1.0)
    return [
        row("attention core", 10.0 * forward),
        row("attention core", 10.0 * backward, phase="backward"),
        row("mlp", 100.0 * forward),
    ]


def test_flash_attentions_gain_is_that_of_the_module_in_its_pass(ours):
    assert ours(training_findings.a16, Told(attention)) == pytest.approx([1.0, 0.5] * 2)
    assert ours(training_findings.a17, Told(attention)) == pytest.approx([0.25, 0.2] * 2)


def test_kernels_fill_what_the_host_leaves_of_the_backward_phase(ours):
    idle = [row("host", 15.0, operator=training_findings.MICRO_BATCH), row("mlp", 50.0)]
    told = Told(lambda _: idle, phases={"forward": 30.0, "backward": 60.0})
    assert ours(training_findings.a36, told) == pytest.approx([60 / 70])
