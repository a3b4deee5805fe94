"""What is known of devices' architectures, and how far a device is from those that a family was measured on."""

from dataclasses import replace

import pytest

from sightline.catalog import names
from sightline.cost.families import distance, kin, of_device, of_family
from sightline.cost.families import known_architectures as known
from sightline.loading.clusters import read_cluster


def device(name):
    return read_cluster(f"1x {name}").device


def test_every_device_of_the_catalog_states_its_architecture():
    assert all(device(name).architecture for name in names("devices"))
    assert {of_device(device(name))["maker"] for name in names("devices")} == {"nvidia", "amd", "intel", ""}


def test_every_family_named_is_one_of_the_catalog():
    families = {name.partition("/")[0] for name in names("calibrations")}
    assert {family for told in known().values() for family in told["families"]} <= families


def test_boards_with_the_same_silicon_are_kin():
    assert kin("h20") == {"h100-sxm", "h200-sxm", "h800-sxm", "h20"}
    assert of_family("rtx-3090") == of_family("a40") == "sm_86"
    assert kin("mine") == {"mine"}


@pytest.mark.parametrize(
    ("name", "family", "far"),
    [
        ("a100-pcie-80gb", "a100-sxm", "same architecture"),
        ("a100-pcie-80gb", "a40", "same maker"),
        ("t4", "generic", "same maker"),
        ("mi300x", "generic", "other"),
        ("mi300x", "mi210", "same maker"),
        ("tpu-v4", "generic", "other"),
        ("t4", "mine", "same architecture"),  # a user's family, for that device
    ],
)
def test_distance_grows_from_the_silicon_over_the_maker_to_others(name, family, far):
    assert distance(device(name), family) == far


def test_a_device_that_nobody_knows_is_far_from_all():
    assert distance(replace(device("t4"), architecture="unknown"), "generic") == "other"
