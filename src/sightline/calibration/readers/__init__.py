"""One reader per format of measured tables: a file becomes rows of samples in one vocabulary and in SI units."""
