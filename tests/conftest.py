"""Settings that hold for every test."""

import gc
import os
import signal

from hypothesis import settings

# A loaded machine is slow, not wrong: an example may take as long as it needs. .ci/run sets CI and tries the same examples
# in every run; all other runs try fresh ones, so that those of many days find what is rare.
SHARED = settings(deadline=None, derandomize="CI" in os.environ)
settings.register_profile("patient", SHARED, max_examples=50)
# .ci/run asks what wrong input may do once more, with as many examples as this.
settings.register_profile("thorough", SHARED, max_examples=300)
settings.load_profile("patient")

# A shell's background jobs ignore Ctrl-C, and so would every command that is tested for what it does on one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Leave what is loaded by now, PyTorch and all tests, out of every later search for cyclic garbage."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Let the interpreter clean up as it always does."""
    gc.unfreeze()
