"""Amounts per token, power and carbon of studies of one's own."""

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.exploration.footprint import Electricity
from sightline.exploration.run import explore

TRAINING = {
    "model": "llama-2-7b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64, "total_tokens": 1e12},
    "plan": {"framework": "megatron", "zero_stage": 1, "micro_batch": 1},
}
GENERATION = {
    "model": "llama-2-7b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 128},
}
CARBON = ["carbon_kg", "carbon_kg_per_million_tokens"]
REPORT = ["energy_j", "energy_j_per_token", "power_w", *CARBON]


def rows(base, report=REPORT, **keys):
    axes = {"cluster.power_cap": ["500 W", "700 W"]}
    return list(explore({"base": base, "axes": axes, "report": report, **keys}).rows)


def test_a_run_of_training_has_carbon_and_power():
    for row in rows(TRAINING):
        assert row["carbon_kg"] == pytest.approx(Electricity().carbon_kg(row["energy_j"]))
        assert row["energy_j"] == pytest.approx(1e12 * row["energy_j_per_token"])
        assert row["carbon_kg"] == pytest.approx(1e6 * row["carbon_kg_per_million_tokens"])
        assert 100 < row["power_w"] <= row["cluster.power_cap"]


def test_generation_counts_generated_tokens():
    for row in rows(GENERATION):
        assert row["energy_j"] == pytest.approx(8 * 128 * row["energy_j_per_token"])
        assert 0 < row["power_w"] <= row["cluster.power_cap"] + 1e-6


def test_carbon_of_a_run_without_a_length_is_not_known():
    work = {key: value for key, value in TRAINING["workload"].items() if key != "total_tokens"}
    for row in rows({**TRAINING, "workload": work}, CARBON):
        assert row["carbon_kg"] != row["carbon_kg"]
        assert row["carbon_kg_per_million_tokens"] > 0


def test_electricity_can_be_stated():
    for row in rows(TRAINING, electricity={"kg_per_kwh": 0.05, "pue": 1.1}):
        assert row["carbon_kg"] == pytest.approx(Electricity(kg_per_kwh=0.05, pue=1.1).carbon_kg(row["energy_j"]))
        assert row["carbon_kg"] == pytest.approx(1e6 * row["carbon_kg_per_million_tokens"])


def test_what_electricity_is_assumed_is_said_where_carbon_is_reported():
    axes = {"cluster.power_cap": ["500 W", "700 W"]}
    said = [explore({"base": TRAINING, "axes": axes, "report": [key]}).assumptions for key in ("carbon_kg", "mfu")]
    assert ["Ember" in " ".join(of) for of in said] == [True, False]


@pytest.mark.parametrize("electricity", [{"kg_per_kwh": -1}, {"pue": "much"}, {"grid": 1}, 3])
def test_bad_electricity_is_refused(electricity):
    with pytest.raises(InputError, match="electricity"):
        rows(TRAINING, CARBON, electricity=electricity)


def test_a_profile_agrees():
    profile = sl.predict(sl.load({**TRAINING, "cluster": {"devices": "8x h100-sxm-80gb", "power_cap": "700 W"}}))
    assert rows(TRAINING)[1]["energy_j"] == pytest.approx(float(profile.energy_j))
