"""Settings that hold for every test."""

from hypothesis import settings

# A loaded machine is slow, not wrong: an example may take as long as it needs.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
