"""Prices: every device has one, and it is what providers list."""

from statistics import median

import pytest

from sightline.catalog import entry, names
from sightline.quantities import USD_PER_HOUR, parse_quantity

KINDS = {"on-demand", "reserved", "spot"}


def amount(priced):
    return parse_quantity(priced["price"], USD_PER_HOUR)


def cheapest(name, kind):
    """The cheapest offer of a kind by provider."""
    found = {}
    for offer in entry("prices", name).get("offers", ()):
        if offer["kind"] == kind:
            found[offer["provider"]] = min(amount(offer), found.get(offer["provider"], 1e9))
    return found


def test_every_device_has_a_price():
    assert set(names("prices")) <= set(names("devices"))
    assert all(amount(entry("devices", name)) > 0 for name in names("devices"))
    for name in names("prices"):
        device, price = entry("devices", name), entry("prices", name)
        assert device["price"] == price["price"]
        assert price["date"] in device["sources"]["price"]
        assert device["evidences"]["price"] == price["evidence"]


@pytest.mark.parametrize("name", names("prices"))
def test_a_listed_price_is_the_median_of_the_providers(name):
    price, listed = entry("prices", name), cheapest(name, "on-demand")
    assert price["evidence"] == ("listed" if listed else "estimated")
    if listed:
        assert amount(price) == pytest.approx(median(listed.values()), abs=0.006)
        assert max(o["date"] for o in price["offers"] if o["kind"] == "on-demand").startswith(price["date"])


@pytest.mark.parametrize("name", names("prices"))
def test_an_offer_says_who_when_and_how(name):
    for offer in entry("prices", name).get("offers", ()):
        assert offer.keys() == {"provider", "kind", "price", "date", "source"}
        assert offer["kind"] in KINDS
        assert len(offer["source"]) > 10
        year, month, day = map(int, offer["date"].split("-"))
        assert (2026, 1, 1) <= (year, month, day) <= (2030, 12, 31)


def test_committing_to_a_term_is_cheaper_with_the_same_provider():
    for name in names("prices"):
        on_demand = cheapest(name, "on-demand")
        for kind in KINDS - {"on-demand"}:
            assert all(price < on_demand.get(provider, 1e9) for provider, price in cheapest(name, kind).items())
