"""The best plan to serve a model: engines, formats and layouts, evaluated as lists of plans."""
