"""The reports: of each kind of answer a page, made of shared pieces."""
