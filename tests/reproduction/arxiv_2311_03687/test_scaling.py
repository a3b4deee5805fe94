"""Scaling over the study's links: efficiencies follow the links, and interpretations differ by what they replace."""

import pytest

from sightline.reproduction.arxiv_2311_03687 import settings, training_findings
from sightline.reproduction.arxiv_2311_03687.settings import RTX_3090, RTX_4090, trained
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


@pytest.mark.parametrize("id_", ["A1", "A2", "A3"])
def test_eight_devices_reach_a_part_of_eight_times_one(ours, ask, id_):
    interpretations = training_findings.FINDINGS[id_](ask)
    assert all(0.0 < one < 1.0 for one in ours(training_findings.FINDINGS[id_], ask))
    assert len({str(one.choices) for one in interpretations}) == len(interpretations)


def test_faster_lanes_and_peer_to_peer_access_scale_better(ours, ask):
    as_the_host_has_them, as_stated, peer_to_peer = ours(training_findings.a2, ask)
    assert as_the_host_has_them < as_stated <= peer_to_peer


def test_lanes_of_pcie_4_are_the_hosts_too():
    """Peer-to-peer access alone would leave weights that are offloaded on the slower lanes of PCIe 3."""
    _, plain, peer_to_peer = settings.LINKS.choices.values()
    assert peer_to_peer["host"] == plain["host"]


def test_bridges_gain_the_more_the_slower_the_hosts_memory_is(ours, ask):
    filled, half = ours(training_findings.a4, ask)
    assert 1.0 < filled < half
    plain, halved = ours(training_findings.a3, ask)
    assert plain > halved


def test_every_row_that_fits_gains_from_bridges(ours, ask, monkeypatch):
    monkeypatch.setattr(settings, "PRETRAINING", ("N", "Z3", "Q"))
    filled, half = ours(training_findings.a35, ask)
    assert 0.0 < filled < half
    gains = dict(training_findings._gains(ask, settings.AS_DESCRIBED))
    assert min(gains.values()) > 0.0
    assert "7B N" not in gains  # out of memory


@pytest.mark.parametrize("devices", [1, 8])
def test_replaced_parts_leave_the_rest_of_a_server(ask, devices):
    asked = trained(RTX_4090, "Q", devices=devices)
    assert training_findings.changed(asked, settings.AS_DESCRIBED) == asked
    before, after = (
        ask.profile(one).scenario.cluster
        for one in (asked, training_findings.changed(asked, {"host": {"device_bandwidth": "25 GB/s"}}))
    )
    assert (after.devices, after.device.name, after.intra_node.name) == (devices, "rtx-4090", "pcie4-no-p2p")
    assert after.host.device_bandwidth > before.host.device_bandwidth
    assert after.host.memory_bandwidth == before.host.memory_bandwidth


def test_the_table_has_every_platform_and_interpretation_from_one_device_to_eight(ask):
    found = training_findings.scaling(ask).answer
    alone = [row for row in found.rows if row["devices"] == 1]
    assert {row["efficiency"] for row in alone} == {1.0}
    assert len(found) == 4 * len(alone)
    interpretations = [row["interpretation"] for row in alone if row["platform"] == "RTX 4090"]
    assert interpretations == [training_findings.FIRST, *list(settings.LINKS.choices)[1:]]
    whole = {(row["platform"], row["interpretation"]): row["efficiency"] for row in found.rows if row["devices"] == 8}
    assert whole["RTX 3090", training_findings.FIRST] == pytest.approx(training_findings._efficiency(ask, RTX_3090, {}))
