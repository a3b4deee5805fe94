import numpy as np
import pytest

from sightline.errors import InputError
from sightline.exploration.run import explore
from sightline.exploration.studies.memory_footprint import A100, BEST, FULL, NONE, PARTS
from sightline.exploration.study_answer import StudyAnswer
from sightline.progress import Cancelled, Progress


@pytest.fixture(scope="module")
def answer() -> StudyAnswer:
    return explore("memory-footprint")


def test_full_recomputation_keeps_least_and_none_most(answer: StudyAnswer) -> None:
    for name in ("22B", "175B", "530B", "1T"):
        kept = {row["technique"]: row["layer_activations_bytes"] for row in answer.rows if row["name"] == name}
        assert kept[FULL] < kept[BEST] < kept["selective"] < kept[NONE]


def test_shares_of_activations_are_those_of_the_papers_figure(answer: StudyAnswer) -> None:
    published = [row for row in answer.rows if row["published_share"] == row["published_share"]]
    assert len({(row["name"], row["technique"]) for row in published}) == 16
    for row in published:
        assert row["layer_activations_share"] == pytest.approx(row["published_share"], rel=0.03)
    assert answer.summary["against_published"]["largest"] < 0.01


def test_parts_sum_to_the_total(answer: StudyAnswer) -> None:
    whole = sum(np.asarray(answer.columns[f"{part}_bytes"]) for part in PARTS)
    assert whole == pytest.approx(np.asarray(answer.columns["total_bytes"]))


def test_what_fits_is_what_has_a_micro_batch_that_fits(answer: StudyAnswer) -> None:
    for row in answer.rows:
        assert row["fits"] == (row["total_bytes"] <= row["device_memory_bytes"])
        assert row["fits"] == (row["most_micro_batch"] >= row["micro_batch"])


def test_larger_memory_takes_larger_micro_batches(answer: StudyAnswer) -> None:
    for of_model in answer.summary["models"].values():
        for most in of_model["most_micro_batch"].values():
            assert most["b200-sxm-180gb"] > most[A100]


def test_quick_version_has_the_same_columns(answer: StudyAnswer) -> None:
    quick = explore("memory-footprint", quick=True)
    assert list(quick.columns) == list(answer.columns)
    assert 0 < len(quick) < len(answer)


def test_both_views_are_answered_on_request() -> None:
    both = explore("memory-footprint", quick=True, view="both")
    assert set(both.columns["view"]) == {"ideal", "calibrated"}
    assert both.assumptions[0].startswith("Ideal view")
    assert both.assumptions[1].startswith("Calibrated view")


def test_settings_reach_the_scenario_but_not_what_is_varied() -> None:
    longer = explore("memory-footprint", quick=True, overrides={"workload.sequence_length": 4096})
    usual = explore("memory-footprint", quick=True)
    assert np.all(np.asarray(longer.columns["activations_bytes"]) > np.asarray(usual.columns["activations_bytes"]))
    with pytest.raises(InputError, match=r"plan\.recompute cannot be set"):
        explore("memory-footprint", overrides={"plan.recompute": "none"})
    with pytest.raises(InputError, match=r"workload\.task"):
        explore("memory-footprint", overrides={"workload.task": "generate"})


def test_only_the_papers_training_is_compared_with_it(answer: StudyAnswer) -> None:
    assert any("figure 7" in line for line in answer.reading)
    same = explore("memory-footprint", quick=True, overrides={"workload.sequence_length": 2048})
    assert same.summary["against_published"]["cases"] == 8
    longer = explore("memory-footprint", quick=True, overrides={"workload.sequence_length": 8192})
    assert longer.summary["against_published"] == {}
    assert not any("figure 7" in line for line in longer.reading)
    assert not any("2,048 tokens" in line for line in longer.assumptions)


def test_a_study_that_is_stopped_returns_the_models_so_far() -> None:
    progress = Progress(lambda state: progress.cancel() if state.done == 1 else None, every_s=0.0)
    found = explore("memory-footprint", quick=True, progress=progress)
    assert {row["name"] for row in found.rows} == {"22B"}
    with pytest.raises(Cancelled):
        explore("memory-footprint", quick=True, progress=progress)
