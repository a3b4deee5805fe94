"""The same scenario, for real: operators, training and generation run and timed on the machine at hand."""
