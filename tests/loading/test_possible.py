"""Cells of sweeps that cannot be are counted by rule; mistakes of a file are refused all the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError, WorkError
from sightline.loading import load, read_all
from sightline.loading.loader import Loaded
from sightline.progress import SILENT, Cancelled, Progress, State

BASE: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    "plan": {"framework": "megatron"},
}
GENERATE: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 8, "prompt_tokens": 128, "output_tokens": 16},
}
OPERATOR: dict[str, Any] = {
    "cluster": "1x a100-sxm-80gb",
    "workload": {"task": "operator", "operator": "matmul", "m": 64, "n": 64, "k": 64},
}


def possible(source: object = BASE, **sweeps: Any) -> Loaded:
    named = {key.replace("__", "."): values for key, values in sweeps.items()}
    return read_all([source], sweeps=named, possible_only=True)


def test_cells_that_break_rules_are_left_out_and_counted_by_rule() -> None:
    loaded = possible(plan__tensor_parallel=[1, 2, 3], plan__micro_batch=[2, 4])
    assert [dict(cell) for cell in loaded.cells] == [
        {"plan.tensor_parallel": 1, "plan.micro_batch": 2},
        {"plan.tensor_parallel": 2, "plan.micro_batch": 2},
        {"plan.tensor_parallel": 2, "plan.micro_batch": 4},
    ]
    counted, heads, batch = loaded.remarks()
    assert counted == "3 of 6 combinations are invalid: 2 by tensor heads, 1 by global batch"
    assert heads == "tensor heads: plan.tensor_parallel is 3; allowed: a divisor of the model's 32 attention heads"
    assert batch.startswith("global batch: workload.global_batch is 16; allowed: a multiple of plan.data_parallel 8")


def test_one_reason_is_one_sentence() -> None:
    (said,) = possible(plan__micro_batch=[2, 4]).remarks()
    assert said.startswith("1 of 2 combinations are invalid: workload.global_batch is 16")
    (said,) = possible(plan__micro_batch=[2, 4, 8]).remarks()
    assert said.startswith("2 of 3 combinations are invalid, for example: workload.global_batch is 16")
    assert list(possible(plan__micro_batch=[1, 2]).remarks()) == []


@given(degrees=st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True))
def test_what_is_possible_and_what_is_not_make_up_the_sweep(degrees: list[int]) -> None:
    try:
        loaded = possible(plan__tensor_parallel=[*degrees, 8])
    except InputError:
        pytest.fail("8 is possible")
    assert len(loaded.scenarios) + len(loaded.impossible) == len(degrees) + 1
    assert all(32 % cell["plan.tensor_parallel"] == 0 for cell in loaded.cells)


def test_where_nothing_is_possible_the_sentences_are_an_error() -> None:
    with pytest.raises(InputError) as caught:
        possible(plan__micro_batch=[4, 8])
    assert [said.rpartition(" = ")[2] for said in caught.value.problems] == ["32", "64"]
    with pytest.raises(InputError) as caught:
        possible(plan__micro_batch=list(range(3, 14)))
    (said,) = caught.value.problems
    assert said.endswith("= 24 (and 10 more)")


@pytest.mark.parametrize(
    ("sweeps", "sentence"),
    [
        ({"plan__micro_batch": [2, 0]}, "plan.micro_batch is 0"),
        ({"plan__micro_batch": [1, 2], "plan__typo": [1]}, "plan.typo is not a known key"),
        ({"plan__framework": ["megatron", "megatrn"]}, "plan.framework is 'megatrn'"),
    ],
)
def test_mistakes_stay_errors(sweeps: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        possible(**sweeps)


def test_a_scenario_that_is_written_out_stays_an_error() -> None:
    wrong = BASE | {"plan": {"framework": "megatron", "tensor_parallel": 3}}
    with pytest.raises(InputError, match="tensor_parallel is 3"):
        read_all([[BASE, wrong]], possible_only=True)


def test_rules_of_every_task_count() -> None:
    assert [len(p.impossible) for p in (possible(GENERATE, plan__tensor_parallel=[1, 3, 8]),)] == [1]
    loaded = possible(OPERATOR, workload__dtype=["bf16", "fp8"])
    assert (len(loaded.scenarios), len(loaded.impossible)) == (1, 1)
    assert next(loaded.remarks()).startswith("1 of 2 combinations are invalid: workload.dtype is 'fp8'")


def test_files_are_told_apart() -> None:
    both = read_all([BASE, GENERATE], sweeps={"plan.tensor_parallel": [1, 3]}, possible_only=True)
    assert (both.is_list, len(both.scenarios), len(both.impossible)) == (True, 2, 2)


def test_python_leaves_them_out_when_asked() -> None:
    sweeps = {"plan.micro_batch": [1, 2, 4]}
    with pytest.raises(InputError, match="global_batch is 16"):
        load(BASE, sweeps=sweeps)
    found = load(BASE, sweeps=sweeps, possible_only=True)
    assert isinstance(found, list)
    assert [scenario.plan.micro_batch for scenario in found] == [1, 2]  # type: ignore[union-attr]


def test_reading_a_large_sweep_counts_its_cells_and_can_be_stopped() -> None:
    seen: list[State] = []
    sweeps = {"plan.micro_batch": [1, 2, 3], "plan.zero_stage": [0, 1]}
    read_all([BASE], sweeps=sweeps, possible_only=True, progress=Progress(seen.append, every_s=0))
    assert [(state.what, state.done, state.total) for state in seen] == [("reading", n, 6) for n in range(7)]
    stopped = Progress()
    stopped.cancel()
    with pytest.raises(Cancelled):
        read_all([BASE], sweeps=sweeps, progress=stopped)


MEASURED = BASE | {"measured": {"step_time_s": 1.0, "source": "a stopwatch"}}


@pytest.mark.parametrize(
    ("overrides", "sweeps", "is_kept"),
    [
        ({}, {}, True),
        ({"name": "Another name"}, {}, True),
        ({"workload.global_batch": 16}, {}, True),
        ({"measured.step_time_s": 2.0}, {}, True),
        ({"workload.global_batch": 32}, {}, False),
        ({}, {"plan.micro_batch": [1, 2]}, False),
    ],
)
def test_what_was_measured_is_compared_only_with_the_scenario_it_was_measured_of(overrides, sweeps, is_kept):
    loaded = read_all([MEASURED], overrides, sweeps)
    assert {bool(one.measured) for one in loaded.scenarios} == {is_kept}
    assert any("ignored" in remark for remark in loaded.remarks()) is not is_kept


WRONG = BASE | {"plan": {"framework": "megatron", "tensor_parallel": 3}}


def test_scenarios_with_mistakes_are_skipped_and_counted_by_reason() -> None:
    wrong = [WRONG, WRONG | {"plan": {"framework": "megatron", "tensor_parallel": 5}}, BASE | {"model": "none"}]
    loaded = read_all([[BASE, *wrong]], skip_invalid=True)
    assert len(loaded.scenarios) == len(loaded.cells) == 1
    named = [one | {"name": f"scenario {place}"} for place, one in enumerate(wrong, 2)]
    assert [mapping for mapping, _ in loaded.skipped] == named
    counted, heads, model = loaded.not_answered()
    assert counted.startswith("3 of 4 ")
    assert heads.startswith("2 x plan.tensor_parallel is 3")
    assert model.startswith("1 x model is 'none'")


def test_where_every_scenario_has_mistakes_they_are_refused() -> None:
    with pytest.raises(InputError, match=r"2 x plan\.tensor_parallel is 3"):
        read_all([[WRONG, WRONG]], skip_invalid=True)


def test_scenarios_that_cannot_be_answered_are_taken_out() -> None:
    def answer(scenario: Any) -> int:
        if scenario.name == "b":
            raise WorkError("no answer")
        return int(scenario.workload.global_batch)

    named = [BASE | {"name": name} for name in "abc"]
    loaded = read_all([named])
    with pytest.raises(WorkError):
        loaded.answered_by(answer, SILENT, "answering", skip_invalid=False)
    assert loaded.answered_by(answer, SILENT, "answering", skip_invalid=True) == [16, 16]
    assert [scenario.name for scenario in loaded.scenarios] == ["a", "c"]
    assert [(scenario.name, reason) for scenario, reason in loaded.skipped] == [("b", "no answer")]
