"""``sightline plan``."""

from sightline.cli.plan.command import plan

__all__ = ["plan"]
