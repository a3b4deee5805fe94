import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.quantities import (
    BITS_PER_SECOND,
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    JOULES_PER_BIT,
    METRES,
    SECONDS,
    SQUARE_METRES,
    USD_PER_HOUR,
    WATTS,
    Dimension,
    added_up,
    distinct,
    either,
    format_quantity,
    listed,
    parse_quantity,
    percent,
    show,
)

DIMENSIONS = (BYTES, BYTES_PER_SECOND, COUNT, FLOPS, SECONDS, USD_PER_HOUR, WATTS)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("80 GB", BYTES, 80e9),
        ("80GiB", BYTES, 80 * 2**30),
        ("81559 MiB", BYTES, 81559 * 2**20),
        ("16", BYTES, 16.0),
        ("2 TB/s", BYTES_PER_SECOND, 2e12),
        ("400 Gbit/s", BYTES_PER_SECOND, 50e9),
        ("400 Gbps", BYTES_PER_SECOND, 50e9),
        ("6.4 Gbit/s", BITS_PER_SECOND, 6.4e9),
        ("3.5 pJ/bit", JOULES_PER_BIT, 3.5e-12),
        ("8 mm", METRES, 8e-3),
        ("814 mm2", SQUARE_METRES, 814e-6),
        ("5 us", SECONDS, 5e-6),
        ("5 µs", SECONDS, 5e-6),
        ("2 h", SECONDS, 7200.0),
        ("1.5 EFLOP/s", FLOPS, 1.5e18),
        ("312 TFLOPS", FLOPS, 312e12),
        ("300 W", WATTS, 300.0),
        (" 1_000 kW ", WATTS, 1e6),
        ("1.80 USD/hour", USD_PER_HOUR, 1.8),
        ("2e12", COUNT, 2e12),
        (2e12, COUNT, 2e12),
        (7, SECONDS, 7.0),
        (np.int64(7), SECONDS, 7.0),
    ],
)
def test_reads_units_as_si(text: object, dimension: Dimension, value: float) -> None:
    assert parse_quantity(text, dimension) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "GB",
        "1 2 GB",
        "1e999 B",
        "-1 GB",
        "0 GB",
        "1,5 GB",
        pytest.param("\ud800", id="surrogate"),
        "٣ GB",
        math.nan,
        math.inf,
        -1,
        0,
        pytest.param(10**400, id="400 digits"),
        pytest.param(10**5000, id="5000 digits"),
        True,
        None,
        [1],
        {},
    ],
)
def test_refuses_what_is_no_size(value: object) -> None:
    with pytest.raises(InputError, match="allowed: a size in bytes above 0, as '80 GB'"):
        parse_quantity(value, BYTES)


def test_a_wrong_unit_names_what_is_expected_and_the_nearest() -> None:
    with pytest.raises(InputError, match=r"is '80 gb'; allowed: a size in bytes .* - did you mean 'GB'\?"):
        parse_quantity("80 gb", BYTES)
    with pytest.raises(InputError, match="allowed: a bandwidth above 0, as '2 TB/s' or a plain number in B/s"):
        parse_quantity("2 TB", BYTES_PER_SECOND)


def test_zero_only_where_it_is_a_value() -> None:
    assert parse_quantity("0 us", SECONDS, zero=True) == 0.0
    with pytest.raises(InputError, match="a time 0 or more"):
        parse_quantity(-1, SECONDS, zero=True)


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (80e9, BYTES, "80 GB"),
        (999.6e6, BYTES, "1 GB"),
        (9.6e9, BITS_PER_SECOND, "9.6 Gbit/s"),
        (1.3e-12, JOULES_PER_BIT, "1.3 pJ/bit"),
        (0.0125, METRES, "12.5 mm"),
        (826e-6, SQUARE_METRES, "826 mm2"),
        (999.4e6, BYTES, "999 MB"),
        (-3.5e9, BYTES, "-3.5 GB"),
        (0, BYTES, "0 B"),
        (1.1, SECONDS, "1.1 s"),
        (0.0352, SECONDS, "35.2 ms"),
        (1.2e-5, SECONDS, "12 us"),
        (1e-12, SECONDS, "0.001 ns"),
        (90.0, SECONDS, "1.5 min"),
        (216000, SECONDS, "2.5 days"),
        (312e12, FLOPS, "312 TFLOP/s"),
        (50e9, BYTES_PER_SECOND, "50 GB/s"),
        (0.25, WATTS, "0.25 W"),
        (123456, COUNT, "123,000"),
        (math.inf, SECONDS, "inf"),
    ],
)
def test_writes_the_unit_people_would_choose(value: float, dimension: Dimension, text: str) -> None:
    assert format_quantity(value, dimension) == text


@given(st.sampled_from(DIMENSIONS), st.floats(min_value=1e-6, max_value=1e24))
def test_what_is_written_reads_back(dimension: Dimension, value: float) -> None:
    text = format_quantity(value, dimension, digits=12).replace(",", "")
    assert parse_quantity(text, dimension) == pytest.approx(value, rel=1e-9)


@given(st.sampled_from(DIMENSIONS), st.text(max_size=30) | st.floats() | st.integers())
def test_any_value_is_a_finite_quantity_or_a_sentence(dimension: Dimension, value: object) -> None:
    try:
        number = parse_quantity(value, dimension)
    except InputError as error:
        assert str(error).startswith("is ")  # noqa: PT017 - either outcome is right
    else:
        assert math.isfinite(number)
        assert number > 0


def test_shown_values_stay_short() -> None:
    nested: list[object] = []
    for _ in range(10_000):
        nested = [nested]
    assert show(True) == "true"
    assert show(None) == "null"
    assert len(show("x" * 10_000)) < 100
    assert len(show(nested)) < 100
    assert show(10**5000) == "a huge number"


def test_arrays_are_added_up_from_the_smallest():
    wide, tall = np.arange(3.0), np.arange(2.0).reshape(2, 1)
    assert np.array_equal(added_up((wide + tall, 1.0, tall, wide)), 2 * (wide + tall) + 1.0)
    assert added_up([0.1, 0.2, 0.3]) == 0.1 + 0.2 + 0.3
    assert added_up(()) == 0


def test_one_of_two_numbers_is_chosen_as_places_of_arrays_are():
    numbers = np.arange(4.0)
    assert np.array_equal(either(numbers < 2, numbers, -1.0), [0.0, 1.0, -1.0, -1.0])
    for condition in (True, False, np.bool_(True), np.bool_(False)):
        chosen = np.broadcast_to(either(condition, numbers, -1.0), numbers.shape)
        assert np.array_equal(chosen, np.where(condition, numbers, -1.0))


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0.0, -0.0, 0.5, 1e300])), min_size=1, max_size=30))
def test_distinct_rows_are_found_wherever_they_are(rows):
    columns = [np.array(column, dtype=float) for column in zip(*rows, strict=True)]
    first, place = distinct(columns)
    table = np.stack(columns, axis=1)
    assert np.array_equal(table[first][place], table)
    assert len(first) == len({tuple(row) for row in table.tolist()})


@pytest.mark.parametrize("text", ["1" + 120 * "0" + " GB", "1 GB" + 10**6 * " " + "x", 10**6 * " " + "1 GB"])
def test_a_text_that_is_too_long_is_refused_instead_of_cut(text):
    with pytest.raises(InputError, match="allowed: a size in bytes"):
        parse_quantity(text, BYTES)


@pytest.mark.parametrize("value", [1e28, "1e100 GB", "1e-40 GB"])
def test_what_there_is_not_is_refused_with_the_limits(value):
    with pytest.raises(InputError, match=r"from 1e-27 to 1e\+27 B$"):
        parse_quantity(value, BYTES)


@pytest.mark.parametrize(("share", "digits", "words"), [(0.5, 0, "50 %"), (0.2083, 1, "20.8 %"), (-0.002, 1, "-0.2 %")])
def test_a_share_is_said_in_per_cent(share, digits, words):
    assert percent(share, digits) == words


def test_a_change_in_per_cent_has_its_sign():
    assert [percent(change, 1, signed=True) for change in (0.0417, -0.5)] == ["+4.2 %", "-50.0 %"]


def test_a_share_that_rounds_to_nothing_has_no_minus():
    assert percent(-0.0001, 1) == "0.0 %"
    assert percent(-0.0001, 1, signed=True) == "+0.0 %"


def test_names_of_others_are_listed_cut_and_quoted():
    assert listed(["a", "b"]) == "a, b"
    assert listed([f"k{i}" for i in range(40)]).endswith("k11 and 28 more")
    assert listed(["x\x00"]) == "'x\\x00'"
    assert len(listed(["k" * 5000])) < 200
