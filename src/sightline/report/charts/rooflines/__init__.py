"""Charts of the roofline: operators of an answer, and the matmuls of a layer."""
