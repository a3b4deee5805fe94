"""Published studies, measured anew on the machine at hand."""
