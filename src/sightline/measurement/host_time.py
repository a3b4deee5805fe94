"""The clock of the host: wall time or, where ``SIGHTLINE_CLOCK`` is ``cpu``, CPU time of this process.

One thread's CPU time does not contain what other processes take of its core, so that a machine that is shared can be
measured on one core (``taskset -c 0``). With several threads it would count each of them; between processes it would
leave out their waiting.
"""

import os
from time import perf_counter, process_time

VARIABLE = "SIGHTLINE_CLOCK"

host_time = process_time if os.environ.get(VARIABLE) == "cpu" else perf_counter
"""Seconds since some moment."""
