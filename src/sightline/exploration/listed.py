"""Which studies are built in."""

from collections.abc import Mapping

BUILT_IN: Mapping[str, str] = {}
"""What each study asks, by its name; its module in `sightline.exploration.studies` has ``_`` for ``-``."""
