"""Which constants a framework takes: its version's, its own, a relative's, or the device family's reference."""

from dataclasses import fields

import pytest
from training_scenarios import training

from sightline import catalog
from sightline.calibration.training import PRIORS
from sightline.cost.families import family_of
from sightline.prediction.training.framework import TrainingConstants, load_training, training_family

PLAIN = {"dtype": "fp32"}
PARTS = [part for part in catalog.names("calibrations") if part.endswith("/training")]
SETS = [
    (part.removesuffix("/training"), name)
    for part in PARTS
    for name in catalog.entry("calibrations", part)["frameworks"]
    # A processor is priced call by call; what launches cost stands with its calls.
    if part.removesuffix("training") + "processor" not in catalog.names("calibrations")
]


def test_there_are_constants_to_look_at():
    assert ("a100-sxm", "megatron") in SETS
    assert ("generic", "reference") in SETS


@pytest.mark.parametrize(("family", "name"), SETS)
def test_every_set_is_whole_and_plausible(family, name):
    framework, _, version = name.partition("@")
    constants, _ = load_training(family, framework, version)
    for constant, prior in PRIORS.items():
        value = getattr(constants, constant)
        assert prior.low * (1 - 1e-9) <= value <= prior.high * (1 + 1e-9), constant
    device = next(
        name for name in catalog.names("devices") if catalog.entry("devices", name).get("calibration") == family
    )
    measured = family_of(training(cluster=f"1x {device}", plan=PLAIN).cluster.device, "attention")
    assert constants.attention_kernel in catalog.entry("calibrations", f"{measured}/attention")["kernels"]


def test_a_version_with_a_set_of_its_own_takes_it():
    own, _ = load_training("a100-sxm", "megatron-deepspeed", "bigscience")
    common, evidence = load_training("a100-sxm", "megatron-deepspeed", "some other")
    assert own != common
    assert common == load_training("a100-sxm", "megatron-deepspeed")[0]
    assert evidence == "calibrated"


def test_a_framework_nobody_measured_takes_the_reference_set_and_says_so():
    constants, evidence = load_training("a100-sxm", "nobody's")
    assert constants == load_training("a100-sxm", "reference")[0]
    assert evidence == "estimated"


def test_other_keys_of_an_entry_are_left_alone():
    raw = {f.name: 0.5 for f in fields(TrainingConstants)} | {"attention_kernel": "flash-2"}
    constants = TrainingConstants.from_mapping(raw | {"source": "x", "rows": {"fitted": 3}})
    assert constants.step_s == 0.5
    assert constants.attention_kernel == "flash-2"


def test_a_framework_that_the_nearest_family_lacks_takes_the_next_familys_set() -> None:
    device = training(cluster="1x gb300").cluster.device
    assert training_family(device, "megatron") == "gb300"
    # Nobody measured FSDP there; the set of a relative comes before priors.
    assert training_family(device, "fsdp") != "gb300"
    assert training_family(device, "no such framework") == "gb300"


def test_products_in_formats_that_nobody_tabulated_have_a_slowdown_of_their_own() -> None:
    constants, _ = load_training("gb200", "megatron", "bridge")
    assert constants.format_slowdown("16-bit") == constants.format_slowdown("fp8") == 1.0
    assert constants.format_slowdown("mxfp8") == constants.mxfp8_slowdown > 1.0
    assert constants.format_slowdown("nvfp4") == constants.nvfp4_slowdown > 1.0
