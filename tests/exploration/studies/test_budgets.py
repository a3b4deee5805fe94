"""The best model for a budget of money or time."""

import math

import pytest

from sightline.errors import InputError
from sightline.exploration.footprint import Electricity
from sightline.exploration.run import explore
from sightline.exploration.training_budget import known_trainings, shape_of
from sightline.loading.models.config import read_model
from sightline.progress import Progress
from sightline.quantities import DAY


@pytest.fixture(scope="module")
def answer():
    return explore("budgets", quick=True)


@pytest.fixture(scope="module")
def rows(answer):
    return list(answer.rows)


def test_compute_is_six_flops_per_parameter_and_token(rows):
    for row in rows:
        assert row["flops"] == pytest.approx(6 * row["parameters"] * row["tokens"])
        assert row["model_flops"] > 0.9 * row["flops"]


def test_a_budget_is_spent(rows):
    for row in rows:
        if row["budget"] == "money":
            assert row["cost_usd"] == pytest.approx(row["budget_usd"])
            assert row["devices"] >= 8
        else:
            assert row["run_time_s"] == pytest.approx(row["deadline_s"])


def test_devices_never_train_faster_than_their_peak(rows):
    peaks = {"h100-sxm-80gb": 989.5e12, "b200-sxm-180gb": 2250e12}
    for row in rows:
        assert 0 < row["mfu"] < 1
        reached = row["model_flops"] / row["devices"] / row["run_time_s"]
        assert reached == pytest.approx(row["mfu"] * peaks[row["device"]], rel=0.01)


def test_more_money_means_less_loss(rows):
    for view in ("ideal", "calibrated"):
        for device in ("h100-sxm-80gb", "b200-sxm-180gb"):
            losses = [
                row["loss"]
                for row in sorted(rows, key=lambda row: row["budget_usd"])
                if row["budget"] == "money" and (row["view"], row["device"]) == (view, device)
            ]
            assert len(losses) == 3
            assert losses == sorted(losses, reverse=True)


def test_the_ideal_view_trains_at_least_as_much(rows):
    flops = {(row["view"], row["device"], row["devices"], row["run_time_s"]): row["flops"] for row in rows}
    for (view, *of), calibrated in flops.items():
        if view == "calibrated":
            assert flops["ideal", *of] > calibrated


def test_models_have_nearly_the_best_number_of_tokens(rows):
    for row in rows:
        assert 8 < row["tokens_per_parameter"] < 40


def test_energy_is_within_the_power_limit_and_carbon_follows_it(rows):
    limits = {"h100-sxm-80gb": 700, "b200-sxm-180gb": 1000}
    for row in rows:
        assert row["power_w"] <= limits[row["device"]] * (1 + 1e-9)
        assert row["energy_j"] == pytest.approx(row["power_w"] * row["devices"] * row["run_time_s"])
        assert row["carbon_kg"] == pytest.approx(Electricity().carbon_kg(row["energy_j"]))


def test_smaller_models_of_one_loss_take_more_compute(answer):
    same = [one for one in answer.summary["same_loss"] if one["tokens_per_parameter"] >= 20]
    flops = [one["flops_over_best"] for one in same]
    assert flops == sorted(flops)
    assert flops[0] == pytest.approx(1, abs=0.01)
    assert all(one["pays_after_tokens"] > 0 for one in same[1:])


def test_training_compute_outgrows_accelerators(answer):
    doubling = answer.summary["doubling_years"]
    assert doubling["training FLOPs"]["years"] < doubling["accelerator peak"]["years"]


def test_published_trainings_have_dates_and_sources():
    for one in known_trainings():
        assert one.source
        assert one.evidence in ("datasheet", "listed")
        assert 2020 <= one.years < 2027
        assert one.active_parameters <= one.parameters


def test_the_grid_the_building_and_the_law_can_be_set():
    clean = explore(
        "budgets", quick=True, view="ideal", overrides={"electricity.kg_per_kwh": 0.05, "law": "chinchilla-2022"}
    )
    assert "chinchilla-2022" in clean.summary["law"]
    row = next(iter(clean.rows))
    assert row["carbon_kg"] == pytest.approx(Electricity(kg_per_kwh=0.05).carbon_kg(row["energy_j"]))
    assert any("50 g CO2e" in sentence for sentence in clean.assumptions)
    assert row["tokens_per_parameter"] > 40


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"law": "moore"}, "law"),
        ({"devices": ["h100-sxm-80bg"]}, "h100-sxm-80gb"),
        ({"devices": []}, "devices is empty"),
        ({"electricity.pue": 0}, "electricity.pue"),
        ({"electricity": 3}, "electricity"),
        ({"budget_usd": "much"}, "budget_usd"),
        ({"budget_usd": []}, "budget_usd is empty"),
        ({"days": -1}, "days"),
        ({"model": "llama-2-7b"}, "model"),
        ({"electricity.kg_per_kwh": "green"}, "electricity.kg_per_kwh"),
    ],
)
def test_bad_input_is_refused(overrides, key):
    with pytest.raises(InputError, match=key):
        explore("budgets", quick=True, overrides=overrides)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(InputError) as refused:
        explore("budgets", quick=True, overrides={"law": "moore", "devices": ["x"], "days": 0, "electricity.pue": 0})
    assert len(refused.value.problems) == 4


def test_a_budget_that_is_set_is_the_only_one():
    answer = explore("budgets", quick=True, view="calibrated", overrides={"budget_usd": "5M"})
    for row in answer.rows:
        assert row["budget_usd"] == 5e6
        assert row["cost_usd"] == pytest.approx(5e6)
        assert 60 <= row["run_time_s"] / DAY < 120
    assert "5M USD reaches the lowest loss" in answer.reading[0]
    assert sum("5M USD reaches" in sentence for sentence in answer.reading) == 1
    assert set(answer.summary["budgets"]["calibrated"]) == {"5000000 USD"}
    assert not any("Budgets of time" in sentence for sentence in answer.assumptions)
    assert all(figure.x != "budget_usd" for figure in answer.figures)


def test_several_budgets_are_compared():
    answer = explore("budgets", quick=True, view="ideal", overrides={"budget_usd": [2e6, "500k"]})
    assert list(answer.axes["budget_usd"]) == [5e5, 2e6]
    assert answer.figures[0].x == "budget_usd"


def test_a_time_that_is_set_is_the_only_one():
    answer = explore("budgets", quick=True, view="ideal", overrides={"days": 14})
    assert {row["run_time_s"] for row in answer.rows} == {14 * DAY}
    assert {row["devices"] for row in answer.rows} == {1024}
    assert "budget_usd" not in answer.columns


def test_money_can_be_spent_within_a_time():
    answer = explore("budgets", quick=True, view="ideal", overrides={"budget_usd": 5e6, "days": 45})
    for row in answer.rows:
        assert row["cost_usd"] == pytest.approx(5e6)
        assert 22.5 < row["run_time_s"] / DAY <= 45
        assert row["deadline_s"] == 45 * DAY
    assert set(answer.summary["budgets"]["ideal"]) == {"5000000 USD in 45 days"}


def test_devices_can_be_chosen():
    answer = explore("budgets", quick=True, view="ideal", overrides={"devices": ["h200"], "plan.dtype": "fp8"})
    assert {row["device"] for row in answer.rows} == {"h200-sxm-141gb"}
    assert any("fp8" in sentence for sentence in answer.assumptions)
    assert answer.summary["same_loss"][0]["device"] == "h200-sxm-141gb"


@pytest.mark.parametrize("parameters", [1e9, 7e9, 70e9, 400e9, 3e12])
def test_models_have_about_the_parameters_that_are_asked_for(parameters):
    model = read_model(shape_of(parameters)).model
    assert model.parameters == pytest.approx(parameters, rel=0.04)
    assert math.isclose(model.hidden_size / model.layers, 128, rel_tol=0.45)


def test_a_stopped_study_answers_what_it_has():
    progress = Progress()
    progress.cancel()
    assert len(explore("budgets", quick=True, progress=progress)) == 0


def test_a_study_that_is_stopped_in_the_middle_keeps_its_points():
    progress = Progress(lambda state: progress.cancel() if state.done >= 2 else None, every_s=0)
    assert len(explore("budgets", quick=True, view="ideal", progress=progress)) == 2
