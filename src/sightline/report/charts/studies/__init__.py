"""The kinds of figures of a study, each drawn from the columns of its table."""
