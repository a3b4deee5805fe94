"""The picture that published figures and ours share."""

from sightline.exploration.answer import Figure


def against_published(title: str, *, series: str, panel: str = "") -> Figure:
    """Return predicted over published times, with a line where both are equal."""
    return Figure(
        kind="points",
        title=title,
        x="measured_s",
        y="predicted_s",
        series=series,
        panel=panel,
        line="measured_s",
        log=frozenset({"x", "y"}),
    )
