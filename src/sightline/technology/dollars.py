"""What a dollar of one year is in dollars of another: consumer prices in the United States."""

from collections.abc import Mapping

CONSUMER_PRICES: Mapping[int, float] = {
    2006: 201.6,
    2007: 207.342,
    2008: 215.303,
    2009: 214.537,
    2010: 218.056,
    2011: 224.939,
    2012: 229.594,
    2013: 232.957,
    2014: 236.736,
    2015: 237.017,
    2016: 240.007,
    2017: 245.120,
    2018: 251.107,
    2019: 255.657,
    2020: 258.811,
    2021: 270.970,
    2022: 292.655,
    2023: 304.702,
    2024: 313.689,
}
"""Index of all items by year, the mean over its months, 100 in 1982 to 1984: U.S. Bureau of Labor Statistics, CPI-U,
U.S. city average, series CUUR0000SA0."""


def in_dollars_of(year: int, price_usd: float, paid: int) -> float | None:
    """Return a price that was paid in one year in dollars of another; None where the index of a year is not known."""
    if year not in CONSUMER_PRICES or paid not in CONSUMER_PRICES:
        return None
    return price_usd * CONSUMER_PRICES[year] / CONSUMER_PRICES[paid]
