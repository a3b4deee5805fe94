"""``sightline simulate``: a load through an engine, and what its users see."""

from sightline.cli.simulate.command import simulate

__all__ = ["simulate"]
