"""Commands that hold answers against something: a requirement, another answer, a measurement, a publication."""
