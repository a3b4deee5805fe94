"""Settings that hold for every test."""

from hypothesis import settings

# A loaded machine is slow, not wrong: an example may take as long as it needs.
settings.register_profile("patient", deadline=None)
# .ci/run asks what wrong input may do once more, with as many examples as this.
settings.register_profile("thorough", deadline=None, max_examples=300)
settings.load_profile("patient")
