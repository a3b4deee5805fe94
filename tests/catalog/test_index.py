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
        ("models", "llama-2-7", "unknown model 'llama-2-7' - did you mean 'llama-2-7b' or 'llama-2-70b'?"),
        ("models", "llama3", "did you mean 'llama-3-8b', 'llama-3-70b', 'llama-3.1-8b' or 'llama-3.2-1b'?"),
        ("models", "LLaMA2_7B", "did you mean 'llama-2-7b'?"),
        ("devices", "a100-sxm-80", "unknown device 'a100-sxm-80' - did you mean 'a100-sxm-80gb'?"),
        ("models", "../devices/a100-sxm-80gb", "unknown model"),
        ("device", "a100-sxm-80gb", "unknown kind 'device' of catalog entries - did you mean 'devices'?"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(kind, name, sentence):
    with pytest.raises(InputError) as error:
        entry(kind, name)
    assert sentence in str(error.value)


@pytest.fixture
def further(tmp_path, monkeypatch):
    """A folder of further entries, and the caches emptied before and after."""
    from sightline.catalog import index

    monkeypatch.setenv("SIGHTLINE_CATALOG", str(tmp_path))
    caches = (index.names, index.entry, index._paths)
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def test_a_folder_of_ones_own_adds_entries(further):
    (further / "devices").mkdir()
    (further / "devices" / "mine.yaml").write_text("same_as: rtx-3090\ntdp: 280 W\n")
    assert "mine" in names("devices")
    assert entry("devices", "mine")["tdp"] == "280 W"
    assert entry("devices", "mine")["memory"] == entry("devices", "rtx-3090")["memory"]


def test_sources_of_replaced_figures_are_not_taken_over(further):
    (further / "memories").mkdir()
    (further / "memories" / "mine.yaml").write_text("same_as: hbm4\nenergy: 3.1 pJ/bit\nsources: {pins: mine}\n")
    own, base = entry("memories", "mine"), entry("memories", "hbm4")
    assert own["evidences"] == {key: of for key, of in base["evidences"].items() if key != "energy"}
    assert own["sources"] == {key: of for key, of in base["sources"].items() if key != "energy"} | {"pins": "mine"}


def test_an_entry_that_a_program_wrote_is_json(further):
    (further / "devices").mkdir()
    (further / "devices" / "mine.json").write_text('{"same_as": "rtx-3090", "tdp": 280}')
    assert "mine" in names("devices")
    assert entry("devices", "mine")["tdp"] == 280


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("devices/mine.json", "{", "mine.json"),
        ("devices/rtx-3090.json", "{}", "'rtx-3090'"),
        ("devices/rtx-3090.yaml", "tdp: 1 W", "'rtx-3090'"),
        ("devices/mine.yaml", "[1, 2]", "mine.yaml"),
        (
            "devices/mine.yaml",
            "a: 1\na: 2",
            "line 2, column 1: key 'a'",
        ),
    ],
)
def test_an_entry_of_ones_own_replaces_nothing_and_must_be_a_mapping(further, file, text, sentence):
    (further / file).parent.mkdir()
    (further / file).write_text(text)
    with pytest.raises(InputError) as error:
        entry("devices", "mine")
    assert sentence in str(error.value)


def test_a_catalog_that_is_no_folder_is_refused(further, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_CATALOG", str(further / "none"))
    with pytest.raises(InputError, match="SIGHTLINE_CATALOG"):
        names("devices")
