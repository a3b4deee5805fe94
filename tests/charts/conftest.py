"""Fixtures that these tests share."""

from made_profiles import *  # noqa: F403
