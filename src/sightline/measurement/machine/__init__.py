"""The machine at hand: what it is, which devices a scenario runs on, and clocks and counters to measure them with."""
