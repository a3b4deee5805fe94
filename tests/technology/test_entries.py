"""Entries that are wrong are refused with every mistake at once."""

import pytest

from sightline.catalog import index
from sightline.errors import InputError
from sightline.technology.launches import launch
from sightline.technology.parts import link, memory

GOOD = {
    "memories": {
        "family": "hbm",
        "year": 2030,
        "pin_rate": "16 Gbit/s",
        "fastest_pin_rate": "16 Gbit/s",
        "pins": 4096,
        "capacity": "64 GiB",
        "energy": "2 pJ/bit",
        "edge": "12 mm",
        "area": "30 mm2",
    },
    "links": {
        "scope": "optics",
        "year": 2030,
        "bandwidth": "1 TB/s",
        "lanes": 16,
        "energy": "4 pJ/bit",
        "edge": "2 mm",
        "area": "4 mm2",
        "latency": "50 ns",
    },
    "launches": {
        "product": "Card 1",
        "maker": "Maker",
        "market": "gaming",
        "price": "500 USD",
        "fp32": "90 TFLOP/s",
        "memory": "24 GiB",
        "memory_bandwidth": "1 TB/s",
        "tdp": "300 W",
        "node": "2nm",
    },
}
READERS = {"memories": memory, "links": link, "launches": launch}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Write an entry of one's own and read it."""
    caches = (index.names, index.entry, index._paths, memory, link, launch)
    monkeypatch.setenv("SIGHTLINE_CATALOG", str(tmp_path))

    def written(kind, **changes):
        for cache in caches:
            cache.cache_clear()
        stated = GOOD[kind] | {"source": "an example", "date": "2026-11", "evidence": "estimated"} | changes
        (tmp_path / kind).mkdir(exist_ok=True)
        lines = (f"{key}: {value}\n" for key, value in stated.items() if value is not None)
        (tmp_path / kind / "mine.yaml").write_text("".join(lines))
        return READERS[kind]("mine")

    yield written
    for cache in caches:
        cache.cache_clear()


def test_entries_of_ones_own_are_read_in_si_units(read):
    assert read("memories").bandwidth == pytest.approx(8.192e12)
    assert read("memories").area_m2 == pytest.approx(30e-6)
    assert read("links").latency_s == pytest.approx(50e-9)
    assert read("links").energy_j_per_bit == pytest.approx(4e-12)
    assert (read("launches").fp32, read("launches").fp16) == (90e12, None)
    assert read("memories").products == {}


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        ("memories", {"pin_rat": 1}, "catalog.memories.mine.pin_rat is not a known key - did you mean 'pin_rate'?"),
        ("memories", {"pins": None}, "catalog.memories.mine.pins is missing"),
        ("memories", {"area": "-3 mm2"}, "area is '-3 mm2'; allowed: an area above 0, as '814 mm2'"),
        ("memories", {"energy": "3 mJ"}, "energy is '3 mJ'; allowed: an energy per bit above 0"),
        ("memories", {"edge": 0}, "edge is 0; allowed: a length above 0"),
        ("memories", {"family": "hmb"}, "family is 'hmb'; allowed: gddr, hbm, lpddr, ddr, later - did you mean 'hbm'?"),
        ("memories", {"year": 19}, "year is 19; allowed: a whole number of 1990 or more"),
        ("memories", {"products": "[h100]"}, "products is ['h100']; allowed: a mapping"),
        ("memories", {"products": "{h100: 5}"}, "products is {'h100': 5}; allowed: a mapping"),
        ("memories", {"products": "{h100: 5 x 3 GB}"}, "products is '3 GB'; allowed: a data rate per pin above 0"),
        ("links", {"scope": "far"}, "scope is 'far'; allowed: on-package, off-package, optics"),
        ("launches", {"date": "2026"}, "date is 2026; allowed: a year and month such as 2020-09"),
        ("launches", {"date": "2026-13"}, "date is '2026-13'; allowed"),
        ("launches", {"product": "[4090]"}, "product is [4090]; allowed: text"),
    ],
)
def test_a_mistake_is_one_sentence(read, kind, changes, sentence):
    with pytest.raises(InputError) as error:
        read(kind, **changes)
    assert sentence in str(error.value)


def test_all_mistakes_are_said_at_once(read):
    with pytest.raises(InputError) as error:
        read("links", edge="2 GB", lanes=None, speed=3)
    assert len(error.value.problems) == 3
