"""Numbers in the sentences of studies."""


def percent(share: float, digits: int = 0) -> str:
    """Return a share in per cent: ``percent(0.5)`` is "50 %"."""
    return f"{100 * share:.{digits}f} %"
