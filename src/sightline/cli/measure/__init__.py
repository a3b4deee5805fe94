"""``sightline measure``."""

from sightline.cli.measure.command import measure

__all__ = ["measure"]
