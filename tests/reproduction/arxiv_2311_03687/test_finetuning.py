"""Findings on fine-tuning: ratios follow the predictions, interpretations differ by adapters, and statements can fail."""

from types import SimpleNamespace

import pytest

from sightline.reproduction.arxiv_2311_03687 import settings, training_findings
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


class Told:
    """Answers every scenario by its techniques, which it tells from the plan."""

    small = True

    def __init__(self, step_s=lambda plan, model: 1.0, gib=lambda plan, model: 1.0, fits=lambda plan, model: True):
        self.of = step_s, gib, fits

    def profile(self, scenario):
        step_s, gib, fits = (of(scenario["plan"], scenario["model"]) for of in self.of)
        return SimpleNamespace(
            step_time_s=step_s,
            tokens_per_s=1.0 / step_s,
            memory_bytes={"total": gib * 2**30},
            usable_bytes=24 * 2**30,
            fits=fits,
        )


def quantized(plan):
    return plan["adapter"]["kind"] == "qlora"


def test_rates_and_memory_of_lora_and_qlora_are_compared(ours):
    told = Told(
        step_s=lambda plan, _: 2.0 if quantized(plan) else 1.0, gib=lambda plan, _: 8.0 if quantized(plan) else 20.0
    )
    assert ours(training_findings.a18, told) == [2.0, 2.0]
    assert ours(training_findings.a19, told) == pytest.approx([0.4, 0.4])
    assert len({one.choices[settings.ADAPTERS.name] for one in training_findings.a18(told)}) == 2


def test_what_does_not_fit_has_no_rate(ours):
    told = Told(fits=lambda plan, _: quantized(plan))
    assert set(ours(training_findings.a18, told)) == {None}
    assert "L out of memory" in training_findings.a18(told)[0].sentence
    assert set(ours(training_findings.a22, told)) == {None}
    assert set(ours(training_findings.a23, Told(fits=lambda *_: False))) == {None}


def test_gains_are_those_of_one_technique(ours):
    told = Told(step_s=lambda plan, _: 1.0 if plan["attention"] == "eager" else 0.8)
    assert ours(training_findings.a20, told) == pytest.approx([0.25] * 4)
    assert ours(training_findings.a21, told) == pytest.approx([0.0, 0.0])


def test_flash_attentions_gain_alone_depends_on_the_rows_that_it_is_taken_from(ours):
    def step_s(plan, _):
        with_flash = 0.7 if plan["zero_stage"] == 2 else 0.8
        return with_flash if plan["attention"] == "flash" else 1.0

    told = Told(step_s)
    assert ours(training_findings.a20, told) == pytest.approx([1 / 0.8 - 1, 1 / 0.7 - 1] * 2)
    concerned = [
        id_ for id_ in (f"A{number}" for number in range(18, 25)) if settings.FLASH_ROWS.name in _settings(id_)
    ]
    assert concerned == ["A20"]


def _settings(id_):
    """The open settings that concern a finding."""
    told = Told(gib=lambda plan, _: 1.0 + plan["zero_stage"])
    return {setting for one in training_findings.FINDINGS[id_](told) for setting in one.choices}


def test_the_loss_farther_from_the_stated_one_is_judged(ours):
    def step_s(plan, model):
        return 1.0 if model == "llama-2-7b" else 1 / 0.6 if quantized(plan) else 1 / 0.75

    assert ours(training_findings.a22, Told(step_s)) == pytest.approx([0.4, 0.4])


def test_statements_on_techniques_hold_one_by_one(ours):
    def share(told):
        return ours(training_findings.a24, told)[0]

    def step_s(plan, _):
        return 1.0 + 0.5 * ("recompute" in plan) + 0.5 * ("offload" in plan)

    def gib(plan, model):
        size = {"llama-2-7b": 1, "llama-2-13b": 2, "llama-2-70b": 10}[model]
        states = {0: 20, 2: 19, 3: 9}[plan["zero_stage"]] * size
        return states - (plan["zero_stage"] == 3) * size**1.1 - 0.1 * ("recompute" in plan)

    def fits(plan, model):
        return model != "llama-2-70b" or plan["zero_stage"] == 3

    assert share(Told(step_s, gib, fits)) == 1.0
    assert share(Told(lambda plan, _: 1.0, gib, fits)) == 0.5
    assert share(Told(lambda plan, model: step_s(plan, model) + (plan["zero_stage"] == 2), gib, fits)) == 0.75
    assert share(Told(step_s, gib, lambda *_: True)) == 0.75
    assert share(Told(step_s, lambda plan, model: gib(plan, model) - 2 * (plan["zero_stage"] == 0), fits)) == 0.75
    assert share(Told(step_s, lambda plan, model: gib(plan, model) + ("recompute" in plan), fits)) == 0.75
    assert "offload" in training_findings.a24(Told(lambda plan, _: 1.0, gib, fits))[0].sentence


def test_fewer_adapters_leave_lora_more_of_its_lead(ours, ask):
    everywhere, few = ours(training_findings.a18, ask)
    assert 1.0 < everywhere < few


def test_the_table_has_every_row_with_both_choices_of_adapters(ask):
    found = training_findings.adapters(ask).answer
    assert len(found) == 2 * len(training_findings.SIZES) * len(training_findings.ROWS_WITH_BOTH)
    assert {row["adapters"] for row in found.rows} == {"all projections", "queries and values"}
    assert all(0.0 < row["host_share"] < 1.0 for row in found.rows)


def test_zero_2_gains_the_more_the_more_adapters_there_are(ours, ask):
    everywhere, few = ours(training_findings.a21, ask)
    assert 0.0 < few < everywhere


def test_the_largest_model_trains_on_small_cards(ours, ask):
    assert all(ours(training_findings.a23, ask))
    assert ours(training_findings.a24, ask) == [1.0, 1.0]
