import numpy as np
import pytest

from sightline.errors import InputError
from sightline.exploration.run import explore
from sightline.exploration.studies.scaling import SAME_BATCH_DEVICES
from sightline.exploration.study_answer import StudyAnswer

SMALL = {"workload.global_batch": 16}


@pytest.fixture(scope="module")
def answer() -> StudyAnswer:
    return explore("scaling", quick=True)


def _curve(answer: StudyAnswer, view: str, mode: str) -> list[dict[str, object]]:
    return [row for row in answer.rows if (row["view"], row["mode"]) == (view, mode)]


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
def test_more_devices_train_faster_at_less_efficiency(answer: StudyAnswer, view: str) -> None:
    strong = _curve(answer, view, "strong")
    assert strong[-1]["devices"] > 100_000
    assert np.all(np.diff([row["tokens_per_s"] for row in strong]) > 0)
    assert np.all(np.diff([row["efficiency"] for row in strong]) < 0)
    assert strong[0]["efficiency"] == 1


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
def test_growing_batches_keep_devices_busier_but_teach_less(answer: StudyAnswer, view: str) -> None:
    strong, weak = (_curve(answer, view, mode)[-1] for mode in ("strong", "weak"))
    assert weak["efficiency"] > strong["efficiency"]
    assert weak["tokens_per_s"] > strong["tokens_per_s"]
    assert weak["useful_tokens_per_s"] < strong["useful_tokens_per_s"]


def test_both_kinds_of_scaling_meet_at_the_same_batch(answer: StudyAnswer) -> None:
    met = [row for row in answer.rows if row["devices"] == SAME_BATCH_DEVICES and row["view"] == "ideal"]
    assert len(met) == 2
    assert len({row["step_time_s"] for row in met}) == len({row["global_batch"] for row in met}) == 1


def test_weak_scaling_grows_the_batch_with_the_devices(answer: StudyAnswer) -> None:
    each = {row["batch_tokens"] / row["devices"] for row in answer.rows if row["mode"] == "weak"}
    assert len(each) == 1


def test_shares_are_parts_of_the_step(answer: StudyAnswer) -> None:
    lost = np.asarray(answer.columns["exposed_share"]) + np.asarray(answer.columns["bubble_share"])
    assert np.all((lost >= 0) & (lost < 1))
    assert all(row["fits"] for row in answer.rows)


def test_half_of_the_tokens_are_useful_at_the_critical_batch(answer: StudyAnswer) -> None:
    critical = answer.summary["critical_batch_tokens"]
    assert 1e6 < critical < 1e8
    for row in answer.rows:
        assert (row["useful_share"] > 0.5) == (row["batch_tokens"] < critical)


def test_summary_tells_each_curve(answer: StudyAnswer) -> None:
    ends = answer.summary["curves"]
    assert {(end["view"], end["mode"]) for end in ends} == {
        (view, mode) for view in ("ideal", "calibrated") for mode in ("strong", "weak")
    }
    assert all(end["efficient_to"] <= end["devices"] for end in ends)


def test_what_cannot_be_scaled_is_refused() -> None:
    with pytest.raises(InputError, match="a multiple of 16"):
        explore("scaling", overrides={"workload.global_batch": 100})
    with pytest.raises(InputError, match=r"workload\.total_tokens"):
        explore("scaling", overrides={"workload.total_tokens": None})
    with pytest.raises(InputError, match=r"plan\.tensor_parallel cannot be set"):
        explore("scaling", overrides={"plan.tensor_parallel": 8})


def test_small_batches_are_told_as_such() -> None:
    told = [
        line for line in explore("scaling", view="ideal", quick=True, overrides=SMALL).reading if "critical" in line
    ]
    assert not any(" 0M " in line or " 0.0 " in line for line in told)
    assert any("Strong scaling could use more sequences" in line for line in told)


@pytest.mark.slow
def test_faster_networks_never_train_slower() -> None:
    whole = explore("scaling", view="ideal")
    speed = {(row["mode"], row["devices"], row["network"]): row["tokens_per_s"] for row in whole.rows}
    for (mode, devices, network), tokens_per_s in speed.items():
        if network == "infiniband-gdr":
            assert tokens_per_s >= speed[mode, devices, "infiniband-ndr"]
