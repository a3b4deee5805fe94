"""Catalog: kinds, entries with a word, one entry with its sources; unknown names are told with the nearest."""

import pytest

from sightline.catalog import KINDS, names


def test_every_kind_and_its_entries_are_shown(client):
    shown = client.get("/catalog").text
    for kind in KINDS:
        assert f'href="/catalog?kind={kind}"' in shown
        listed = client.get(f"/catalog?kind={kind}").text
        assert f"{len(names(kind)):,} {kind}" in listed


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_of_every_kind_says_where_it_comes_from(client, kind):
    name = names(kind)[0]
    shown = client.get("/catalog", params={"kind": kind, "name": name})
    assert shown.status_code == 200
    assert f"<h2>{name}</h2>" in shown.text
    assert "no source stated" not in shown.text


def test_a_word_leaves_the_entries_that_hold_it(client):
    shown = client.get("/catalog?kind=devices&word=H200").text
    assert "h200-sxm-141gb" in shown
    assert "rtx-4090" not in shown


def test_an_entry_leads_to_a_prediction_with_it(client):
    assert "cluster=8x+h200-sxm-141gb" in client.get("/catalog?kind=devices&name=h200-sxm-141gb").text
    assert "/predict?model=llama-3-8b" in client.get("/catalog?kind=models&name=llama-3-8b").text


def test_every_offer_of_a_price_has_its_source(client):
    shown = client.get("/catalog?kind=prices&name=h100-sxm-80gb").text
    assert "provider and source" in shown
    assert shown.count("<td>on-demand</td>") > 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("kind=device-s", "did you mean 'devices'"),
        ("kind=devices&name=h100-smx-80gb", "h100-sxm-80gb"),
        ("kind=../../etc/passwd", "unknown kind"),
        ("kind=devices&name=../../../etc/passwd", "name: "),
    ],
)
def test_what_is_not_there_is_told(client, query, said):
    shown = client.get(f"/catalog?{query}&fragment=1")
    assert shown.status_code == 422
    assert said in shown.text.replace("&#39;", "'")


@pytest.mark.parametrize(
    ("query", "said"), [("kind=devices&name=t4", "matmul"), ("kind=frameworks&name=litgpt", "lora")]
)
def test_what_predictions_with_it_rest_on_stands_below(client, query, said):
    shown = client.get(f"/catalog?{query}").text
    assert "Evidence behind predictions" in shown
    assert said in shown.partition("Evidence behind predictions")[2]


def test_the_index_has_all_entries_with_sizes_makers_repositories_and_what_drivers_say(client):
    found = {(one["kind"], one["key"]): one for one in client.get("/catalog/index.json").json()}
    assert len(found) == sum(len(names(kind)) for kind in KINDS)
    model, device = found["models", "llama-3.1-8b"], found["devices", "h100-sxm-80gb"]
    assert "8.03 B" in model["about"]
    assert "meta-llama/" in model["words"]
    assert "79.6 GiB, 3.35 TB/s" in device["about"]
    assert "nvidia" in device["words"]
    assert "80gb hbm3" in device["words"]
