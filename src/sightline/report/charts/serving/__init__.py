"""Charts of served loads: one over time, how latencies are spread, times against rates, and measured loads."""
