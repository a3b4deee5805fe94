"""Fully sharded data parallelism by accelerate: its YAML, and the script that trains with it."""
