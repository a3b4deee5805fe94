"""From what became of a load to the figures that people read."""

from sightline.simulation.results.figures import Summary, figures_from, figures_of, summary_of
from sightline.simulation.results.times import Statistics, statistics
from sightline.simulation.results.totals import meets

__all__ = [
    "Statistics",
    "Summary",
    "figures_from",
    "figures_of",
    "meets",
    "statistics",
    "summary_of",
]
