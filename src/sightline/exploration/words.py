"""Numbers in the sentences of studies."""


def count(value: float) -> str:
    """Return a number with three digits and its prefix: ``count(60.4e9)`` is "60.4B"."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def usd(value: float) -> str:
    """Return an amount of money: ``usd(5e6)`` is "5M USD"."""
    return f"{count(value)} USD"


def energy(joules: float) -> str:
    """Return an amount of electricity in MWh, in which data centers count it."""
    mwh = joules / 3.6e9
    return f"{mwh:,.0f} MWh" if mwh >= 10 else f"{mwh:.2g} MWh"


def carbon(kg: float) -> str:
    """Return tons of CO2 equivalents."""
    return f"{kg / 1e3:,.0f} t CO2e" if kg >= 1e4 else f"{kg / 1e3:.1f} t CO2e"
