"""How each engine forms its iterations: one module per policy, each a compiled function `schedule`."""
