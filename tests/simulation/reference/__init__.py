"""Serving simulated one iteration and one block at a time, as plainly as possible: what the compiled loop is held to.

Rules are those of ``docs/decisions/serving-policies.md``, one module per engine.
"""
