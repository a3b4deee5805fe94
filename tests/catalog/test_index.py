"""The index finds entries by kind and name, and says what it knows when asked for something else."""

import pytest

from sightline.catalog import KINDS, entry, names
from sightline.errors import InputError


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_entries_in_order(kind):
    assert names(kind)
    assert list(names(kind)) == sorted(names(kind))


def test_calibrations_are_named_by_family_and_part():
    assert "a100-sxm/matmul" in names("calibrations")
    assert entry("calibrations", "a100-sxm/matmul")


def test_an_alias_takes_what_it_does_not_state_from_the_other_entry():
    device, alias = entry("devices", "rtx-3090"), entry("devices", "rtx-3090-nvlink")
    assert alias["server"]["intra_node"] == "nvlink-bridge-3090"
    assert device["server"]["intra_node"] == "pcie4-no-p2p"
    assert {k: v for k, v in alias.items() if k != "server"} == {k: v for k, v in device.items() if k != "server"}
    assert "same_as" not in alias


def test_an_entry_is_read_once():
    assert entry("devices", "rtx-3090") is entry("devices", "rtx-3090")


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("models", "llama-2-7", "unknown model 'llama-2-7' - did you mean 'llama-2-7b'?"),
        ("devices", "a100-sxm-80", "unknown device 'a100-sxm-80' - did you mean 'a100-sxm-80gb'?"),
        ("models", "../devices/a100-sxm-80gb", "unknown model"),
        ("device", "a100-sxm-80gb", "unknown kind 'device' of catalog entries - did you mean 'devices'?"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(kind, name, sentence):
    with pytest.raises(InputError) as error:
        entry(kind, name)
    assert sentence in str(error.value)
