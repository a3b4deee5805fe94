"""What a measured load teaches about the engine that answered it: its requests are simulated again."""

from sightline.simulation.anchoring.served import ServedLoad, anchor_of_load, without_rows

__all__ = ["ServedLoad", "anchor_of_load", "without_rows"]
