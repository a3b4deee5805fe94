"""Devices of technology in scenarios: what is left out comes from a real die, and every mistake is a sentence."""

import pytest

from sightline import predict
from sightline.catalog import index
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.loading.checks import with_value
from sightline.loading.clusters import hardware, made_of_technology, read_cluster

TECHNOLOGY = {"node": "3nm", "die_area": "814 mm2", "power": "700 W", "memory": "hbm4", "stacks": 6}


def cluster(technology, **keys):
    return read_cluster({"devices": 8, "device": {"technology": technology}} | keys)


def problems_of(technology, **keys):
    with pytest.raises(InputError) as refused:
        cluster(technology, **keys)
    return refused.value.problems


def test_a_device_of_technology_needs_no_datasheet():
    found = cluster(TECHNOLOGY)
    assert found.name == "8x 3nm-hbm4"
    assert found.device.memory_bytes == 6 * 36 * 2**30
    assert found.device.tdp_w <= 700 * (1 + 1e-6)
    assert found.device.relatives[0] == "b200-sxm"
    assert found.intra_node.name == "nvlink5"
    assert found.per_node == 8
    assert "3nm" in found.sources["device"]


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb"])
def test_what_is_not_stated_is_that_of_the_device_below(name):
    real = read_cluster(f"8x {name}").device
    made = read_cluster({"devices": f"8x {name}", "device": {"technology": {}}}).device
    assert made.memory_bytes == pytest.approx(real.memory_bytes)
    assert made.memory_bandwidth == pytest.approx(real.memory_bandwidth)
    assert made.tdp_w <= real.tdp_w * (1 + 1e-6)
    assert made.relatives == (real.calibration, *real.relatives)
    assert made.usd_per_hour is None
    assert made.peak_flops["bf16"] == pytest.approx(real.peak_flops["bf16"], rel=0.25)


def test_a_device_named_same_as_gives_its_server_and_family():
    found = read_cluster({"devices": 8, "device": {"same_as": "h100-sxm-80gb", "technology": {"node": "2nm"}}})
    assert found.intra_node.name == "nvlink4"
    assert found.device.relatives[0] == "h100-sxm"
    assert found.device.name == "2nm-hbm3"


def test_stated_figures_replace_those_that_technology_makes():
    found = read_cluster({"devices": 8, "device": {"technology": TECHNOLOGY, "memory": "100 GB", "price": 3}})
    assert found.device.memory_bytes == 100e9
    assert found.device.usd_per_hour == 3


def test_a_stated_bandwidth_of_links_is_that_of_the_node():
    found = cluster(TECHNOLOGY | {"link": "nvlink6", "link_bandwidth": "1.8 TB/s"})
    assert found.intra_node.bandwidth == 1.8e12
    assert cluster(TECHNOLOGY | {"link_bandwidth": "1.8 TB/s"}, intra_node="nvlink4").intra_node.name == "nvlink4"


def test_ideal_scaling_is_another_device():
    vendor, ideal = (cluster(TECHNOLOGY | {"scaling": scaling}).device for scaling in ("vendor", "ideal"))
    assert ideal.l2_bytes > vendor.l2_bytes


def test_dotted_keys_reach_into_technology():
    named = with_value({"cluster": "8x h100-sxm-80gb"}, "cluster.device.technology.node", "1.6nm")
    assert read_cluster(named["cluster"]).device.name == "1.6nm-hbm3"


def test_all_mistakes_are_said_at_once():
    wrong = {"node": "3mn", "scaling": "idel", "die_area": "-3 mm2", "memory": "hbm5", "stack": 6, "enabled": 2}
    found = problems_of(wrong | {"split": {"compute": -0.1}, "formats": ["fp7"]})
    keys = [problem.split(" ")[0].removeprefix("cluster.device.technology.") for problem in found]
    assert sorted(keys) == ["die_area", "enabled", "formats", "memory", "node", "scaling", "split", "stack"]
    assert any("did you mean '3nm'" in problem for problem in found)
    assert any("did you mean 'ideal'" in problem for problem in found)


def test_nodes_are_listed_from_old_to_new():
    assert "allowed: 16nm, 12nm, 10nm, 7nm" in problems_of(TECHNOLOGY | {"node": "6nm"})[0]
    assert "did you mean '7nm' or '5nm'?" in problems_of(TECHNOLOGY | {"node": "6nm"})[0]


@pytest.mark.parametrize("split", ["split", "power_split"])
def test_stated_shares_of_more_than_the_whole_are_what_is_wrong(split):
    (found,) = problems_of(TECHNOLOGY | {split: {"compute": 0.9, "l2": 0.9}})
    assert f"{split} is" in found
    assert "whose shares sum to 1.8" in found


def test_a_device_that_cannot_be_built_says_why():
    found = problems_of(TECHNOLOGY | {"stacks": 30})
    assert [problem.split(" ")[1] for problem in found] == ["edge", "power"]
    assert all(problem.startswith("cluster.device.technology: ") for problem in found)


def test_a_node_is_needed_where_no_die_is_known():
    assert problems_of({"memory": "hbm4"})[0].startswith("cluster.device.technology.node is missing")
    made = read_cluster({"devices": "8x mi300x", "device": {"technology": {"node": "5nm"}}})
    assert made.intra_node.name == "xgmi-mi300x"


@pytest.mark.parametrize("stated", ["3nm", ["3nm"], 3])
def test_technology_is_a_mapping(stated):
    assert "allowed: a mapping" in problems_of(stated)[0]


@pytest.fixture
def own_devices(tmp_path, monkeypatch):
    """A folder of devices of one's own, and the catalog's caches emptied before and after."""
    monkeypatch.setenv("SIGHTLINE_CATALOG", str(tmp_path))
    caches = (index.names, index.entry, index._paths, hardware._of_catalog)
    for cache in caches:
        cache.cache_clear()
    folder = tmp_path / "devices"
    folder.mkdir()
    yield folder
    for cache in caches:
        cache.cache_clear()


def test_entries_of_the_catalog_have_no_technology(own_devices):
    (own_devices / "imagined-3nm.yaml").write_text("same_as: h100-sxm-80gb\ntechnology: {node: 3nm}\n")
    with pytest.raises(InputError, match=r"\.technology is not allowed"):
        read_cluster({"devices": "8x imagined-3nm"})


def test_evidence_of_a_synthesized_device_is_extrapolated():
    scenario = scenario_from_mapping(
        {
            "model": "llama-2-7b",
            "cluster": {"devices": 8, "device": {"technology": TECHNOLOGY}},
            "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
            "plan": {"framework": "megatron", "micro_batch": 1},
        }
    )
    answer = predict(scenario)
    assert set(answer.evidence.values()) == {"extrapolated"}
    assert answer.fits


def test_what_comes_out_is_said():
    (said,) = made_of_technology(cluster(TECHNOLOGY))
    made = "cluster.device is synthesized from 3nm (vendor scaling) and hbm4: 3nm-hbm4 has "
    assert said.startswith(made)
    assert "in bf16 at" in said
    assert "232 GB of memory" in said
    assert list(made_of_technology(read_cluster("8x h100-sxm-80gb"))) == []


def test_what_the_power_cap_leaves_is_said():
    (free,) = made_of_technology(cluster({**TECHNOLOGY, "power": "2 kW"}))
    (capped,) = made_of_technology(cluster({**TECHNOLOGY, "power": "500 W"}))
    assert "which lowers the clock" not in free
    assert "draws 500 W: of 500 W the memory takes" in capped
    assert capped.endswith("which lowers the clock from 1.86 GHz")


def test_a_device_of_technology_in_one_of_several_groups_is_said():
    mixed = read_cluster({"devices": ["8x h100-sxm-80gb", {"devices": 8, "device": {"technology": TECHNOLOGY}}]})
    assert len(list(made_of_technology(mixed))) == 1
